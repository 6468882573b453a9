"""Registers the rejections, filters and weights chained in the order of `algorithm.rejections`, and the loss `opsm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl import Component, hookimpl

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem

_OFF_POLICY = frozenset({"old_logprobs", "rollout_logprobs"})
_REWARDS = frozenset({"rewards", "group"})


@hookimpl
def core_rl_rejections() -> list[Component]:
    return [
        Component(
            name=name,
            target=f"core_rl_rejections.{target}",
            config=f"core_rl_rejections.config:{config}",
            summary=summary,
            needs=needs,
            paper=paper,
        )
        for name, target, config, summary, needs, paper in _TABLE
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="opsm",
            target="core_rl_rejections.opsm:OpsmLoss",
            config="core_rl_rejections.config:OpsmLossConfig",
            summary="another loss, without bad sequences that the policy itself would not write",
            needs=frozenset({"rollout_logprobs"}),
            formula="l = 0 for a sequence with A < 0 and mean(log mu - log pi) > delta, else l of another loss",
            paper="2512.02556",
        )
    ]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    from core_rl_rejections.checks import check

    return check(config)


_TABLE = (
    (
        "zero_variance",
        "zero_variance:ZeroVariance",
        "ZeroVarianceConfig",
        "leave out groups whose rewards are all equal",
        _REWARDS,
        "2503.14476",
    ),
    (
        "ratio_band",
        "ratio_band:RatioBand",
        "RatioBandConfig",
        "keep tokens or sequences that trainer and sampler agree on",
        _OFF_POLICY,
        "2505.24298",
    ),
    ("tis", "weights:Tis", "TisConfig", "truncated importance weights", _OFF_POLICY, ""),
    ("mis", "weights:Mis", "MisConfig", "importance weights of sequences, 0 outside of a band", _OFF_POLICY, ""),
    (
        "icepop",
        "weights:Icepop",
        "IcepopConfig",
        "importance weights of tokens, 0 outside of a band",
        _OFF_POLICY,
        "2510.18855",
    ),
    (
        "seq_mask_tis",
        "weights:SeqMaskTis",
        "SeqMaskTisConfig",
        "sequences whose geometric ratio is near 1, with token weights",
        _OFF_POLICY,
        "",
    ),
    (
        "outlier_veto",
        "outlier_veto:OutlierVeto",
        "OutlierVetoConfig",
        "one token far off takes its whole sequence out",
        _OFF_POLICY,
        "",
    ),
    (
        "opsm",
        "opsm:Opsm",
        "OpsmConfig",
        "hold back bad sequences that the policy itself would not write",
        _OFF_POLICY | {"advantages"},
        "2512.02556",
    ),
    (
        "truncated",
        "truncated:Truncated",
        "TruncatedConfig",
        "leave out completions that were cut at the limit",
        frozenset[str](),
        "2503.14476",
    ),
    (
        "shared_prefix",
        "shared_prefix:SharedPrefix",
        "SharedPrefixConfig",
        "leave out what samples of different rewards begin with alike",
        _REWARDS,
        "",
    ),
    (
        "high_entropy",
        "high_entropy:HighEntropy",
        "HighEntropyConfig",
        "learn from the tokens where the policy was least sure",
        frozenset({"entropy"}),
        "2506.01939",
    ),
    ("accept_if", "accept_if:AcceptIf", "AcceptIfConfig", "a function of your own says which sequences stay", _REWARDS, ""),
)
