"""The workflow `guess`: the policy guesses a number, the environment answers, for some turns.

A sample's turns are: the prompt, then by turns what the policy wrote and what the environment said. Every request is the ids of all turns
before it, as they were sampled: nothing is decoded and encoded again. Tokens of the environment are `generated=False`, so that they are in
no loss. The game itself stands in `sample.metadata["guess"]`, where the reward `guess` finds it.

`prompt.answer` is the number; the policy never reads it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.data.sample import FinishReason, Sample, Turn
from core_rl.errors import DataError, PromptTooLongError
from core_rl.roles.rollout import GenerateRequest
from core_rl.seeds import derive
from core_rl_example_guess.game import Game

if TYPE_CHECKING:
    from core_rl.data.sample import Prompt
    from core_rl.hf.tokenizer import Tokenizer
    from core_rl.roles.rollout import RolloutEngine, SamplingParams
    from core_rl_example_guess.config import GuessConfig


class Guess:
    """A workflow. It keeps no state: every game has its own."""

    def __init__(self, options: GuessConfig) -> None:
        self._options = options

    async def run(
        self,
        prompt: Prompt,
        *,
        n: int,
        engine: RolloutEngine,
        tokenizer: Tokenizer,
        params: SamplingParams,
        seed: int,
    ) -> list[Sample]:
        """`n` games for the same number, at once."""
        secret, opening = _secret(prompt), _opening(prompt, tokenizer)
        tables = [
            _Table(
                prompt=prompt,
                game=Game(secret=secret, turns=self._options.turns),
                turns=[Turn(tokens=opening, generated=False)],
                engine=engine,
                tokenizer=tokenizer,
                params=params,
                options=self._options,
            )
            for _ in range(n)
        ]
        return await asyncio.gather(*(table.play(derive(seed, k)) for k, table in enumerate(tables)))


@attrs.frozen(kw_only=True)
class _Table:
    """One game and who plays it. `turns` and `game` grow."""

    prompt: Prompt
    game: Game
    turns: list[Turn]
    engine: RolloutEngine
    tokenizer: Tokenizer
    params: SamplingParams
    options: GuessConfig

    async def play(self, seed: int) -> Sample:
        finish: FinishReason = "stop"
        while finish == "stop" and not self.game.over:
            finish = await self._turn(derive(seed, self.game.guesses))
        return self._sample(finish)

    async def _turn(self, seed: int) -> FinishReason:
        """One guess and its hint. Anything but `stop` ends the game."""
        ids = [token for turn in self.turns for token in turn.tokens]
        request = GenerateRequest(id=f"{self.prompt.id}/{seed}", prompt_ids=ids, params=self.params, seed=seed)
        try:
            [completion] = await self.engine.generate(request)
        except PromptTooLongError:
            if len(self.turns) == 1:  # the prompt itself, which `run.long_prompts` is about
                raise
            return "length"
        written = Turn(tokens=completion.tokens, generated=True, logprobs=completion.logprobs, versions=completion.versions)
        self.turns.append(written)
        if completion.finish_reason == "abort":
            return "abort"
        hint = self.game.guess(self.tokenizer.decode(completion.tokens, skip_special_tokens=True))
        if hint is not None and not self.game.over:
            said = self.tokenizer.encode(getattr(self.options, hint), add_special_tokens=False)
            self.turns.append(Turn(tokens=said, generated=False))
        return "stop"

    def _sample(self, finish: FinishReason) -> Sample:
        """The whole exchange is the completion's text, so that the log of samples shows the game."""
        exchange = [token for turn in self.turns[1:] for token in turn.tokens]
        return Sample(
            prompt=self.prompt,
            turns=self.turns,
            finish_reason=finish,
            completion_text=self.tokenizer.decode(exchange, skip_special_tokens=True),
            prompt_text=self.tokenizer.decode(self.turns[0].tokens, skip_special_tokens=False),
            metadata={"guess": self.game},
        )


def _secret(prompt: Prompt) -> int:
    try:
        return int(prompt.answer)
    except (TypeError, ValueError):
        message = f"workflow guess: prompt {prompt.id} has the answer {prompt.answer!r}; it is the whole number to guess"
        raise DataError(message) from None


def _opening(prompt: Prompt, tokenizer: Tokenizer) -> list[int]:
    if prompt.messages is None:
        ids = tokenizer.encode(prompt.text or "")
    elif tokenizer.chat_template is None:
        message = (
            f"workflow guess: prompt {prompt.id} is messages and the tokenizer has no chat template: give data.format: text"
        )
        raise DataError(message)
    else:
        made: Any = tokenizer.apply_chat_template(prompt.messages, tokenize=True, add_generation_prompt=True)
        ids = list(made if isinstance(made, list) else made["input_ids"])  # transformers 4 and 5
    if not ids:
        message = f"workflow guess: prompt {prompt.id} has no tokens; a game begins with at least one"
        raise DataError(message)
    return ids
