"""The logger `swanlab`."""

from __future__ import annotations

import importlib.util
import random
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from core_rl.errors import PluginError
from core_rl.roles.parts import RunInfo
from core_rl_swanlab.config import SwanLabConfig

_STATES = {"done": "success", "failed": "crashed", "interrupted": "aborted"}
_ID_FILE = "swanlab-id.txt"
_FACTS = ("id", "reward", "rewards", "answer", "finish_reason", "tokens")


class SwanLabLogger:
    """Goes on with the same SwanLab run when ours is resumed: its id is kept in the run's folder."""

    def __init__(self, config: SwanLabConfig) -> None:
        if importlib.util.find_spec("swanlab") is None:
            message = "logger swanlab needs swanlab: pip install 'core-rl[swanlab]'"
            raise PluginError(message)
        self._config = config
        self._run: Any = None

    def start(self, run: RunInfo) -> None:
        import swanlab

        config = self._config
        id_file = run.dir / _ID_FILE
        known = id_file.read_text(encoding="utf-8").strip() if run.resumed_from is not None and id_file.is_file() else None
        with _own_handlers(), _own_numbers():
            self._run = swanlab.init(
                mode=config.mode,
                project=config.project,
                workspace=config.workspace,
                name=config.experiment_name or run.name,
                description=config.description,
                group=config.group,
                tags=list(config.tags),
                log_dir=str(run.dir / "swanlab" if config.logdir is None else Path(config.logdir).expanduser()),
                id=known,
                resume=None if known is None else "allow",
                config=dict(run.config),
                settings=_settings(config),
            )
        if config.mode != "disabled":
            id_file.write_text(f"{self._run.id}\n", encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({name: float(value) for name, value in metrics.items()}, step=step)

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        import swanlab

        rows = rows[: self._config.samples]
        for split in dict.fromkeys(str(row.get("split", "train")) for row in rows):
            texts = [_sample(row) for row in rows if str(row.get("split", "train")) == split]
            self._run.log({f"samples/{split}": [swanlab.Text(text, caption=caption) for text, caption in texts]}, step=step)

    def finish(self, status: Literal["done", "failed", "interrupted"]) -> None:
        if self._run is None:
            return
        error = f"the run {status}; what happened is in its own log" if status == "failed" else None
        self._run.finish(state=_STATES[status], error=error)
        self._run = None


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Keep our own Ctrl-C: SwanLab's handler would close its run at once, and ours still finishes the step and saves."""
    hook, main = sys.excepthook, threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        sys.excepthook = hook
        if main:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _own_numbers() -> Iterator[None]:
    """Keep `random` where it stands: SwanLab draws a name, and a run's results are not to depend on its loggers."""
    before = random.getstate()
    try:
        yield
    finally:
        random.setstate(before)


def _settings(config: SwanLabConfig) -> Any:
    """What `init` has no argument for. Nothing is asked on the terminal: a missing key is an error."""
    import swanlab

    settings: dict[str, Any] = {
        "interactive": False,
        "terminal": {"proxy_type": "all" if config.terminal else "none"},
        "probe": {"hardware": config.hardware, "monitor": config.hardware},
    }
    if config.api_key is not None:
        settings["api_key"] = config.api_key
    if config.host is not None:
        settings["api_host"] = config.host
    return swanlab.Settings(**settings)


def _sample(row: Mapping[str, Any]) -> tuple[str, str]:
    """The text, and a line of facts about it."""
    caption = ", ".join(f"{name} {row[name]}" for name in _FACTS if row.get(name) is not None)
    text = f"{row.get('prompt', '')}\n\n=====\n\n{row.get('completion', '')}"
    return text.encode(errors="replace").decode(), caption
