"""Micro-batches as padded blocks: sequences of similar length, one to a row, padded on the right.

S sequences, N tokens of a micro-batch, M of them scored; b rows and s columns of its block.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import torch

from core_rl.data.batch import PackedBatch
from core_rl.hf.packed.layout import computed_lengths
from core_rl.train.micro_batches import MicroBatch, Plan


class PaddedPlan(Plan):
    """Micro-batches of which the padded block keeps to the budget; a longer sequence, or a group of a loss of groups, is alone."""

    def of_ranks_in_multiples(self, batch: PackedBatch, ranks: int, multiple: int) -> list[list[MicroBatch]]:
        """`of_ranks` with as many micro-batches as the interleaved schedule asks for. Those that fill up do not count."""
        lists = self.of_ranks(batch, ranks)
        if not lists[0]:
            return lists
        lengths = batch.lengths.tolist()
        shortest = min((s for parts in lists for part in parts for s in part.sequences), key=lambda s: lengths[s])
        missing = -len(lists[0]) % multiple
        return [parts + [MicroBatch(sequences=[shortest], counts=False)] * missing for parts in lists]

    def _split(self, batch: PackedBatch, chosen: Sequence[int]) -> list[list[int]]:
        lengths = batch.lengths.tolist()
        items = [[s] for s in chosen]
        if self.unit == "group":
            members: dict[int, list[int]] = {}
            for s in chosen:
                members.setdefault(int(batch["group"][s]), []).append(s)
            items = list(members.values())
        items.sort(key=lambda item: (-max(lengths[s] for s in item), item[0]))
        blocks: list[list[int]] = []
        width = 0
        for item in items:
            if blocks and (len(blocks[-1]) + len(item)) * width <= self.max_tokens:
                blocks[-1] += item
            else:  # the longest of a block is its first
                blocks.append(list(item))
                width = max(lengths[s] for s in item)
        return sorted(sorted(block) for block in blocks)


@attrs.frozen(kw_only=True, eq=False)
class Block:
    """A micro-batch on its way through the model.

    `tokens`, `positions` [b, s]; `predictors` [M]: where in hidden states [s·b, E] the state before each scored token is; `targets`
    [M] are those tokens, `scored` [M] their indices in `part`, and `part`'s own in the batch are `where` [N].
    """

    part: PackedBatch
    where: torch.Tensor
    counts: bool
    tokens: torch.Tensor
    positions: torch.Tensor
    predictors: torch.Tensor
    targets: torch.Tensor
    scored: torch.Tensor

    @classmethod
    def of(cls, batch: PackedBatch, micro_batch: MicroBatch, device: torch.device, *, multiple: int = 1) -> Block:
        """From a batch on the CPU. The width is a multiple of `multiple`; nothing behind the last predictor is computed."""
        part = batch.select(micro_batch.sequences)
        lengths = torch.tensor(computed_lengths(part))
        width = -(-int(lengths.max()) // multiple) * multiple
        row, column = part.sequence_ids, part.positions.long()
        computed = column < lengths[row]
        tokens = torch.zeros(len(lengths), width, dtype=torch.int64)
        tokens[row[computed], column[computed]] = part.tokens[computed]
        scored = part.loss_mask.nonzero()[:, 0]
        predictors = (column[scored] - 1) * len(lengths) + row[scored]
        return cls(
            part=part,
            where=batch.token_indices(micro_batch.sequences),
            counts=micro_batch.counts,
            tokens=tokens.to(device),
            positions=torch.arange(width, device=device).expand(len(lengths), width),
            predictors=predictors.to(device),
            targets=part.tokens[scored].to(device),
            scored=scored.to(device),
        )
