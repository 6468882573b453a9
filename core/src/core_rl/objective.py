"""What a train engine minimises, composed from the algorithm's parts; and the KL penalty in the reward.

N tokens, S sequences. Per token, inside the mask,

    value_t = weights_t · loss_t + kl.coef · KL_t(pi, pi_ref) - entropy_coef · H_t        (kl.place: loss)
    r_t     = -kl.coef · KL_t(pi_old, pi_ref)                                             (kl.place: reward)

`weights` come from rejections (rollout correction) and multiply the policy loss alone. Extra losses are added with their own masks
and denominators (`core_rl.objective_extras`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch

from core_rl.builtin.kl_estimators import Estimator
from core_rl.numerics.kl import kl_estimate
from core_rl.numerics.mismatch import OUTSIDE
from core_rl.numerics.ratios import bounded_exp
from core_rl.numerics.segments import segment_sum
from core_rl.objective_extras import ExtraLoss, Extras, before_step, sums, unit_of, with_outputs
from core_rl.plugins.build import build
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.config.algorithm import KlConfig
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import KlEstimator, Loss
    from core_rl.roles.train import Aggregation, PolicyOutputs, Unit

Proximal = Literal["batch", "reuse", "loglinear"]


class PolicyObjective:
    """A `core_rl.roles.train.Objective`.

    `proximal`, where old log-probabilities come from. `batch`: the batch has them. `reuse`: they are those of this very forward
    pass, without gradient. `loglinear` (A-3PO, 2512.06547): log mu + alpha_t (sg log pi - log mu), with the batch's `proximal_alpha` [N].
    `old_is_rollout`: the batch's old log-probabilities are the rollout engine's own, so that the trainer's stand for it in `mismatch/…`.

    `kl_coef`, `entropy_coef` and `entropy_acts` (false: no bonus in this step) may be changed between steps (`core_rl.loops.steering`).
    A log-probability in the mask that is not finite makes the loss and its gradient NaN, whatever the loss does with it: the engine
    then refuses the step. The metric `nan_tokens` is the share of such tokens.
    """

    def __init__(
        self,
        loss: Loss,
        *,
        kl: KlConfig,
        entropy_coef: float = 0.0,
        entropy_target: float | None = None,
        proximal: Proximal = "batch",
        old_is_rollout: bool = False,
        extras: Sequence[ExtraLoss] = (),
    ) -> None:
        self.loss = loss
        self.kl = kl
        self.kl_coef = kl.coef
        self.kl_estimator = estimator_of(kl)
        self.entropy_coef = entropy_coef
        self.entropy_acts = True
        self.entropy_grad = entropy_coef != 0 or entropy_target is not None
        self.proximal = proximal
        self.old_is_rollout = old_is_rollout
        self.extras = Extras(extras)
        self.unit: Unit = unit_of([loss, *(extra.loss for extra in extras)])

    def prepare(self, batch: PackedBatch, aggregation: Aggregation) -> PackedBatch:
        """The batch of one optimizer step with what must be known of it as a whole, before it is split."""
        return self.extras.prepare(before_step(self.loss, batch), aggregation)

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        mask = batch.loss_mask
        bad = mask & ~outputs.logprobs.isfinite()
        logprobs = outputs.logprobs * torch.where(bad, torch.nan, 1.0)
        batch = with_outputs(self._with_proximal(logprobs, batch), outputs)
        policy = self.loss(logprobs, batch)
        terms = {"policy/loss": policy.values, "entropy/mean": outputs.entropy, "nan_tokens": bad.float()}
        values = policy.values * batch["weights"] if "weights" in batch else policy.values
        if self.kl_coef > 0 and self.kl.place == "loss":
            terms["kl/loss"] = self.kl_coef * self._kl(logprobs, batch)
            values = values + terms["kl/loss"]
        if self.entropy_grad and self.entropy_acts:
            values = values - self.entropy_coef * outputs.entropy
        terms |= _policy_terms(logprobs.detach(), batch)
        metrics, maxima = self._mismatch(logprobs.detach(), batch)
        extra = self.extras(logprobs, batch)
        return LossOutput(
            values=values.where(mask, 0.0),
            metrics=sums(terms | metrics, mask) | dict(policy.metrics) | dict(extra.metrics),
            maxima={"ratio/token_max": terms["ratio/mean"].where(mask, 0.0).amax(), **maxima, **policy.maxima, **extra.maxima},
            direct=extra.direct if policy.direct is None else policy.direct + (0.0 if extra.direct is None else extra.direct),
        )

    def _with_proximal(self, logprobs: torch.Tensor, batch: PackedBatch) -> PackedBatch:
        if self.proximal == "batch":
            return batch
        old = logprobs.detach()
        if self.proximal == "loglinear":
            sampled = batch["rollout_logprobs"]
            old = sampled + batch["proximal_alpha"] * (old - sampled)
        return batch.with_tokens(old_logprobs=old)

    def _kl(self, logprobs: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        estimate = self.kl_estimator(logprobs, batch["ref_logprobs"])
        return estimate * bounded_exp(logprobs - batch["old_logprobs"]) if self.kl.unbiased else estimate

    def _mismatch(self, logprobs: torch.Tensor, batch: PackedBatch) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Trainer against rollout engine; the whole set is `core_rl.numerics.mismatch`."""
        if "rollout_logprobs" not in batch:
            return {}, {}
        trained = logprobs if self.old_is_rollout or self.proximal == "loglinear" else batch["old_logprobs"]
        log_rho = trained - batch["rollout_logprobs"]
        terms = {
            "mismatch/kl": -log_rho,
            "mismatch/k3": kl_estimate(batch["rollout_logprobs"], trained, "k3"),
            "mismatch/abs_mean": log_rho.abs(),
            "mismatch/outside_frac": (log_rho < OUTSIDE).float(),
            "mismatch/rho_mean": bounded_exp(log_rho),
            "mismatch/rho_square_mean": bounded_exp(2 * log_rho),
        }
        return terms, {"mismatch/abs_max": log_rho.abs().where(batch.loss_mask, 0.0).amax()}


def estimator_of(kl: KlConfig) -> KlEstimator:
    """The estimator that is selected; a name that no run file has resolved is one of the core's own."""
    if kl.estimator.component is None:
        return Estimator(kl.estimator.name)  # type: ignore[arg-type]
    estimator: KlEstimator = build(kl.estimator)
    return estimator


def kl_of_tokens(batch: PackedBatch, kl: KlConfig) -> torch.Tensor:
    """[N] float32: the estimate of KL_t(pi_old, pi_ref); 0 outside the mask."""
    return estimator_of(kl)(batch["old_logprobs"], batch["ref_logprobs"]).where(batch.loss_mask, 0.0)


def apply_kl_to_rewards(batch: PackedBatch, kl: KlConfig, coef: float | None = None) -> PackedBatch:
    """`rewards` with the KL penalty of the whole sequence in them, and the penalty of each token as `kl_rewards` [N].

    Advantages of whole sequences read `rewards`. One with a reward at every token puts `rewards` less the sum of `kl_rewards` at
    the last token, and adds `kl_rewards`. `coef`: in place of `kl.coef`, for a controller.
    """
    per_token = -(kl.coef if coef is None else coef) * kl_of_tokens(batch, kl)
    rewards = batch["rewards"] + segment_sum(per_token, batch.cu_seqlens, batch.loss_mask)
    return batch.with_tokens(kl_rewards=per_token).with_sequences(rewards=rewards)


def apply_kl_to_advantages(batch: PackedBatch, kl: KlConfig, coef: float | None = None) -> PackedBatch:
    """A_t <- A_t + coef · (mean KL over the mask - KL_t): a penalty that leaves the mean of the advantages as it is."""
    mask = batch.loss_mask
    estimate = kl_of_tokens(batch, kl)
    mean = estimate.double().sum() / mask.sum().clamp(min=1)
    penalty = (kl.coef if coef is None else coef) * (mean - estimate)
    return batch.with_tokens(advantages=(batch["advantages"] + penalty.float()).where(mask, 0.0))


def _policy_terms(logprobs: torch.Tensor, batch: PackedBatch) -> dict[str, torch.Tensor]:
    """How far the policy has moved from the old one, and stands from the reference."""
    old = batch["old_logprobs"]
    terms = {"ratio/mean": bounded_exp(logprobs - old), "kl/old": kl_estimate(old, logprobs, "k3")}
    if "ref_logprobs" in batch:
        terms["kl/ref"] = kl_estimate(logprobs, batch["ref_logprobs"], "k3")
    if "teacher_logprobs" in batch:  # far apart as they may be, k3 would be its largest exponential
        terms["kl/teacher"] = logprobs - batch["teacher_logprobs"]
    return terms
