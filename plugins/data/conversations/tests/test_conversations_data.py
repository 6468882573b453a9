"""Rows to conversations: every shape, every source, and what is wrong with a row."""

from __future__ import annotations

import gzip
import json
import sys
from subprocess import run

import datasets
import pytest

from core_rl.data.records import Conversation
from core_rl.errors import DataError
from core_rl_conversations.config import ConversationsConfig
from core_rl_conversations.data import ConversationsData

USER, ASSISTANT = {"role": "user", "content": "ask"}, {"role": "assistant", "content": "say"}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def load(tmp_path, *rows, split="train", **options):
    return ConversationsData(ConversationsConfig(path=write(tmp_path / "rows.jsonl", *rows), **options)).load(split, 1)


@pytest.mark.parametrize(
    ("row", "options", "prompt", "completion"),
    [
        ({"messages": [USER, ASSISTANT], "prompt": "not read"}, {}, None, (USER, ASSISTANT)),
        ({"conversations": [{"from": "human", "value": "ask"}, {"from": "gpt", "value": "say"}]}, {}, None, (USER, ASSISTANT)),
        ({"text": "a text"}, {}, None, "a text"),
        ({"prompt": "ask", "completion": "say"}, {}, (USER,), (ASSISTANT,)),
        ({"question": "ask", "answer": "say"}, {}, (USER,), (ASSISTANT,)),
        ({"prompt": "ask", "completion": "say"}, {"format": "text"}, "ask", "say"),
        ({"prompt": [USER], "completion": [ASSISTANT]}, {}, (USER,), (ASSISTANT,)),
        ({"prompt": [USER], "completion": [USER, ASSISTANT]}, {}, (USER,), (ASSISTANT,)),
        ({"q": "ask", "a": "say"}, {"prompt_field": "q", "completion_field": "a", "format": "text"}, "ask", "say"),
        (
            {"prompt": "ask", "completion": "say"},
            {"system_prompt": "be"},
            ({"role": "system", "content": "be"}, USER),
            (ASSISTANT,),
        ),
        ({"prompt": "ask", "completion": "say"}, {"system_prompt": "be", "format": "text"}, "be\n\nask", "say"),
        (
            {"messages": [USER, ASSISTANT]},
            {"system_prompt": "be"},
            None,
            ({"role": "system", "content": "be"}, USER, ASSISTANT),
        ),
    ],
)
def test_the_shapes_of_rows(tmp_path, row, options, prompt, completion):
    """Messages, texts, prompt and completion of either."""
    (found,) = load(tmp_path, row, **options)

    assert (found.prompt, found.completion) == (prompt, completion)


def test_ids_and_metadata(tmp_path):
    """A row is called by its place or by a field; what is no text of it is its metadata."""
    row = {"prompt": "ask", "completion": "say", "name": "first", "more": 3}
    (by_place,) = load(tmp_path, row)
    (by_field,) = load(tmp_path, row, id_field="name")

    assert by_place.id == f"{tmp_path / 'rows.jsonl'}:1"
    assert by_field == Conversation(id="first", prompt=(USER,), completion=(ASSISTANT,), metadata={"name": "first", "more": 3})


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"x": 1}, {}, r"rows.jsonl:1: none of the fields messages, .*; set completion_field, it has 'x'"),
        ({"text": "a"}, {"completion_field": "txet"}, r"field 'txet' \(completion_field\) is missing; did you mean `text`"),
        ({"messages": [{"role": "user"}]}, {}, r"message 1: a message is"),
        ({"messages": []}, {}, r"this is text or a list of messages"),
        ({"messages": 3}, {}, r"this is text or a list of messages"),
        ({"prompt": [USER], "completion": "say"}, {}, r"a row is all text or all messages"),
        ({"messages": [USER, ASSISTANT]}, {"format": "text"}, r"format text wants text, found messages"),
        ({"text": "a"}, {"id_field": "id"}, r"field 'id' \(id_field\) is missing"),
    ],
)
def test_rows_that_are_none(tmp_path, row, options, message):
    """One line with the place and the mend."""
    with pytest.raises(DataError, match=message) as found:
        load(tmp_path, row, **options)
    assert "\n" not in str(found.value)


def test_every_kind_of_source_has_the_same_rows(tmp_path):
    """JSON Lines, plain and packed, a pattern, a list, Parquet, JSON, a saved folder."""
    rows = [{"text": f"row {index}"} for index in range(6)]
    table = datasets.Dataset.from_list(rows)
    table.to_parquet(tmp_path / "a.parquet")
    table.save_to_disk(tmp_path / "saved")
    (tmp_path / "a.json").write_text(json.dumps(rows))
    write(tmp_path / "a.jsonl", *rows[:3])
    write(tmp_path / "b.jsonl", *rows[3:])
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    sources = ["a.parquet", "saved", "a.json", "c.jsonl.gz", "*.jsonl", ("a.jsonl", "b.jsonl"), "*.parquet"]

    for source in sources:
        path = str(tmp_path / source) if isinstance(source, str) else tuple(str(tmp_path / one) for one in source)
        found = ConversationsData(ConversationsConfig(path=path)).load("train", 1)
        assert [one.completion for one in found] == [row["text"] for row in rows], source


def test_what_is_held_out(tmp_path):
    """By a file, or by a hash of the question: whatever is answered, a question is on one side."""
    rows = [{"prompt": f"question {index % 20}", "completion": str(index)} for index in range(60)]
    train, held = (load(tmp_path, *rows, split=split, eval_fraction=0.3) for split in ("train", "eval"))
    other = write(tmp_path / "other.jsonl", {"text": "held"})

    assert len(train) + len(held) == 60
    assert not {one.prompt[0]["content"] for one in train} & {one.prompt[0]["content"] for one in held}
    assert [one.completion for one in load(tmp_path, *rows, split="eval", eval_path=other)] == ["held"]
    with pytest.raises(DataError, match="nothing is held out; set eval_path, eval_split, or eval_fraction"):
        load(tmp_path, *rows, split="eval")
    with pytest.raises(ValueError, match="leave one out"):
        ConversationsConfig(path="x", eval_path="y", eval_fraction=0.1)


def test_limit_and_nothing(tmp_path):
    """Only the first rows; a file without a row is an error."""
    assert len(load(tmp_path, {"text": "a"}, {"text": "b"}, limit=1)) == 1
    with pytest.raises(DataError, match="there are no rows in"):
        load(tmp_path)


def test_options_are_read_without_torch():
    """Listing and checking must be quick."""
    code = "import sys, core_rl_conversations.plugin, core_rl_conversations.config; sys.exit('torch' in sys.modules)"

    assert run([sys.executable, "-c", code], check=False).returncode == 0
