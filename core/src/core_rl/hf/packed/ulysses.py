"""Attention over a packed row whose tokens are on several ranks (DeepSpeed-Ulysses, 2309.14509).

The row of a micro-batch is cut into U slices of tokens, one for each rank of the group. All that is computed of a token alone stays
where the token is. Attention needs all tokens, but not all heads: an all-to-all gives each rank every token of H/U heads, and another one
gives its tokens back.

    slices     [1, H, T/U, D] of every rank        heads      [1, H/U, T, D] of every rank

Every rank of the group has the whole micro-batch, and in the end the log-probabilities of all its tokens: they are added up over the group,
so that each computes the same loss. Backward, each rank's tokens get their own gradient, and weights a part of theirs: over the group they are
to be summed.
"""

from __future__ import annotations

from typing import Any

import attrs
import torch
import torch.distributed as dist

from core_rl.errors import UserError
from core_rl.hf.packed.layout import Layout


@attrs.frozen(kw_only=True, eq=False)
class Ulysses:
    """The group, and this rank's place in it."""

    group: Any
    rank: int
    size: int

    def check(self, config: Any, *, cut: int = 1) -> None:
        """Raises `UserError` for heads that do not divide; `cut` ranks of tensor parallelism have shared them already."""
        heads = config.num_attention_heads // cut
        keys = (getattr(config, "num_key_value_heads", None) or config.num_attention_heads) // cut
        if heads % self.size or keys % self.size:
            able = [size for size in range(1, keys + 1) if heads % size == 0 and keys % size == 0]
            message = (
                f"train_engine.ulysses: {heads} attention heads with {keys} of keys and values on a rank do not divide by {self.size}; "
                f"of this model {', '.join(map(str, able))} do"
            )
            raise UserError(message)

    def width(self, layout: Layout) -> int:
        """Tokens of a slice. The last ones may have padding."""
        return -(-len(layout.tokens) // self.size)

    def own(self, layout: Layout) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and positions [T/U] of this rank's slice, padded with zeros."""
        width = self.width(layout)
        part = slice(self.rank * width, (self.rank + 1) * width)
        missing = width - len(layout.tokens[part])
        tokens, positions = (torch.nn.functional.pad(x[part], (0, missing)) for x in (layout.tokens, layout.positions))
        return tokens, positions

    def scored(self, layout: Layout) -> tuple[torch.Tensor, torch.Tensor]:
        """Which of the M tokens to score have their predicting row here [M] bool, and where these rows are in the slice."""
        width = self.width(layout)
        here = layout.predictors.div(width, rounding_mode="floor") == self.rank
        return here, layout.predictors[here] - self.rank * width

    def to_heads(self, x: torch.Tensor, length: int) -> torch.Tensor:
        """[1, H, T/U, D] -> [1, H/U, T, D], without the padding."""
        parts = x[0].unflatten(0, (self.size, -1)).contiguous()  # [U, H/U, T/U, D]: a share of the heads for each rank
        whole: torch.Tensor = _Exchange.apply(parts, self.group)  # type: ignore[no-untyped-call]
        return whole.transpose(0, 1).flatten(1, 2)[None, :, :length]

    def to_slices(self, x: torch.Tensor, width: int) -> torch.Tensor:
        """[1, T, H/U, D] -> [1, T/U, H, D]"""
        padded = torch.nn.functional.pad(x[0], (0, 0, 0, 0, 0, width * self.size - x.shape[1]))
        parts: torch.Tensor = _Exchange.apply(padded.unflatten(0, (self.size, width)).contiguous(), self.group)  # type: ignore[no-untyped-call]
        return parts.transpose(0, 1).flatten(1, 2)[None]

    def total(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over the group, of tensors that are 0 but for each rank's own tokens."""
        summed: torch.Tensor = _Total.apply(x, self.group)  # type: ignore[no-untyped-call]
        return summed


class _Exchange(torch.autograd.Function):
    """[U, …]: entry r goes to rank r, and what comes from rank r takes its place. It is its own inverse."""

    @staticmethod
    def forward(ctx: Any, parts: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return _exchanged(parts, group)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _exchanged(grads[0].contiguous(), ctx.group), None


def _exchanged(parts: torch.Tensor, group: Any) -> torch.Tensor:
    result = torch.empty_like(parts)
    dist.all_to_all_single(result, parts, group=group)
    return result


class _Total(torch.autograd.Function):
    """Forward a sum; backward the gradient as it is, since every rank has the same loss of the sum."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        del ctx
        result = x.clone()
        dist.all_reduce(result, group=group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        del ctx
        return grads[0], None
