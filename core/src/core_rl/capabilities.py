"""Capabilities: what a component needs from the others, checked before any model is loaded.

A component names what it `needs` and what it `provides`. A need is met when any selected component provides it; what is marked
`every` in the table must come from each of its givers. A plugin may use names of its own between its own components.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.offline import OfflineConfig
from core_rl.data.records import ROW_KINDS
from core_rl.errors import CapabilityError

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.config.selection import Selection
    from core_rl.roles.rollout import SamplingParams


@attrs.frozen
class Capability:
    """What a name means, and the kinds of component that one looks to for it (none: the training loop gives it)."""

    help: str
    givers: tuple[str, ...]
    every: bool = False


_TRAIN, _ROLLOUT, _DATA = ("train_engine",), ("rollout_engine",), ("data",)

CAPABILITIES: dict[str, Capability] = {
    "rollout_logprobs": Capability("log-probability of every sampled token, from the engine that sampled it", _ROLLOUT),
    "processed_logprobs": Capability(
        "rollout log-probabilities are those of the processed distribution (temperature, top-p, top-k, penalties)", _ROLLOUT
    ),
    "old_logprobs": Capability("log-probabilities of the policy before the update", _TRAIN),
    "ref_logprobs": Capability("log-probabilities of a frozen reference policy", _TRAIN),
    "entropy": Capability("entropy of the policy at every token", _TRAIN),
    "entropy_grad": Capability("entropy that carries a gradient", _TRAIN),
    "values": Capability("a critic's value at every token", _TRAIN),
    "gathered_logprobs": Capability("log-probabilities of any given tokens in each token's place, with a gradient", _TRAIN),
    "topk_logprobs": Capability("the likeliest tokens in each token's place and their log-probabilities", _TRAIN),
    "teacher_logprobs": Capability("log-probabilities of a teacher: algorithm.teacher", ()),
    "scoring": Capability("log-probabilities of given tokens, from an engine that samples", _ROLLOUT),
    "advantages": Capability("advantages of tokens; the training loop always has them", ()),
    "greedy_rewards": Capability("the reward of a greedy completion of every prompt; the training loop samples it", ()),
    "several_samples": Capability("more than one sample of each prompt: algorithm.group_size of 2 or more", ()),
    "prompts": Capability("rows that are prompts", _DATA),
    "conversations": Capability("rows that are conversations or texts to imitate", _DATA),
    "pairs": Capability("rows that are pairs of a preferred and a rejected completion", _DATA),
    "labelled": Capability("rows that are completions marked good or bad", _DATA),
    "rewards": Capability("a reward of every sequence: at least one entry of `rewards`", ("reward",)),
    "group": Capability("the group (prompt) of every sequence; the training loop always gives it", ()),
    "shared_weights": Capability(
        "trainer and sampler read the same tensors in one process; weight_transport: shared_memory copies them",
        ("launcher", "train_engine", "rollout_engine"),
        every=True,
    ),
    "weights_disk": Capability("takes weights from a folder", _ROLLOUT),
    "weights_collective": Capability("its workers join a torch.distributed group to receive weights", _ROLLOUT),
    "weights_delta": Capability("applies changes to the weights that it has", _ROLLOUT),
    "lora": Capability("training of low-rank adapters", _TRAIN),
    "packing": Capability("training on packed sequences, without padding", _TRAIN),
    "distributed": Capability("one model on several workers", _TRAIN),
    "prefix_sharing": Capability("the prompt of a group is computed once in training", _TRAIN),
}
"""Every capability name of the core."""

LATE = frozenset({"old_logprobs", "ref_logprobs", "teacher_logprobs", "entropy", "values", "advantages"})
"""A rejection that needs one of these runs after the forward passes; `advantages` is there for every algorithm by then."""


@attrs.frozen
class _Need:
    who: str
    name: str


def check_capabilities(run_file: RunFile) -> None:
    """Compare the needs of everything that a resolved run file selects with what is provided.

    Raises:
        CapabilityError: one line for each need that is not met, naming who needs it and who does not give it.
    """
    from core_rl.plugins.selected import selected

    selections = list(selected(run_file))
    if isinstance(run_file.algorithm.options, OfflineConfig):  # nothing is sampled, so that no weights are sent
        selections = [(path, one) for path, one in selections if path != "weight_transport"]
    needs = [
        _Need(_titled(path, one), name) for path, one in selections if one.component for name in sorted(one.component.needs)
    ]
    needs += _needs_of_settings(run_file, selections)
    algorithm = run_file.algorithm.options
    unmet = (_unmet(need, selections) or _unmet_by_algorithm(need, algorithm) for need in needs)
    problems = [problem for problem in unmet if problem is not None]
    if problems:
        raise CapabilityError("\n".join(dict.fromkeys(problems)))


def _needs_of_settings(run_file: RunFile, selections: list[tuple[str, Selection]]) -> Iterator[_Need]:
    """What numbers in the run file ask for, beside the components."""
    workers = getattr(run_file.launcher.options, "workers", None) or 1
    if workers > 1:
        yield _Need(f"launcher: {run_file.launcher.name} with workers={workers}", "distributed")
    algorithm = run_file.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig):
        return
    yield _Need(f"algorithm: {run_file.algorithm.name}", "prompts")
    yield from _needs_of_algorithm(algorithm)
    proximal = algorithm.proximal
    readers = [_titled(path, one) for path, one in selections if one.component and "rollout_logprobs" in one.component.needs]
    if proximal in ("rollout", "loglinear"):
        readers.append(f"algorithm.proximal={proximal}")
    processing = _processing(run_file.sampling)
    if readers and processing:
        yield _Need(f"{readers[0]} with sampling.{processing}", "processed_logprobs")


def _needs_of_algorithm(algorithm: AlgorithmConfig) -> Iterator[_Need]:
    kl, entropy_coef, proximal = algorithm.kl, algorithm.entropy_coef, algorithm.proximal
    if kl.coef > 0:
        yield _Need(f"algorithm.kl.coef={kl.coef:g}", "ref_logprobs")
    if entropy_coef != 0 or algorithm.entropy_target is not None:
        yield _Need(f"algorithm.entropy_coef={entropy_coef:g}", "entropy_grad")
    if proximal in ("rollout", "loglinear"):
        yield _Need(f"algorithm.proximal={proximal}", "rollout_logprobs")
    if algorithm.critic is not None:
        yield _Need("algorithm.critic", "values")


def _unmet_by_algorithm(need: _Need, algorithm: Any) -> str | None:
    """Needs that the algorithm's own settings answer."""
    if need.name == "teacher_logprobs" and getattr(algorithm, "teacher", None) is None:
        return f"{need.who} needs a teacher, and algorithm.teacher is null: give `teacher: {{model: {{path: …}}}}`"
    if not isinstance(algorithm, AlgorithmConfig):
        return None
    if need.name == "values" and algorithm.critic is None:
        return f"{need.who} needs values, and algorithm.critic is null: give `critic: {{}}`, or an advantage without a critic"
    if need.name == "several_samples" and algorithm.group_size < 2:
        return f"{need.who} compares the samples of a prompt, and algorithm.group_size is 1: take at least 2"
    return None


def _processing(params: SamplingParams) -> str | None:
    """The first setting that makes the sampled distribution another than the model's own."""
    changes: dict[str, tuple[Any, Any]] = {
        "temperature": (params.temperature, 1.0),
        "top_p": (params.top_p, 1.0),
        "top_k": (params.top_k, None),
        "min_new_tokens": (params.min_new_tokens, 0),
        "frequency_penalty": (params.frequency_penalty, 0.0),
    }
    return next((f"{name}={value}" for name, (value, neutral) in changes.items() if value != neutral), None)


def _unmet(need: _Need, selections: list[tuple[str, Selection]]) -> str | None:
    capability = CAPABILITIES.get(need.name, Capability("", ()))
    if need.name in CAPABILITIES and not capability.givers:
        return None
    givers = [(path, one) for path, one in selections if one.kind in capability.givers]
    if capability.every:  # of the run's own, not of a critic's or a teacher's
        givers = [(path, one) for path, one in givers if path == one.kind]
    if need.name == "rewards":
        return None if givers else f"{need.who} needs rewards, and `rewards` is empty: name at least one"
    lacking = [(path, one) for path, one in givers if not _provides(one, need.name)]
    if (capability.every and not lacking) or (not capability.every and any(_provides(one, need.name) for _, one in selections)):
        return None
    if not lacking:
        return f"{need.who} needs {need.name}, and nothing that is selected provides it"
    blamed = " and ".join(f"{_titled(path, one)} does not provide it" for path, one in lacking)
    meaning = f" ({capability.help})" if capability.help else ""
    return f"{need.who} needs {need.name}{meaning}, and {blamed}"


def _provides(selection: Selection, name: str) -> bool:
    if selection.component is None:
        return False
    provides = selection.component.provides
    if selection.kind == "data" and name == "prompts":  # what a data set is that says nothing of its rows
        return provides.isdisjoint(ROW_KINDS) or name in provides
    return name in provides


def _titled(path: str, selection: Selection) -> str:
    return f"{path}: {selection.name}"
