"""The trained model as a reward: its scores are the model's own, in any batch, and models that cannot be one are refused."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest
import torch
import transformers

from core_rl.data.sample import Prompt, Sample, Turn
from core_rl.errors import ModelError
from core_rl.scoring import Scorer
from core_rl_reward_model.config import RewardModelRewardConfig
from core_rl_reward_model.reward import RewardModelReward
from core_rl_reward_model.scorer import ModelScorer

from .tiny_reward_model import save_model


@pytest.fixture
def saved(tmp_path):
    return tmp_path, *save_model(tmp_path)


def sample(prompt, completion):
    return Sample(prompt=prompt, turns=[Turn(tokens=[3], generated=True)], finish_reason="stop", completion_text=completion)


def text_prompt(text):
    return Prompt(id=text, text=text)


def test_scores_are_those_of_transformers(saved):
    """Of prompt, completion and the end-of-sequence token, at the last token; text and messages."""
    folder, model, tokenizer = saved
    reward = RewardModelReward(RewardModelRewardConfig(path=str(folder), device="cpu"))
    chat = Prompt(id="chat", messages=({"role": "user", "content": "12="},))
    ids = torch.tensor([[*tokenizer.encode("12=3"), tokenizer.eos_token_id]])
    expected = model(ids).logits[0, 0].item()

    assert asyncio.run(reward.score(sample(text_prompt("12="), "3"))) == pytest.approx(expected, rel=1e-5)
    assert asyncio.run(reward.score(sample(chat, "3"))) == pytest.approx(expected, rel=1e-5)


def test_a_batch_does_not_change_a_score_and_the_pad_token_may_end_a_sequence(tmp_path):
    """Ragged sequences, and a tokenizer whose padding is its end of sequence: the last token is scored all the same."""
    model, tokenizer = save_model(tmp_path, pad="<eos>")
    scorer = ModelScorer(RewardModelRewardConfig(path=str(tmp_path), device="cpu"))
    sequences = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in ("1=2", "123456", "9")]
    hidden = [model.model(torch.tensor([ids])).last_hidden_state[0, -1] for ids in sequences]
    expected = [model.score(state).item() for state in hidden]

    assert scorer(sequences) == pytest.approx(expected, rel=1e-4)
    assert [scorer([one])[0] for one in sequences] == pytest.approx(expected, rel=1e-4)


def test_concurrent_calls_share_forward_passes(saved, monkeypatch):
    """Ten samples at once are at most a handful of passes, of at most batch_size sequences; everyone gets his own score."""
    reward = RewardModelReward(RewardModelRewardConfig(path=str(saved[0]), device="cpu", batch_size=4))
    sizes = []
    original = reward._scorer

    def counted(sequences):
        sizes.append(len(sequences))
        return original(sequences)

    counted.tokens = original.tokens
    monkeypatch.setattr(reward, "_scorer", counted)
    samples = [sample(text_prompt(f"{digit}="), str(digit)) for digit in range(10)]

    async def all_of_them():
        return await asyncio.gather(*(reward.score(one) for one in samples))

    together = asyncio.run(all_of_them())
    alone = [asyncio.run(reward.score(one)) for one in samples]

    assert together == pytest.approx(alone, rel=1e-4)
    assert max(sizes) == 4
    assert sum(sizes[:3]) == 10


def test_event_loops_of_two_threads_do_not_take_each_others_samples(saved):
    """One scores, with a sample that waits for the next pass, while another comes and goes."""
    reward = RewardModelReward(RewardModelRewardConfig(path=str(saved[0]), device="cpu", batch_size=1))
    original, begun, go_on = reward._scorer, threading.Event(), threading.Event()

    def held(sequences):
        begun.set()
        go_on.wait(30)
        return original(sequences)

    held.tokens = original.tokens
    reward._scorer = held
    one, two, other = (sample(text_prompt(f"{digit}="), str(digit)) for digit in (1, 2, 3))

    async def both():
        return await asyncio.wait_for(asyncio.gather(reward.score(one), reward.score(two)), 30)

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(asyncio.run, both())
        assert begun.wait(30)
        reward._scorer = original
        threading.Timer(0.5, go_on.set).start()
        alone = asyncio.run(asyncio.wait_for(reward.score(other), 30))
        together = first.result(60)

    assert [*together, alone] == pytest.approx([asyncio.run(reward.score(each)) for each in (one, two, other)], rel=1e-4)


def test_an_error_is_the_state_of_the_samples_in_that_batch_alone(saved):
    """The scorer drops them; the next call works."""
    reward = RewardModelReward(RewardModelRewardConfig(path=str(saved[0]), device="cpu"))
    original, calls = reward._scorer, []

    def breaks_once(sequences):
        calls.append(len(sequences))
        if len(calls) == 1:
            message = "out of memory"
            raise RuntimeError(message)
        return original(sequences)

    breaks_once.tokens = original.tokens
    reward._scorer = breaks_once
    scorer = Scorer([("reward_model", 1.0, reward)], timeout_s=10, on_failure="drop")
    first, second = sample(text_prompt("1="), "1"), sample(text_prompt("2="), "2")
    asyncio.run(scorer.score(first))
    asyncio.run(scorer.score(second))

    assert first.reward is None
    assert "out of memory" in first.reward_parts["reward_model"].error
    assert second.reward is not None


def test_a_long_sample_is_cut_at_its_end_and_a_long_prompt_fails(saved):
    """The context of the model is 12 tokens."""
    folder, _, tokenizer = saved
    scorer = ModelScorer(RewardModelRewardConfig(path=str(folder), device="cpu"))
    cut = scorer.tokens("12=", "3" * 30, name="row")

    assert list(cut) == tokenizer.encode("12=" + "3" * 9)
    with pytest.raises(ModelError, match="the prompt alone is longer than the reward model's 12 tokens"):
        scorer.tokens("1" * 12, "3", name="row")


@pytest.mark.parametrize(
    ("cls", "labels", "message"),
    [
        (transformers.LlamaForCausalLM, 1, "is no reward model, it lacks score.weight"),
        (transformers.LlamaForSequenceClassification, 3, "has 3 labels, and a reward model has one"),
    ],
)
def test_a_model_without_one_score_is_refused_in_one_line(tmp_path, cls, labels, message):
    """transformers would give a causal model a random head, with a warning."""
    save_model(tmp_path, cls=cls, labels=labels)

    with pytest.raises(ModelError, match=message) as found:
        RewardModelReward(RewardModelRewardConfig(path=str(tmp_path)))
    assert "\n" not in str(found.value)


def test_training_and_evaluation_share_one_model(saved):
    """Options that are equal are one model in memory; a folder that is not there is an error when the reward is built."""
    options = RewardModelRewardConfig(path=str(saved[0]), device="cpu")

    assert RewardModelReward(options)._scorer is RewardModelReward(attrs.evolve(options))._scorer
    with pytest.raises(ModelError, match="does not exist"):
        RewardModelReward(RewardModelRewardConfig(path=str(saved[0] / "nothing" / "here")))
