# ruff: noqa: EM101, EM102, TRY003
"""Rewards, data, loggers, importers, workflows, transports, launchers and algorithms: right ones, and some with one fault each."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import attrs

from core_rl.builtin.config import SharedMemoryConfig, SingleTurnConfig
from core_rl.builtin.inline import Inline
from core_rl.builtin.shared_memory import SharedMemory
from core_rl.builtin.single_turn import SingleTurn
from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.selection import Selection, component
from core_rl.data.sample import Prompt, Turn
from core_rl.errors import DataError, PromptTooLongError, RunError, UserError
from core_rl.roles.parts import SyncReport
from core_rl.roles.scoring import RewardOutcome


class Exact:
    """A reward."""

    def score(self, sample):
        return float(sample.completion_text.strip() == str(sample.prompt.answer))


class AsyncExact(Exact):
    async def score(self, sample):
        return RewardOutcome(value=super().score(sample))


class NanReward(Exact):
    def score(self, sample):
        return super().score(sample) or float("nan")


class TextReward(Exact):
    def score(self, sample):
        return "right" if super().score(sample) else "wrong"


class Exits(Exact):
    def score(self, sample):
        if not sample.completion_text:
            raise SystemExit(1)
        return super().score(sample)


class NotThreadSafe(Exact):
    def score(self, sample):
        self.sample = sample
        time.sleep(0.002)
        return super().score(self.sample)


class Counts(Exact):
    calls = 0

    def score(self, sample):
        Counts.calls += 1
        return float(Counts.calls)


class Marks(Exact):
    def score(self, sample):
        sample.metadata["seen"] = True
        return super().score(sample)


class Rows:
    """Data of five prompts, one of them held out."""

    def load(self, split, seed):
        rows = [Prompt(id=str(index), text=f"{index}+1=", answer=str(index + 1)) for index in range(5)]
        return rows[:4] if split == "train" else rows[4:]


class NothingHeldOut(Rows):
    def load(self, split, seed):
        if split == "eval":
            raise DataError("nothing is held out: give eval_path")
        return super().load(split, seed)


class Grows(Rows):
    """A sequence whose length changes as it is read."""

    def load(self, split, seed):
        class Growing(list):
            def __iter__(self):
                self.append(self[-1])
                return super().__iter__()

        return Growing(super().load(split, seed))


class Shuffles(Rows):
    loads = 0

    def load(self, split, seed):
        Shuffles.loads += 1
        rows = super().load(split, seed)
        return rows[Shuffles.loads % 4 :] + rows[: Shuffles.loads % 4]


class Dicts(Rows):
    def load(self, split, seed):
        return [{"text": row.text} for row in super().load(split, seed)]


class Wraps(Rows):
    """An index beyond the end begins again."""

    def load(self, split, seed):
        class Wrapping(list):
            def __getitem__(self, index):
                return super().__getitem__(index % len(self))

        return Wrapping(super().load(split, seed))


class EmptyEval(Rows):
    def load(self, split, seed):
        return super().load(split, seed) if split == "train" else []


class Lines:
    """A logger of lines."""

    def start(self, run):
        self.path = Path(run.dir) / "lines.txt"
        self.path.touch()

    def log(self, step, metrics):
        self.write(f"{step} {dict(metrics)}")

    def log_samples(self, step, rows):
        self.write(f"{step} {list(rows)!a}")

    def write(self, line):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def finish(self, status):
        pass


class WritesElsewhere(Lines):
    def start(self, run):
        super().start(run)
        Path("log.txt").write_text("here")


class NeedsNumbers(Lines):
    def log(self, step, metrics):
        self.write(json.dumps(dict(metrics), allow_nan=False))


class NeedsText(Lines):
    def log_samples(self, step, rows):
        self.write("".join(row["completion"] for row in rows))


class NeedsAStart(Lines):
    def finish(self, status):
        self.write(status)


class NewFolderOnly(Lines):
    def start(self, run):
        self.path = Path(run.dir) / "lines.txt"
        self.path.touch(exist_ok=False)


class ExitsOnErrors(Lines):
    def start(self, run):
        try:
            super().start(run)
        except OSError as error:
            raise SystemExit(2) from error


class EatsMetrics(Lines):
    def log(self, step, metrics):
        while metrics:
            self.write(str(metrics.popitem()))


class Importer:
    """Reads `steps: N`."""

    def load(self, path):
        try:
            name, _, number = path.read_text(encoding="utf-8").strip().partition(": ")
            return {"run": {name: int(number)}}
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: {error}") from error


class RaisesImporter(Importer):
    def load(self, path):
        return {"run": {"steps": int(path.read_text(encoding="utf-8").partition(": ")[2])}}


class OtherSections(Importer):
    def load(self, path):
        return {"trainer": super().load(path)}


class Single(SingleTurn):
    """A workflow."""

    __core_rl_config__ = SingleTurnConfig


class EncodesAgain(Single):
    """The text is encoded again, with a space in front."""

    async def run(self, prompt, *, tokenizer, **about):
        samples = await super().run(prompt, tokenizer=tokenizer, **about)
        space = tokenizer.encode(" ", add_special_tokens=False)
        for one in samples:
            first, second = one.turns
            one.turns = [Turn(tokens=[*space, *first.tokens], generated=False), second]
        return samples


class OneSample(Single):
    async def run(self, prompt, *, n, **about):
        return await super().run(prompt, n=1, **about)


class ForgetsTheSeed(Single):
    async def run(self, prompt, *, seed, **about):
        return await super().run(prompt, seed=0, **about)


class NoLogprobs(Single):
    async def run(self, prompt, **about):
        samples = await super().run(prompt, **about)
        for one in samples:
            one.turns = [one.turns[0], attrs.evolve(one.turns[1], logprobs=())]
        return samples


class Swallows(Single):
    async def run(self, prompt, **about):
        try:
            return await super().run(prompt, **about)
        except PromptTooLongError:
            return []


class HidesAborts(Single):
    async def run(self, prompt, **about):
        samples = await super().run(prompt, **about)
        for one in samples:
            one.finish_reason = "stop"
        return samples


class Copies(SharedMemory):
    """A transport."""

    __core_rl_config__ = SharedMemoryConfig


class NoProof(Copies):
    async def sync(self, source, target, version):
        await target.begin_update()
        await target.update([(name, tensor.clone()) for name, tensor in source.export_weights()])
        await target.end_update(version)
        return SyncReport(version=version, num_bytes=0)


class OldVersion(Copies):
    async def sync(self, source, target, version):
        report = await super().sync(source, target, max(0, version - 1))
        return attrs.evolve(report, version=version)


class SendsOnce(Copies):
    sent = False

    async def sync(self, source, target, version):
        if self.sent:
            await target.begin_update()
            await target.end_update(version)
            return SyncReport(version=version, num_bytes=0)
        self.sent = True
        return await super().sync(source, target, version)


class Here(Inline):
    """A launcher."""


class LosesOptions(Here):
    def train_engine(self, component, options, context):
        return super().train_engine(component, attrs.evolve(options, word="other"), context)


class ClosesOnce(Here):
    closed = False

    def close(self):
        if self.closed:
            raise RunError("closed already")
        self.closed = True


class OneEngine(Here):
    engine = None

    def train_engine(self, component, options, context):
        self.engine = self.engine or super().train_engine(component, options, context)
        return self.engine


@attrs.frozen(kw_only=True)
class ToyAlgorithm(AlgorithmConfig):
    """GRPO's advantage and PPO's clip."""

    loss: Selection = component("loss", "ppo_clip", help="the loss")
    advantage: Selection = component("advantage", "group_norm", help="the advantage")


ToyAlgorithm.__core_rl_config__ = ToyAlgorithm


@attrs.frozen(kw_only=True)
class Learnless(ToyAlgorithm):
    loss: Selection = component("loss", "toy_losses:Zero", help="the loss")


Learnless.__core_rl_config__ = Learnless


@attrs.frozen(kw_only=True)
class Unresolved(ToyAlgorithm):
    loss: Selection = component("loss", "no_such_loss", help="the loss")


Unresolved.__core_rl_config__ = Unresolved


@attrs.frozen(kw_only=True)
class OneSampleEach(ToyAlgorithm):
    """A group of one, which its own advantage cannot compare."""

    group_size: int = attrs.field(default=1, metadata={"help": "samples of each prompt"})
    advantage: Selection = component("advantage", "rloo", help="the advantage")


OneSampleEach.__core_rl_config__ = OneSampleEach


@attrs.frozen(kw_only=True)
class Wordless(ToyAlgorithm):
    """No part of it has a formula."""

    loss: Selection = component("loss", "toy_losses:Good", help="the loss")
    advantage: Selection = component("advantage", "toy_parts:GroupMean", help="the advantage")
    aggregation: Selection = component("aggregation", "toy_parts:TokenMean", help="the aggregation")


Wordless.__core_rl_config__ = Wordless


@attrs.frozen(kw_only=True)
class Place:
    path: str = attrs.field(default="", metadata={"help": "a file"})


class Forgiving(Rows):
    """A file that is missing is no mistake."""

    __core_rl_config__ = Place

    def __init__(self, options):
        self.options = options


class OtherRolloutOptions(Here):
    def rollout_engine(self, component, options, context):
        return super().rollout_engine(component, attrs.evolve(options, word="other"), context)


class OwnErrors(Here):
    def train_engine(self, component, options, context):
        engine = super().train_engine(component, options, context)
        setup = engine.setup

        def guarded():
            try:
                setup()
            except ValueError as error:
                raise RuntimeError("a worker failed") from error

        engine.setup = guarded
        return engine


class OneSplit(Lines):
    def log_samples(self, step, rows):
        assert {row["split"] for row in rows} <= {"train"}, "no other split"


class Backtracks(Exact):
    def score(self, sample):
        time.sleep(len(sample.completion_text) / 400_000)
        return super().score(sample)


class SilentReport(Copies):
    async def sync(self, source, target, version):
        await super().sync(source, target, version)


class FillsIn(Copies):
    """What is not handed over stays as it was, and is asked of nobody."""

    async def sync(self, source, target, version):
        await target.begin_update()
        await target.update([(name, tensor.clone()) for name, tensor in source.export_weights()])
        await target.end_update(version)
        return SyncReport(version=version, num_bytes=0)


class Deaf(Single):
    async def run(self, prompt, **about):
        try:
            return await super().run(prompt, **about)
        except asyncio.CancelledError:
            return []


class Unpacked(Single):
    """A sample of a prompt that has no place in a batch: its first token is one to learn."""

    async def run(self, prompt, **about):
        samples = await super().run(prompt, **about)
        for one in samples:
            one.turns = [one.turns[1]]
        return samples
