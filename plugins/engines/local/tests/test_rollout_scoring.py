"""How likely the served weights find given tokens, against transformers' own forward pass."""

from __future__ import annotations

import asyncio

import pytest
import torch

from core_rl.errors import PromptTooLongError, RunError
from core_rl.hf.spec import ModelSpec
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams, ScoreRequest
from core_rl_local.config import LocalRolloutConfig
from core_rl_local.plugin import core_rl_rollout_engines
from core_rl_local.rollout import LocalRolloutEngine

COMMON = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
MODELS = {"llama": {"model_type": "llama", **COMMON}, "qwen3": {"model_type": "qwen3", **COMMON, "head_dim": 8}}
TOKENS = [3, 9, 4, 4, 11, 5, 3]


def run(work, model="llama"):
    """The result of `work(engine)` on a started engine, closed afterwards."""
    spec = ModelSpec(init="random", tokenizer="characters:0123456789+= ", config=MODELS[model])

    async def main():
        engine = LocalRolloutEngine(LocalRolloutConfig(), RolloutContext(model=spec, seed=5))
        await engine.start()
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(main())


def table(engine, tokens, temperature):
    """[L - 1, V] log-probabilities in the place of every token but the first."""
    with torch.no_grad():
        logits = engine.module(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, :-1]
    return (logits / temperature).log_softmax(-1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_are_the_models_own(model, temperature):
    """One entry a token; the first says nothing; the likeliest tokens are best first."""

    async def work(engine):
        scores = await engine.score(ScoreRequest(id="a", tokens=TOKENS, top_k=4, temperature=temperature))
        return scores, table(engine, TOKENS, temperature)

    scores, expected = run(work, model)
    best = expected.topk(4)

    assert scores.logprobs[0] == 0.0
    assert (scores.topk_ids[0], scores.topk_logprobs[0]) == ([], [])
    assert scores.topk_ids[1:] == best.indices.tolist()
    own = expected.gather(1, torch.tensor(TOKENS[1:])[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(scores.logprobs[1:]), own, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(torch.tensor(scores.topk_logprobs[1:]), best.values, atol=1e-5, rtol=1e-5)


def test_sizes_at_the_edges():
    """One token has nothing to say; more than the vocabulary is the vocabulary; no `top_k`, no ids; no token is no request."""

    async def work(engine):
        short = await engine.score(ScoreRequest(id="a", tokens=[3], top_k=2))
        wide = await engine.score(ScoreRequest(id="b", tokens=TOKENS, top_k=99))
        return short, wide, await engine.score(ScoreRequest(id="c", tokens=TOKENS))

    short, wide, bare = run(work)

    assert (short.logprobs, short.topk_ids, short.topk_logprobs) == ([0.0], [[]], [[]])
    assert [len(row) for row in wide.topk_ids] == [0, 16, 16, 16, 16, 16, 16]
    assert (len(bare.logprobs), bare.topk_ids, bare.topk_logprobs) == (7, (), ())
    with pytest.raises(ValueError, match="tokens"):
        ScoreRequest(id="d", tokens=[])


def test_scores_and_samples_at_once_are_those_of_each_alone():
    """Scoring goes between two steps of decoding and changes neither; a sample scored is what sampling said of it."""
    request = GenerateRequest(
        id="g", prompt_ids=[3, 4, 5], params=SamplingParams(max_new_tokens=12, ignore_eos=True), n=2, seed=1
    )
    wanted = [ScoreRequest(id=str(i), tokens=[3 + i, *TOKENS]) for i in range(6)]

    async def work(engine):
        alone = await engine.generate(request), [await engine.score(one) for one in wanted]
        together = await asyncio.gather(engine.generate(request), *(engine.score(one) for one in wanted))
        first = together[0][0]
        again = await engine.score(ScoreRequest(id="x", tokens=[3, 4, 5, *first.tokens]))
        return alone, (together[0], together[1:]), (first.logprobs, again.logprobs[3:])

    alone, together, (said, scored) = run(work)

    assert together == alone
    torch.testing.assert_close(torch.tensor(scored), torch.tensor(list(said)), atol=1e-5, rtol=1e-5)


def test_no_score_of_half_an_update():
    """What is asked while weights come in is answered by the new ones."""

    async def work(engine):
        await engine.begin_update()
        asked = asyncio.create_task(engine.score(ScoreRequest(id="a", tokens=TOKENS)))
        await asyncio.sleep(0.05)
        waited = not asked.done()
        name, weight = next((n, p) for n, p in engine.module.named_parameters() if "embed" in n)
        await engine.update([(name, torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))])
        await engine.end_update(1)
        return waited, await asked, table(engine, TOKENS, 1.0)

    waited, scores, expected = run(work)
    own = expected.gather(1, torch.tensor(TOKENS[1:])[:, None])[:, 0]

    assert waited
    torch.testing.assert_close(torch.tensor(scores.logprobs[1:]), own, atol=1e-5, rtol=1e-5)


def test_sequences_that_do_not_fit_and_engines_that_are_gone():
    """Refused by name; what waits when the engine is closed is told so."""

    async def work(engine):
        with pytest.raises(PromptTooLongError, match="long: 65 tokens, and the context holds 64"):
            await engine.score(ScoreRequest(id="long", tokens=[3] * 65))
        await engine.pause("keep")
        waiting = asyncio.create_task(engine.score(ScoreRequest(id="a", tokens=TOKENS)))
        await asyncio.sleep(0)
        await engine.close()
        with pytest.raises(RunError, match="is closed"):
            await waiting
        with pytest.raises(RunError, match="is closed"):
            await engine.score(ScoreRequest(id="b", tokens=TOKENS))

    run(work)


def test_the_component_says_so():
    """`scoring` is what a teacher in a rollout engine needs."""
    assert "scoring" in core_rl_rollout_engines()[0].provides
