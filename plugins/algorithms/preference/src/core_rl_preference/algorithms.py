"""The named algorithms: a loss with its paper's options, and how its mean is taken. Torch-free."""

from __future__ import annotations

import attrs

from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import Selection, component, components

_LOSS = "the loss of a row"
_MEAN = "mean over pairs"


@attrs.frozen(kw_only=True)
class Dpo(OfflineConfig):
    """DPO (2305.18290): the policy's log-ratios to a reference are the reward, compared by a logistic."""

    loss: Selection = component("loss", "dpo", help=_LOSS)
    aggregation: Selection = component("aggregation", "prompt-mean", help=_MEAN)


@attrs.frozen(kw_only=True)
class Cdpo(Dpo):
    """Conservative DPO: cross-entropy with labels of which a share, 0.1, is taken to be wrong."""

    loss: Selection = component("loss", "dpo", help=_LOSS, label_smoothing=0.1)


@attrs.frozen(kw_only=True)
class LdDpo(Dpo):
    """LD-DPO (2409.06411): tokens of the longer completion beyond the length of the shorter one count half."""

    loss: Selection = component("loss", "dpo", help=_LOSS, ld_alpha=0.5)


@attrs.frozen(kw_only=True)
class RobustDpo(Dpo):
    """Robust DPO (2403.00409): an unbiased loss where a share of the labels is wrong."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="robust", label_smoothing=0.1)


@attrs.frozen(kw_only=True)
class Ipo(Dpo):
    """IPO (2310.12036): the margin is drawn to 1/(2 beta) and no further, so that certain preferences do not overfit."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="ipo")


@attrs.frozen(kw_only=True)
class Exo(Dpo):
    """EXO (2402.00856): the reverse KL between the policy's and the labels' preference."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="exo_pair", label_smoothing=0.001)


@attrs.frozen(kw_only=True)
class Nca(Dpo):
    """NCA (2402.05369): noise-contrastive alignment; the likelihood of the chosen completion is held up as well. beta 0.01."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="nca_pair", beta=0.01)


@attrs.frozen(kw_only=True)
class Bco(Dpo):
    """BCO (2404.04656) on pairs: a classifier of good against bad completions, around the mean reward. beta 0.01."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="bco_pair", beta=0.01)


@attrs.frozen(kw_only=True)
class Sppo(Dpo):
    """SPPO (2405.00675) with hard labels: log-ratios are drawn to plus and minus 1/(2 beta); beta = 1/eta, 0.001."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="sppo_hard", beta=0.001)


@attrs.frozen(kw_only=True)
class ApoZero(Dpo):
    """APO-zero (2408.06266): chosen up and rejected down, for chosen completions better than the model's own."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="apo_zero")


@attrs.frozen(kw_only=True)
class ApoDown(Dpo):
    """APO-down (2408.06266): both down, rejected further, for a model better than its chosen completions."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="apo_down")


@attrs.frozen(kw_only=True)
class Discopop(Dpo):
    """DiscoPOP (2406.08414): a discovered blend of logistic and exponential loss. beta and tau 0.05."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="discopop", beta=0.05)


@attrs.frozen(kw_only=True)
class Aot(Dpo):
    """AOT (2406.05882): the distribution of the policy's margins is above that of the reference, quantile by quantile. beta 0.01."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="aot", beta=0.01)


@attrs.frozen(kw_only=True)
class AotUnpaired(Dpo):
    """AOT (2406.05882), unpaired: the distribution of chosen log-ratios is above that of rejected ones. beta 0.01."""

    loss: Selection = component("loss", "dpo", help=_LOSS, loss_type="aot_unpaired", beta=0.01)


@attrs.frozen(kw_only=True)
class Cpo(OfflineConfig):
    """CPO (2401.08417): DPO without a reference, and the likelihood of the chosen completion beside it."""

    loss: Selection = component("loss", "cpo", help=_LOSS)
    aggregation: Selection = component("aggregation", "prompt-mean", help=_MEAN)
    extra_losses: tuple[Selection, ...] = components(
        "loss", ({"name": "nll", "on": "chosen"},), weighted=True, help="the likelihood of the chosen completion"
    )


@attrs.frozen(kw_only=True)
class Simpo(OfflineConfig):
    """SimPO (2405.14734): average log-probabilities and a target margin; no reference."""

    loss: Selection = component("loss", "simpo", help=_LOSS)
    aggregation: Selection = component("aggregation", "prompt-mean", help=_MEAN)


@attrs.frozen(kw_only=True)
class Orpo(OfflineConfig):
    """ORPO (2403.07691): fine-tuning on the chosen completion with an odds-ratio penalty; no reference."""

    loss: Selection = component("loss", "orpo", help=_LOSS)
    aggregation: Selection = component("aggregation", "prompt-mean", help=_MEAN)
    extra_losses: tuple[Selection, ...] = components(
        "loss", ({"name": "nll", "on": "chosen"},), weighted=True, help="the likelihood of the chosen completion"
    )


@attrs.frozen(kw_only=True)
class Kto(OfflineConfig):
    """KTO (2402.01306): single completions marked good or bad, with the loss of prospect theory."""

    loss: Selection = component("loss", "kto", help=_LOSS)
    aggregation: Selection = component("aggregation", "seq-mean-token-mean", help="mean over rows")
