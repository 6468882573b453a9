"""Rows become prompts, and a row that is none is named."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from core_rl.data.rows import Row, RowOptions, held_out, row_to_prompt, rows_to_prompts
from core_rl.data.sample import Prompt
from core_rl.errors import DataError


def prompt(fields: dict[str, Any], **options: Any) -> Prompt:
    return row_to_prompt(Row("f.jsonl:3", fields), RowOptions(**options))


def refusal(fields: dict[str, Any], **options: Any) -> str:
    with pytest.raises(DataError) as error:
        prompt(fields, **options)
    return str(error.value)


def test_text_becomes_a_user_message_and_the_rest_metadata() -> None:
    """The usual names of prompt and answer are found; every other field is metadata; the place is the id."""
    made = prompt({"question": "1+1?", "answer": 2, "level": "easy"})

    assert made == Prompt(id="f.jsonl:3", messages=({"role": "user", "content": "1+1?"},), answer=2, metadata={"level": "easy"})


def test_text_format_keeps_the_prompt_bare() -> None:
    """With format text nothing but the text reaches the model, after the system prompt if there is one."""
    made = prompt({"prompt": "1+1="}, format="text", system_prompt="Add.")

    assert made.text == "Add.\n\n1+1="
    assert made.messages is None


def test_messages_pass_through_and_keep_their_own_system_message() -> None:
    """A list of messages is taken as it is; null members, as Arrow adds them, are dropped."""
    messages = [{"role": "system", "content": "S", "name": None}, {"role": "user", "content": "Q"}]

    assert prompt({"messages": messages}, system_prompt="other").messages == (
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Q"},
    )


def test_template_fills_names_and_leaves_other_braces() -> None:
    """`\\boxed{}` stays, `{{name}}` is the literal, `{name}` is the field."""
    made = prompt({"q": "2*3", "answer": "6"}, template=r"{q} in \boxed{} or {{answer}}")

    assert made.messages is not None
    assert made.messages[0]["content"] == r"2*3 in \boxed{} or {answer}"


@pytest.mark.parametrize("choices", [["x", "y"], {"label": ["A", "B"], "text": ["x", "y"]}])
def test_a_list_in_a_template_is_lettered(choices: Any) -> None:
    """Options of a question stand one a line, under the letters that the reward `choice` reads."""
    made = prompt({"q": "Which?", "choices": choices}, template="{q}\n{choices}", format="text")

    assert made.text == "Which?\nA. x\nB. y"
    assert made.metadata["choices"] == choices


def test_answer_regex_takes_the_last_match() -> None:
    """GSM8K keeps its answer behind four hashes."""
    assert prompt({"question": "q", "answer": "3+4=7\n#### 7 "}, answer_regex=r"####\s*(.+)").answer == "7"


def test_named_fields_are_required_and_the_nearest_is_offered() -> None:
    """A misspelt field names the row, the option and the field that was meant."""
    assert refusal({"question": "q", "anwser": 1}, answer_field="answer") == (
        "f.jsonl:3: field 'answer' (answer_field) is missing; did you mean `anwser`?"
    )
    assert "field 'qestion' (template) is missing; did you mean `question`?" in refusal({"question": "q"}, template="{qestion}")


@pytest.mark.parametrize(
    ("fields", "options", "expected"),
    [
        ({"text": "q"}, {}, "f.jsonl:3: no prompt: none of the fields prompt, messages, question, problem; set prompt_field"),
        ({"prompt": "  "}, {}, "the prompt is empty"),
        ({"prompt": 5}, {}, "a prompt is text or a list of messages {role, content}, found int"),
        ({"prompt": []}, {}, "found nothing"),
        ({"prompt": [{"role": "user"}]}, {}, "message 1: a message is {role: text, content: text}, found {role: str}"),
        ({"prompt": [{"role": "user", "content": []}]}, {}, "content: nothing"),
        ({"prompt": [{"role": "usr", "content": "x"}]}, {}, "unknown role 'usr'"),
        ({"prompt": [{"role": "assistant", "content": "x"}]}, {}, "the last message is the assistant's"),
        ({"prompt": [{"role": "user", "content": "x"}]}, {"format": "text"}, "format text wants text"),
        ({"prompt": "q", "answer": None}, {"answer_field": "answer"}, "field 'answer' (answer_field) is null"),
        ({"prompt": "q", "answer": "x"}, {"answer_regex": r"\d"}, "answer_regex '\\\\d' matches nowhere in 'x'"),
    ],
)
def test_a_row_that_is_no_prompt_says_why(fields: dict[str, Any], options: dict[str, Any], expected: str) -> None:
    """Every mistake of a row begins with its place and says what was expected."""
    said = refusal(fields, **options)

    assert said.startswith("f.jsonl:3")
    assert expected in said


def test_ids_differ_and_a_table_has_rows() -> None:
    """Two rows of one id are both named; an empty table is an error."""
    rows = [Row("a:1", {"id": 7, "prompt": "x"}), Row("a:2", {"id": 7, "prompt": "y"})]

    with pytest.raises(DataError, match="a:2: id '7' is that of a:1 too"):
        rows_to_prompts(rows, RowOptions(id_field="id"), source="a")
    with pytest.raises(DataError, match="a: there are no rows in it"):
        rows_to_prompts([], RowOptions(), source="a")


def test_held_out_is_a_partition_by_what_is_asked() -> None:
    """Train and eval have no question in common, whatever the order, and are about as large as asked."""
    prompts = [prompt({"prompt": f"{number % 400}?", "answer": number}) for number in range(500)]
    train = held_out(prompts, "train", 0.25, source="a")
    held = held_out(list(reversed(prompts)), "eval", 0.25, source="a")
    asked = [{str(item.messages) for item in part} for part in (train, held)]

    assert len(train) + len(held) == 500
    assert not asked[0] & asked[1]
    assert 0.15 < len(held) / 500 < 0.35


def test_held_out_leaves_rows_on_both_sides() -> None:
    """A fraction that leaves a split empty is refused."""
    with pytest.raises(DataError, match=r"eval_fraction 0\.001 of 1 rows leaves none for the eval split"):
        held_out([prompt({"prompt": "x"})], "eval", 0.001, source="a")


def test_prompts_can_be_pickled() -> None:
    """Worker processes get prompts."""
    made = prompt({"question": "1+1?", "answer": 2, "level": {"a": [1]}})

    assert pickle.loads(pickle.dumps(made)) == made


def test_a_broken_regex_is_refused_when_the_options_are_made() -> None:
    """The message says what is wrong with it."""
    with pytest.raises(ValueError, match="not a regular expression"):
        RowOptions(answer_regex="(")
