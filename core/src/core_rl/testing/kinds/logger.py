"""Checks of loggers: `core_rl.roles.parts.Logger`."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.roles.parts import ProgressLogger, RunInfo
from core_rl.testing.kit.check import UnmetError, checks, expect, listed

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject

METRICS: Mapping[str, float] = {"reward/mean": 0.5, "policy/loss": -0.25, "len/completion_mean": 7.0, "eval/reward/mean": 1.0}
ODD: Mapping[str, float] = {"policy/loss": float("nan"), "kl/ref": float("inf"), "ratio/mean": -float("inf"), "seconds": 1e300}
ROW: Mapping[str, Any] = {
    "split": "train",
    "id": "p1",
    "prompt": "2+3=",
    "completion": "5",
    "answer": 5,
    "reward": 1.0,
    "rewards": {"math": 1.0},
    "errors": {},
    "finish_reason": "stop",
    "tokens": 1,
}


def a_run(subject: Subject) -> None:
    """start, metrics and completions of some steps, finish: as a run that goes well calls it."""
    with _quiet(subject) as folder:
        _run(subject, folder, steps=range(3), status="done")


def short_runs(subject: Subject) -> None:
    """A run that ends before its first step, and one that ended before the logger was started, can be finished."""
    with _quiet(subject) as folder:
        logger = subject.build()
        logger.start(_info(folder))
        logger.finish("failed")
        subject.build().finish("interrupted")


def odd_numbers(subject: Subject) -> None:
    """NaN, infinities, a step without metrics and names that come and go are logged without an error."""
    with _quiet(subject) as folder:
        logger = subject.build()
        logger.start(_info(folder))
        logger.log(0, dict(METRICS))
        logger.log(1, dict(ODD))
        logger.log(2, {})
        logger.log(3, {"new/name": 1.0})
        logger.finish("done")


def odd_samples(subject: Subject) -> None:
    """Completions with half a surrogate pair, without an answer or a reward, very long, and none at all are logged without an error."""
    with _quiet(subject) as folder:
        logger = subject.build()
        logger.start(_info(folder))
        rows = [
            {**ROW, "completion": "\ud83d"},
            {**ROW, "answer": None, "reward": None, "rewards": {"math": None}, "errors": {"math": "ValueError: no"}},
            {**ROW, "completion": "x" * 100_000},
            {**ROW, "answer": {"nested": [1, 2]}, "completion": "[red]not markup[/]\x1b[0m\x00"},
        ]
        logger.log(1, dict(METRICS))
        logger.log_samples(1, rows)
        logger.log_samples(1, [])
        logger.finish("done")


def resume(subject: Subject) -> None:
    """A run that goes on in the same folder, from an earlier step than the last one logged, is logged without an error."""
    with _quiet(subject) as folder:
        _run(subject, folder, steps=range(5), status="interrupted")
        logger = subject.build()
        logger.start(_info(folder, resumed_from=2))
        for step in (3, 4, 5):
            logger.log(step, dict(METRICS))
            logger.log_samples(step, [dict(ROW)])
        logger.finish("done")


def stays_in_the_folder(subject: Subject) -> None:
    """Files are written into the run's folder, not into the working directory or the home directory."""
    with _quiet(subject) as folder:
        _run(subject, folder, steps=range(2), status="done")
        outside = [str(path) for root in (Path.cwd(), Path(os.environ["HOME"])) for path in sorted(root.rglob("*"))]
        expect(not outside, f"it wrote {listed(outside[:5])}; expected files in RunInfo.dir alone ({folder})")


def unusable_folder(subject: Subject) -> None:
    """A folder that cannot be written to is an ordinary error, which switches the logger off, or none."""
    with _quiet(subject) as folder:
        blocked = folder / "a-file"
        blocked.write_text("")
        logger = subject.build()
        for call in (lambda: _start_and_log(logger, blocked / "run"), lambda: logger.finish("failed")):
            try:
                call()
            except Exception:  # noqa: BLE001, S110 - allowed: the journal switches it off
                pass
            except BaseException as error:
                message = f"it raised {type(error).__name__}, which ends the run; expected an Exception"
                raise UnmetError(message) from error


def leaves_what_it_gets(subject: Subject) -> None:
    """Metrics and rows, which the other loggers get too, are left as they are."""
    with _quiet(subject) as folder:
        metrics, rows = dict(METRICS), [dict(ROW)]
        logger = subject.build()
        logger.start(_info(folder))
        logger.log(1, metrics)
        logger.log_samples(1, rows)
        logger.finish("done")
        expect(metrics == METRICS, f"it changed the metrics: {metrics}")
        expect(rows == [ROW], f"it changed the rows of completions: {rows}")


def use(subject: Subject) -> None:
    """A short run."""
    with _quiet(subject) as folder:
        _run(subject, folder, steps=range(2), status="done")


def _run(subject: Subject, folder: Path, *, steps: Sequence[int], status: Any) -> None:
    logger = subject.build()
    logger.start(_info(folder))
    for step in steps:
        if isinstance(logger, ProgressLogger):
            logger.progress("rollout", 1, 2)
            logger.progress("rollout", 2, 2)
        logger.log(step, dict(METRICS))
        logger.log_samples(step, [dict(ROW), {**ROW, "split": "eval"}])
    logger.finish(status)


def _start_and_log(logger: Any, folder: Path) -> None:
    logger.start(_info(folder))
    logger.log(1, dict(METRICS))
    logger.log_samples(1, [dict(ROW)])


def _info(folder: Path, *, resumed_from: int | None = None) -> RunInfo:
    config = {"run": {"name": "kit", "seed": 1}, "model": {"path": None}, "rewards": [{"name": "math", "options": {}}]}
    return RunInfo(name="kit", dir=folder, config=config, resumed_from=resumed_from, total_steps=5)


@contextlib.contextmanager
def _quiet(subject: Subject) -> Iterator[Path]:
    """A folder for a run; what is printed is dropped, and the working and home directories are empty ones."""
    folder, elsewhere, home = subject.folder(), subject.folder(), subject.folder()
    before, cwd = {name: os.environ.get(name) for name in ("HOME", "USERPROFILE")}, Path.cwd()
    os.environ.update(HOME=str(home), USERPROFILE=str(home))
    os.chdir(elsewhere)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield folder
    finally:
        os.chdir(cwd)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


CHECKS = checks(
    a_run,
    short_runs,
    odd_numbers,
    odd_samples,
    resume,
    stays_in_the_folder,
    unusable_folder,
    leaves_what_it_gets,
)
