"""core-rl's side of numerics.py: the components as a run builds them, on a packed batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from _numerics_batch import arrays
from _numerics_timing import arguments, report

from core_rl.builtin.kl_estimators import Estimator
from core_rl.config.algorithm import CriticConfig
from core_rl.data.batch import PackedBatch
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective_extras import before_step
from core_rl.objective_value import ValueLoss
from core_rl.plugins.build import build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference

MEAN = Aggregator("token-mean")


def main() -> None:
    args = arguments()
    batch = packed(arrays(args.sequences, args.mean_length))
    make = Maker()
    report(advantages(batch, make) | losses(batch, make) | corrections(batch, make), args)


class Maker:
    """Components by name, with the defaults of their options classes."""

    def __init__(self) -> None:
        self.catalogue = Catalogue.discover()

    def __call__(self, kind: str, name: str, **options: Any) -> Any:
        component = self.catalogue.find(kind, name).component
        config = load_reference(component.config)(**options) if component.config else None
        return build_component(component, config)


def packed(flat: Mapping[str, Any]) -> PackedBatch:
    """Each sequence with one prompt token before it: the first token of a sequence is never in the mask."""
    lengths = torch.from_numpy(flat["lengths"]) + 1
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    positions = torch.arange(int(cu_seqlens[-1])) - torch.repeat_interleave(cu_seqlens[:-1], lengths)
    mask = positions > 0

    def tokens(name: str) -> torch.Tensor:
        return torch.zeros(mask.shape).masked_scatter(mask, torch.from_numpy(flat[name]))

    names = ["old_logprobs", "rollout_logprobs", "ref_logprobs", "advantages", "values", "returns", "logprobs", "new_values"]
    rewards = torch.from_numpy(flat["rewards"])
    return PackedBatch(
        tokens=torch.zeros(mask.shape, dtype=torch.int64),
        cu_seqlens=cu_seqlens.int(),
        positions=positions.int(),
        loss_mask=mask,
        token_fields={**{name: tokens(name) for name in names}, "generated": mask},
        sequence_fields={
            "rewards": rewards,
            "raw_rewards": rewards,
            "greedy_rewards": torch.from_numpy(flat["greedy_rewards"]),
            "group": torch.from_numpy(flat["group"]),
            "truncated": torch.zeros(rewards.shape, dtype=torch.bool),
        },
    )


def advantages(batch: PackedBatch, make: Maker) -> dict[str, Callable[[], object]]:
    group = batch["group"][batch.sequence_ids]

    def whitened(advantage: Any, normaliser: Any) -> torch.Tensor:
        result: torch.Tensor = normaliser(advantage(batch)["advantages"], group, batch.loss_mask)
        return result

    names = ["gae", "group_norm", "rloo", "remax", "opo", "gpg", "pass_at_k"]
    calls: dict[str, Callable[[], object]] = {f"advantage/{name}": partial(make("advantage", name), batch) for name in names}
    white = make("normaliser", "whiten")
    calls["advantage/gae"] = partial(whitened, make("advantage", "gae"), white)  # verl whitens inside
    calls["advantage/reinforce_pp"] = partial(whitened, make("advantage", "reinforce_returns"), white)
    baseline = make("advantage", "group_norm", std_level="none")
    calls["advantage/reinforce_pp_baseline"] = partial(whitened, baseline, white)
    return calls


LOSSES: Mapping[str, Mapping[str, Any]] = {
    "ppo_clip": {"dual_clip": 3.0},
    "dppo_tv": {},
    "dppo_kl": {},
    "gspo": {},
    "sapo": {},
    "reinforce": {},
    "clip_cov": {},
    "kl_cov": {},
    "gmpo": {},
    "dro": {"beta": 0.1, "level": "token"},
    "cispo": {},
}


def losses(batch: PackedBatch, make: Maker) -> dict[str, Callable[[], object]]:
    """Value, metrics, aggregation and gradient, as a train step needs them."""

    def step(loss: Any, leaf: str = "logprobs") -> None:
        prepared = before_step(loss, batch)
        fresh = batch[leaf].clone().requires_grad_()
        given = fresh if leaf == "logprobs" else batch["logprobs"]
        output = loss(given, prepared if leaf == "logprobs" else prepared.with_tokens(new_values=fresh))
        (output.values * MEAN.weights(batch)).sum().backward()

    def kl() -> None:
        logprobs = batch["logprobs"].clone().requires_grad_()
        (Estimator("k3")(logprobs, batch["ref_logprobs"]) * MEAN.weights(batch)).sum().backward()

    calls: dict[str, Callable[[], object]] = {
        f"loss/{name}": partial(step, make("loss", name, **options)) for name, options in LOSSES.items()
    }
    return calls | {"loss/value": partial(step, ValueLoss(CriticConfig()), "new_values"), "loss/kl_k3": kl}


def corrections(batch: PackedBatch, make: Maker) -> dict[str, Callable[[], object]]:
    token = make("rejection", "ratio_band", metric="k3", level="token", lower=None, upper=0.01)
    mean = make("rejection", "ratio_band", metric="k3", level="sequence", aggregate="mean", lower=None, upper=0.01)
    return {
        "rejection/tis": partial(make("rejection", "tis"), batch),
        "rejection/ratio_band_token_k3": partial(token, batch),
        "rejection/ratio_band_sequence_mean_k3": partial(mean, batch),
    }


if __name__ == "__main__":
    main()
