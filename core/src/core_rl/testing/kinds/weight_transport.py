"""Checks of weight transports: `core_rl.roles.parts.WeightTransport`, from the train engine `local` to the rollout engine `local`.

A tiny random model. What needs an engine with workers of its own (`weights_collective`) is judged by the suite of rollout engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.data.batch import PackedBatch
from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint, same
from core_rl.numerics.aggregation import Aggregator
from core_rl.plugins.build import build_component
from core_rl.plugins.references import load_reference
from core_rl.roles.parts import SyncReport
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams
from core_rl.roles.train import TrainContext
from core_rl.testing.kit.check import checks, expect, not_judged, shown
from core_rl.testing.kit.subject import catalogue
from core_rl.testing.rollout_engine.bench import MODEL, RolloutBench
from core_rl.testing.train_engine.objectives import Ratio

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject

_SEED = 5


def arrives(subject: Subject) -> None:
    """After `sync` the sampler serves the trainer's weights, by fingerprint; the report has the version and the bytes."""
    bench = _bench(subject)
    report = bench.sync(subject.build())
    expect(isinstance(report, SyncReport), f"sync gave {shown(report)}, expected a core_rl.roles.parts.SyncReport")
    expect(report.version == bench.version, f"the report says version {report.version}, and {bench.version} was sent")
    expect(report.num_bytes >= 0, f"the report says {report.num_bytes} bytes")
    bench.expect_equal("the first sync")


def new_weights(subject: Subject) -> None:
    """Every update arrives whole: after an optimizer step, and when nothing has changed."""
    bench, transport = _bench(subject), subject.build()
    bench.sync(transport)
    before = bench.served()
    bench.step()
    bench.sync(transport)
    expect(
        same(before, bench.served()) is not None, "after an optimizer step and a sync the sampler serves the weights of before"
    )
    bench.expect_equal("a sync after an optimizer step")
    bench.sync(transport)
    bench.expect_equal("a sync without a change")


def versions(subject: Subject) -> None:
    """Tokens sampled after `sync` carry its version."""
    bench, transport = _bench(subject), subject.build()
    for _ in range(2):
        bench.sync(transport)
        found = bench.version_of_tokens()
        expect(found == {bench.version}, f"tokens sampled after version {bench.version} carry {sorted(found)}")


def lost_tensor(subject: Subject) -> None:
    """A tensor that the trainer did not hand over is noticed: `RunError`, and the next sync mends it."""
    bench, transport = _bench(subject), subject.build()
    bench.sync(transport)
    bench.step()
    bench.expect_refused(transport, source=Partly(bench.train), what="a tensor was left out")
    bench.sync(subject.build())
    bench.expect_equal("the sync after a failed one")


def wrong_weights(subject: Subject) -> None:
    """A sampler that serves other weights than were sent is noticed: `RunError`."""
    bench, transport = _bench(subject), subject.build()
    bench.sync(transport)
    bench.expect_refused(transport, target=Garbled(bench.rollout), what="the sampler's fingerprint is another one")


@attrs.define(eq=False)
class Pair:
    """A trainer and a sampler, and the version that was sent last."""

    train: Any
    rollout: Any
    loop: RolloutBench
    version: int = 0

    def sync(self, transport: Any, *, source: Any = None, target: Any = None) -> SyncReport:
        self.version += 1
        report: SyncReport = self.loop.run(transport.sync(source or self.train, target or self.rollout, self.version))
        return report

    def step(self) -> None:
        """One optimizer step."""
        self.train.train_step(_batch(), Ratio(), Aggregator("token-mean"))

    def served(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self.loop.run(self.rollout.fingerprint())
        return found

    def version_of_tokens(self) -> set[int]:
        params = SamplingParams(max_new_tokens=4, ignore_eos=True)
        request = GenerateRequest(id=f"kit-{self.version}", prompt_ids=[3, 4, 5], params=params)
        [one] = self.loop.run(self.rollout.generate(request))
        return {span.version for span in one.versions}

    def expect_equal(self, when: str) -> None:
        difference = same(fingerprint(self.train.export_weights()), self.served())
        expect(difference is None, f"after {when} the trainer (first) and the sampler (second) differ: {difference}")

    def expect_refused(self, transport: Any, *, what: str, **sides: Any) -> None:
        try:
            self.sync(transport, **sides)
        except RunError as error:
            expect(str(error).strip(), f"{what}: it raised a RunError without a word")
        else:
            expect(holds=False, words=f"{what}, and sync went through; expected RunError")


@attrs.define(eq=False)
class Partly:
    """A trainer that hands over all weights but one."""

    engine: Any

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        weights = iter(self.engine.export_weights())
        next(weights)
        yield from weights

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


@attrs.define(eq=False)
class Garbled:
    """A sampler with one weight that is not what was sent."""

    engine: Any

    async def fingerprint(self) -> Mapping[str, float]:
        found = dict(await self.engine.fingerprint())
        first = next(iter(found))
        return {**found, first: found[first] + 1.0}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def _bench(subject: Subject) -> Pair:
    needs = subject.component.needs & {"weights_collective"}
    if needs:
        not_judged("it needs a rollout engine with workers of its own: the suite of rollout engines runs it")
    return subject.keep(_pair)


@contextmanager
def _pair(subject: Subject) -> Iterator[Pair]:
    loop = RolloutBench(engine_name="local", options={}, dtype="float32", logprob_tolerance=1e-4)
    train = _engine("train_engine", {"device": "cpu", "lr": 1e-2}, TrainContext(model=MODEL, seed=_SEED, total_steps=9))
    shared = "shared_weights" in subject.component.needs
    context = RolloutContext(model=MODEL, seed=_SEED + 1, train_engine=train if shared else None)
    rollout = _engine("rollout_engine", {}, context)
    train.setup()
    loop.begin()
    try:
        loop.run(rollout.start())
        yield Pair(train, rollout, loop)
    finally:
        loop.run(rollout.close())
        loop.close()
        train.close()


def _engine(kind: str, options: Mapping[str, Any], context: Any) -> Any:
    component = catalogue().find(kind, "local").component
    assert component.config is not None
    return build_component(component, load_reference(component.config)(**options), context)


def _batch() -> PackedBatch:
    """Two sequences of six tokens."""
    tokens = torch.tensor([3, 4, 5, 6, 7, 8, 5, 4, 3, 9, 8, 6])
    mask = torch.tensor([False, False, True, True, True, True] * 2)
    return PackedBatch(
        tokens=tokens,
        cu_seqlens=torch.tensor([0, 6, 12], dtype=torch.int32),
        positions=torch.arange(6, dtype=torch.int32).repeat(2),
        loss_mask=mask,
        token_fields={"advantages": mask.float(), "old_logprobs": torch.full((12,), -2.5).where(mask, 0.0)},
        sequence_fields={"group": torch.tensor([0, 1])},
    )


CHECKS = checks(arrives, new_weights, versions, lost_tensor, wrong_weights)
