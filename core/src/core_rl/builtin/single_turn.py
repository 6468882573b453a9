"""The workflow of one prompt and one completion. Token ids go in and come out; text is decoded for rewards and readers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rl.data.sample import Sample, Turn
from core_rl.errors import DataError
from core_rl.roles.rollout import GenerateRequest

if TYPE_CHECKING:
    from core_rl.builtin.config import SingleTurnConfig
    from core_rl.data.sample import Message, Prompt
    from core_rl.hf.tokenizer import Tokenizer
    from core_rl.roles.rollout import Completion, RolloutEngine, SamplingParams


class SingleTurn:
    """Messages go through the tokenizer's chat template, text goes to the model as it is."""

    def __init__(self, options: SingleTurnConfig) -> None:
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
        """`n` samples of two turns each: the prompt, and what the policy wrote."""
        ids = self._prompt_ids(prompt, tokenizer)
        request = GenerateRequest(id=f"{prompt.id}/{seed}", prompt_ids=ids, params=params, n=n, seed=seed)
        completions = await engine.generate(request)
        text = tokenizer.decode(ids, skip_special_tokens=False)
        return [_sample(prompt, ids, text, completion, tokenizer) for completion in completions]

    def _prompt_ids(self, prompt: Prompt, tokenizer: Tokenizer) -> list[int]:
        messages = self._messages(prompt)
        if messages is None:
            text = prompt.text or ""
            ids = tokenizer.encode(text, add_special_tokens=self._options.add_special_tokens)
        else:
            ids = _templated(prompt, messages, tokenizer)
        if not ids:
            message = f"data: prompt {prompt.id} has no tokens; the model needs at least one to begin with"
            raise DataError(message)
        return ids

    def _messages(self, prompt: Prompt) -> list[Message] | None:
        """The conversation so far; None for a prompt that is text."""
        system = self._options.system_prompt
        if prompt.messages is not None:
            messages: list[Message] = list(prompt.messages)
            has_one = any(message.get("role") == "system" for message in messages)
            return messages if system is None or has_one else [{"role": "system", "content": system}, *messages]
        if system is not None:
            message = (
                f"workflow.system_prompt: prompt {prompt.id} is text, which has no system message; give the data as messages, "
                "or put the system prompt into the text"
            )
            raise DataError(message)
        return None


def _templated(prompt: Prompt, messages: list[Message], tokenizer: Tokenizer) -> list[int]:
    if tokenizer.chat_template is None:
        message = (
            f"data: prompt {prompt.id} is a list of messages and the tokenizer has no chat template; give model.chat_template, "
            "use an instruct model, or give the prompts as text"
        )
        raise DataError(message)
    try:
        made: Any = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)
    except Exception as error:  # a template is a program, and raises what it likes
        message = f"data: the chat template refuses prompt {prompt.id}: {error}"
        raise DataError(message) from error
    # transformers 4 gives the ids, transformers 5 a mapping of them
    return list(made if isinstance(made, list) else made["input_ids"])


def _sample(prompt: Prompt, ids: list[int], text: str, completion: Completion, tokenizer: Tokenizer) -> Sample:
    written = Turn(
        tokens=completion.tokens,
        generated=True,
        logprobs=completion.logprobs,
        versions=completion.versions,
    )
    return Sample(
        prompt=prompt,
        turns=[Turn(tokens=ids, generated=False), written],
        finish_reason=completion.finish_reason,
        completion_text=tokenizer.decode(completion.tokens, skip_special_tokens=True),
        prompt_text=text,
    )
