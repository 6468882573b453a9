"""The kit on this data source, which reads a folder that `save_to_disk` has written."""

from __future__ import annotations

from typing import ClassVar

import datasets
import pytest

from core_rl.testing import DataConformance


class TestHfDataset(DataConformance):
    component = "hf_dataset"
    missing: ClassVar = {"path": "nowhere.parquet"}

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _saved(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("rows")
        rows = {"question": [f"{number} + 1?" for number in range(30)], "answer": [str(number + 1) for number in range(30)]}
        datasets.Dataset.from_dict(rows).save_to_disk(folder)
        cls.options = {"path": str(folder), "eval_fraction": 0.34}
