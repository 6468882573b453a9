"""The components that the core itself brings: the plainest one of each kind around the engines."""

from __future__ import annotations

from collections.abc import Iterable

from core_rl.component import Component, hookimpl


@hookimpl
def core_rl_loggers() -> Iterable[Component]:
    return [
        Component(
            name="console",
            target="core_rl.builtin.console:Console",
            config="core_rl.builtin.config:ConsoleConfig",
            summary="a live panel on a terminal, one line for each step elsewhere",
        ),
        Component(
            name="jsonl",
            target="core_rl.builtin.jsonl:Jsonl",
            config="core_rl.builtin.config:JsonlConfig",
            summary="metrics.jsonl and samples/*.jsonl in the run's folder",
        ),
    ]


@hookimpl
def core_rl_workflows() -> Iterable[Component]:
    return [
        Component(
            name="single_turn",
            target="core_rl.builtin.single_turn:SingleTurn",
            config="core_rl.builtin.config:SingleTurnConfig",
            summary="one prompt, one completion",
        )
    ]


@hookimpl
def core_rl_launchers() -> Iterable[Component]:
    return [
        Component(
            name="inline",
            target="core_rl.builtin.inline:Inline",
            summary="every engine in this process",
            provides=frozenset({"shared_weights"}),
        ),
        Component(
            name="local",
            target="core_rl.builtin.local:LocalLauncher",
            config="core_rl.builtin.config:LocalLauncherConfig",
            summary="train engines in worker processes of this machine, one for each GPU",
        ),
    ]


@hookimpl
def core_rl_weight_transports() -> Iterable[Component]:
    return [
        Component(
            name="shared",
            target="core_rl.builtin.shared:Shared",
            summary="trainer and sampler read the same tensors: nothing is copied",
            needs=frozenset({"shared_weights"}),
        ),
        Component(
            name="shared_memory",
            target="core_rl.builtin.shared_memory:SharedMemory",
            config="core_rl.builtin.config:SharedMemoryConfig",
            summary="weights are copied through this machine's memory, some tensors at a time",
        ),
        Component(
            name="disk",
            target="core_rl.builtin.disk:Disk",
            config="core_rl.builtin.config:DiskConfig",
            summary="the trainer writes a Hugging Face folder, and the sampler reads it",
            needs=frozenset({"weights_disk"}),
        ),
        Component(
            name="collective",
            target="core_rl.builtin.collective:Collective",
            config="core_rl.builtin.config:CollectiveConfig",
            summary="a group of the trainer and every worker of the sampler, over gloo or nccl",
            needs=frozenset({"weights_collective"}),
        ),
        Component(
            name="delta",
            target="core_rl.builtin.delta:Delta",
            config="core_rl.builtin.config:DeltaConfig",
            summary="only what changed since the last update, with a checksum of every weight",
            needs=frozenset({"weights_delta"}),
        ),
    ]


@hookimpl
def core_rl_aggregations() -> Iterable[Component]:
    return [
        Component(
            name=name,
            target=f"core_rl.builtin.aggregations:{name.replace('-', '_')}",
            config=config and f"core_rl.builtin.config:{config}",
            summary=summary,
            formula=formula,
            paper=paper,
        )
        for name, config, summary, formula, paper in _AGGREGATIONS
    ]


_AGGREGATIONS = (
    ("token-mean", None, "mean over all tokens of the batch", "loss = sum_it l_it / sum_i L_i", "2503.14476"),
    ("token-sum", None, "sum over all tokens", "loss = sum_it l_it", ""),
    (
        "seq-mean-token-mean",
        None,
        "mean over the tokens of a sequence, then over sequences",
        "loss = 1/B sum_i (1/L_i sum_t l_it)",
        "2402.03300",
    ),
    ("seq-mean-token-sum", None, "sum over a sequence, mean over sequences", "loss = 1/B sum_i sum_t l_it", ""),
    (
        "seq-mean-token-sum-norm",
        "ScaleLengthConfig",
        "sum over a sequence by a constant length, mean over sequences",
        "",
        "2503.20783",
    ),
    (
        "prompt-mean",
        None,
        "mean over the tokens of a prompt's samples, then over prompts",
        "loss = 1/P sum_p (sum_(i in p, t) l_it / sum_(i in p) L_i)",
        "",
    ),
    (
        "token-mean-local",
        "LocalMeanConfig",
        "mean over tokens within parts of a fixed number of sequences, then over parts",
        "",
        "",
    ),
)


@hookimpl
def core_rl_kl_estimators() -> Iterable[Component]:
    return [
        Component(
            name=name,
            target=f"core_rl.builtin.kl_estimators:{target}",
            config="core_rl.builtin.config:KlEstimatorConfig",
            summary=summary,
            formula=formula,
        )
        for name, target, summary, formula in (
            ("k1", "k1", "the log-ratio: unbiased, for the reward", "d = log pi - log pi_ref"),
            ("abs", "abs_", "the absolute log-ratio", "|d|, d = log pi - log pi_ref"),
            ("k2", "k2", "half the squared log-ratio: its gradient is that of the true KL", "d^2 / 2, d = log pi - log pi_ref"),
            ("k3", "k3", "unbiased and never negative", "e^-d + d - 1, d = log pi - log pi_ref"),
            ("k1+", "k1_plus", "the value of k1 with the gradient of k2", "sg(d) + d^2/2 - sg(d^2/2), d = log pi - log pi_ref"),
            (
                "k3+",
                "k3_plus",
                "the value of k3 with the gradient of k2",
                "sg(e^-d + d - 1) + d^2/2 - sg(d^2/2), d = log pi - log pi_ref",
            ),
        )
    ]


@hookimpl
def core_rl_normalisers() -> Iterable[Component]:
    return [
        Component(
            name="whiten",
            target="core_rl.builtin.normalisers:Whiten",
            config="core_rl.builtin.config:WhitenConfig",
            summary="mean 0 and variance 1 over the batch",
        ),
        Component(
            name="moments",
            target="core_rl.builtin.normalisers:Moments",
            config="core_rl.builtin.config:MomentsConfig",
            summary="mean and standard deviation over the group, the batch, or left out",
        ),
    ]
