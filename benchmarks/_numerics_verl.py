"""verl's side of numerics.py: its own functions on a padded batch. Runs in verl's environment, and knows nothing of core-rl."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from _numerics_batch import arrays
from _numerics_timing import arguments, report
from verl.trainer.ppo import core_algos as verl
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask as correct
from verl.workers.config import ActorConfig, PolicyLossConfig


def main() -> None:
    args = arguments()
    flat = arrays(args.sequences, args.mean_length)
    mask = torch.arange(flat["width"])[None] < torch.from_numpy(flat["lengths"])[:, None]

    def padded(name: str) -> torch.Tensor:
        table = torch.zeros(mask.shape)
        table[mask] = torch.from_numpy(flat[name])
        return table

    batch = {name: padded(name) for name, value in flat.items() if isinstance(value, np.ndarray) and len(value) == mask.sum()}
    batch["response_mask"] = mask.float()
    rewards = torch.zeros(mask.shape)
    rewards[torch.arange(len(mask)), torch.from_numpy(flat["lengths"]) - 1] = torch.from_numpy(flat["rewards"])
    batch["token_level_rewards"] = rewards
    report(advantages(batch, flat) | losses(batch) | corrections(batch), args)


def advantages(batch: dict[str, Any], flat: dict[str, Any]) -> dict[str, Callable[[], object]]:
    rewards, mask = batch["token_level_rewards"], batch["response_mask"]
    names = [str(uuid.UUID(int=number)) for number in range(int(flat["group"].max()) + 1)]
    index = np.array([names[number] for number in flat["group"]], dtype=object)  # as verl's trainer names its groups
    one = torch.tensor(1.0)
    baselines = torch.from_numpy(flat["greedy_rewards"])
    config = type("Config", (dict,), {"__getattr__": dict.__getitem__})(gamma=1.0, norm_adv_by_std_in_grpo=True)
    return {
        "advantage/gae": lambda: verl.compute_gae_advantage_return(rewards, batch["values"], mask, one, one),
        "advantage/group_norm": lambda: verl.compute_grpo_vectorized_outcome_advantage(rewards, mask, index),
        "advantage/rloo": lambda: verl.compute_rloo_vectorized_outcome_advantage(rewards, mask, index),
        "advantage/reinforce_pp": lambda: verl.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, config=config),
        "advantage/reinforce_pp_baseline": lambda: verl.compute_reinforce_plus_plus_baseline_outcome_advantage(
            rewards, mask, index
        ),
        "advantage/remax": lambda: verl.compute_remax_outcome_advantage(rewards, baselines, mask),
        "advantage/opo": lambda: verl.compute_opo_outcome_advantage(rewards, mask, index),
        "advantage/gpg": lambda: verl.compute_gpg_outcome_advantage(rewards, mask, index),
        "advantage/pass_at_k": lambda: verl.compute_grpo_passk_outcome_advantage(rewards, mask, index, config=config),
    }


LOSSES = {
    "ppo_clip": "vanilla",
    "dppo_tv": "dppo_tv",
    "dppo_kl": "dppo_kl",
    "gspo": "gspo",
    "sapo": "sapo",
    "reinforce": "gpg",
    "clip_cov": "clip_cov",
    "kl_cov": "kl_cov",
    "gmpo": "geo_mean",
    "dro": "dro",
    "cispo": "cispo",
}


def losses(batch: dict[str, Any]) -> dict[str, Callable[[], object]]:
    config = ActorConfig(strategy="fsdp", rollout_n=8, use_dynamic_bsz=True, policy_loss=PolicyLossConfig(dro_beta=0.1))

    def policy(name: str) -> None:
        logprobs = batch["logprobs"].clone().requires_grad_()
        loss, _ = verl.get_policy_loss_fn(name)(
            old_log_prob=batch["old_logprobs"],
            log_prob=logprobs,
            advantages=batch["advantages"],
            response_mask=batch["response_mask"],
            loss_agg_mode="token-mean",
            config=config,
        )
        loss.backward()

    def value() -> None:
        values = batch["new_values"].clone().requires_grad_()
        loss, _ = verl.compute_value_loss(values, batch["returns"], batch["values"], batch["response_mask"], 0.2)
        loss.backward()

    def kl() -> None:
        logprobs = batch["logprobs"].clone().requires_grad_()
        penalty = verl.kl_penalty(logprobs, batch["ref_logprobs"], "low_var_kl")
        verl.agg_loss(penalty, batch["response_mask"], "token-mean").backward()

    calls: dict[str, Callable[[], object]] = {f"loss/{ours}": partial(policy, theirs) for ours, theirs in LOSSES.items()}
    return calls | {"loss/value": value, "loss/kl_k3": kl}


def corrections(batch: dict[str, Any]) -> dict[str, Callable[[], object]]:
    mask = batch["response_mask"]
    run = partial(correct, batch["old_logprobs"], batch["rollout_logprobs"], mask)
    return {
        "rejection/tis": lambda: run(rollout_is="token", rollout_is_threshold=2.0),
        "rejection/ratio_band_token_k3": lambda: run(rollout_rs="token_k3", rollout_rs_threshold=0.01),
        "rejection/ratio_band_sequence_mean_k3": lambda: run(rollout_rs="seq_mean_k3", rollout_rs_threshold=0.01),
    }


if __name__ == "__main__":
    main()
