"""What a train engine minimises, composed from the algorithm's parts; and the KL penalty in the reward.

N tokens, S sequences. Per token, inside the mask,

    value_t = weights_t · loss_t + kl.coef · KL_t(pi, pi_ref) - entropy_coef · H_t        (kl.place: loss)
    r_t     = -kl.coef · KL_t(pi_old, pi_ref)                                             (kl.place: reward)

`weights` come from rejections (rollout correction) and multiply the policy loss alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.kl import kl_estimate
from core_rl.numerics.ratios import bounded_exp
from core_rl.numerics.segments import segment_sum
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.config.algorithm import KlConfig
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Loss
    from core_rl.roles.train import PolicyOutputs


class PolicyObjective:
    """A `core_rl.roles.train.Objective`.

    `proximal_reuse`: the old log-probabilities are those of this very forward pass, without gradient; else the batch has them.
    `old_is_rollout`: the batch's old log-probabilities are the rollout engine's own, so that the trainer's stand for it in `mismatch/…`.

    A log-probability in the mask that is not finite makes the loss and its gradient NaN, whatever the loss does with it: the
    engine then refuses the step. The metric `nan_tokens` is the share of such tokens.
    """

    def __init__(
        self,
        loss: Loss,
        *,
        kl: KlConfig,
        entropy_coef: float = 0.0,
        proximal_reuse: bool = False,
        old_is_rollout: bool = False,
    ) -> None:
        self.loss = loss
        self.kl = kl
        self.entropy_coef = entropy_coef
        self.entropy_grad = entropy_coef != 0
        self.proximal_reuse = proximal_reuse
        self.old_is_rollout = old_is_rollout

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        mask = batch.loss_mask
        bad = mask & ~outputs.logprobs.isfinite()
        logprobs = outputs.logprobs * torch.where(bad, torch.nan, 1.0)
        if self.proximal_reuse:
            batch = batch.with_tokens(old_logprobs=logprobs.detach())
        policy = self.loss(logprobs, batch)
        terms = {"policy/loss": policy.values, "entropy/mean": outputs.entropy, "nan_tokens": bad.float()}
        values = policy.values * batch["weights"] if "weights" in batch else policy.values
        if self.kl.coef > 0 and self.kl.place == "loss":
            old = batch["old_logprobs"] if self.kl.unbiased else None
            terms["kl/loss"] = self.kl.coef * kl_estimate(logprobs, batch["ref_logprobs"], self.kl.estimator, old_logprobs=old)
            values = values + terms["kl/loss"]
        if self.entropy_coef != 0:
            values = values - self.entropy_coef * outputs.entropy
        terms |= _policy_terms(logprobs.detach(), batch)
        metrics, maxima = self._mismatch(logprobs.detach(), batch)
        return LossOutput(
            values=values.where(mask, 0.0),
            metrics=_sums(terms | metrics, mask) | dict(policy.metrics),
            maxima={"ratio/token_max": terms["ratio/mean"].where(mask, 0.0).amax(), **maxima, **policy.maxima},
        )

    def _mismatch(self, logprobs: torch.Tensor, batch: PackedBatch) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Trainer against rollout engine; the whole set is `core_rl.numerics.mismatch`."""
        if "rollout_logprobs" not in batch:
            return {}, {}
        trained = logprobs if self.old_is_rollout else batch["old_logprobs"]
        log_rho = trained - batch["rollout_logprobs"]
        terms = {
            "mismatch/kl": -log_rho,
            "mismatch/k3": kl_estimate(batch["rollout_logprobs"], trained, "k3"),
            "mismatch/abs_mean": log_rho.abs(),
        }
        return terms, {"mismatch/abs_max": log_rho.abs().where(batch.loss_mask, 0.0).amax()}


def kl_in_reward(batch: PackedBatch, kl: KlConfig) -> torch.Tensor:
    """[N] float32: the per-token reward -coef · KL_t of the old policy to the reference; 0 outside the mask."""
    estimate = kl_estimate(batch["old_logprobs"], batch["ref_logprobs"], kl.estimator)
    return (-kl.coef * estimate).where(batch.loss_mask, 0.0)


def apply_kl_to_rewards(batch: PackedBatch, kl: KlConfig) -> PackedBatch:
    """`rewards` with the KL penalty of the whole sequence in them, and the penalty of each token as `kl_rewards` [N].

    Advantages of whole sequences read `rewards`. One with a reward at every token puts `rewards` less the sum of `kl_rewards` at
    the last token, and adds `kl_rewards`.
    """
    per_token = kl_in_reward(batch, kl)
    rewards = batch["rewards"] + segment_sum(per_token, batch.cu_seqlens, batch.loss_mask)
    return batch.with_tokens(kl_rewards=per_token).with_sequences(rewards=rewards)


def _policy_terms(logprobs: torch.Tensor, batch: PackedBatch) -> dict[str, torch.Tensor]:
    """How far the policy has moved from the old one, and stands from the reference."""
    old = batch["old_logprobs"]
    terms = {"ratio/mean": bounded_exp(logprobs - old), "kl/old": kl_estimate(old, logprobs, "k3")}
    if "ref_logprobs" in batch:
        terms["kl/ref"] = kl_estimate(logprobs, batch["ref_logprobs"], "k3")
    return terms


def _sums(terms: Mapping[str, torch.Tensor], mask: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """(sum over the mask, tokens in the mask) of each term, detached."""
    count = mask.sum()
    return {name: (term.detach().where(mask, 0.0).sum(), count) for name, term in terms.items()}
