"""What is sampled: its form, its distribution, its seeds and its end."""

from __future__ import annotations

import asyncio

import attrs

from core_rl.errors import PromptTooLongError
from core_rl.roles.rollout import SamplingParams, ScoreRequest
from core_rl.testing.rollout_engine.bench import FREE, MODEL, PROMPT, RolloutBench, expect, refused

SOME = [SamplingParams(max_new_tokens=12, ignore_eos=True, temperature=t) for t in (1.0, 0.7, 1.5)]


async def form(bench: RolloutBench) -> None:
    """As many completions as asked for, in order; a log-probability for each token, and versions that cover them."""
    found = await bench.sample(n=3)
    expect(len(found) == 3, f"{len(found)} completions for 3")
    for completion in found:
        expect(len(completion.tokens) == 12, f"{len(completion.tokens)} tokens for max_new_tokens 12 without an end")
        expect(completion.finish_reason == "length", f"cut at the limit, and finish_reason is {completion.finish_reason}")
        expect(len(completion.logprobs) == len(completion.tokens), "a log-probability for each token")
        spans = [(span.version, span.start, span.end) for span in completion.versions]
        expect(spans == [(bench.version, 0, 12)], f"versions {spans}, and the last update was {bench.version}")
    expect(len({tuple(completion.tokens) for completion in found}) > 1, "samples of one request are all the same")


async def same_seed(bench: RolloutBench) -> None:
    """A request says the same again, and something else with another seed."""
    first, again, other = [await bench.sample(n=2, seed=seed) for seed in (7, 7, 8)]
    expect([c.tokens for c in first] == [c.tokens for c in again], "the same seed gave other tokens")
    expect([c.tokens for c in first] != [c.tokens for c in other], "another seed gave the same tokens")


async def alone_or_with_others(bench: RolloutBench) -> None:
    """What else is in flight, with whatever sampling options, does not change a sample."""
    others = [FREE, *(attrs.evolve(FREE, **change) for change in ({"top_k": 3}, {"top_p": 0.7}, {"temperature": 0.7}))]
    for params in others:
        alone = await bench.sample(params, n=2, seed=11)
        crowd = (bench.sample(others[k % 4], prompt=PROMPT[: 1 + k // 4 % 4], seed=k) for k in range(24))
        among, *_ = await asyncio.gather(bench.sample(params, n=2, seed=11), *crowd)
        expect([c.tokens for c in alone] == [c.tokens for c in among], f"others in flight changed the tokens, with {params}")


async def logprobs(bench: RolloutBench) -> None:
    """At several temperatures, log-probabilities are those of the model's own forward pass."""
    for params in SOME:
        bench.compare("logprobs", await bench.sample(params, n=4), params)


async def processed_logprobs(bench: RolloutBench) -> None:
    """With top-k, top-p and penalties they are those of the distribution that was sampled from."""
    for change in ({"top_k": 3}, {"top_p": 0.7}, {"top_k": 5, "top_p": 0.8, "temperature": 0.9}, {"frequency_penalty": 0.6}):
        params = attrs.evolve(FREE, **change)
        bench.compare("processed_logprobs", await bench.sample(params, n=4), params)


async def greedy(bench: RolloutBench) -> None:
    """Temperature 0 takes the likeliest token every time."""
    params = attrs.evolve(FREE, temperature=0.0)
    (found,) = await bench.sample(params)
    bench.compare("greedy", [found], params)
    best = bench.logprobs(PROMPT, found.tokens, params)
    for place in range(len(found.tokens)):
        for token in range(5):
            other = bench.logprobs(PROMPT, [*found.tokens[:place], token], params)[-1]
            expect(other <= best[place] + bench.logprob_tolerance, f"token {token} was likelier in place {place}")


async def stop_ids(bench: RolloutBench) -> None:
    """A stop id ends a completion and is its last token; the tokenizer's end of sequence does too, unless ignored."""
    (free,) = await bench.sample(seed=21)
    stop = free.tokens[4]
    first = list(free.tokens).index(stop)
    (cut,) = await bench.sample(attrs.evolve(FREE, stop_token_ids=(stop,)), seed=21)
    expect(list(cut.tokens) == list(free.tokens[: first + 1]), f"stopped at {cut.tokens}, expected {free.tokens[: first + 1]}")
    expect(cut.finish_reason == "stop", f"finish_reason {cut.finish_reason}")
    for seed in range(40):
        (free,) = await bench.sample(seed=seed)
        ends = [place for place, token in enumerate(free.tokens[:-1]) if token in bench.end_ids()]
        if ends:
            (ended,) = await bench.sample(attrs.evolve(FREE, ignore_eos=False), seed=seed)
            expected = list(free.tokens[: ends[0] + 1])
            expect(list(ended.tokens) == expected, f"{ended.tokens} does not end with the first end of sequence: {expected}")
            return
    message = "no sample had an end of sequence; the model of the suite has changed"
    raise AssertionError(message)


async def min_new_tokens(bench: RolloutBench) -> None:
    """No stop id comes before that many tokens."""
    (free,) = await bench.sample(seed=21)
    params = attrs.evolve(FREE, stop_token_ids=(free.tokens[0],), min_new_tokens=6)
    (found,) = await bench.sample(params, seed=21)
    expect(free.tokens[0] not in found.tokens[:6], f"the stop id {free.tokens[0]} is in {found.tokens[:6]}")


async def stop_strings(bench: RolloutBench) -> None:
    """A text that ends a completion stays in it, as the tokens it is made of."""
    from core_rl.hf.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(MODEL)
    for seed in range(30):
        (free,) = await bench.sample(seed=seed)
        text = tokenizer.decode(free.tokens[3:5], skip_special_tokens=True)
        if len(text) == 2 and text not in tokenizer.decode(free.tokens[:4], skip_special_tokens=True):
            (cut,) = await bench.sample(attrs.evolve(FREE, stop=(text,)), seed=seed)
            expect(list(cut.tokens) == list(free.tokens[:5]), f"{cut.tokens}, expected {free.tokens[:5]}: stop {text!r}")
            expect(cut.finish_reason == "stop", f"finish_reason {cut.finish_reason}")
            return
    message = "no sample to stop in; the model of the suite has changed"
    raise AssertionError(message)


async def context(bench: RolloutBench) -> None:
    """A prompt without room for an answer is refused; a completion ends where the context does."""
    longest = MODEL.config["max_position_embeddings"]
    await refused(bench.sample(prompt=[3] * longest), PromptTooLongError)
    (found,) = await bench.sample(prompt=[3] * (longest - 5))
    expect(len(found.tokens) == 5, f"{len(found.tokens)} tokens with room for 5")
    expect(found.finish_reason == "length", f"finish_reason {found.finish_reason}")


async def many_in_flight(bench: RolloutBench) -> None:
    """256 requests at once are all answered, each with its own."""
    params = attrs.evolve(FREE, max_new_tokens=4)
    prompts = [[3 + k % 10, 3 + k // 10 % 10, 3 + k // 100] for k in range(256)]
    found = await asyncio.gather(*(bench.sample(params, prompt=prompt, seed=k) for k, prompt in enumerate(prompts)))
    for prompt, completions in list(zip(prompts, found, strict=True))[::16]:
        bench.compare("many_in_flight", completions, params, prompt=prompt)
    expect(sum(len(c.tokens) for (c,) in found) == 4 * 256, "tokens were lost")


async def long_prompts(bench: RolloutBench) -> None:
    """Long prompts at once, more than an engine computes in one step, are answered each as if alone."""
    params = attrs.evolve(FREE, max_new_tokens=4)
    prompts = [[3 + (k * place) % 11 for place in range(1, 201)] for k in range(1, 25)]
    found = await asyncio.gather(*(bench.sample(params, prompt=prompt, n=2, seed=k) for k, prompt in enumerate(prompts)))
    for prompt, completions in list(zip(prompts, found, strict=True))[::6]:
        bench.compare("long_prompts", completions, params, prompt=prompt)
    alone = await bench.sample(params, prompt=prompts[-1], n=2, seed=len(prompts) - 1)
    expect([c.tokens for c in alone] == [c.tokens for c in found[-1]], "a prompt is answered in another way when it is alone")


async def scoring(bench: RolloutBench) -> None:
    """Given tokens get the model's log-probabilities, and the likeliest ones are named in order."""
    tokens = [*PROMPT, 7, 8, 9]
    found = await bench.engine.score(ScoreRequest(id="score", tokens=tokens, top_k=3))
    expected = [0.0, *bench.logprobs(tokens[:1], tokens[1:], FREE)]
    difference = max(abs(a - b) for a, b in zip(expected, found.logprobs, strict=True))
    bench.measured["scoring"] = difference
    expect(difference <= bench.logprob_tolerance, f"log-probabilities are {difference:.3g} away from the model's")
    for ids, values in zip(found.topk_ids[1:], found.topk_logprobs[1:], strict=True):
        expect(len(ids) == 3 and list(values) == sorted(values, reverse=True), f"the likeliest tokens {ids} have {values}")
