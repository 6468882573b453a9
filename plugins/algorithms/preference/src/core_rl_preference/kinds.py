"""The losses of a pair, each as its paper has it.

P pairs. a and b are the log-ratios log pi/pi_ref of the chosen and the rejected completion, D = beta (a - b), e the label smoothing.
Every function maps (a [P], b [P], options) to the loss [P].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import logsigmoid, relu

if TYPE_CHECKING:
    from core_rl_preference.config import DpoConfig

Loss = Callable[[torch.Tensor, torch.Tensor, "DpoConfig"], torch.Tensor]

_BOUND = 20.0
"""Of an argument of exp; beyond it exp goes on along its tangent, so that nothing overflows and no gradient is lost."""


def smoothed(difference: torch.Tensor, smoothing: float) -> torch.Tensor:
    """-(1 - e) log sigmoid(D) - e log sigmoid(-D)  (cDPO)."""
    return -(1 - smoothing) * logsigmoid(difference) - smoothing * logsigmoid(-difference)


def sigmoid(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2305.18290, eq. 7; with smoothing cDPO."""
    return smoothed(options.beta * (a - b), options.label_smoothing)


def robust(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2403.00409, eq. 11: unbiased for labels that are wrong with probability e."""
    difference, e = options.beta * (a - b), options.label_smoothing
    return (-(1 - e) * logsigmoid(difference) + e * logsigmoid(-difference)) / (1 - 2 * e)


def hinge(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """SLiC, 2305.10425, on the log-ratios."""
    return relu(1 - options.beta * (a - b))


def ipo(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2310.12036, eq. 17; log-ratios of whole completions. TRL averages them over tokens (`length: mean`), OpenRLHF sums."""
    return (a - b - 1 / (2 * options.beta)).square()


def exo_pair(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2402.00856, eq. 16: KL of the policy's preference to the smoothed labels."""
    difference, e = options.beta * (a - b), options.label_smoothing
    log_win, log_lose = logsigmoid(difference), logsigmoid(-difference)
    return log_win.exp() * (log_win - math.log(1 - e)) + log_lose.exp() * (log_lose - math.log(e))


def nca_pair(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2402.05369, eq. 13."""
    a, b = options.beta * a, options.beta * b
    return -logsigmoid(a) - 0.5 * logsigmoid(-a) - 0.5 * logsigmoid(-b)


def bco_pair(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2404.04656; with `bco_shift` a and b come less the mean of all log-ratios of the batch (`core_rl_preference.dpo`)."""
    return -logsigmoid(options.beta * a) - logsigmoid(-options.beta * b)


def sppo_hard(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2405.00675, with probabilities 1 and 0 for the two sides."""
    return (a - 0.5 / options.beta).square() + (b + 0.5 / options.beta).square()


def apo_zero(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2408.06266, eq. 7."""
    return torch.sigmoid(-options.beta * a) + torch.sigmoid(options.beta * b)


def apo_down(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2408.06266, eq. 8."""
    return torch.sigmoid(options.beta * a) + torch.sigmoid(-options.beta * (a - b))


def discopop(a: torch.Tensor, b: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """2406.08414, the log-ratio modulated loss. g e^-D is one exponential: apart, they are 0 times infinity far below 0.

    It is not convex: at the reference (D = 0) its slope leads down to a shallow minimum at a negative D, where a run without noise stays.
    """
    difference = options.beta * (a - b)
    inner = difference / options.discopop_tau
    return -torch.sigmoid(-inner) * logsigmoid(difference) + tangent_exp(logsigmoid(inner) - difference)


KINDS: Mapping[str, Loss] = {
    "sigmoid": sigmoid,
    "robust": robust,
    "hinge": hinge,
    "ipo": ipo,
    "exo_pair": exo_pair,
    "nca_pair": nca_pair,
    "bco_pair": bco_pair,
    "sppo_hard": sppo_hard,
    "apo_zero": apo_zero,
    "apo_down": apo_down,
    "discopop": discopop,
}


def through_divergence(log_ratio: torch.Tensor, options: DpoConfig) -> torch.Tensor:
    """[P]: what a log-ratio u stands for under another divergence to the reference (f-DPO, 2309.16240): f'(e^u) up to a constant.

    reverse_kl u · forward_kl 1 - e^-u · js log 2 + log sigmoid(u) · alpha (e^((alpha-1) u) - 1) / (alpha - 1)
    """
    if options.f_divergence == "forward_kl":
        return 1 - tangent_exp(-log_ratio)
    if options.f_divergence == "js":
        return math.log(2) + logsigmoid(log_ratio)
    if options.f_divergence == "alpha":
        power = options.f_alpha - 1
        return (tangent_exp(power * log_ratio) - 1) / power
    return log_ratio


def tangent_exp(x: torch.Tensor) -> torch.Tensor:
    """exp(x), and beyond the bound its tangent there."""
    return x.clamp(max=_BOUND).exp() * (1 + relu(x - _BOUND))
