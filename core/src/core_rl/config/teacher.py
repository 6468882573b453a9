"""What the losses of an algorithm ask of its teacher, and the mistakes one can make in choosing one. Torch-free.

A loss that compares distributions has `teacher_tokens(self) -> TeacherTokens` in its options class. The batch then holds the ids of
K tokens in each token's place, `gather_ids` [N, K] int64, and what the teacher says of them, `teacher_gathered` [N, K] float32; the
student's own log-probabilities of them come with the forward pass in progress as `gathered_logprobs` [N, K], with their gradient.
`teacher_logprobs` [N] of the sampled tokens are always there. One batch has one set of ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.offline import OfflineConfig
from core_rl.plugins.selected import selected

if TYPE_CHECKING:
    from core_rl.config.algorithm import TeacherConfig
    from core_rl.config.run_file import RunFile
    from core_rl.config.selection import Selection


@attrs.frozen(kw_only=True)
class TeacherTokens:
    """Of which tokens the teacher's log-probabilities are wanted, beside the sampled ones."""

    top_k: int | None
    """None: all that both vocabularies have."""
    ids_from: Literal["teacher", "student"] = "teacher"
    """Whose likeliest tokens they are. The student's are taken once, before the first optimizer step on a batch."""

    def __str__(self) -> str:
        return "the whole vocabulary" if self.top_k is None else f"the {self.top_k} likeliest tokens of the {self.ids_from}"


def asked(algorithm: AlgorithmConfig | OfflineConfig) -> list[tuple[str, TeacherTokens]]:
    """Every loss that asks, by its path in the run file."""
    losses = {"algorithm.loss": algorithm.loss, "algorithm.extra_losses": algorithm.extra_losses}
    found = [place for path, part in losses.items() for place in selected(part, path)]
    return [(path, one.options.teacher_tokens()) for path, one in found if hasattr(one.options, "teacher_tokens")]


def teacher_tokens(algorithm: AlgorithmConfig | OfflineConfig) -> TeacherTokens | None:
    """What all losses together ask for; None: nothing beside the sampled tokens."""
    return next((tokens for _, tokens in asked(algorithm)), None)


def problems(run_file: RunFile) -> Iterator[tuple[str, str]]:
    """(path, message) of every mistake that concerns the teacher. A loss without one is refused with the capabilities."""
    algorithm: Any = run_file.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig | OfflineConfig) or algorithm.teacher is None:
        return
    yield from _teacher(algorithm, algorithm.teacher)
    requests = asked(algorithm)
    for path, tokens in requests[1:]:
        first, other = requests[0]
        if tokens != other:
            yield path, f"this loss asks for {tokens}, and {first} for {other}: one batch has one set of ids, make them equal"
    for _, tokens in requests[:1]:
        yield from _engines(run_file, algorithm.teacher, tokens)


def _teacher(algorithm: AlgorithmConfig | OfflineConfig, teacher: TeacherConfig) -> Iterator[tuple[str, str]]:
    readers = [one for _, one in selected(algorithm) if one.component and "teacher_logprobs" in one.component.needs]
    if not readers:
        yield "algorithm.teacher", "nothing reads it: take a loss or an advantage that learns from a teacher, or leave it out"
    if teacher.model.path is None and (teacher.model.init != "random" or teacher.model.tokenizer is None):
        yield "algorithm.teacher.model", "which teacher? give `path`: a folder, a hub name, or the model folder of another run"
    if teacher.train_engine is not None and teacher.rollout_engine is not None:
        yield "algorithm.teacher", "one engine computes the teacher: give train_engine or rollout_engine, not both"
    if teacher.rollout_engine is not None and isinstance(algorithm, OfflineConfig):
        yield "algorithm.teacher.rollout_engine", "an offline run keeps no engine that samples: take a train_engine"
        return
    if teacher.rollout_engine is not None and not _scores(teacher.rollout_engine):
        yield "algorithm.teacher.rollout_engine", f"{teacher.rollout_engine.name} does not provide scoring: take a train_engine"


def _scores(rollout_engine: Selection) -> bool:
    return rollout_engine.component is None or "scoring" in rollout_engine.component.provides


def _engines(run_file: RunFile, teacher: TeacherConfig, tokens: TeacherTokens) -> Iterator[tuple[str, str]]:
    """Whether both engines can say what is asked for."""
    if teacher.rollout_engine is not None and (tokens.top_k is None or tokens.ids_from == "student"):
        message = f"an engine that samples scores its own likeliest tokens, and a loss asks for {tokens}: "
        yield "algorithm.teacher.rollout_engine", message + "set top_k and ids_from: teacher, or take a train_engine"
    own = teacher.train_engine or run_file.train_engine
    wanted: list[tuple[str, Selection, str]] = []
    if tokens.top_k is not None and tokens.ids_from == "student":
        wanted.append(("train_engine", run_file.train_engine, "topk_logprobs"))
    if teacher.rollout_engine is None:
        by_teacher = tokens.top_k is not None and tokens.ids_from == "teacher"
        wanted.append(("algorithm.teacher.train_engine", own, "topk_logprobs" if by_teacher else "gathered_logprobs"))
    for path, engine, capability in wanted:
        if engine.component is not None and capability not in engine.component.provides:
            yield path, f"{engine.name} does not provide {capability}, and a loss asks for {tokens}"
