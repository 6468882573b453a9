"""The mistakes one can make in the run file of an offline algorithm: above all, settings that only sampling reads. Torch-free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from core_rl.config.offline import OfflineConfig
from core_rl.config.run_file import EvalSection, RunSection
from core_rl.config.selection import Selection
from core_rl.plugins.selected import selected
from core_rl.roles.rollout import SamplingParams

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile

LEARNABLE = ("conversations", "pairs", "labelled")
"""Kinds of rows that an offline algorithm learns from."""

_SAMPLERS = {"rollout_engine": "local", "weight_transport": "shared", "workflow": "single_turn"}
_OF_SAMPLING = {
    "run": ("log_samples_every", "reward_timeout_s", "on_reward_failure", "long_prompts"),
    "eval": ("n", "sampling"),
}


def problems(run_file: RunFile) -> Iterator[tuple[str, str]]:
    """(path, message) of every mistake in a run file whose algorithm is offline; nothing for another."""
    options = run_file.algorithm.options
    if not isinstance(options, OfflineConfig):
        return
    for path in _unread(run_file):
        yield (
            path,
            f"nothing is sampled by {run_file.algorithm.name}, an offline algorithm, so that nothing reads this: leave it out",
        )
    yield from _rows(run_file, options)
    yield from _losses(options)


def heads_of(options: OfflineConfig) -> set[str]:
    """What its losses read of the model: `values` where they need them, else `logprobs`."""
    losses = (options.loss, *options.extra_losses)
    return {"values" if one.component and "values" in one.component.needs else "logprobs" for one in losses}


def needs_reference(options: OfflineConfig) -> bool:
    parts = (one for _, one in selected((options.loss, options.extra_losses)))
    return any(one.component is not None and "ref_logprobs" in one.component.needs for one in parts)


def _unread(run_file: RunFile) -> Iterator[str]:
    """What differs from the default: a resolved run file has all of it written out, and is read again."""
    if run_file.rewards:
        yield "rewards"
    if run_file.sampling != SamplingParams():
        yield "sampling"
    for path, default in _SAMPLERS.items():
        if not _is_default(getattr(run_file, path), default):
            yield path
    sections = {"run": (run_file.run, RunSection()), "eval": (run_file.eval, EvalSection())}
    for section, (given, default_section) in sections.items():
        for name in _OF_SAMPLING[section]:
            if getattr(given, name) != getattr(default_section, name):
                yield f"{section}.{name}"


def _is_default(selection: Selection, name: str) -> bool:
    options = selection.options
    return selection.name == name and (not options or (attrs.has(type(options)) and options == type(options)()))


def _rows(run_file: RunFile, options: OfflineConfig) -> Iterator[tuple[str, str]]:
    kinds = {}
    for path, data in (("data", run_file.data), ("eval_data", run_file.eval_data)):
        if data is None or data.component is None:  # module:Object says nothing of its rows
            continue
        found = [kind for kind in LEARNABLE if kind in data.component.provides]
        if not found:
            message = f"{data.name} gives prompts, and {run_file.algorithm.name} learns from rows of {', '.join(LEARNABLE)}"
            yield path, f"{message}: take conversations or pairs"
            continue
        kinds[path] = found[0]
    if len(set(kinds.values())) == 2:
        yield "eval_data", f"its rows are {kinds['eval_data']}, and those of data are {kinds['data']}: both must be of one kind"
    if options.encoding.train_on != "assistant" and kinds.get("data", "conversations") != "conversations":
        yield (
            "algorithm.encoding.train_on",
            f"only conversations read this, and the rows of data are {kinds['data']}: leave it out",
        )


def _losses(options: OfflineConfig) -> Iterator[tuple[str, str]]:
    if len(heads_of(options)) > 1:
        message = "one loss reads values and another log-probabilities, and a row has tokens to learn for the one or the other"
        yield "algorithm.extra_losses", f"{message}: take losses of one sort"
    if options.reference == "precomputed" and not needs_reference(options):
        yield "algorithm.reference", "no loss reads log-probabilities of a reference, so nothing is computed: leave it out"
