"""The data source `hf_dataset`, on data sets made here; nothing is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest

from core_rl.errors import DataError, PluginError
from core_rl_hf_dataset.config import HfDatasetConfig
from core_rl_hf_dataset.data import HfDatasetData

ROWS = {"question": [f"{number} + 1?" for number in range(30)], "answer": [f"so #### {number + 1}" for number in range(30)]}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, and a cache of the test's own."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def table() -> datasets.Dataset:
    return datasets.Dataset.from_dict(ROWS)


def load(part: Any = "train", **options: Any) -> list[Any]:
    return [prompt.answer for prompt in HfDatasetData(HfDatasetConfig(answer_regex=r"#### (\d+)", **options)).load(part, 1)]


def refusal(part: Any = "train", **options: Any) -> str:
    with pytest.raises(DataError) as error:
        load(part, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_every_local_form_gives_the_same_prompts(tmp_path: Path, table: datasets.Dataset) -> None:
    """A folder, a parquet, JSON and CSV file and what save_to_disk writes read alike."""
    folder = tmp_path / "folder"
    folder.mkdir()
    table.to_parquet(folder / "train.parquet")
    table.to_json(tmp_path / "t.jsonl")
    table.to_csv(tmp_path / "t.csv")
    table.save_to_disk(tmp_path / "saved")
    datasets.DatasetDict({"train": table}).save_to_disk(tmp_path / "splits")
    names = ("folder", "folder/train.parquet", "t.jsonl", "t.csv", "saved", "splits")

    assert [load(path=str(tmp_path / name)) for name in names] == [[str(number + 1) for number in range(30)]] * len(names)


def test_splits(tmp_path: Path, table: datasets.Dataset) -> None:
    """The eval split is the one that is named, or a part of the training split that training does not see."""
    datasets.DatasetDict({"train": table.select(range(20)), "test": table.select(range(20, 30))}).save_to_disk(
        tmp_path / "splits"
    )
    path = str(tmp_path / "splits")
    both = load("train", path=path, eval_fraction=0.4), load("eval", path=path, eval_fraction=0.4)

    assert load("eval", path=path, eval_split="test") == [str(number) for number in range(21, 31)]
    assert sorted(both[0] + both[1]) == sorted(str(number) for number in range(1, 21))
    assert min(map(len, both)) > 0
    assert load(path=path, limit=3) == ["1", "2", "3"]


def test_ids_and_metadata(tmp_path: Path, table: datasets.Dataset) -> None:
    """The id names the data set, split and row; further columns are metadata."""
    table.add_column("level", list(range(30))).save_to_disk(tmp_path / "saved")
    prompts = HfDatasetData(HfDatasetConfig(path=str(tmp_path / "saved"))).load("train", 1)

    assert prompts[2].id == f"{tmp_path}/saved/train:2"
    assert prompts[2].metadata == {"level": 2}


def test_mistakes_are_one_line_each(tmp_path: Path, table: datasets.Dataset) -> None:
    """A path, split, subset or column that is not there is named."""
    folder = tmp_path / "folder"
    folder.mkdir()
    table.to_parquet(folder / "train.parquet")
    table.save_to_disk(tmp_path / "saved")
    (tmp_path / "t.txt").write_text("x")
    saved = str(tmp_path / "saved")

    assert "no such file or folder, and the hub does not give it" in refusal(path="openai/gsm8k")
    assert "split 'tset' cannot be read" in refusal(path=str(folder), split="tset")
    assert "subset 'main' cannot be read" in refusal(path=str(folder), subset="main")
    assert "split 'test' cannot be read" in refusal("eval", path=f"{folder}/train.parquet", eval_split="test")
    assert "has no split 'test'" in refusal("eval", path=saved, eval_split="test")
    assert "use limit for a part" in refusal(path=saved, split="train[:5]")
    assert "which kind of file is this?" in refusal(path=str(tmp_path / "t.txt"))
    assert "nothing is held out" in refusal("eval", path=saved)
    assert "did you mean `question`?" in refusal(path=saved, prompt_field="qestion")


@pytest.mark.parametrize("path", ["{0}/savd", "{0}/none/saved", "./none.csv", "none.jsonl", "none.json.gz", "~/a/b/none"])
def test_a_path_is_not_looked_for_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """What can be no name of the hub's is refused at once, with what lies beside it."""
    (tmp_path / "saved").mkdir()
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("the hub was asked"))

    words = refusal(path=path.format(tmp_path))

    assert "there is no file or folder" in words
    assert ("did you mean `saved`?" in words) == path.endswith("savd")
    assert ("and no folder" in words) == ("none/" in path or "/b/" in path)


def test_a_broken_file_is_one_line(tmp_path: Path) -> None:
    """A parquet file that is none says so."""
    (tmp_path / "t.parquet").write_bytes(b"nothing of that kind")

    assert "cannot be read" in refusal(path=str(tmp_path / "t.parquet"))


def test_a_missing_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its backend the plugin says what to install, before anything is loaded."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(PluginError, match=r"pip install 'core-rl\[hf_dataset\]'"):
        HfDatasetData(HfDatasetConfig(path="x"))
