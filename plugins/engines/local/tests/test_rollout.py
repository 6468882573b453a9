"""The local rollout engine against transformers' own forward pass, and against itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import attrs
import pytest
import torch

from core_rl.errors import PromptTooLongError, RunError
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams
from core_rl_local.config import LocalRolloutConfig
from core_rl_local.rollout import LocalRolloutEngine, cache_bytes

SPEC = ModelSpec(
    init="random",
    tokenizer="characters:0123456789+= ",
    config={
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "initializer_range": 0.3,
    },
)
FREE = SamplingParams(max_new_tokens=12, ignore_eos=True)


def run(work, *, spec=SPEC, **options):
    """The result of `work(engine)` on a started engine, closed afterwards."""

    async def main():
        engine = LocalRolloutEngine(LocalRolloutConfig(**options), RolloutContext(model=spec, seed=5))
        await engine.start()
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(main())


def requests(count, *, params=FREE, n=2, prompt=(3, 4, 5, 6)):
    return [
        GenerateRequest(id=str(i), prompt_ids=[*prompt[: i % len(prompt) + 1], 3 + i % 10], params=params, n=n, seed=i)
        for i in range(count)
    ]


def together(wanted):
    async def work(engine):
        return await asyncio.gather(*(engine.generate(request) for request in wanted))

    return work


async def until_cached(engine, tokens):
    """Until the first running sequence holds so many tokens."""
    while not engine._scheduler.running or engine._scheduler.running[0].cached < tokens:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0)


def flat(results):
    return [(list(c.tokens), list(c.logprobs), c.finish_reason) for completions in results for c in completions]


def plain_logprobs(engine, prompt, tokens):
    """Of the generated tokens, by one forward pass of the model itself."""
    ids = torch.tensor([[*prompt, *tokens]])
    with torch.no_grad():
        logits = engine.module(input_ids=ids, use_cache=False).logits[0].float()
    table = logits.log_softmax(-1)
    return [float(table[len(prompt) - 1 + t, token]) for t, token in enumerate(tokens)]


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "llama"},
        {"model_type": "qwen3", "head_dim": 8},
        {"model_type": "qwen2"},
        {"model_type": "mistral", "sliding_window": 5},
    ],
)
def test_logprobs_are_the_models_own(changes):
    """To 1e-4 on every token, for ragged prompts in one batch, also where rows are used again and windows slide."""
    spec = attrs.evolve(SPEC, config={**SPEC.config, **changes})
    wanted = requests(9)

    async def work(engine):
        results = await together(wanted)(engine)
        return max(
            abs(ours - theirs)
            for request, completions in zip(wanted, results, strict=True)
            for c in completions
            for ours, theirs in zip(c.logprobs, plain_logprobs(engine, request.prompt_ids, c.tokens), strict=True)
        )

    assert run(work, spec=spec, max_running_sequences=5) < 1e-4


def test_a_sample_depends_on_its_seed_and_nothing_else():
    """Alone, in company, with few rows or many: the same tokens. Another seed: others."""
    wanted = requests(6, n=3)
    company = flat(run(together(wanted), max_running_sequences=64))
    crowded = flat(run(together(wanted), max_running_sequences=4))
    alone = flat(run(together(wanted[4:5])))
    other = flat(run(together([attrs.evolve(wanted[4], seed=99)])))

    assert [tokens for tokens, _, _ in company] == [tokens for tokens, _, _ in crowded]
    assert [tokens for tokens, _, _ in company[12:15]] == [tokens for tokens, _, _ in alone]
    assert [tokens for tokens, _, _ in other] != [tokens for tokens, _, _ in alone]
    assert len({tuple(tokens) for tokens, _, _ in alone}) == 3


def test_the_same_submissions_give_the_same_bits():
    """Log-probabilities too, to the last bit: the schedule is a function of the submissions."""
    wanted = requests(7, n=3)

    assert flat(run(together(wanted), max_running_sequences=5)) == flat(run(together(wanted), max_running_sequences=5))


def test_a_prompt_is_computed_once_for_all_its_samples():
    """Also when they do not all fit: 8 samples in 3 rows, one prefill of 5 tokens."""

    async def work(engine):
        await engine.generate(GenerateRequest(id="a", prompt_ids=[3, 4, 5, 6, 7], params=FREE, n=8))
        return engine.stats()

    stats = run(work, max_running_sequences=3)

    assert stats["rollout/prefill_tokens"] == 5
    assert stats["rollout/tokens"] == 8 * 12


@pytest.mark.parametrize(("rows", "steps"), [(3, 36), (0.1, 96), (100, 12)])
def test_fewer_run_at_once_where_the_cache_is_small(rows, steps):
    """8 sequences of 17 tokens, 256 bytes each, in room for so many rows; one runs in any case."""

    async def work(engine):
        found = await engine.generate(GenerateRequest(id="a", prompt_ids=[3, 4, 5, 6, 7], params=FREE, n=8))
        return found, engine.stats()

    found, stats = run(work, cache_gb=rows * 17 * 256 / 1e9)

    assert all(len(one.tokens) == 12 for one in found)
    assert abs(stats["rollout/steps"] - steps) <= steps / 10 + 3  # the first token of each comes with its prompt


def test_the_room_for_the_cache(monkeypatch):
    """What is said; else by the device, and the same every time."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=90e9))

    assert cache_bytes(1.5, torch.device("cuda")) == 1.5e9
    assert cache_bytes(None, torch.device("cuda")) == 30e9
    assert cache_bytes(None, torch.device("cpu")) == 4e9


def test_a_finished_sequences_row_is_used_again_at_once():
    """One long and many short requests in two rows: the short ones pass through the second row without a gap."""
    long = GenerateRequest(id="long", prompt_ids=[3], params=attrs.evolve(FREE, max_new_tokens=30))
    short = [GenerateRequest(id=str(i), prompt_ids=[4], params=attrs.evolve(FREE, max_new_tokens=3)) for i in range(8)]
    order = []

    async def work(engine):
        async def one(request):
            await engine.generate(request)
            order.append(request.id)

        await asyncio.gather(*(one(request) for request in (long, *short)))
        return engine.stats()

    stats = run(work, max_running_sequences=2)

    assert order == [*map(str, range(8)), "long"]
    assert stats["rollout/mean_running"] > 1.5


def test_finish_reasons_and_limits():
    """End of sequence, stop id, stop text, the limit, the context; and none of them before `min_new_tokens`."""
    tokenizer = load_tokenizer(SPEC)
    greedy = SamplingParams(temperature=0.0, max_new_tokens=10, ignore_eos=True)

    async def work(engine):
        async def one(params, prompt=(3, 4)):
            return (await engine.generate(GenerateRequest(id="x", prompt_ids=list(prompt), params=params)))[0]

        free = await one(greedy)
        third = free.tokens[2]
        first = list(free.tokens).index(third)
        stop = await one(attrs.evolve(greedy, stop_token_ids=(third,)))
        late = await one(attrs.evolve(greedy, stop_token_ids=(third,), min_new_tokens=6))
        text = await one(attrs.evolve(greedy, stop=(tokenizer.decode(free.tokens[2:5]),)))
        full = await one(attrs.evolve(greedy, max_new_tokens=500), prompt=[5] * 60)
        return free, stop, first, late, text, full

    free, stop, first, late, text, full = run(work)

    assert (len(free.tokens), free.finish_reason) == (10, "length")
    assert (list(stop.tokens), stop.finish_reason) == (list(free.tokens[: first + 1]), "stop")
    assert len(late.tokens) > 6 or late.finish_reason == "length"
    assert late.tokens[2] != stop.tokens[-1]
    assert (len(text.tokens), text.finish_reason) == (5, "stop")
    assert (len(full.tokens), full.finish_reason) == (4, "length")


def test_end_of_sequence_ends_and_is_kept():
    """The token that ends a sequence is its last; without `ignore_eos` no sequence goes on after it."""
    wanted = requests(8, params=SamplingParams(max_new_tokens=40), n=4)
    results = flat(run(together(wanted)))
    stopped = [tokens for tokens, _, reason in results if reason == "stop"]

    assert stopped
    assert all(tokens[-1] == 1 for tokens in stopped)
    assert all(1 not in tokens[:-1] for tokens, _, _ in results)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.7},
        {"top_k": 3},
        {"top_p": 0.6},
        {"top_p": 0.8, "top_k": 5, "temperature": 1.3},
        {"frequency_penalty": 0.8},
        {"min_new_tokens": 5},
    ],
)
def test_logprobs_are_those_of_the_distribution_sampled_from(params):
    """Against transformers' own logits processors, one token after the other, in float64."""
    wanted = requests(3, params=attrs.evolve(FREE, ignore_eos=False, **params), n=3)

    async def work(engine):
        results = await together(wanted)(engine)
        worst = 0.0
        for request, completions in zip(wanted, results, strict=True):
            for completion in completions:
                for t, token in enumerate(completion.tokens):
                    table = reference(engine, request, completion.tokens[:t])
                    worst = max(worst, abs(float(table[token]) - completion.logprobs[t]))
        return worst

    assert run(work) < 1e-4


def reference(engine, request, generated):
    """[V] log-probabilities of the processed distribution, by transformers' warpers."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    params = request.params
    ids = torch.tensor([[*request.prompt_ids, *generated]])
    with torch.no_grad():
        scores = engine.module(input_ids=ids, use_cache=False).logits[:, -1].double()
    for token in generated:
        scores[0, token] -= params.frequency_penalty
    if len(generated) < params.min_new_tokens:
        scores[0, 1] = -torch.inf
    scores = TemperatureLogitsWarper(params.temperature)(ids, scores) if params.temperature != 1 else scores
    scores = TopKLogitsWarper(params.top_k)(ids, scores) if params.top_k else scores
    scores = TopPLogitsWarper(params.top_p)(ids, scores) if params.top_p < 1 else scores
    return scores[0].log_softmax(-1)


def test_a_version_is_stamped_on_every_token_also_when_it_changes_midway():
    """An update lands while sequences run: tokens before carry the old version, tokens after the new one and its weights."""

    async def work(engine):
        pending = asyncio.create_task(
            engine.generate(GenerateRequest(id="a", prompt_ids=[3, 4], params=attrs.evolve(FREE, max_new_tokens=50)))
        )
        await until_cached(engine, 10)
        await engine.begin_update()
        state = {name: value + 0.1 for name, value in engine.module.state_dict().items()}
        await engine.update(list(state.items()))
        await engine.end_update(7)
        return (await pending)[0]

    completion = run(work)
    first, second = completion.versions

    assert (first.version, second.version) == (0, 7)
    assert (first.start, first.end, second.end) == (0, second.start, 50)
    assert first.end >= 9


@pytest.mark.parametrize("mode", ["keep", "retract"])
def test_pause_and_resume_change_nothing(mode):
    """With their caches or computed anew, the sequences go on as if nothing had been."""
    request = GenerateRequest(id="a", prompt_ids=[3, 4], params=attrs.evolve(FREE, max_new_tokens=40), n=3)

    async def paused(engine):
        pending = asyncio.create_task(engine.generate(request))
        await until_cached(engine, 12)
        await engine.pause(mode)
        before = len(engine._scheduler.running[0].tokens if mode == "keep" else engine._scheduler.waiting[0].tokens)
        await asyncio.sleep(0.05)
        await engine.resume()
        return before, await pending

    before, resumed = run(paused)
    undisturbed = run(together([request]))[0]

    assert 0 < before < 40
    assert [list(c.tokens) for c in resumed] == [list(c.tokens) for c in undisturbed]
    for ours, theirs in zip(resumed, undisturbed, strict=True):
        assert torch.allclose(torch.tensor(ours.logprobs), torch.tensor(theirs.logprobs), atol=1e-5)


def test_abort_gives_back_what_there_is():
    """One request is taken back with its partial tokens, the other ends as it would have; pause(abort) takes back all."""
    params = attrs.evolve(FREE, max_new_tokens=50)

    async def work(engine):
        one, two, three = (
            asyncio.create_task(engine.generate(GenerateRequest(id=name, prompt_ids=[3], params=params))) for name in "abc"
        )
        await until_cached(engine, 8)
        await engine.abort("a")
        first = (await one)[0]
        two.cancel()
        await engine.pause("abort")
        last = (await three)[0]
        await engine.resume()
        again = (await engine.generate(GenerateRequest(id="d", prompt_ids=[3], params=params)))[0]
        return first, last, again

    first, last, again = run(work)

    assert first.finish_reason == last.finish_reason == "abort"
    assert 8 <= len(first.tokens) < 50
    assert len(first.logprobs) == len(first.tokens) == first.versions[-1].end
    assert (len(again.tokens), again.finish_reason) == (50, "length")


def test_two_hundred_and_fifty_six_requests_in_flight():
    """All come back, each with its own."""
    wanted = requests(256, n=1, params=attrs.evolve(FREE, max_new_tokens=3))
    results = run(together(wanted), max_running_sequences=16)

    assert [len(completions[0].tokens) for completions in results] == [3] * 256


def test_prompts_that_do_not_fit_and_engines_that_are_gone():
    """A prompt that fills the context, an empty one, a closed engine, a model that raises: clear errors, no hanging."""

    async def work(engine):
        with pytest.raises(PromptTooLongError, match="64 tokens, but the context holds 64"):
            await engine.generate(GenerateRequest(id="a", prompt_ids=[3] * 64, params=FREE))
        with pytest.raises(PromptTooLongError, match="0 tokens"):
            await engine.generate(GenerateRequest(id="b", prompt_ids=[], params=FREE))
        engine._generator.module = None
        with pytest.raises(AttributeError):
            await engine.generate(GenerateRequest(id="c", prompt_ids=[3], params=FREE))
        with pytest.raises(RunError, match="dead since"):
            await engine.generate(GenerateRequest(id="d", prompt_ids=[3], params=FREE))
        return engine

    engine = run(work)

    with pytest.raises(RunError, match=r"closed|dead"):
        asyncio.run(engine.generate(GenerateRequest(id="e", prompt_ids=[3], params=FREE)))


def test_update_refuses_what_does_not_fit():
    """An unknown name and a wrong shape are named."""

    async def work(engine):
        name = next(iter(engine.module.state_dict()))
        with pytest.raises(RunError, match="has no 'nothing'"):
            await engine.update([("nothing", torch.zeros(1))])
        with pytest.raises(RunError, match=r"is .* here and \(1,\)"):
            await engine.update([(name, torch.zeros(1))])

    run(work)


def test_what_nobody_waits_for_ends_at_the_next_step():
    """Also when a step was running as it was given up: none of its sequences goes on."""

    async def work(engine):
        params = SamplingParams(max_new_tokens=50, ignore_eos=True)
        left = []
        for turn in range(20):
            task = asyncio.ensure_future(engine.generate(GenerateRequest(id=f"x{turn}", prompt_ids=[3], params=params, n=3)))
            await asyncio.sleep(0.003 * turn / 4)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            (found,) = await engine.generate(
                GenerateRequest(id=f"y{turn}", prompt_ids=[4], params=SamplingParams(max_new_tokens=3, ignore_eos=True))
            )
            left.append((len(found.tokens), len(engine._scheduler.running) + len(engine._scheduler.waiting)))
        return left

    assert run(work) == [(3, 0)] * 20
