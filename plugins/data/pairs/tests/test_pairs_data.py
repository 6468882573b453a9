"""Rows to pairs and to labelled completions, in the shapes that data sets have them."""

from __future__ import annotations

import json

import pytest

from core_rl.errors import DataError
from core_rl_pairs.config import LabelledConfig, PairsConfig
from core_rl_pairs.labelled import LabelledData
from core_rl_pairs.pairs import PairsData

ASK = {"role": "user", "content": "ask"}


def said(text):
    return {"role": "assistant", "content": text}


def write(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def pairs(tmp_path, *rows, split="train", **options):
    return PairsData(PairsConfig(path=write(tmp_path, *rows), **options)).load(split, 1)


def labelled(tmp_path, *rows, **options):
    return LabelledData(LabelledConfig(path=write(tmp_path, *rows), **options)).load("train", 1)


@pytest.mark.parametrize(
    ("row", "options", "expected"),
    [
        ({"prompt": "ask", "chosen": "a", "rejected": "b"}, {}, ((ASK,), (said("a"),), (said("b"),))),
        ({"prompt": "ask", "chosen": "a", "rejected": "b"}, {"format": "text"}, ("ask", "a", "b")),
        ({"prompt": [ASK], "chosen": [said("a")], "rejected": [said("b")]}, {}, ((ASK,), (said("a"),), (said("b"),))),
        ({"prompt": [ASK], "chosen": [ASK, said("a")], "rejected": [ASK, said("b")]}, {}, ((ASK,), (said("a"),), (said("b"),))),
        ({"chosen": [ASK, said("a")], "rejected": [ASK, said("b")]}, {}, (None, (ASK, said("a")), (ASK, said("b")))),
        (
            {"prompt": "ask", "chosen": [ASK, said("a")], "rejected": [ASK, said("b")]},
            {},
            (None, (ASK, said("a")), (ASK, said("b"))),
        ),
        ({"chosen": "xa", "rejected": "xb"}, {}, (None, "xa", "xb")),
        ({"q": "ask", "w": "a", "l": "b"}, {"prompt_field": "q", "chosen_field": "w", "rejected_field": "l", "format": "text"}, ("ask", "a", "b")),
    ],
)  # fmt: skip
def test_the_shapes_of_pairs(tmp_path, row, options, expected):
    """Explicit prompts of text or messages, whole conversations, whole texts."""
    (pair,) = pairs(tmp_path, row, **options)

    assert (pair.prompt, pair.chosen, pair.rejected) == expected


def test_margins_and_references(tmp_path):
    """Numbers of the data set, under their usual names or others."""
    row = {"prompt": "ask", "chosen": "a", "rejected": "b", "margin": 2, "ref_chosen_logps": -1.5, "ref_rejected_logps": -3}
    (pair,) = pairs(tmp_path, row)
    (other,) = pairs(tmp_path, {"prompt": "ask", "chosen": "a", "rejected": "b", "gap": 0.5}, margin_field="gap")

    assert (pair.margin, pair.ref_chosen, pair.ref_rejected, pair.metadata) == (2.0, -1.5, -3.0, {})
    assert (other.margin, other.ref_chosen) == (0.5, None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"prompt": "ask", "chosen": "a"}], r"rows.jsonl:1: field 'rejected' \(rejected_field\) is missing"),
        ([{"prompt": "ask", "chosen": "a", "rejected": None}], r"field 'rejected' \(rejected_field\) is null"),
        ([{"prompt": "ask", "chosen": "a", "rejected": [ASK]}], "a row is all text or all messages"),
        ([{"prompt": "ask", "chosen": "a", "rejected": "b", "margin": "big"}], "expected a number, found 'big'"),
        (
            [{"prompt": "x", "chosen": "a", "rejected": "b", "margin": 1}, {"prompt": "y", "chosen": "a", "rejected": "b"}],
            "rows.jsonl:2 has no margin, and others have",
        ),
    ],
)
def test_rows_that_are_no_pairs(tmp_path, rows, message):
    """One line with the place."""
    with pytest.raises(DataError, match=message):
        pairs(tmp_path, *rows)


def test_a_prompt_is_on_one_side_of_the_split(tmp_path):
    """However many pairs it has, and also where whole conversations are its only trace."""
    rows = [
        {"chosen": [{"role": "user", "content": f"q{index % 20}"}, said("a")],
         "rejected": [{"role": "user", "content": f"q{index % 20}"}, said(str(index))]}
        for index in range(60)
    ]  # fmt: skip
    train, held = (pairs(tmp_path, *rows, split=split, eval_fraction=0.3) for split in ("train", "eval"))

    assert len(train) + len(held) == 60
    assert not {one.chosen[0]["content"] for one in train} & {one.chosen[0]["content"] for one in held}


@pytest.mark.parametrize("label", [True, 1])
def test_labelled_rows(tmp_path, label):
    """A completion and whether it is good."""
    (row,) = labelled(tmp_path, {"prompt": "ask", "completion": "a", "label": label})

    assert (row.prompt, row.completion, row.desirable) == ((ASK,), (said("a"),), True)


def test_a_pair_is_two_labelled_rows(tmp_path):
    """The preferred one is good, the other one bad; each has a name of its own."""
    good, bad = labelled(tmp_path, {"id": "x", "prompt": "ask", "chosen": "a", "rejected": "b"}, format="text", id_field="id")

    assert (good.id, good.prompt, good.completion, good.desirable) == ("x#chosen", "ask", "a", True)
    assert (bad.id, bad.completion, bad.desirable) == ("x#rejected", "b", False)


def test_the_last_message_of_a_whole_conversation_is_the_completion(tmp_path):
    """What stands before it is the prompt."""
    (row,) = labelled(tmp_path, {"completion": [ASK, said("a")], "label": False})

    assert (row.prompt, row.completion, row.desirable) == ((ASK,), (said("a"),), False)


@pytest.mark.parametrize("label", ["good", 2, 0.5])
def test_a_label_is_true_or_false(tmp_path, label):
    """Anything else is refused with its place."""
    with pytest.raises(DataError, match=r"rows.jsonl:1, field 'label': a label is true or false"):
        labelled(tmp_path, {"prompt": "ask", "completion": "a", "label": label})
