"""Log-probabilities and entropies of tokens straight from hidden states, in chunks: [M, V] logits never exist at once.

For hidden state h_t, logits z = W h_t (+ b), target y:

    logp_t = z_y - lse(z)              d logp_t / d z = onehot(y) - p
    H_t    = -sum_v p_v log p_v        d H_t / d z    = -p (log p + H_t)

Forward keeps the log-probabilities of the LAST chunk for backward and computes those of the others again, chunk by chunk: what
fits the budget is computed once. The gradient of W is summed in place into `sink`, so that it has no second copy either.
Sums, exponentials and log-probabilities are float32 (float64 for float64 weights), whatever the precision of the weights.

M tokens to score, E hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import attrs
import torch

_BLOCK = 64
"""Rows that are exponentiated at a time, so that the pass stays in the cache."""


@attrs.frozen(kw_only=True)
class Head:
    """The output layer. `sink` [V, E] takes the gradient of `weight`; None: the weight is frozen. `rows` is the chunk."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None
    sink: torch.Tensor | None = None
    softcap: float | None = None
    rows: int

    def log_softmax(self, hidden: torch.Tensor, out: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """[rows, V] log-probabilities and [rows, 1] log-normalisers of a chunk of hidden states [rows, E]."""
        if self.weight.dtype in (torch.float32, torch.float64):
            logits = torch.mm(hidden, self.weight.t(), out=out)
        else:
            logits = torch.mm(hidden, self.weight.t()).float()
        if self.bias is not None:
            logits += self.bias
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        normalisers = logits.new_empty(len(logits), 1)
        for block, normaliser in zip(logits.split(_BLOCK), normalisers.split(_BLOCK), strict=True):
            torch.logsumexp(block, 1, keepdim=True, out=normaliser)
            block.sub_(normaliser)
        return logits, normalisers


def token_logprobs(
    hidden: torch.Tensor, targets: torch.Tensor, head: Head, *, entropy_grad: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """hidden [M, E], targets [M] -> log-probabilities and entropies [M]; the entropies have a gradient if asked for."""
    logprobs: torch.Tensor
    entropy: torch.Tensor
    logprobs, entropy = _TokenLogprobs.apply(hidden, head.bias, targets, head, entropy_grad)  # type: ignore[no-untyped-call]
    return logprobs, entropy if entropy_grad else entropy.detach()


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - torch passes by position
        ctx: Any, hidden: torch.Tensor, bias: torch.Tensor | None, targets: torch.Tensor, head: Head, entropy_grad: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del bias  # an argument for its gradient alone; `head` has it
        dtype = torch.promote_types(head.weight.dtype, torch.float32)
        logprobs, entropy, normalisers = (torch.empty(len(targets), dtype=dtype, device=hidden.device) for _ in range(3))
        table: torch.Tensor | None = None
        for start in range(0, len(targets), head.rows):
            chunk = slice(start, start + head.rows)
            reuse = table if table is not None and len(table) == len(targets[chunk]) else None
            table, normaliser = head.log_softmax(hidden[chunk], out=reuse)
            normalisers[chunk] = normaliser[:, 0]
            logprobs[chunk] = table.gather(1, targets[chunk, None])[:, 0]
            entropy[chunk] = torch.cat([_entropy(block) for block in table.split(_BLOCK)])
        ctx.save_for_backward(hidden, targets, entropy, normalisers)
        ctx.head, ctx.entropy_grad = head, entropy_grad
        ctx.table = table if ctx.needs_input_grad[0] or head.sink is not None else None
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, targets, entropy, normalisers = ctx.saved_tensors
        head: Head = ctx.head
        grad_hidden = torch.empty_like(hidden)
        grad_bias = None if head.bias is None else torch.zeros_like(head.bias)
        table, ctx.table = ctx.table, None
        for start in reversed(range(0, len(targets), head.rows)):
            chunk = slice(start, start + head.rows)
            if table is None or start + head.rows < len(targets):
                reuse = table if table is not None and len(table) == len(targets[chunk]) else None
                table, _ = head.log_softmax(hidden[chunk], out=reuse)
            outer = _Outer(
                targets=targets[chunk, None],
                logprob=grads[0][chunk, None],
                entropy=grads[1][chunk, None] if ctx.entropy_grad else None,
                entropy_value=entropy[chunk, None],
                normaliser=normalisers[chunk, None],
            )
            _grad_logits(table, outer, head.softcap)
            grad_logits = table.to(head.weight.dtype)
            torch.mm(grad_logits, head.weight, out=grad_hidden[chunk])
            if grad_bias is not None:
                grad_bias += grad_logits.sum(0)
            if head.sink is not None and head.sink.dtype == grad_logits.dtype:
                head.sink.addmm_(grad_logits.t(), hidden[chunk])
            elif head.sink is not None:
                head.sink.add_(grad_logits.t() @ hidden[chunk])
        return grad_hidden, grad_bias, None, None, None


def _entropy(log_softmax: torch.Tensor) -> torch.Tensor:
    """[rows] from log-probabilities [rows, V]"""
    negative: torch.Tensor = torch.linalg.vecdot(log_softmax.exp(), log_softmax)
    return -negative


@attrs.frozen(kw_only=True)
class _Outer:
    """What reaches the logits of a chunk from outside, each [rows, 1]: the gradients of both outputs, and what they need."""

    targets: torch.Tensor
    logprob: torch.Tensor
    entropy: torch.Tensor | None
    entropy_value: torch.Tensor
    normaliser: torch.Tensor


def _grad_logits(table: torch.Tensor, outer: _Outer, softcap: float | None) -> None:
    """The log-probabilities in `table` [rows, V] become the gradient of the logits, in place."""
    for start in range(0, len(table), _BLOCK):
        part = slice(start, start + _BLOCK)
        block, grad = table[part], outer.logprob[part]
        capped = None if softcap is None else (block + outer.normaliser[part]).div_(softcap)
        if outer.entropy is None:
            block.exp_().mul_(-grad)
        else:
            slope = (block + outer.entropy_value[part]).mul_(outer.entropy[part]).add_(grad).neg_()
            block.exp_().mul_(slope)
        block.scatter_add_(1, outer.targets[part], grad)
        if capped is not None:
            block.mul_(1 - capped.square_())
