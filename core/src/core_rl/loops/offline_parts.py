"""From a resolved run file to the objects that the offline loop works with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.config.offline import OfflineConfig
from core_rl.config.offline_checks import heads_of, needs_reference
from core_rl.errors import UserError
from core_rl.loops.engines import rollout_engine, train_engine
from core_rl.loops.launchers import Launchers
from core_rl.loops.parts import extra_losses
from core_rl.plugins.build import build
from core_rl.roles.train import TrainContext

if TYPE_CHECKING:
    import torch

    from core_rl.config.run_file import RunFile
    from core_rl.data.batch import PackedBatch
    from core_rl.data.encode import Encoder
    from core_rl.hf.tokenizer import Tokenizer
    from core_rl.loops.teacher import Teacher
    from core_rl.objective_offline import OfflineObjective
    from core_rl.roles.parts import WeightTransport, Workflow
    from core_rl.roles.rollout import RolloutEngine
    from core_rl.roles.train import Aggregation, TokenOutput, TrainEngine, Weights


@attrs.frozen(kw_only=True)
class RowBatch:
    """The batch of some rows, None when every one was too long; and of each row whether it is in it."""

    batch: PackedBatch | None
    kept: Sequence[bool]

    @property
    def too_long(self) -> int:
        return len(self.kept) - sum(self.kept)


@attrs.frozen(kw_only=True)
class OfflineParts:
    """Everything selected in a run file, built; the engine is not set up yet."""

    file: RunFile
    tokenizer: Tokenizer
    launchers: Launchers
    train: TrainEngine
    teacher: Teacher | None
    encode: Encoder
    objective: OfflineObjective
    aggregation: Aggregation
    outputs: Sequence[TokenOutput]
    """What the loss reads of a forward pass."""
    keeps_reference: bool
    """Whether the engine has a frozen reference beside the weights that learn."""
    precomputes_reference: bool

    @property
    def algorithm(self) -> OfflineConfig:
        return offline_of(self.file)

    def batch(self, rows: Sequence[Any]) -> RowBatch:
        """Rows as one packed batch; those that are too long are left out, where the algorithm says so."""
        from core_rl.data.offline import pack_rows

        encoded = [self.encode(row) for row in rows]
        pairs = [(row, sequences) for row, sequences in zip(rows, encoded, strict=True) if sequences is not None]
        return RowBatch(batch=pack_rows(pairs) if pairs else None, kept=[sequences is not None for sequences in encoded])

    def prepared(self, batch: PackedBatch) -> PackedBatch:
        """With the reference's log-probabilities, and with what the losses must know of the batch as a whole."""
        if self.keeps_reference:
            batch = batch.with_tokens(ref_logprobs=self.forward(batch, "reference"))
        if self.teacher is not None:
            batch = asyncio.run(self.teacher.annotate(batch, self.train))
        return self.objective.prepare(batch, self.aggregation, self.forward)

    def forward(self, batch: PackedBatch, weights: Weights = "current") -> torch.Tensor:
        """A `core_rl.roles.scoring.Forward`."""
        return self.train.forward(batch, ["logprobs"], weights=weights)["logprobs"]

    def setup(self) -> None:
        self.train.setup()
        if self.teacher is not None:
            self.teacher.setup()

    def save(self, path: Path) -> None:
        self.train.save(path)

    def load(self, path: Path) -> None:
        self.train.load(path)

    def close(self) -> None:
        self.train.close()
        if self.teacher is not None:
            self.teacher.close()
        self.launchers.close()


def offline_of(file: RunFile) -> OfflineConfig:
    options = file.algorithm.options
    assert isinstance(options, OfflineConfig)  # who asks has looked
    return options


def assemble_offline(file: RunFile) -> OfflineParts:
    """Build every part. Nothing heavy is loaded before `OfflineParts.setup`, but the tokenizer."""
    from core_rl.data.encode import Encoder
    from core_rl.hf.tokenizer import load_tokenizer
    from core_rl.objective_offline import OfflineObjective

    algorithm = offline_of(file)
    launchers = Launchers(file.launcher)
    tokenizer = load_tokenizer(file.model)
    reads_values = heads_of(algorithm) == {"values"}
    reference = needs_reference(algorithm)
    keeps = reference and algorithm.reference == "frozen"
    context = TrainContext(
        model=file.model,
        seed=file.run.seed,
        total_steps=file.run.steps,
        reference=keeps,
        heads="value" if reads_values else "policy",
    )
    encode = Encoder(tokenizer, algorithm.encoding, max_length=_context_length(file), scored=reads_values)
    return OfflineParts(
        file=file,
        tokenizer=tokenizer,
        launchers=launchers,
        train=train_engine(file.train_engine, launchers.own, context),
        teacher=_teacher(file, algorithm, launchers),
        encode=encode,
        objective=OfflineObjective(build(algorithm.loss), extra_losses(algorithm.extra_losses)),
        aggregation=build(algorithm.aggregation, encode.max_length or 1),
        outputs=("values",) if reads_values else ("logprobs", "entropy"),
        keeps_reference=keeps,
        precomputes_reference=reference and not keeps,
    )


def _teacher(file: RunFile, algorithm: OfflineConfig, launchers: Launchers) -> Teacher | None:
    if algorithm.teacher is None:
        return None
    from core_rl.loops.teacher import make_teacher

    return make_teacher(file, algorithm, algorithm.teacher, launchers.of(algorithm.teacher.launcher))


def _context_length(file: RunFile) -> int | None:
    """`model.max_length`, else the model's own bound, if it has one."""
    from core_rl.hf.load import load_config

    own: int | None = getattr(load_config(file.model).get_text_config(), "max_position_embeddings", None)
    return file.model.max_length or own


@attrs.frozen(kw_only=True)
class SamplingParts:
    """What it takes to let the model of an offline run answer prompts."""

    tokenizer: Tokenizer
    launchers: Launchers
    train: TrainEngine
    rollout: RolloutEngine
    transport: WeightTransport
    workflow: Workflow

    def close(self) -> None:
        self.train.close()
        self.launchers.close()


def assemble_sampling(file: RunFile) -> SamplingParts:
    """Raises `UserError` for a reward model, which writes nothing."""
    from core_rl.hf.tokenizer import load_tokenizer

    if heads_of(offline_of(file)) == {"values"}:
        message = f"generate: {file.algorithm.name} trains a model that scores sequences and writes none; use it as a reward"
        raise UserError(message)
    launchers = Launchers(file.launcher)
    context = TrainContext(model=file.model, seed=file.run.seed, total_steps=file.run.steps)
    train = train_engine(file.train_engine, launchers.own, context)
    return SamplingParts(
        tokenizer=load_tokenizer(file.model),
        launchers=launchers,
        train=train,
        rollout=rollout_engine(file, launchers.own, train),
        transport=build(file.weight_transport),
        workflow=build(file.workflow),
    )
