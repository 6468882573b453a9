"""The teacher of a distillation: a frozen model that says how likely it finds what the student wrote, or might have written.

N tokens of a batch, K tokens in each token's place (`core_rl.config.teacher`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.config.teacher import teacher_tokens
from core_rl.errors import ModelError, RunError
from core_rl.hf.load import load_config
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.loops.engines import train_engine
from core_rl.loops.teacher_scorers import InRolloutEngine, InTrainEngine
from core_rl.roles.rollout import RolloutContext
from core_rl.roles.train import TrainContext

if TYPE_CHECKING:
    from core_rl.config.algorithm import AlgorithmConfig, TeacherConfig
    from core_rl.config.offline import OfflineConfig
    from core_rl.config.run_file import RunFile
    from core_rl.config.teacher import TeacherTokens
    from core_rl.data.batch import PackedBatch
    from core_rl.hf.spec import ModelSpec
    from core_rl.loops.teacher_scorers import Scorer
    from core_rl.roles.parts import Launcher
    from core_rl.roles.train import TrainEngine


@attrs.frozen(kw_only=True)
class Teacher:
    """`annotate` adds `teacher_logprobs` [N] of the sampled tokens; and, where a loss asks, `gather_ids` and `teacher_gathered` [N, K]."""

    scorer: Scorer
    tokens: TeacherTokens | None
    vocabulary: int
    """Ids that student and teacher both have: models of one family pad their tables differently."""

    def setup(self) -> None:
        self.scorer.setup()

    async def start(self) -> None:
        await self.scorer.start()

    async def annotate(self, batch: PackedBatch, student: TrainEngine) -> PackedBatch:
        tokens = self.tokens
        if tokens is not None and tokens.top_k is not None and tokens.ids_from == "teacher":
            found = await self.scorer.score(batch, top_k=tokens.top_k)
            return batch.with_tokens(
                teacher_logprobs=found["logprobs"],
                gather_ids=self._checked(found["topk_ids"]),
                teacher_gathered=found["topk_logprobs"],
            )
        if tokens is not None:
            batch = batch.with_tokens(gather_ids=self._ids_for(batch, student, tokens))
        found = await self.scorer.score(batch)
        gathered = {} if tokens is None else {"teacher_gathered": found["gathered_logprobs"]}
        return batch.with_tokens(teacher_logprobs=found["logprobs"], **gathered)

    def _ids_for(self, batch: PackedBatch, student: TrainEngine, tokens: TeacherTokens) -> torch.Tensor:
        if tokens.top_k is None:
            return torch.arange(self.vocabulary).expand(batch.num_tokens, -1)
        return self._checked(student.forward(batch, (), top_k=tokens.top_k)["topk_ids"])

    def _checked(self, ids: torch.Tensor) -> torch.Tensor:
        largest = int(ids.max()) if ids.numel() else 0
        if largest >= self.vocabulary:
            message = (
                f"algorithm.teacher: one of the likeliest tokens is {largest}, and student and teacher share {self.vocabulary} ids: "
                "take a smaller top_k"
            )
            raise RunError(message)
        return ids

    async def stop(self) -> None:
        await self.scorer.stop()

    def close(self) -> None:
        self.scorer.close()


def make_teacher(
    file: RunFile, algorithm: AlgorithmConfig | OfflineConfig, teacher: TeacherConfig, launcher: Launcher
) -> Teacher:
    """Raises `ModelError` for a teacher that speaks of other tokens than the policy; no model is loaded yet."""
    vocabulary = shared_vocabulary(file.model, teacher.model)
    tokens = teacher_tokens(algorithm)
    if tokens is not None and tokens.top_k is not None and tokens.top_k > vocabulary:
        message = (
            f"algorithm.loss: it asks for {tokens}, and student and teacher share {vocabulary}: set top_k: null for all of them"
        )
        raise ModelError(message)
    scorer = _scorer(file, teacher, launcher)
    return Teacher(scorer=scorer, tokens=tokens, vocabulary=vocabulary)


def _scorer(file: RunFile, teacher: TeacherConfig, launcher: Launcher) -> Scorer:
    temperature = file.sampling.temperature or 1.0
    if teacher.rollout_engine is not None:
        chosen = teacher.rollout_engine
        assert chosen.component is not None
        engine: Any = launcher.rollout_engine(
            chosen.component, chosen.options, RolloutContext(model=teacher.model, seed=file.run.seed)
        )
        return InRolloutEngine(engine=engine, temperature=temperature)
    context = TrainContext(model=teacher.model, seed=file.run.seed, total_steps=1, temperature=temperature, frozen=True)
    return InTrainEngine(engine=train_engine(teacher.train_engine or file.train_engine, launcher, context))


def shared_vocabulary(policy: ModelSpec, teacher: ModelSpec) -> int:
    """Ids that both models have, once it is sure that they mean the same tokens."""
    own = load_tokenizer(policy)
    try:
        other = load_tokenizer(teacher)
    except ModelError as error:  # it speaks of `model`
        message = f"algorithm.teacher.{error}"
        raise ModelError(message) from error
    mine, theirs = dict(getattr(own, "get_vocab", dict)()), dict(getattr(other, "get_vocab", dict)())
    wrong = min(((index, token) for token, index in mine.items() if theirs.get(token) != index), default=None)
    if wrong is not None or len(own) > len(other):
        where = f": {wrong[1]!r} is {wrong[0]} for the policy and {theirs.get(wrong[1], 'no token')} there" if wrong else ""
        message = f"algorithm.teacher.model: its tokenizer is not the policy's{where}; take a teacher with the same tokens"
        raise ModelError(message)
    sizes = [int(load_config(spec).get_text_config().vocab_size) for spec in (policy, teacher)]
    return min(sizes)
