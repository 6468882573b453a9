"""Mistakes that only several keys together make, in a run file whose types are right. Plugins add theirs by a hook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from core_rl.capabilities import LATE
from core_rl.config import offline_checks, teacher
from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.run_file import RunFile
from core_rl.config.tree import Origin
from core_rl.errors import Problem
from core_rl.roles.rollout import SamplingParams

if TYPE_CHECKING:
    import pluggy


def check(run_file: RunFile, origins: Mapping[str, Origin], manager: pluggy.PluginManager) -> list[Problem]:
    """Every further mistake, at the place of the key that it speaks of."""
    found = [Problem("", path, message) for path, message in _core(run_file)]
    for result in manager.hook.core_rl_check_config(config=run_file):
        found.extend(result or ())
    return [problem if problem.where else attrs.evolve(problem, where=_place(problem.path, origins)) for problem in found]


def _place(path: str, origins: Mapping[str, Origin]) -> str:
    """Where the key stands, or the nearest section around it that stands in a file."""
    while path and path not in origins:
        path = path.rpartition(".")[0]
    return origins[path].where


def _core(run_file: RunFile) -> Iterator[tuple[str, str]]:
    yield from _model(run_file)
    yield from teacher.problems(run_file)
    yield from offline_checks.problems(run_file)
    options = run_file.algorithm.options
    if not isinstance(options, AlgorithmConfig):
        return
    yield from _lengths("sampling", run_file.sampling, run_file.model.max_length)
    held_out = run_file.eval.sampling.over(run_file.sampling)
    if attrs.evolve(held_out, temperature=run_file.sampling.temperature) != run_file.sampling:
        yield from _lengths("eval.sampling", held_out, run_file.model.max_length if run_file.eval.every else None)
    yield from _algorithm(options, run_file.run.prompts_per_step)


def _model(run_file: RunFile) -> Iterable[tuple[str, str]]:
    model = run_file.model
    if model.path is not None:
        return
    if model.init != "random":
        yield "model", "which model? give `path`, or `init: random` with `config: {model_type: llama, …}`"
        return
    if "model_type" not in model.config:
        yield "model.config", "a model without `path` needs `model_type` here, such as llama"
    if model.tokenizer is None:
        yield "model", "a model without `path` needs `tokenizer`: a folder, a hub name, or characters:0123456789"


def _lengths(path: str, params: SamplingParams, max_length: int | None) -> Iterable[tuple[str, str]]:
    if params.min_new_tokens > params.max_new_tokens:
        yield f"{path}.min_new_tokens", f"{params.min_new_tokens} is more than max_new_tokens, {params.max_new_tokens}"
    if max_length is not None and params.max_new_tokens >= max_length:
        yield f"{path}.max_new_tokens", f"{params.max_new_tokens} leaves no room for a prompt in model.max_length, {max_length}"


def _algorithm(options: AlgorithmConfig, prompts_per_step: int) -> Iterable[tuple[str, str]]:
    if options.minibatches > prompts_per_step:
        message = f"{options.minibatches} is more than run.prompts_per_step, {prompts_per_step}, and groups stay whole"
        yield "algorithm.minibatches", message
    kl = options.kl
    if kl.reset_every is not None and kl.coef == 0:
        yield "algorithm.kl.reset_every", "nothing reads this while kl.coef is 0, since no reference is kept: leave it out"
    if kl.target is not None and kl.coef == 0:
        yield "algorithm.kl.target", "0 stays 0 however it is steered: give kl.coef a start above 0, or leave target out"
    if kl.unbiased and kl.place != "loss":
        yield "algorithm.kl.unbiased", f"the ratio has no gradient in the {kl.place}: only place loss reads this, leave it out"
    yield from _refill(options)
    yield from _critic(options)
    yield from _proximal(options)


def _refill(options: AlgorithmConfig) -> Iterable[tuple[str, str]]:
    early = [one for one in options.rejections if one.component is None or not one.component.needs & LATE]
    if options.refill is not None and not early:
        message = (
            "nothing empties a group before the forward passes, so that nothing is ever sampled again: name a rejection such as "
            "zero_variance in algorithm.rejections, or set refill: null"
        )
        yield "algorithm.refill", message


def _critic(options: AlgorithmConfig) -> Iterable[tuple[str, str]]:
    critic = options.critic
    if critic is None:
        return
    if critic.shared and (critic.model is not None or critic.train_engine is not None):
        what = "model" if critic.model is not None else "train_engine"
        yield f"algorithm.critic.{what}", "a shared critic is a head on the policy: leave this out, or set shared: false"
    if critic.shared and critic.warmup_steps:
        yield "algorithm.critic.warmup_steps", "a shared critic learns with the policy: set shared: false, or leave this out"
    readers = (options.advantage, options.loss, *options.extra_losses, *options.rejections)
    if not any(one.component and "values" in one.component.needs for one in readers):
        yield "algorithm.critic", f"nothing reads its values: advantage {options.advantage.name} needs none, so leave it out"


def _proximal(options: AlgorithmConfig) -> Iterable[tuple[str, str]]:
    early = options.proximal in ("reuse", "loglinear")
    if not early:
        return
    parts = {"loss": options.loss, "advantage": options.advantage, "resampler": options.resampler}
    parts |= {f"rejections[{index}]": one for index, one in enumerate(options.rejections)}
    for key, one in parts.items():
        if one is not None and one.component and "old_logprobs" in one.component.needs:
            message = f"{options.proximal} knows old log-probabilities only in training, and {key} {one.name} needs them before"
            yield "algorithm.proximal", f"{message}: take recompute"
    if options.kl.coef > 0 and options.kl.place != "loss":
        message = f"{options.proximal} knows old log-probabilities only in training, and kl.place {options.kl.place} needs them before"
        yield "algorithm.proximal", f"{message}: take recompute"
    if options.proximal == "reuse" and options.epochs * options.minibatches > 1:
        message = (
            "reuse is exact only when a batch is one optimizer step; with more, the ratio would always be 1: take recompute"
        )
        yield "algorithm.proximal", message
