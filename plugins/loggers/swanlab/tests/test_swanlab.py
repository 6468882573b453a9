"""The logger `swanlab`, for real and offline: what it writes is read back with SwanLab's own reader."""

from __future__ import annotations

import math
import signal
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from swanlab.proto.swanlab.record.v1.record_pb2 import Record
from swanlab.sdk.internal.core_python.store import DataStoreReader

from core_rl.errors import PluginError
from core_rl.roles.parts import RunInfo
from core_rl_swanlab.config import SwanLabConfig
from core_rl_swanlab.logger import SwanLabLogger

ROWS = [
    {"split": "train", "id": f"p{number}", "prompt": "2+2?", "completion": f"is {number} \ud800", "reward": 0.5}
    for number in range(3)
]


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own SwanLab settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWANLAB_SAVE_DIR", str(tmp_path / "home"))
    monkeypatch.delenv("SWANLAB_API_KEY", raising=False)


def started(folder: Path, *, resumed_from: int | None = None, mode: Any = "offline", **options: Any) -> SwanLabLogger:
    folder.mkdir(exist_ok=True)
    logger = SwanLabLogger(SwanLabConfig(mode=mode, hardware=False, **options))
    logger.start(RunInfo(name="my-run", dir=folder, config={"run": {"seed": 7}}, resumed_from=resumed_from))
    return logger


def records(folder: Path) -> list[Record]:
    found = []
    for path in sorted(folder.glob("run-*/*.swanlab")):
        reader = DataStoreReader()
        reader.open(path)
        for data in reader:
            record = Record()
            record.ParseFromString(data)
            found.append(record)
        reader.close()
    return found


def test_an_offline_run_comes_back(tmp_path: Path) -> None:
    """Metrics at their steps, completions, names, configuration and the good end are all in the run's folder."""
    logger = started(tmp_path / "run", project="proj", tags=("a", "b"), group="g", samples=2)
    logger.log(0, {"reward/mean": 0.25})
    logger.log(1, {"reward/mean": 0.5, "loss": 2.0})
    logger.log_samples(1, ROWS)
    logger.finish("done")
    folder = tmp_path / "run" / "swanlab"
    written = records(folder)
    scalars = [
        (record.scalar.key, record.scalar.step, record.scalar.value.number) for record in written if record.HasField("scalar")
    ]
    begun = next(record.start for record in written if record.HasField("start"))
    texts = next(record.media for record in written if record.HasField("media"))

    assert sorted(scalars) == [("loss", 1, 2.0), ("reward/mean", 0, 0.25), ("reward/mean", 1, 0.5)]
    assert (begun.project, begun.name, list(begun.tags), begun.group) == ("proj", "my-run", ["a", "b"], "g")
    assert (texts.key, texts.step, len(texts.value.items)) == ("samples/train", 1, 2)
    assert "is 0 ?" in "".join(path.read_text(encoding="utf-8") for path in folder.glob("run-*/media/text/*"))
    assert "seed" in next(folder.glob("run-*/files/config.yaml")).read_text(encoding="utf-8")
    assert [record.finish.state for record in written if record.HasField("finish")] == [1]


@pytest.mark.parametrize(("status", "state"), [("failed", "CRASHED"), ("interrupted", "ABORTED")])
def test_a_bad_end_is_marked(tmp_path: Path, status: Any, state: str) -> None:
    """A run that failed is crashed there, one that was stopped is aborted."""
    logger = started(tmp_path / "run")
    logger.finish(status)
    ends = [record.finish for record in records(tmp_path / "run" / "swanlab") if record.HasField("finish")]

    assert len(ends) == 1
    assert f"RUN_STATE_{state}" in str(ends[0])


def test_a_resumed_run_keeps_its_id(tmp_path: Path) -> None:
    """The id stands in the run's folder; a new run in the same folder has its own."""
    ids = []
    for resumed_from in (None, 3, None):
        logger = started(tmp_path / "run", resumed_from=resumed_from)
        ids.append(logger._run.id)
        logger.finish("done")

    assert ids[0] == ids[1] != ids[2]


def test_ctrl_c_stays_ours(tmp_path: Path) -> None:
    """SwanLab's own handlers are not left in place, neither while the run goes on nor after it."""
    before = signal.getsignal(signal.SIGINT), sys.excepthook
    logger = started(tmp_path / "run")
    during = signal.getsignal(signal.SIGINT), sys.excepthook
    logger.finish("done")

    assert before == during == (signal.getsignal(signal.SIGINT), sys.excepthook)


def test_values_that_are_not_finite_do_no_harm(tmp_path: Path) -> None:
    """A NaN is shown or left out, and the other metrics of the step are there."""
    logger = started(tmp_path / "run")
    logger.log(1, {"loss": math.nan, "x": math.inf, "y": 1.0})
    logger.finish("done")

    assert "y" in {record.scalar.key for record in records(tmp_path / "run" / "swanlab") if record.HasField("scalar")}


def test_disabled_writes_nothing(tmp_path: Path) -> None:
    """Everything is accepted, and no file is left."""
    logger = started(tmp_path / "run", mode="disabled")
    logger.log(1, {"loss": 1.0})
    logger.log_samples(1, ROWS)
    logger.finish("done")

    assert list((tmp_path / "run").iterdir()) == []


def test_local_mode_writes_a_dashboard(tmp_path: Path) -> None:
    """`swanlab watch` has something to show, in the folder that was named."""
    logger = started(tmp_path / "run", mode="local", logdir=str(tmp_path / "logs"))
    logger.log(1, {"loss": 1.0})
    logger.finish("done")

    assert list((tmp_path / "logs").glob("run-*/logs/*/*.log"))


def test_the_cloud_needs_a_key(tmp_path: Path) -> None:
    """Nothing is asked on the terminal; the error says what is missing."""
    with pytest.raises(RuntimeError, match="no API key was provided"):
        started(tmp_path / "run", mode="cloud")


def test_the_key_is_a_secret() -> None:
    """It is marked for masking, and is not in the printed options."""
    assert attrs.fields(SwanLabConfig).api_key.metadata["secret"] is True
    assert "abc" not in repr(SwanLabConfig(api_key="abc"))


def test_finish_without_start() -> None:
    """A run that fails before it starts ends quietly."""
    SwanLabLogger(SwanLabConfig()).finish("failed")


def test_a_missing_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its backend the plugin says what to install, before anything is loaded."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(PluginError, match=r"pip install 'core-rl\[swanlab\]'"):
        SwanLabLogger(SwanLabConfig())
