"""A plugin module: a registration hook of every kind, lifecycle hooks with all, some and none of their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from core_rl import Component, hookimpl
from core_rl.config.run_file import RunFile
from core_rl.errors import Problem
from core_rl.roles.parts import RunInfo


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [Component(name="mine", target="mine.config:Mine", config="mine.config:Mine", paper="1707.06347")]


@hookimpl
def core_rl_losses() -> Iterable[Component]:
    yield Component(name="mine", target="mine.loss:Loss", config="mine.config:LossConfig", needs={"rollout_logprobs"})


@hookimpl
def core_rl_advantages() -> tuple[Component, ...]:
    return (Component(name="mine", target="mine.advantage:Advantage", needs=["rewards", "group"]),)


@hookimpl
def core_rl_normalisers() -> Iterator[Component]:
    yield Component(name="mine", target="mine.normaliser:Normaliser")


@hookimpl
def core_rl_aggregations() -> list[Component]:
    return [Component(name="mine", target="mine.aggregation:Aggregation", summary="a sum", formula="sum_t l_t")]


@hookimpl
def core_rl_kl_estimators() -> list[Component]:
    return [Component(name="mine", target="mine.kl:Estimator")]


@hookimpl
def core_rl_rejections() -> list[Component]:
    return [Component(name="mine", target="mine.rejection:Rejection", needs=frozenset({"old_logprobs"}))]


@hookimpl
def core_rl_resamplers() -> list[Component]:
    return [Component(name="mine", target="mine.resampler:Resampler")]


@hookimpl
def core_rl_rewards() -> list[Component]:
    return [Component(name="mine", target="mine.reward:Reward")]


@hookimpl
def core_rl_train_engines() -> list[Component]:
    return [Component(name="mine", target="mine.train:Engine", provides={"old_logprobs", "ref_logprobs"})]


@hookimpl
def core_rl_rollout_engines() -> list[Component]:
    return [Component(name="mine", target="mine.rollout:Engine", provides=("rollout_logprobs",))]


@hookimpl
def core_rl_weight_transports() -> list[Component]:
    return [Component(name="mine", target="mine.transport:Transport")]


@hookimpl
def core_rl_launchers() -> list[Component]:
    return [Component(name="mine", target="mine.launcher:Launcher")]


@hookimpl
def core_rl_data() -> list[Component]:
    return [Component(name="mine", target="mine.data:Data", provides={"prompts"})]


@hookimpl
def core_rl_workflows() -> list[Component]:
    return [Component(name="mine", target="mine.workflow:Workflow")]


@hookimpl
def core_rl_loggers() -> Sequence[Component]:
    return [Component(name="mine", target="mine.logger:Logger")]


@hookimpl
def core_rl_config_importers() -> list[Component]:
    return [Component(name="mine", target="mine.importer:Importer")]


@hookimpl
def core_rl_check_config(config: RunFile) -> list[Problem]:
    return [Problem("", "run.steps", "too many")] if config.run.steps > 10 else []


@hookimpl
def core_rl_run_start(run: RunInfo) -> None:
    print(run.name, run.dir / "notes.txt", run.total_steps)


@hookimpl
def core_rl_step_end(step: int) -> None:
    print(step)


@hookimpl
def core_rl_should_stop(metrics: Mapping[str, float]) -> str | None:
    return "it is good enough" if metrics["reward/mean"] > 0.9 else None


@hookimpl
def core_rl_run_end(status: Literal["done", "failed", "interrupted"]) -> None:
    print(status)


@hookimpl
def core_rl_describe() -> dict[str, Any]:
    return {"version": "1.0"}


@hookimpl
def core_rl_add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands.add_parser("mine", help="of mine").set_defaults(run=lambda _: 0)


@hookimpl(specname="core_rl_run_start")
def remember(run: RunInfo) -> None:
    """Another name, and the hook's in the mark."""
    print(run.resumed_from)
