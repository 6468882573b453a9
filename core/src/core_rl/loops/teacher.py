"""The teacher of a distillation: a frozen model that says how likely it finds what the student wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from core_rl.loops.engines import train_engine
from core_rl.roles.train import TrainContext

if TYPE_CHECKING:
    from core_rl.config.algorithm import AlgorithmConfig, TeacherConfig
    from core_rl.config.run_file import RunFile
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.parts import Launcher
    from core_rl.roles.train import TrainEngine


@attrs.frozen(kw_only=True)
class Teacher:
    """`annotate` adds `teacher_logprobs` [N] of the sampled tokens."""

    engine: TrainEngine

    def setup(self) -> None:
        self.engine.setup()

    async def annotate(self, batch: PackedBatch, student: TrainEngine) -> PackedBatch:
        del student
        return batch.with_tokens(teacher_logprobs=self.engine.forward(batch, ["logprobs"])["logprobs"])

    def close(self) -> None:
        self.engine.close()


def make_teacher(file: RunFile, algorithm: AlgorithmConfig, teacher: TeacherConfig, launcher: Launcher) -> Teacher:
    del algorithm
    context = TrainContext(
        model=teacher.model,
        seed=file.run.seed,
        total_steps=1,
        temperature=file.sampling.temperature or 1.0,
        frozen=True,
    )
    return Teacher(engine=train_engine(teacher.train_engine or file.train_engine, launcher, context))
