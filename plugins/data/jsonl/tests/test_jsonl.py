"""The data source `jsonl`: files, splits, and mistakes with their line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from core_rl.errors import DataError
from core_rl_jsonl.config import JsonlConfig
from core_rl_jsonl.data import JsonlData


def write(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def answers(split: Any = "train", **options: Any) -> list[Any]:
    return [prompt.answer for prompt in JsonlData(JsonlConfig(**options)).load(split, 1)]


def refusal(split: Any = "train", **options: Any) -> str:
    with pytest.raises(DataError) as error:
        JsonlData(JsonlConfig(**options)).load(split, 1)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_files_patterns_and_gzip(tmp_path: Path) -> None:
    """Several files, a pattern and a compressed file are read, each file once, in order."""
    write(tmp_path / "b.jsonl", {"question": "b", "answer": 2})
    write(tmp_path / "a.jsonl", {"question": "a", "answer": 1})
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.write('\n{"question": "c", "answer": 3}\n')
    pattern = str(tmp_path / "*.jsonl")

    assert answers(path=pattern) == [1, 2]
    assert answers(path=(str(tmp_path / "b.jsonl"), pattern, str(tmp_path / "c.jsonl.gz"))) == [2, 1, 3]
    assert answers(path=pattern, limit=1) == [1]


def test_rows_are_named_by_file_and_line(tmp_path: Path) -> None:
    """Without an id field the id is file:line, blank lines counted."""
    path = tmp_path / "a.jsonl"
    path.write_text('\ufeff{"prompt": "x"}\n\n{"prompt": "y"}', encoding="utf-8")

    assert [prompt.id for prompt in JsonlData(JsonlConfig(path=str(path))).load("train", 1)] == [f"{path}:1", f"{path}:3"]


def test_eval_path_and_eval_fraction(tmp_path: Path) -> None:
    """Held-out rows come from a file of their own, or are a part of the one file that training never sees."""
    path = write(tmp_path / "a.jsonl", *({"prompt": f"{number}", "answer": number} for number in range(40)))
    other = write(tmp_path / "e.jsonl", {"prompt": "e", "answer": "held"})
    held = answers("eval", path=path, eval_fraction=0.3)

    assert answers("eval", path=path, eval_path=other) == ["held"]
    assert sorted(held + answers(path=path, eval_fraction=0.3)) == list(range(40))
    assert 4 <= len(held) <= 20


def test_mistakes_have_their_line(tmp_path: Path) -> None:
    """What is wrong with a file or row is one line that names it."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"prompt": "x"}\n{"prompt": }\n', encoding="utf-8")
    listed = tmp_path / "list.json"
    listed.write_text('[{"prompt": "x"},\n{"prompt": "y"}]', encoding="utf-8")
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"prompt": "x"}\n' * 99)[:-9])
    empty = write(tmp_path / "empty.jsonl")
    misspelt = write(tmp_path / "m.jsonl", {"prompt": "x", "answer": 1}, {"prompt": "x", "anser": 1})

    assert refusal(path=str(broken)).startswith(f"{broken}:2: no JSON: Expecting value at column 12:")
    assert "looks like one JSON list" in refusal(path=str(listed))
    assert "found list" in refusal(path=write(tmp_path / "l.jsonl", [1]))
    assert "not UTF-8" in refusal(path=str(binary))
    assert "cannot be read" in refusal(path=str(cut))
    assert refusal(path=empty) == f"jsonl: {empty}: there are no rows in it"
    assert refusal(path=misspelt, answer_field="answer") == (
        f"{misspelt}:2: field 'answer' (answer_field) is missing; did you mean `anser`?"
    )


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """A missing file, a folder and a split that nobody named are explained."""
    path = write(tmp_path / "a.jsonl", {"prompt": "x"})

    assert f"no file {tmp_path}/b.jsonl" in refusal(path=f"{tmp_path}/b.jsonl")
    assert "is a folder" in refusal(path=str(tmp_path))
    assert "nothing is held out; set eval_path" in refusal("eval", path=path)
    with pytest.raises(ValueError, match="both say what is held out"):
        JsonlConfig(path=path, eval_path=path, eval_fraction=0.5)
    with pytest.raises(ValueError, match="must be a fraction between 0 and 1, found 64"):
        JsonlConfig(path=path, eval_fraction=64)


def test_deeply_nested_json_is_refused(tmp_path: Path) -> None:
    """A line that only a deep recursion could read is an error with its line."""
    path = tmp_path / "deep.jsonl"
    path.write_text('{"prompt": ' + "[" * 100_000, encoding="utf-8")

    assert f"{path}:1: no JSON" in refusal(path=str(path))
