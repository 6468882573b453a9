"""Registers preference losses (`dpo`, `cpo`, `simpo`, `orpo`, `kto`) and the algorithms that are named after their variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem

_PAIRS = frozenset({"pairs"})

_ALGORITHMS = (
    ("dpo", "Dpo", "log-ratios to a reference, compared by a logistic", "2305.18290"),
    ("cdpo", "Cdpo", "DPO with smoothed labels", "2305.18290"),
    ("ld_dpo", "LdDpo", "DPO that does not reward length", "2409.06411"),
    ("robust_dpo", "RobustDpo", "DPO for labels of which a share is wrong", "2403.00409"),
    ("ipo", "Ipo", "DPO whose margin is drawn to 1/(2 beta)", "2310.12036"),
    ("exo", "Exo", "the reverse KL between the policy's and the labels' preference", "2402.00856"),
    ("nca", "Nca", "noise-contrastive alignment", "2402.05369"),
    ("bco", "Bco", "a classifier of good against bad completions, on pairs", "2404.04656"),
    ("sppo", "Sppo", "log-ratios drawn to plus and minus 1/(2 beta)", "2405.00675"),
    ("apo_zero", "ApoZero", "chosen up and rejected down", "2408.06266"),
    ("apo_down", "ApoDown", "both down, rejected further", "2408.06266"),
    ("discopop", "Discopop", "a discovered blend of logistic and exponential loss", "2406.08414"),
    ("aot", "Aot", "margins above the reference's, quantile by quantile", "2406.05882"),
    ("aot_unpaired", "AotUnpaired", "chosen log-ratios above rejected ones, quantile by quantile", "2406.05882"),
    ("cpo", "Cpo", "DPO without a reference, and the likelihood of the chosen completion", "2401.08417"),
    ("simpo", "Simpo", "average log-probabilities and a target margin; no reference", "2405.14734"),
    ("orpo", "Orpo", "fine-tuning with an odds-ratio penalty; no reference", "2403.07691"),
    ("kto", "Kto", "single completions marked good or bad", "2402.01306"),
)
_REFERENCE = frozenset({"ref_logprobs"})
_LOSSES = (
    ("dpo", "dpo:Dpo", "DpoConfig", "DPO and its variants on pairs", _PAIRS | _REFERENCE, "2305.18290"),
    ("cpo", "cpo:Cpo", "CpoConfig", "DPO without a reference, on pairs", _PAIRS, "2401.08417"),
    ("simpo", "simpo:Simpo", "SimpoConfig", "average log-probabilities with a margin, on pairs", _PAIRS, "2405.14734"),
    ("orpo", "orpo:Orpo", "OrpoConfig", "the odds ratio of a pair", _PAIRS, "2403.07691"),
    ("kto", "kto:Kto", "KtoConfig", "good and bad rows apart", frozenset({"labelled"}) | _REFERENCE, "2402.01306"),
)


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name=name,
            target=f"core_rl_preference.algorithms:{cls}",
            config=f"core_rl_preference.algorithms:{cls}",
            summary=summary,
            needs=frozenset({"labelled"}) if name == "kto" else _PAIRS,
            paper=paper,
        )
        for name, cls, summary, paper in _ALGORITHMS
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name=name,
            target=f"core_rl_preference.{target}",
            config=f"core_rl_preference.config:{config}",
            summary=summary,
            needs=needs,
            paper=paper,
        )
        for name, target, config, summary, needs, paper in _LOSSES
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_preference.checks import check

    return check(config)
