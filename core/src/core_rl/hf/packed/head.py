"""Log-probabilities and entropies of tokens straight from hidden states, in chunks: [M, V] logits never exist at once.

For hidden state h_t, logits z = (W h_t (+ b)) / temperature, target y:

    logp_t = z_y - lse(z)              d logp_t / d z = onehot(y) - p
    H_t    = -sum_v p_v log p_v        d H_t / d z    = -p (log p + H_t)

and for K further ids g_tk in the same place, log p_g as for the target.

Forward keeps the log-probabilities of the LAST chunk for backward and computes those of the others again, chunk by chunk: what
fits the budget is computed once. The gradient of W is summed in place into `sink`, so that it has no second copy either; without
a sink autograd gets it, as engines need that gather and scatter weights in its hooks.
Sums, exponentials and log-probabilities are float32 (float64 for float64 weights), whatever the precision of the weights.

M tokens to score, K further ids of each, E hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import attrs
import torch

from core_rl.train.chunks import chunks

_BLOCK = 64
"""Rows that are exponentiated at a time, so that the pass stays in the cache."""


@attrs.frozen(kw_only=True)
class Head:
    """The output layer. `sink` [V, E] takes the gradient of `weight`; None: autograd does. `rows` is the chunk."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None
    sink: torch.Tensor | None = None
    softcap: float | None = None
    temperature: float = 1.0
    rows: int

    def table(self, count: int) -> torch.Tensor:
        """Room for the largest chunk of `count` tokens: [rows, V]."""
        dtype = table_dtype(self.weight)
        return torch.empty(min(count, self.rows), len(self.weight), dtype=dtype, device=self.weight.device)

    def log_softmax(self, hidden: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[rows, V] log-probabilities, in `table`, and [rows, 1] log-normalisers of hidden states [rows, E]."""
        logits = table[: len(hidden)]
        if table.dtype == self.weight.dtype:
            torch.mm(hidden, self.weight.t(), out=logits)
        else:
            logits.copy_(torch.mm(hidden, self.weight.t()))
        if self.bias is not None:
            logits += self.bias
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        if self.temperature != 1.0:
            logits.div_(self.temperature)
        normalisers = logits.new_empty(len(logits), 1)
        for block, normaliser in zip(logits.split(_BLOCK), normalisers.split(_BLOCK), strict=True):
            torch.logsumexp(block, 1, keepdim=True, out=normaliser)
            block.sub_(normaliser)
        return logits, normalisers


def table_dtype(weight: torch.Tensor) -> torch.dtype:
    """Of sums and log-probabilities: at least float32."""
    return torch.promote_types(weight.dtype, torch.float32)


def token_logprobs(
    hidden: torch.Tensor, ids: torch.Tensor, head: Head, *, entropy_grad: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """hidden [M, E], ids [M, 1 + K], the target first -> log-probabilities [M, 1 + K] and entropies [M].

    The entropies have a gradient if asked for.
    """
    logprobs: torch.Tensor
    entropy: torch.Tensor
    weight = None if head.sink is not None else head.weight
    logprobs, entropy = _TokenLogprobs.apply(hidden, weight, head.bias, ids, head, entropy_grad)  # type: ignore[no-untyped-call]
    return logprobs, entropy if entropy_grad else entropy.detach()


def top_logprobs(hidden: torch.Tensor, head: Head, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """hidden [M, E] -> the k likeliest ids [M, k], best first, and their log-probabilities [M, k], without gradient."""
    table = head.table(len(hidden))
    pieces = [head.log_softmax(hidden[chunk], table)[0].topk(k) for chunk in chunks(len(hidden), head.rows)]
    return torch.cat([piece.indices for piece in pieces]), torch.cat([piece.values for piece in pieces])


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - torch passes by position
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        ids: torch.Tensor,
        head: Head,
        entropy_grad: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del weight, bias  # arguments for their gradients alone; `head` has them
        table = head.table(len(ids))
        entropy, normalisers = (table.new_empty(len(ids)) for _ in range(2))
        logprobs = table.new_empty(ids.shape)
        for chunk in chunks(len(ids), head.rows):
            values, normaliser = head.log_softmax(hidden[chunk], table)
            normalisers[chunk] = normaliser[:, 0]
            logprobs[chunk] = values.gather(1, ids[chunk])
            entropy[chunk] = torch.cat([_entropy(block) for block in values.split(_BLOCK)])
        ctx.save_for_backward(hidden, ids, entropy, normalisers)
        ctx.head, ctx.entropy_grad = head, entropy_grad
        ctx.table = table if any(ctx.needs_input_grad) or head.sink is not None else None
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, ids, entropy, normalisers = ctx.saved_tensors
        head: Head = ctx.head
        grad_hidden = torch.empty_like(hidden)
        sink = head.sink
        if sink is None and ctx.needs_input_grad[1]:
            sink = torch.zeros_like(head.weight, dtype=table_dtype(head.weight))
        grad_bias = None if head.bias is None else torch.zeros_like(head.bias)
        kept, ctx.table = ctx.table, None
        table = head.table(len(ids)) if kept is None else kept
        for chunk in reversed(chunks(len(ids), head.rows)):
            grad_logits = table[: chunk.stop - chunk.start]
            if kept is None or chunk.stop < len(ids):
                head.log_softmax(hidden[chunk], table)
            outer = _Outer(
                ids=ids[chunk],
                logprobs=grads[0][chunk],
                total=grads[0][chunk].sum(1, keepdim=True),
                entropy=grads[1][chunk, None] if ctx.entropy_grad else None,
                entropy_value=entropy[chunk, None],
                normaliser=normalisers[chunk, None],
            )
            _fill_grad(grad_logits, outer, head)
            grad_logits = grad_logits.to(head.weight.dtype)
            torch.mm(grad_logits, head.weight, out=grad_hidden[chunk])
            if grad_bias is not None:
                grad_bias += grad_logits.sum(0)
            if sink is not None and sink.dtype == grad_logits.dtype:
                sink.addmm_(grad_logits.t(), hidden[chunk])
            elif sink is not None:
                sink.add_(grad_logits.t() @ hidden[chunk])
        grad_weight = None if head.sink is not None or sink is None else sink.to(head.weight.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None, None


def _entropy(log_softmax: torch.Tensor) -> torch.Tensor:
    """[rows] from log-probabilities [rows, V]"""
    negative: torch.Tensor = torch.linalg.vecdot(log_softmax.exp(), log_softmax)
    return -negative


@attrs.frozen(kw_only=True)
class _Outer:
    """What reaches the logits of a chunk from outside: the gradients of both outputs, and what they need.

    `ids` and `logprobs` are [rows, 1 + K], the others [rows, 1]; `total` is the sum of `logprobs`.
    """

    ids: torch.Tensor
    logprobs: torch.Tensor
    total: torch.Tensor
    entropy: torch.Tensor | None
    entropy_value: torch.Tensor
    normaliser: torch.Tensor


def _fill_grad(table: torch.Tensor, outer: _Outer, head: Head) -> None:
    """The log-probabilities in `table` [rows, V] become the gradient of the logits, in place."""
    for start in range(0, len(table), _BLOCK):
        part = slice(start, start + _BLOCK)
        block, grad = table[part], outer.total[part]
        capped = None
        if head.softcap is not None:
            capped = (block + outer.normaliser[part]).mul_(head.temperature / head.softcap)
        if outer.entropy is None:
            block.exp_().mul_(-grad)
        else:
            slope = (block + outer.entropy_value[part]).mul_(outer.entropy[part]).add_(grad).neg_()
            block.exp_().mul_(slope)
        block.scatter_add_(1, outer.ids[part], outer.logprobs[part])
        if capped is not None:
            block.mul_(1 - capped.square_())
        if head.temperature != 1.0:
            block.div_(head.temperature)
