"""The logger `tensorboard`, for real: what it writes is read back by TensorBoard's own reader."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from core_rl.errors import PluginError
from core_rl.roles.parts import RunInfo
from core_rl_tensorboard.config import TensorBoardConfig
from core_rl_tensorboard.logger import TensorBoardLogger

ROWS = [
    {
        "split": split,
        "id": f"p{number}",
        "prompt": "2+2?",
        "completion": f"```\n<b>{number}</b> \ud800",
        "reward": 0.5,
        "answer": "4",
    }
    for split in ("train", "eval")
    for number in range(3)
]


def started(folder: Path, *, resumed_from: int | None = None, **options: Any) -> TensorBoardLogger:
    logger = TensorBoardLogger(TensorBoardConfig(**options))
    logger.start(RunInfo(name="r", dir=folder, config={"run": {"seed": 7}}, resumed_from=resumed_from))
    return logger


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def text(events: EventAccumulator, tag: str) -> str:
    written: bytes = events.Tensors(f"{tag}")[-1].tensor_proto.string_val[0]
    return written.decode()


def test_metrics_come_back_as_scalars(tmp_path: Path) -> None:
    """Every step and value, a NaN among them, is in the run's own folder."""
    logger = started(tmp_path)
    logger.log(0, {"reward/mean": 0.25, "loss": math.nan})
    logger.log(1, {"reward/mean": 0.5})
    logger.finish("done")
    events = read(tmp_path / "tensorboard")

    assert [(event.step, event.value) for event in events.Scalars("reward/mean")] == [(0, 0.25), (1, 0.5)]
    assert math.isnan(events.Scalars("loss")[0].value)


def test_completions_and_config_come_back_as_text(tmp_path: Path) -> None:
    """Completions stand verbatim under a tag of their split, as many as were asked for; the run file is there too."""
    logger = started(tmp_path, samples=4)
    logger.log_samples(3, ROWS)
    logger.finish("done")
    events = read(tmp_path / "tensorboard")

    assert text(events, "samples/train").count("**completion**") == 3
    assert text(events, "samples/eval").count("**completion**") == 1
    assert "\n    ```\n    <b>0</b> ?" in text(events, "samples/eval")
    assert '"seed": 7' in text(events, "config")
    assert set(events.PluginTagToContent("text")) == {"config", "samples/train", "samples/eval"}


def test_a_resumed_run_takes_back_later_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps after the checkpoint, which the first part had logged, are replaced by those of the second."""
    seconds = iter(range(1_800_000_000, 1_900_000_000))  # files are read in the order of their names, which are seconds
    monkeypatch.setattr("time.time", lambda: float(next(seconds)))
    first = started(tmp_path)
    for step in range(1, 6):
        first.log(step, {"loss": float(step)})
    first.finish("failed")
    second = started(tmp_path, resumed_from=3)
    for step in range(4, 6):
        second.log(step, {"loss": 10.0 + step})
    second.finish("done")

    assert [(event.step, event.value) for event in read(tmp_path / "tensorboard").Scalars("loss")] == [
        (1, 1.0),
        (2, 2.0),
        (3, 3.0),
        (4, 14.0),
        (5, 15.0),
    ]


def test_another_folder(tmp_path: Path) -> None:
    """Several runs may write below one folder."""
    started(tmp_path / "run", dir=str(tmp_path / "all" / "one")).finish("done")

    assert len(list((tmp_path / "all" / "one").iterdir())) == 1
    assert not (tmp_path / "run").exists()


def test_finish_without_start() -> None:
    """A run that fails before it starts ends quietly."""
    TensorBoardLogger(TensorBoardConfig()).finish("failed")


def test_it_needs_no_torch(tmp_path: Path) -> None:
    """A whole run is logged without torch or tensorflow."""
    code = (
        "import sys, pathlib\n"
        "from core_rl.roles.parts import RunInfo\n"
        "from core_rl_tensorboard.config import TensorBoardConfig\n"
        "from core_rl_tensorboard.logger import TensorBoardLogger\n"
        "logger = TensorBoardLogger(TensorBoardConfig())\n"
        "logger.start(RunInfo(name='r', dir=pathlib.Path(sys.argv[1]), config={}))\n"
        "logger.log(1, {'a': 1.0}); logger.log_samples(1, [{'prompt': 'x'}]); logger.finish('done')\n"
        "print([name for name in ('torch', 'tensorflow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_missing_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its backend the plugin says what to install, before anything is loaded."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(PluginError, match=r"pip install 'core-rl\[tensorboard\]'"):
        TensorBoardLogger(TensorBoardConfig())
