"""One check of one engine, on one model and number of ranks: what the check works with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from core_rl.testing.train_engine import differences
from core_rl.testing.train_engine.differences import Measured
from core_rl.testing.train_engine.expected import Script, expected
from core_rl.testing.train_engine.setting import Setting
from core_rl.testing.train_engine.subject import Subject, spec_of

if TYPE_CHECKING:
    import torch

    from core_rl.hf.spec import ModelSpec
    from core_rl.testing.train_engine.bench import Bench
    from core_rl.testing.train_engine.scripts import Step
    from core_rl.workers.train_engine import RemoteTrainEngine

T = TypeVar("T")


class Trial:
    """Makes engines, runs scripts on them and on the reference, and records differences. It is over with `close`.

    `changes` everywhere are fields of `Setting`.
    """

    def __init__(self, subject: Subject, bench: Bench, model: str, world_size: int, results: dict[Any, Any]) -> None:
        self.subject = subject
        self.allowed = subject.tolerances
        self.model = model
        self.world_size = world_size
        self.measured: list[Measured] = []
        self._bench = bench
        self._results = results  # of scripts on this subject, shared by its checks
        self._engines: list[RemoteTrainEngine] = []

    def engine(self, *, world_size: int | None = None, **changes: Any) -> RemoteTrainEngine:
        """The engine under test, set up."""
        engine = self._bench.engine(self.subject, Setting(model=self.model, **changes), world_size or self.world_size)
        self._engines.append(engine)
        return engine

    def run(self, script: Script[T], **changes: Any) -> T:
        """What the engine under test makes of a script; not to be changed."""
        key = (script, Setting(model=self.model, **changes), self.world_size)
        if key not in self._results:
            self._results[key] = script(self.engine(**changes))
        result: T = self._results[key]
        return result

    def expect(self, script: Script[T], **changes: Any) -> T:
        """What the reference engine makes of it; not to be changed."""
        setting = Setting(model=self.model, **changes)
        return expected(script, spec_of(self.subject.models, setting), setting)

    def spec(self) -> ModelSpec:
        """Of the model under test."""
        return self.subject.models[self.model]

    def both(self, script: Script[T], **changes: Any) -> tuple[T, T]:
        """(of the engine under test, expected)."""
        return self.run(script, **changes), self.expect(script, **changes)

    def folder(self) -> Path:
        """A new and empty one."""
        return self._bench.new_folder()

    def close(self) -> None:
        for engine in self._engines:
            engine.close()

    def holds(self, what: str, condition: bool, note: str = "") -> None:
        """A fact: it is no matter of size."""
        self.measured.append(Measured(what=what, difference=0.0 if condition else math.inf, allowed=0.0, note=note))

    def number(self, what: str, found: float, expect: float, allowed: float) -> None:
        """Relative, or absolute where 0 is expected."""
        gap = differences.of_numbers(found, expect)
        self.measured.append(Measured(what=what, difference=gap, allowed=allowed, note=f"{found:.9g}, expected {expect:.9g}"))

    def tensor(self, what: str, found: torch.Tensor, expect: torch.Tensor, allowed: float | None = None) -> None:
        """Absolute."""
        gap, note = differences.of_tensors(found, expect)
        bound = self.allowed.logprobs if allowed is None else allowed
        self.measured.append(Measured(what=what, difference=gap, allowed=bound, note=note))

    def weights(
        self,
        what: str,
        found: Mapping[str, torch.Tensor],
        expect: Mapping[str, torch.Tensor],
        allowed: float | None = None,
    ) -> None:
        """Names, shapes and values."""
        gap, note = differences.of_weights(found, expect)
        bound = self.allowed.weights if allowed is None else allowed
        self.measured.append(Measured(what=what, difference=gap, allowed=bound, note=note))

    def metrics(self, what: str, found: Mapping[str, float], expect: Mapping[str, float], allowed: float | None = None) -> None:
        """Names and values."""
        gap, note = differences.of_metrics(found, expect)
        bound = self.allowed.metrics if allowed is None else allowed
        self.measured.append(Measured(what=what, difference=gap, allowed=bound, note=note))

    def step(self, found: Step, expect: Step, *, which: str = "") -> None:
        """All that a step says and does, but in how many micro-batches."""
        mine, theirs = found.report, expect.report
        self.number(f"{which}loss", mine.loss, theirs.loss, self.allowed.loss)
        self.number(f"{which}grad_norm", mine.grad_norm, theirs.grad_norm, self.allowed.grad_norm)
        self.weights(f"{which}weights", found.weights, expect.weights)
        self.metrics(f"{which}metrics", mine.metrics, theirs.metrics)
        self.number(f"{which}lr", mine.lr, theirs.lr, 1e-9)
        self.number(f"{which}num_tokens", mine.num_tokens, theirs.num_tokens, 0.0)
        self.holds(f"{which}skipped", mine.skipped == theirs.skipped, f"skipped is {mine.skipped}")
