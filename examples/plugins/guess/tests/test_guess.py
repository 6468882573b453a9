"""The workflow `guess`, its game and its reward."""

from __future__ import annotations

import asyncio
import math

import attrs
import pytest
from core_rl_example_guess.config import GuessConfig, GuessRewardConfig
from core_rl_example_guess.game import Game
from core_rl_example_guess.reward import GuessReward
from core_rl_example_guess.workflow import Guess

from core_rl.data.packing import pack
from core_rl.data.sample import Group, Prompt, Sample, VersionSpan
from core_rl.errors import DataError, PluginError, PromptTooLongError
from core_rl.hf.tokenizer import character_tokenizer
from core_rl.roles.rollout import Completion, SamplingParams

TOKENIZER = character_tokenizer("0123456789?+-!")


@attrs.define
class Engine:
    """Says these texts, one for each request of a game, each followed by the end of sequence."""

    texts: list[str]
    room: int = 64
    finish_reason: str = "stop"
    requests: list = attrs.field(factory=list)

    async def generate(self, request):
        if len(request.prompt_ids) >= self.room:
            raise PromptTooLongError(request.id)
        self.requests.append(request)
        game = {one.id: None for one in self.requests}
        tokens = [*TOKENIZER.encode(self.texts[(len(game) - 1) % len(self.texts)]), 1]
        logprobs = [-0.5 - 0.25 * place for place in range(len(tokens))]
        span = (VersionSpan(version=4, start=0, end=len(tokens)),)
        return [Completion(tokens=tokens, logprobs=logprobs, finish_reason=self.finish_reason, versions=span)]


def play(engine, *, n=1, secret="7", seed=3, **options):
    prompt = Prompt(id="p", text="?", answer=secret)
    params = SamplingParams(max_new_tokens=3)
    workflow = Guess(GuessConfig(**options))
    return asyncio.run(workflow.run(prompt, n=n, engine=engine, tokenizer=TOKENIZER, params=params, seed=seed))


def test_a_game_goes_by_turns():
    """The policy's and the environment's turns follow one another, and the end needs no hint."""
    [sample] = play(Engine(["5", "8", "7"]))

    assert sample.completion_text == "5+8-7"
    assert [TOKENIZER.decode(turn.tokens, skip_special_tokens=True) for turn in sample.turns] == ["?", "5", "+", "8", "-", "7"]
    assert [turn.generated for turn in sample.turns] == [False, True, False, True, False, True]
    assert (sample.finish_reason, sample.prompt_text, sample.metadata["guess"].found) == ("stop", "?", 3)


def test_a_request_is_the_tokens_of_all_turns_before_it():
    """Also the end-of-sequence token that the policy wrote: nothing is encoded again."""
    engine = Engine(["5", "8", "7"])
    [sample] = play(engine)

    first, second, third = (list(request.prompt_ids) for request in engine.requests)
    assert second == [*first, *TOKENIZER.encode("5"), 1, *TOKENIZER.encode("+")]
    assert third == [*second, *TOKENIZER.encode("8"), 1, *TOKENIZER.encode("-")]
    assert sample.tokens == [*third, *TOKENIZER.encode("7"), 1]


def test_the_environment_is_in_no_loss():
    """In the packed batch the mask and the log-probabilities are there where the policy wrote."""
    [sample] = play(Engine(["5", "7"]))
    batch = pack([Group(prompt=sample.prompt, samples=[sample])])

    assert batch.loss_mask.tolist() == [False, True, True, False, True, True]
    assert batch["rollout_logprobs"].tolist() == [0.0, -0.5, -0.75, 0.0, -0.5, -0.75]
    assert batch["versions"].tolist() == [-1, 4, 4, -1, 4, 4]


def test_no_two_requests_have_one_seed_or_one_name():
    """Engines know a request by its name; the games of one prompt differ, and the same seed plays them again."""
    engine, again = Engine(["1"]), Engine(["1"])
    play(engine, n=4, turns=4)
    play(again, n=4, turns=4)

    seeds = [request.seed for request in engine.requests]
    assert len(set(seeds)) == len({request.id for request in engine.requests}) == 16
    assert sorted(seeds) == sorted(request.seed for request in again.requests)


def test_games_do_not_know_of_one_another():
    """Four games for one prompt, each with its own state."""
    samples = play(Engine(["1"]), n=4, turns=2)

    assert [sample.completion_text for sample in samples] == ["1+1"] * 4
    assert len({id(sample.metadata["guess"]) for sample in samples}) == 4


def test_a_turn_that_is_no_number_costs_a_guess():
    """The environment says so in its own text."""
    [sample] = play(Engine(["?", "--", "7"]), turns=3, invalid="!!")

    assert sample.completion_text == "?!!--!!7"
    assert sample.metadata["guess"].found == 3


def test_a_context_that_is_full_ends_the_game():
    """As truncated, with what there is; a prompt without any room is the loop's business."""
    [sample] = play(Engine(["5", "8"], room=4))

    assert (sample.finish_reason, sample.truncated, sample.completion_text) == ("length", True, "5+")
    with pytest.raises(PromptTooLongError):
        play(Engine(["5"], room=1))


def test_an_abort_ends_the_game():
    """What was taken back is no guess."""
    [sample] = play(Engine(["5"], finish_reason="abort"))

    assert (sample.finish_reason, sample.metadata["guess"].guesses) == ("abort", 0)


@pytest.mark.parametrize("secret", [None, "seven", [7]])
def test_a_row_without_a_number_is_told(secret):
    """With the prompt's name and what was found."""
    with pytest.raises(DataError, match=r"prompt p has the answer .*; it is the whole number to guess"):
        play(Engine(["5"]), secret=secret)


def test_messages_go_through_the_chat_template():
    """And need one."""
    prompt = Prompt(id="p", messages=({"role": "user", "content": "?"},), answer=7)
    engine, params = Engine(["7"]), SamplingParams()
    run = {"n": 1, "engine": engine, "params": params, "seed": 1}
    [sample] = asyncio.run(Guess(GuessConfig()).run(prompt, tokenizer=TOKENIZER, **run))
    bare = character_tokenizer("0123456789?")
    bare.chat_template = None

    assert sample.prompt_text == "?"
    with pytest.raises(DataError, match=r"no chat template: give data.format: text"):
        asyncio.run(Guess(GuessConfig()).run(prompt, tokenizer=bare, **run))


@pytest.mark.parametrize(
    ("guesses", "value"), [(["7"], 1.0), (["5", "7"], 0.75), (["5", "9", "8", "7"], 0.25), (["5"] * 4, 0.0), (["x"] * 4, 0.0)]
)
def test_a_number_is_worth_more_the_sooner_it_is_found(guesses, value):
    """On a line from 1 to `slow`."""
    game = Game(secret=7, turns=4)
    for guess in guesses:
        game.guess(guess)
    sample = Sample(prompt=Prompt(id="p"), turns=[], finish_reason="stop", completion_text="", metadata={"guess": game})

    assert math.isclose(GuessReward(GuessRewardConfig(slow=0.25)).score(sample).value, value)


def test_the_reward_needs_its_workflow():
    """A sample of another one is refused with what to select."""
    sample = Sample(prompt=Prompt(id="p"), turns=[], finish_reason="stop", completion_text="7")

    with pytest.raises(PluginError, match="select `workflow: guess` with it"):
        GuessReward(GuessRewardConfig()).score(sample)
