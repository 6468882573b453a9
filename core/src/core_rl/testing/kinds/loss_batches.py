"""Batches for a loss: the fields that the training loop always gives it, those it declares in `needs`, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.objective_extras import before_step
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.kit.check import UnmetError

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Loss
    from core_rl.roles.train import LossOutput, Weights

K = 5
"""Tokens compared in each place."""
_ALWAYS = frozenset({"versions", "generated"})
_TOKENS = {
    "rollout_logprobs": ("rollout_logprobs",),
    "ref_logprobs": ("ref_logprobs",),
    "teacher_logprobs": ("teacher_logprobs",),
    "entropy": ("entropy",),
    "values": ("values", "returns"),
}
"""Per-token fields by capability."""


@attrs.frozen(kw_only=True)
class Case:
    """A batch, and what the forward pass says of it."""

    batch: PackedBatch
    outputs: dict[str, torch.Tensor]

    def select(self, sequences: list[int]) -> Case:
        where = self.batch.token_indices(sequences)
        return Case(batch=self.batch.select(sequences), outputs={name: value[where] for name, value in self.outputs.items()})


def case(needs: frozenset[str], seed: int, *, groups: int = 4, spread: float = 0.5, double: bool = False) -> Case:
    """Ragged sequences in groups; the second sequence is wholly masked where rows are sampled."""
    offline = needs & {"pairs", "labelled"}
    whole = _rows(needs, seed, groups) if offline else random_batch(seed, num_groups=groups, spread=spread)
    whole = whole.with_tokens(**_gathered(whole, seed))
    if double:
        whole = in_double(whole)
    tokens = {name for need in needs for name in _TOKENS.get(need, ())} | _ALWAYS
    if not offline:
        tokens |= {"advantages", "old_logprobs"}
    if "gathered_logprobs" in needs:
        tokens |= {"gather_ids", "teacher_gathered"} if "teacher_logprobs" in needs else {"gather_ids"}
    sequences = _sequences(needs)
    fields = whole.token_fields
    outputs = {"logprobs": fields["logprobs"], "new_entropy": fields["entropy"]}
    if "values" in needs:
        outputs["new_values"] = fields["new_values"]
    if "gathered_logprobs" in needs:
        outputs["gathered_logprobs"] = fields["gathered_logprobs"]
    batch = attrs.evolve(
        whole,
        token_fields={name: value for name, value in fields.items() if name in tokens},
        sequence_fields={name: value for name, value in whole.sequence_fields.items() if name in sequences},
    )
    return Case(batch=batch, outputs=outputs)


def prepared(loss: Loss, one: Case, needs: frozenset[str]) -> Case:
    """As a loop prepares the whole batch of an optimizer step, before it is split."""
    batch = one.batch
    narrowed: Any = getattr(loss, "mask", None)
    if narrowed is not None:
        batch = batch.with_loss_mask(batch.loss_mask & narrowed(batch))
    prepare: Any = getattr(loss, "prepare", None)
    if prepare is not None and needs & {"pairs", "labelled"}:
        batch = prepare(batch, lambda part, weights="current": _forward(one, part, weights))
    old = batch.token_fields.get("old_logprobs")
    if old is not None and "old_logprobs" not in needs:  # they may come with the forward pass that trains, after `before_step`
        batch = attrs.evolve(batch, token_fields={name: x for name, x in batch.token_fields.items() if name != "old_logprobs"})
        batch = before_step(loss, batch).with_tokens(old_logprobs=old)
    else:
        batch = before_step(loss, batch)
    return attrs.evolve(one, batch=batch)


def run(loss: Loss, one: Case, **leaves: torch.Tensor) -> LossOutput:
    """What it says of a part; `leaves` stand in place of outputs."""
    outputs = {**one.outputs, **leaves}
    others = {name: value for name, value in outputs.items() if name != "logprobs"}
    return loss(outputs["logprobs"], one.batch.with_tokens(**others))


def parts(one: Case, *, by_group: bool, size: int) -> Iterator[list[int]]:
    """Micro-batches of so many sequences, or groups, in an order that is not the batch's."""
    count = one.batch.num_sequences
    order = [(7 * index + 3) % count for index in range(count)] if count % 7 else list(range(count))[::-1]
    units = [[index] for index in order]
    if by_group:
        groups = one.batch["group"].tolist()
        units = [[index for index in range(count) if groups[index] == name] for name in dict.fromkeys(reversed(groups))]
    for start in range(0, len(units), size):
        yield [index for unit in units[start : start + size] for index in unit]


def _forward(one: Case, batch: PackedBatch, weights: Weights) -> torch.Tensor:
    field = one.batch.token_fields.get("ref_logprobs") if weights == "reference" else one.outputs["logprobs"]
    if field is None:
        message = "its `prepare` asks for the reference's log-probabilities: declare ref_logprobs in `needs`"
        raise UnmetError(message)
    if batch.tokens.equal(one.batch.tokens):
        return field.detach()
    some = -0.1 - (0.37 * batch.tokens.double()) % 2.0  # other sequences, such as completions of another row's prompt
    return some.to(field.dtype).where(batch.loss_mask, 0.0)


def _sequences(needs: frozenset[str]) -> set[str]:
    names = {"truncated"}
    if needs & {"rewards"}:
        names |= {"rewards", "raw_rewards"}
    if needs & {"group", "several_samples", "pairs", "labelled"}:
        names |= {"group"}
    if "greedy_rewards" in needs:
        names |= {"greedy_rewards"}
    return names | ({"chosen"} if "pairs" in needs else set()) | ({"desirable"} if "labelled" in needs else set())


def _rows(needs: frozenset[str], seed: int, groups: int) -> PackedBatch:
    """Pairs in either order, or single rows, good and bad; a prompt of one or two tokens, and no masked completion."""
    pairs = "pairs" in needs
    random = torch.Generator().manual_seed(seed + 1000)
    group = torch.arange(groups).repeat_interleave(2) if pairs else torch.arange(groups)
    lengths = torch.randint(3, 9, (group.numel(),), generator=random)
    whole = random_batch(seed, num_groups=60).select(range(60))
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    count = int(cu_seqlens[-1])
    positions = torch.arange(count) - torch.repeat_interleave(cu_seqlens[:-1], lengths)
    prompt = torch.randint(1, 3, (group.numel(),), generator=random)
    mask = positions >= torch.repeat_interleave(prompt, lengths)
    model = (-2 * torch.rand(count, generator=random) - 0.05).where(mask, 0.0)
    near = {
        name: (model + 0.5 * torch.randn(count, generator=random)).where(mask, 0.0)
        for name in ("ref_logprobs", "teacher_logprobs")
    }
    first = torch.rand(groups, generator=random) < 0.6
    first[0], first[-1] = True, False
    labels = {"chosen": torch.stack([first, ~first], 1).flatten()} if pairs else {"desirable": first}
    values = torch.randn(count, generator=random)
    return attrs.evolve(
        whole,
        tokens=torch.randint(0, 50, (count,), generator=random),
        cu_seqlens=cu_seqlens.int(),
        positions=positions.int(),
        loss_mask=mask,
        token_fields={
            **near,
            "logprobs": model,
            "entropy": torch.rand(count, generator=random).where(mask, 0.0),
            "values": values.where(mask, 0.0),
            "returns": values.where(mask, 0.0),
            "new_values": values.where(mask, 0.0),
            "versions": torch.zeros(count, dtype=torch.int32),
            "generated": mask,
        },
        sequence_fields={"group": group, "truncated": torch.zeros(group.numel(), dtype=torch.bool), **labels},
    )


def _gathered(batch: PackedBatch, seed: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(seed + 2000)
    shape = (batch.num_tokens, K)
    logs = [(2 * torch.randn(shape, generator=random)).log_softmax(-1) - 0.1 for _ in range(2)]
    ids = torch.arange(K).expand(shape).clone()
    mask = batch.loss_mask[:, None]
    return {"gather_ids": ids, "gathered_logprobs": logs[0].where(mask, 0.0), "teacher_gathered": logs[1].where(mask, 0.0)}
