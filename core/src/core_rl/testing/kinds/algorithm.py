"""Checks of algorithms: a subclass of `AlgorithmConfig` or `OfflineConfig`, in a run file, and in a run."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.explain import explain
from core_rl.config.load import load_run_file
from core_rl.config.offline import OfflineConfig
from core_rl.testing.kinds.tiny_run import MODEL, TEACHER
from core_rl.testing.kit.check import checks, expect, listed
from core_rl.testing.kit.state import restore, state

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.testing.kit.subject import Subject

STEPS = 2
_HERE = "core_rl.testing.kinds.tiny_run"
_ROWS = {"pairs": "Pairs", "labelled": "LabelledRows", "conversations": "Conversations"}


def in_a_run_file(subject: Subject) -> None:
    """A run file with it loads, with all that its defaults select, and what they need is there."""
    from core_rl.capabilities import check_capabilities

    check_capabilities(_file(subject))


def formula(subject: Subject) -> None:
    """`core-rl config show --explain` says in symbols what it minimises."""
    parts = [part for part in explain(_file(subject)) if part.place in ("algorithm", "loss")]
    expect(
        any(part.formula for part in parts), "neither it nor its loss has a formula (Component.formula, or options.formula())"
    )


def trains(subject: Subject) -> None:
    """A run of two steps on a tiny model ends well: the loss of every step is a number, and a gradient arrives."""
    rows = subject.keep(_run)
    steps = [row for row in rows if row["step"] > 0]
    expect(len(steps) == STEPS, f"{len(steps)} steps were logged, expected {STEPS}")
    for row in steps:
        odd = row.get("nonfinite", {})
        expect(not odd, f"step {row['step']} logged {odd}")
        norm = next((value for name, value in row.items() if name.endswith("grad_norm")), None)
        expect(norm is not None, f"step {row['step']} made no optimizer step: {listed(sorted(row))} were logged")
        expect(math.isfinite(norm or 0.0), f"the gradient norm of step {row['step']} is {norm}")
    norms = [value for row in steps for name, value in row.items() if name.endswith("grad_norm")]
    expect(any(norms), "every gradient is 0: nothing was learnt in two steps")


def _file(subject: Subject) -> RunFile:
    return load_run_file(_written(subject, subject.folder()))


def _written(subject: Subject, folder: Path) -> Path:
    """The run file of a few steps."""
    offline = issubclass(type(subject.settings), OfflineConfig)
    kind = next((kind for kind in _ROWS if kind in subject.needs), "conversations" if offline else "")
    document: dict[str, Any] = {
        "run": {"name": "kit", "seed": 1, "steps": STEPS, "prompts_per_step": 4, "dir": str(folder / "runs")},
        "model": dict(MODEL),
        "data": f"{_HERE}:{_ROWS.get(kind, 'Prompts')}",
        "algorithm": {"name": subject.name, **_algorithm(subject), **subject.options},
        "train_engine": {"name": "local", "lr": 0.01, "device": "cpu"},
        "loggers": ["jsonl"],
        "checkpoint": {"at_end": False, "export_hf": False},
    }
    if not offline:
        document |= {"sampling": {"max_new_tokens": 24}, "rewards": [f"{_HERE}:Reward"]}
    for section, change in subject.given.get("run_file", {}).items():
        document[section] = (
            {**document[section], **change}
            if isinstance(document.get(section), Mapping) and isinstance(change, Mapping)
            else change
        )
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def _algorithm(subject: Subject) -> dict[str, Any]:
    """What has no default that fits every model: a teacher, where one is needed."""
    teacher = "teacher_logprobs" in subject.needs and getattr(subject.settings, "teacher", None) is None
    settings: dict[str, Any] = {"teacher": {"model": TEACHER}} if teacher else {}
    assert isinstance(subject.settings, AlgorithmConfig | OfflineConfig)
    return settings


@contextmanager
def _run(subject: Subject) -> Iterator[list[dict[str, Any]]]:
    """What `core-rl train` logs. A run sets seeds and threads as it likes; what can be put back is put back."""
    from core_rl.loops.run import train

    folder, before, said = subject.folder(), state(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = train(_written(subject, folder), (), resume=None)
    finally:
        restore(before)
    expect(code == 0, f"the run ended with the exit code {code}: {said.getvalue().strip()[-300:]}")
    [metrics] = [path for path in folder.rglob("metrics.jsonl") if "latest" not in path.parts]
    yield [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]


CHECKS = checks(in_a_run_file, formula, trains)
