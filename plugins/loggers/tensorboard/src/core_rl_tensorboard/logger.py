"""The logger `tensorboard`. It uses the tensorboard package's own writer: neither torch nor tensorflow is imported for it."""

from __future__ import annotations

import importlib.util
import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from core_rl.errors import PluginError
from core_rl.roles.parts import RunInfo
from core_rl_tensorboard.config import TensorBoardConfig


class TensorBoardLogger:
    """One event file for each start of a run, all in one folder: TensorBoard shows them as one run."""

    def __init__(self, config: TensorBoardConfig) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            message = "logger tensorboard needs tensorboard: pip install 'core-rl[tensorboard]'"
            raise PluginError(message)
        self._config = config
        self._writer: Any = None

    def start(self, run: RunInfo) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = run.dir / "tensorboard" if self._config.dir is None else Path(self._config.dir).expanduser()
        self._writer = EventFileWriter(str(folder), flush_secs=self._config.flush_s)
        if run.resumed_from is not None:
            self._forget_after(run.resumed_from)
        self._write(run.resumed_from or 0, [_text("config", _verbatim(json.dumps(run.config, indent=2, default=str)))])
        self._writer.flush()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._write(step, [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()])

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        rows = rows[: self._config.samples]
        splits = dict.fromkeys(str(row.get("split", "train")) for row in rows)
        for split in splits:
            chosen = [row for row in rows if str(row.get("split", "train")) == split]
            self._write(step, [_text(f"samples/{split}", "\n\n---\n\n".join(map(_sample, chosen)))])

    def finish(self, status: Literal["done", "failed", "interrupted"]) -> None:  # noqa: ARG002 — a file has no status
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, values: list[Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=values)))

    def _forget_after(self, step: int) -> None:
        """Tell readers that what stands at later steps in earlier files is void."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        log = SessionLog(status=SessionLog.SessionStatus.START)
        self._writer.add_event(Event(step=step + 1, wall_time=time.time(), session_log=log))


def _text(tag: str, markdown: str) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DataType
    from tensorboard.plugins.text.metadata import create_summary_metadata

    tensor = TensorProto(
        dtype=DataType.DT_STRING,
        string_val=[markdown.encode(errors="replace")],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    return Summary.Value(tag=tag, metadata=create_summary_metadata(tag, ""), tensor=tensor)


def _sample(row: Mapping[str, Any]) -> str:
    facts = ("id", "reward", "rewards", "answer", "finish_reason", "tokens")
    heads = ", ".join(f"{name} `{row[name]}`" for name in facts if row.get(name) is not None)
    prompt, completion = _verbatim(str(row.get("prompt", ""))), _verbatim(str(row.get("completion", "")))
    return f"{heads}\n\n**prompt**\n\n{prompt}\n\n**completion**\n\n{completion}"


def _verbatim(text: str) -> str:
    """As an indented block: Markdown then leaves it alone, whatever it contains."""
    return textwrap.indent(text or "(empty)", "    ", lambda _: True)
