"""The mismatch guard and the canary: what they let pass, what they say, what they leave."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import attrs
import pytest
import torch

from core_rl.config.guard import GuardSection
from core_rl.errors import RunError
from core_rl.loops.canary import sync
from core_rl.loops.guard import MismatchGuard
from core_rl.roles.rollout import Completion, RolloutContext, SamplingParams
from core_rl.roles.train import TrainContext
from core_rl.testing.batches import random_batch
from core_rl.testing.rollout_engine.bench import MODEL
from core_rl_local.config import LocalRolloutConfig, LocalTrainConfig
from core_rl_local.rollout import LocalRolloutEngine
from core_rl_local.train import LocalTrainEngine


def guard(folder=None, **limits) -> MismatchGuard:
    return MismatchGuard(section=GuardSection(**limits), folder=folder, decode=lambda ids: " ".join(map(str, ids)))


def apart(difference: float):
    """A batch whose trainer is so far from its sampler, in every token."""
    batch = random_batch(1)
    trained = (batch["rollout_logprobs"] - difference).where(batch.loss_mask, 0.0)
    return batch.with_tokens(old_logprobs=trained, versions=torch.zeros(batch.num_tokens, dtype=torch.int32))


def test_what_agrees_passes(capsys):
    """No word, and the metrics of the batch."""
    metrics = guard().before(3, apart(0.0), None)

    assert metrics["mismatch/abs_mean"] == 0.0
    assert metrics["mismatch/outside_frac"] == 0.0
    assert capsys.readouterr().err == ""


def test_a_warning_is_told_once(capsys):
    """With the step, the number, and the setting that it crosses."""
    one = guard()
    one.before(3, apart(0.3), None)
    one.before(4, apart(0.3), None)
    told = capsys.readouterr().err

    assert told.count("\n") == 1
    assert all(word in told for word in ("step 3", "mismatch/abs_mean is 0.3", "guard.warn_abs_mean"))


def test_a_run_stops_and_leaves_the_sequences(tmp_path):
    """The one that is furthest apart first, with both sides' numbers."""
    batch = apart(0.0)
    worst = int(batch.sequence_ids[batch.loss_mask.nonzero()[-1, 0]])
    far = (batch.sequence_ids == worst) & batch.loss_mask
    batch = batch.with_tokens(old_logprobs=batch["old_logprobs"] - 9.0 * far)
    with pytest.raises(RunError, match=r"step 7: .*mismatch-step-000007.jsonl"):
        guard(tmp_path, stop_abs_mean=0.01).before(7, batch, None)
    rows = [json.loads(line) for line in (tmp_path / "mismatch-step-000007.jsonl").read_text().splitlines()]

    assert rows[0]["sequence"] == worst
    assert rows[0]["train_weights"] == "before the step"
    assert rows[0]["rollout_logprobs"][0] - rows[0]["train_logprobs"][0] == pytest.approx(9.0, abs=1e-5)
    assert len(rows[0]["tokens"]) == int(far.sum())


def test_tokens_outside_the_support(capsys):
    """A few tokens that the trainer would never sample, which no mean shows."""
    batch = apart(0.0)
    place = int(batch.loss_mask.nonzero()[0, 0])
    trained = batch["old_logprobs"].clone()
    trained[place] -= 8.0
    guard(warn_abs_mean=None, warn_ess=None, stop_abs_mean=None).before(1, batch.with_tokens(old_logprobs=trained), None)

    assert "mismatch/outside_frac" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mismatch/abs_mean", "mismatch/ess", "mismatch/outside_frac"])
def test_every_limit_can_be_left_out(name):
    """Null is never."""
    never = {field.name: None for field in attrs.fields(GuardSection) if field.name.startswith(("warn", "stop"))}

    guard(**never).judge(1, {name: float("nan")}, apart(0.0), None)


def test_not_a_number_stops():
    """It is beyond every limit."""
    with pytest.raises(RunError, match="nan"):
        guard().judge(1, {"mismatch/abs_mean": float("nan")}, apart(0.0), None)


def test_without_old_logprobs_nothing_is_judged_before_the_step():
    """They come with the training pass then."""
    batch = random_batch(1)
    fields = {name: value for name, value in batch.token_fields.items() if name != "old_logprobs"}

    assert guard(stop_abs_mean=1e-9).before(1, attrs.evolve(batch, token_fields=fields), None) == {}


class Silent:
    """A transport that forgets to send, and an engine that stamps all the same."""

    async def sync(self, source, target, version):
        del source
        await target.begin_update()
        await target.end_update(version)


def parts(train, rollout, transport, *, tolerance=None):
    file = SimpleNamespace(
        run=SimpleNamespace(seed=1),
        model=MODEL,
        sampling=SamplingParams(),
        guard=GuardSection(canary_tolerance=tolerance),
        weight_transport=SimpleNamespace(name="silent", component=SimpleNamespace(needs=frozenset())),
    )
    return SimpleNamespace(train=train, rollout=rollout, transport=transport, file=file, tokenizer=range(14))


def with_engines(work, *, other_seed):
    train = LocalTrainEngine(LocalTrainConfig(device="cpu"), TrainContext(model=MODEL, seed=5, total_steps=1))
    train.setup()

    async def main():
        rollout = LocalRolloutEngine(LocalRolloutConfig(), RolloutContext(model=MODEL, seed=other_seed))
        await rollout.start()
        try:
            return await work(train, rollout)
        finally:
            await rollout.close()

    return asyncio.run(main())


def test_the_canary_sings_for_the_same_weights():
    """Nothing is raised."""
    with_engines(lambda train, rollout: sync(parts(train, rollout, Silent()), 3), other_seed=5)


def test_the_canary_finds_weights_that_did_not_arrive():
    """The engine says that it has the version, and samples from something else."""
    with pytest.raises(RunError, match=r"weight_transport silent: version 3 arrived, but samples of the rollout engine do not"):
        with_engines(lambda train, rollout: sync(parts(train, rollout, Silent()), 3), other_seed=6)


def test_the_canary_finds_a_version_that_is_not_served():
    """An engine that stamps tokens with an older version."""

    class Old:
        async def generate(self, request):
            from core_rl.data.sample import VersionSpan

            count = request.params.max_new_tokens
            spans = [VersionSpan(version=1, start=0, end=count)]
            return [Completion(tokens=[3] * count, logprobs=[-1.0] * count, finish_reason="length", versions=spans)]

        async def begin_update(self): ...

        async def end_update(self, version): ...

    with pytest.raises(RunError, match=r"version 3 was sent, and the rollout engine still says that it serves \[1\]"):
        asyncio.run(sync(parts(None, Old(), Silent()), 3))


def test_the_canary_asks_every_server():
    """One of three has other weights than it says."""

    async def work(train, rollout):
        async def at_each(request):
            right = await rollout.generate(request)
            rollout.module.model.layers[1].mlp.up_proj.weight.data.add_(0.3)
            return {"server 0": right, "server 1": right, "server 2": await rollout.generate(attrs.evolve(request, id="again"))}

        rollout.generate_at_each = at_each
        await sync(parts(train, rollout, Silent()), 3)

    with pytest.raises(RunError, match="samples of server 2 do not come from it"):
        with_engines(work, other_seed=5)
