"""Log-probabilities and entropies of tokens from hidden states, with the vocabulary shared by ranks and in chunks of tokens.

Each rank multiplies by its own rows of the output layer; no rank ever has logits of the whole vocabulary. For hidden state h_t,
logits z = W h_t / temperature, of which a rank has z_r, and ids y:

    m = max z,  s = sum_r sum exp(z_r - m),  lse = m + log s
    logp_t(y) = z_y - lse                      d logp_t / d z = onehot(y) - p
    H_t = log s - sum_r sum p_r (z_r - m)      d H_t / d z    = -p (log p + H_t)

Two messages of some numbers a token forward, one of the hidden states' gradient backward. The logits of the last chunk are kept for
the backward pass, those of the others computed again.

M tokens to score, K ids of each, E hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import attrs
import torch
import torch.distributed as dist

from core_rl.train.chunks import chunks


@attrs.frozen(kw_only=True)
class Shard:
    """A rank's rows of the output layer: those of ids `start` to `start + size`; what follows in the weight is padding."""

    group: Any
    start: int
    size: int
    temperature: float
    rows: int
    """Tokens of a chunk."""

    def logits(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """[rows, size] float32, or float64 for such weights."""
        found = hidden @ weight[: self.size].t()
        found = found if found.dtype == torch.float64 else found.float()
        return found.div_(self.temperature) if self.temperature != 1.0 else found

    def local(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Columns of these ids, 0 where another rank has them, and which are here."""
        columns = ids - self.start
        here = (columns >= 0) & (columns < self.size)
        return columns.where(here, 0), here

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        return self._reduce(values, dist.ReduceOp.SUM)

    def max(self, values: torch.Tensor) -> torch.Tensor:
        return self._reduce(values, dist.ReduceOp.MAX)

    def _reduce(self, values: torch.Tensor, how: Any) -> torch.Tensor:
        if self.group.size() > 1:
            dist.all_reduce(values, op=how, group=self.group)
        return values


def token_logprobs(
    hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor, shard: Shard, *, entropy_grad: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """hidden [M, E], ids [M, K] -> log-probabilities [M, K] and entropy [M], the same on every rank of the group."""
    found: tuple[torch.Tensor, torch.Tensor] = _TokenLogprobs.apply(hidden, weight, ids, shard, entropy_grad)  # type: ignore[no-untyped-call]
    return found


@torch.no_grad()
def top_logprobs(hidden: torch.Tensor, weight: torch.Tensor, shard: Shard, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k likeliest tokens in each place and their log-probabilities, [M, k] each, best first."""
    ids, logprobs = [], []
    for chunk in chunks(len(hidden), shard.rows):
        logits = shard.logits(hidden[chunk], weight)
        _, normaliser = _normalise(logits, shard)
        best, columns = logits.topk(min(k, shard.size))
        best, columns = best - normaliser[:, None], columns + shard.start
        if best.shape[1] < k:  # fewer rows than are asked for
            short = k - best.shape[1]
            best = torch.nn.functional.pad(best, (0, short), value=float("-inf"))
            columns = torch.nn.functional.pad(columns, (0, short))
        best, columns = (_side_by_side(each, shard.group) for each in (best, columns))
        chosen = best.topk(k)
        logprobs.append(chosen.values)
        ids.append(columns.gather(1, chosen.indices))
    return torch.cat(ids), torch.cat(logprobs)


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - autograd's form
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor, shard: Shard, entropy_grad: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs, entropies, normalisers = [], [], []
        logits = None
        for chunk in chunks(len(ids), shard.rows):
            logits = shard.logits(hidden[chunk], weight)
            top, normaliser = _normalise(logits, shard)
            columns, here = shard.local(ids[chunk])
            own = (
                logits.gather(1, columns).masked_fill_(~here, 0.0)
                if shard.size
                else torch.zeros_like(columns, dtype=logits.dtype)
            )
            weighted = torch.linalg.vecdot((logits - normaliser[:, None]).exp_(), logits - top[:, None])
            shared = shard.sum(torch.cat([own, weighted[:, None]], 1))
            logprobs.append(shared[:, :-1] - normaliser[:, None])
            entropies.append(normaliser - top - shared[:, -1])
            normalisers.append(normaliser)
        entropy = torch.cat(entropies)
        ctx.save_for_backward(hidden, weight, ids, entropy, torch.cat(normalisers))
        ctx.shard, ctx.entropy_grad, ctx.logits = shard, entropy_grad, logits
        return torch.cat(logprobs), entropy

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, ids, entropy, normalisers = ctx.saved_tensors
        shard: Shard = ctx.shard
        own = weight[: shard.size]
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight, dtype=normalisers.dtype)
        kept, ctx.logits = ctx.logits, None
        for chunk in reversed(chunks(len(ids), shard.rows)):
            logits = shard.logits(hidden[chunk], weight) if kept is None else kept
            kept = None
            logprobs = logits.sub_(normalisers[chunk, None])
            slope = -grads[0][chunk].sum(1, keepdim=True)
            if ctx.entropy_grad:
                slope = slope - (logprobs + entropy[chunk, None]) * grads[1][chunk, None]
            table = logprobs.exp_().mul_(slope)
            columns, here = shard.local(ids[chunk])
            if shard.size:
                table.scatter_add_(1, columns, grads[0][chunk].masked_fill(~here, 0.0))
            table = table.div_(shard.temperature).to(weight.dtype)
            torch.mm(table, own, out=grad_hidden[chunk])
            grad_weight[: shard.size] += table.t() @ hidden[chunk]
        return shard.sum(grad_hidden), grad_weight.to(weight.dtype), None, None, None


def _normalise(logits: torch.Tensor, shard: Shard) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows]: the largest logit and the logarithm of the sum of exponentials, over all ranks."""
    own = logits.amax(1) if shard.size else logits.new_full((len(logits),), float("-inf"))
    top = shard.max(own)
    return top, top + shard.sum((logits - top[:, None]).exp_().sum(1)).log()


def _side_by_side(values: torch.Tensor, group: Any) -> torch.Tensor:
    if group.size() == 1:
        return values
    parts = [torch.empty_like(values) for _ in range(group.size())]
    dist.all_gather(parts, values.contiguous(), group=group)
    return torch.cat(parts, 1)
