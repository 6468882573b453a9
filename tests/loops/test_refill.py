"""Dynamic sampling: how many rounds, of how many prompts, and what becomes of the groups."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import attrs
import pytest

from core_rl.config.algorithm import RefillConfig
from core_rl.data.sample import Prompt, Sample, Turn
from core_rl.errors import DataError, PromptTooLongError
from core_rl.loops.feed import PromptFeed
from core_rl.loops.refill import collect_step, worth_training
from core_rl.roles.rollout import SamplingParams
from core_rl.roles.scoring import Verdict
from core_rl.seeds import derive


@attrs.define
class Recorded:
    """A workflow and a scorer. `mixed(prompt id)` says whether a prompt's rewards differ; prompts in `too_long` do not fit."""

    mixed: object
    too_long: frozenset[str] = frozenset()
    calls: list[tuple[str, int, int, float]] = attrs.field(factory=list)

    async def run(self, prompt, *, n, engine, tokenizer, params, seed):
        if prompt.id in self.too_long:
            raise PromptTooLongError(prompt.id)
        self.calls.append((prompt.id, n, seed, params.temperature))
        turns = [Turn(tokens=[1], generated=False), Turn(tokens=[2], generated=True, logprobs=[-1.0])]
        return [
            Sample(prompt=prompt, turns=turns, finish_reason="stop", completion_text="", metadata={"index": index})
            for index in range(n)
        ]

    async def score(self, sample):
        failed = sample.prompt.metadata.get("failed", False)
        sample.reward = None if failed else float(sample.metadata["index"] % 2) if self.mixed(sample.prompt.id) else 1.0


def differing(batch):
    """A rejection: keep a group whose rewards differ."""
    keep = batch["rewards"].max() > batch["raw_rewards"].min()
    return Verdict(keep=keep.expand(batch.num_tokens))


def parts_of(recorded, refill, *, prompts_per_step=4, long_prompts="skip", rejections=(differing,), greedy=False):
    run = SimpleNamespace(seed=7, prompts_per_step=prompts_per_step, long_prompts=long_prompts)
    return SimpleNamespace(
        file=SimpleNamespace(run=run, sampling=SamplingParams(max_new_tokens=4)),
        algorithm=SimpleNamespace(group_size=2, refill=refill),
        workflow=recorded,
        scorer=recorded,
        rollout=None,
        tokenizer=None,
        greedy=greedy,
        early_rejections=rejections,
    )


def prompts(count=20, **metadata):
    return [Prompt(id=str(index), text="x", metadata=metadata) for index in range(count)]


def collected(recorded, refill, *, rows=None, feed=None, step=3, **options):
    feed = feed or PromptFeed(rows or prompts(), seed=1)
    return asyncio.run(collect_step(parts_of(recorded, refill, **options), feed, step)), feed


def ids(groups):
    return [group.prompt.id for group in groups]


def even(prompt_id):
    return int(prompt_id) % 2 == 0


def test_rounds_go_on_until_the_batch_is_full():
    """Only even prompts teach anything: the batch is the first four of them in the feed's order, and no more is sampled than needed."""
    found, feed = collected(Recorded(even), RefillConfig())
    order = [prompt.id for prompt in PromptFeed(prompts(), seed=1).next(20)]
    wanted = [one for one in order if even(one)][:4]

    assert ids(found.groups) == wanted
    assert ids(found.sampled) == order[: feed.position]
    assert order[feed.position - 1] == wanted[-1]
    assert found.metrics["refill/rounds"] > 1
    assert found.metrics["refill/sampled_groups"] == feed.position
    assert found.metrics["refill/kept_frac"] == pytest.approx(4 / feed.position)


def test_a_full_first_round_is_the_only_one():
    """The same prompts with the same seeds as without refill."""
    plain, dynamic = Recorded(lambda _: True), Recorded(lambda _: True)
    without, _ = collected(plain, None)
    found, feed = collected(dynamic, RefillConfig())

    assert ids(found.groups) == ids(without.groups)
    assert plain.calls == dynamic.calls
    assert (feed.position, found.metrics["refill/rounds"], found.metrics["refill/kept_frac"]) == (4, 1.0, 1.0)
    assert without.metrics == {}


def test_every_round_has_seeds_of_its_own():
    """They come from the run's seed, the step, the round and the place in it: nothing else, so that a resumed run repeats them."""
    recorded = Recorded(lambda _: False)
    collected(recorded, RefillConfig(max_rounds=3))
    seeds = [seed for _, _, seed, _ in recorded.calls]
    places = [(3,), (3, "refill", 1), (3, "refill", 2)]

    assert seeds == [derive(7, "rollout", *place, index) for place in places for index in range(4)]
    assert len(set(seeds)) == 12


def test_a_resumed_step_is_the_same_step():
    """A feed that begins at the saved position and a fresh recorder give the groups and requests that an uninterrupted run gives."""
    first, second, resumed = Recorded(even), Recorded(even), Recorded(even)
    _, feed = collected(first, RefillConfig(), step=1)
    saved = feed.position
    going_on, feed = collected(second, RefillConfig(), feed=feed, step=2)
    again, fresh = collected(resumed, RefillConfig(), feed=PromptFeed(prompts(), seed=1, position=saved), step=2)

    assert ids(again.groups) == ids(going_on.groups)
    assert resumed.calls == second.calls
    assert fresh.position == feed.position


@pytest.mark.parametrize(("oversample", "positions"), [(1.0, [4, 8, 12]), (1.5, [6, 12, 18]), (1.3, [6, 12, 18])])
def test_oversample_rounds_up_what_is_missing(oversample, positions):
    """Of four missing groups 1.3 asks for six; rounds end at the bound."""
    for rounds, position in enumerate(positions, start=1):
        _, feed = collected(Recorded(lambda _: False), RefillConfig(max_rounds=rounds, oversample=oversample))

        assert feed.position == position


def test_what_is_left_over_is_not_trained_on_but_reported():
    """Eight groups are good, four are wanted: the first four; all eight are in `sampled`."""
    found, _ = collected(Recorded(lambda _: True), RefillConfig(oversample=2.0))

    assert len(found.sampled) == 8
    assert ids(found.groups) == ids(found.sampled)[:4]


def _one_good(recorded_refill):
    order = [prompt.id for prompt in PromptFeed(prompts(), seed=1).next(20)]
    return collected(Recorded(lambda name: name == order[1]), recorded_refill)[0], order[1]


def test_short_batches_are_trained_on_as_they_are():
    """`train`: one group where four were wanted."""
    found, good = _one_good(RefillConfig(max_rounds=2))

    assert ids(found.groups) == [good]
    assert found.metrics["refill/sampled_groups"] == 7.0


def test_short_batches_can_be_filled_by_repeating():
    """`repeat`: the one group four times."""
    found, good = _one_good(RefillConfig(max_rounds=2, when_short="repeat"))

    assert ids(found.groups) == [good] * 4


def test_short_batches_can_stop_the_run():
    """`stop`: with the numbers and the mends."""
    with pytest.raises(
        DataError, match=r"after 2 rounds 1 of 4 groups are worth training on: raise algorithm\.refill\.max_rounds"
    ):
        _one_good(RefillConfig(max_rounds=2, when_short="stop"))


@pytest.mark.parametrize("when_short", ["train", "repeat"])
def test_nothing_worth_training_on_is_still_a_step(when_short):
    """As many groups as were wanted, of which the rejections leave nothing: the step reports its rewards and changes no weight."""
    found, _ = collected(Recorded(lambda _: False), RefillConfig(max_rounds=2, when_short=when_short))

    assert ids(found.groups) == ids(found.sampled)[:4]
    assert found.metrics["refill/kept_frac"] == 0.0


def test_prompts_that_are_too_long_are_replaced_and_counted():
    """They cost a place in their round, and are listed once."""
    found, feed = collected(Recorded(lambda _: True, too_long=frozenset("0123456789")), RefillConfig())

    assert len(found.groups) == 4
    assert len(found.too_long) == feed.position - 4 > 0
    assert not {prompt.id for prompt in found.too_long} & set(ids(found.sampled))


def test_only_prompts_that_are_too_long_end_after_the_bound():
    """No group and no endless loop; the training loop says what is wrong."""
    names = frozenset(prompt.id for prompt in prompts())
    found, feed = collected(Recorded(lambda _: True, too_long=names), RefillConfig(max_rounds=3))

    assert (found.groups, found.sampled, len(found.too_long), feed.position) == ([], [], 12, 12)


def test_a_group_whose_rewards_failed_is_not_worth_training_on():
    """Failed rewards are no rewards: all failed, or all but equal ones."""
    found, _ = collected(Recorded(lambda _: True), None, rows=prompts(failed=True))
    parts = parts_of(Recorded(lambda _: True), RefillConfig())

    assert worth_training(parts, found.groups) == []
    good, _ = collected(Recorded(lambda _: True), None)
    assert worth_training(parts, good.groups) == good.groups
    good.groups[0].samples[0].reward = None
    assert worth_training(parts, good.groups) == good.groups[1:]


def test_rejections_are_chained_as_in_training():
    """The second one sees the mask that the first one left."""
    seen = []

    def first_token_only(batch):
        return Verdict(keep=batch.positions == 0)

    def watch(batch):
        seen.append(bool(batch.loss_mask.any()))
        return Verdict(keep=batch.positions >= 0)

    found, _ = collected(Recorded(lambda _: True), None)
    parts = parts_of(Recorded(lambda _: True), RefillConfig(), rejections=(first_token_only, watch))

    assert worth_training(parts, found.groups) == []
    assert seen == [False] * 4


def test_a_greedy_sample_has_a_seed_of_its_own():
    """Beside the samples of its prompt, at temperature 0, scored like them; engines know requests by prompt and seed."""
    recorded = Recorded(lambda _: True)
    found, _ = collected(recorded, None, greedy=True)
    requests = [(prompt, seed) for prompt, _, seed, _ in recorded.calls]

    assert len(set(requests)) == len(requests) == 8
    assert sorted({(n, temperature) for _, n, _, temperature in recorded.calls}) == [(1, 0.0), (2, 1.0)]
    assert all(group.greedy is not None and group.greedy.reward is not None for group in found.groups)
