"""From a prompt to token ids, and from completions to samples."""

from __future__ import annotations

import asyncio

import pytest

from core_rl.builtin.config import SingleTurnConfig
from core_rl.builtin.single_turn import SingleTurn
from core_rl.data.sample import Prompt, Turn, VersionSpan
from core_rl.errors import DataError
from core_rl.hf.tokenizer import character_tokenizer
from core_rl.roles.rollout import Completion, SamplingParams

TEMPLATE = (
    "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}"
)


class Engine:
    """Answers every request with "7" and the end of sequence."""

    def __init__(self):
        self.requests = []

    async def generate(self, request):
        self.requests.append(request)
        span = (VersionSpan(version=3, start=0, end=2),)
        one = Completion(tokens=(10, 1), logprobs=(-0.5, -0.25), finish_reason="stop", versions=span)
        return [one] * request.n


@pytest.fixture
def tokenizer():
    made = character_tokenizer("0123456789+= :;usabcdef")
    made.chat_template = TEMPLATE
    return made


def run(prompt, tokenizer, n=1, **options):
    engine = Engine()
    workflow = SingleTurn(SingleTurnConfig(**options))
    params = SamplingParams(max_new_tokens=4)
    samples = asyncio.run(workflow.run(prompt, n=n, engine=engine, tokenizer=tokenizer, params=params, seed=5))
    return samples, engine.requests


USER = ({"role": "user", "content": "1+2="},)


def test_messages_go_through_the_chat_template(tokenizer):
    """The ids are those of the template's text with the generation prompt."""
    [sample], [request] = run(Prompt(id="p", messages=USER), tokenizer)

    assert tokenizer.decode(request.prompt_ids) == "u:1+2=;a:" == sample.prompt_text
    assert all(type(token) is int for token in request.prompt_ids)
    assert (request.n, request.seed, request.params.max_new_tokens) == (1, 5, 4)


def test_a_sample_has_the_prompt_s_turn_and_the_policy_s(tokenizer):
    """Ids, log-probabilities and versions as the engine gave them; the text is without special tokens."""
    samples, [request] = run(Prompt(id="p", text="1+2="), tokenizer, n=3)

    assert len(samples) == 3
    given, written = samples[0].turns
    assert given == Turn(tokens=request.prompt_ids, generated=False)
    assert (written.tokens, written.logprobs, written.generated) == ((10, 1), (-0.5, -0.25), True)
    assert written.versions == (VersionSpan(version=3, start=0, end=2),)
    assert (samples[0].completion_text, samples[0].finish_reason, samples[0].reward) == ("7", "stop", None)
    assert samples[0].num_generated == 2


def test_a_system_prompt_stands_first_where_there_is_none(tokenizer):
    """A row's own system message wins."""
    own = ({"role": "system", "content": "abc"}, *USER)

    assert run(Prompt(id="p", messages=USER), tokenizer, system_prompt="def")[0][0].prompt_text == "s:def;u:1+2=;a:"
    assert run(Prompt(id="p", messages=own), tokenizer, system_prompt="def")[0][0].prompt_text == "s:abc;u:1+2=;a:"


def test_special_tokens_of_text(tokenizer):
    """The tokenizer adds its own unless it is told not to."""
    import tokenizers

    tokenizer._tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<pad> $A", special_tokens=[("<pad>", 0)]
    )
    added, [with_them] = run(Prompt(id="p", text="1"), tokenizer)
    plain, [without] = run(Prompt(id="p", text="1"), tokenizer, add_special_tokens=False)

    assert with_them.prompt_ids == [0, *without.prompt_ids]
    assert added[0].prompt_text == "<pad>1"
    assert plain[0].prompt_text == "1"


@pytest.mark.parametrize(
    ("template", "prompt", "options", "message"),
    [
        (None, Prompt(id="p7", messages=USER), {}, r"prompt p7 .* no chat template; give model\.chat_template"),
        ("{{ raise_exception('roles must alternate') }}", Prompt(id="p7", messages=USER), {}, "refuses prompt p7: roles must"),
        (TEMPLATE, Prompt(id="p7", text=""), {}, "prompt p7 has no tokens"),
        (TEMPLATE, Prompt(id="p7", text="1"), {"system_prompt": "abc"}, r"workflow\.system_prompt: prompt p7 is text"),
    ],
)
def test_prompts_that_cannot_be_used(tokenizer, template, prompt, options, message):
    """The line names the prompt and the mend."""
    tokenizer.chat_template = template

    with pytest.raises(DataError, match=message):
        run(prompt, tokenizer, **options)
