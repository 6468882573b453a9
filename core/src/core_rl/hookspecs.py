"""Every hook of core-rl. A plugin module implements the ones it wants, marked `@core_rl.hookimpl`.

Registration hooks are called once, when plugins are listed; they return components and import nothing heavy.
Lifecycle hooks are called by a run, on every plugin that has them. No hook transforms data: order lives in YAML lists, so that
results never depend on what else is installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from core_rl.component import Component, hookspec

if TYPE_CHECKING:
    import argparse

    from core_rl.config.run_file import RunFile
    from core_rl.errors import Problem
    from core_rl.roles.parts import RunInfo


@hookspec
def core_rl_algorithms() -> Iterable[Component]:
    """Algorithms: `config` names a subclass of `core_rl.config.algorithm.AlgorithmConfig` (online) or of
    `core_rl.config.offline.OfflineConfig`, and `target` is the same class.
    """
    raise NotImplementedError


@hookspec
def core_rl_losses() -> Iterable[Component]:
    """Losses, of a policy or of an offline algorithm: `core_rl.roles.scoring.Loss`."""
    raise NotImplementedError


@hookspec
def core_rl_advantages() -> Iterable[Component]:
    """Advantage estimators: `core_rl.roles.scoring.Advantage`."""
    raise NotImplementedError


@hookspec
def core_rl_normalisers() -> Iterable[Component]:
    """Ways to centre and scale rewards or advantages: `core_rl.roles.scoring.Normaliser`."""
    raise NotImplementedError


@hookspec
def core_rl_aggregations() -> Iterable[Component]:
    """Ways from per-token losses to one number: `core_rl.roles.train.Aggregation`."""
    raise NotImplementedError


@hookspec
def core_rl_kl_estimators() -> Iterable[Component]:
    """Estimators of a KL divergence from sampled tokens: `core_rl.roles.scoring.KlEstimator`."""
    raise NotImplementedError


@hookspec
def core_rl_rejections() -> Iterable[Component]:
    """Filters and weights on tokens and sequences: `core_rl.roles.scoring.Rejection`."""
    raise NotImplementedError


@hookspec
def core_rl_resamplers() -> Iterable[Component]:
    """Draws of the sequences to train on from those sampled: `core_rl.roles.scoring.Resampler`."""
    raise NotImplementedError


@hookspec
def core_rl_rewards() -> Iterable[Component]:
    """Rewards: `core_rl.roles.scoring.Reward`."""
    raise NotImplementedError


@hookspec
def core_rl_train_engines() -> Iterable[Component]:
    """Train engines: `core_rl.roles.train.TrainEngine`."""
    raise NotImplementedError


@hookspec
def core_rl_rollout_engines() -> Iterable[Component]:
    """Rollout engines: `core_rl.roles.rollout.RolloutEngine`."""
    raise NotImplementedError


@hookspec
def core_rl_weight_transports() -> Iterable[Component]:
    """Ways for new weights to reach a rollout engine: `core_rl.roles.parts.WeightTransport`."""
    raise NotImplementedError


@hookspec
def core_rl_launchers() -> Iterable[Component]:
    """Places where engines run: `core_rl.roles.parts.Launcher`."""
    raise NotImplementedError


@hookspec
def core_rl_data() -> Iterable[Component]:
    """Sources of prompts, conversations, pairs or labelled completions: `core_rl.roles.parts.Data`."""
    raise NotImplementedError


@hookspec
def core_rl_workflows() -> Iterable[Component]:
    """Ways from a prompt to samples: `core_rl.roles.parts.Workflow`."""
    raise NotImplementedError


@hookspec
def core_rl_loggers() -> Iterable[Component]:
    """Places for metrics: `core_rl.roles.parts.Logger`."""
    raise NotImplementedError


@hookspec
def core_rl_config_importers() -> Iterable[Component]:
    """Readers of other systems' configuration files: `core_rl.roles.parts.ConfigImporter`."""
    raise NotImplementedError


@hookspec
def core_rl_check_config(config: RunFile) -> Iterable[Problem]:
    """Further mistakes in a run file whose types are right, before anything is loaded."""
    raise NotImplementedError


@hookspec
def core_rl_run_start(run: RunInfo) -> None:
    """A run begins: its folder stands and its engines are ready."""
    raise NotImplementedError


@hookspec
def core_rl_step_end(step: int, metrics: Mapping[str, float]) -> None:
    """A step is done and logged."""
    raise NotImplementedError


@hookspec(firstresult=True)
def core_rl_should_stop(step: int, metrics: Mapping[str, float]) -> str | None:
    """A reason to end the run after this step, or None."""
    raise NotImplementedError


@hookspec
def core_rl_run_end(run: RunInfo, status: Literal["done", "failed", "interrupted"]) -> None:
    """A run has ended; called once, also after a failure."""
    raise NotImplementedError


@hookspec
def core_rl_describe() -> Mapping[str, Any]:
    """Facts of this plugin for `core-rl doctor` and the manifest: versions of backends, devices. Must be quick."""
    raise NotImplementedError


@hookspec
def core_rl_add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add subcommands to `core-rl`. A command's parser sets `run` to a function of the parsed arguments that returns an exit code."""
    raise NotImplementedError
