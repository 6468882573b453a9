"""`manifest.json`: what a run was made of, so that it can be made again."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from core_rl.config.explain import as_records, explain
from core_rl.config.offline import OfflineConfig
from core_rl.config.show import MASK
from core_rl.plugins.manifest import plugins_used
from core_rl.run.files import write_atomically
from core_rl.run.machine import git, machine, packages

if TYPE_CHECKING:
    from core_rl.config.algorithm import AlgorithmConfig
    from core_rl.config.run_file import RunFile
    from core_rl.plugins.catalogue import Catalogue
    from core_rl.run.directory import RunDirectory

_SECRET = re.compile(r"key|token\b|secret|password", re.IGNORECASE)
_SESSION = ("started", "ended", "status", "resumed_from", "command")


class Manifest:
    """The manifest of a session. A resumed run keeps the sessions before it under `earlier`."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self._path = path
        self._facts = facts

    @classmethod
    def begin(cls, directory: RunDirectory, file: RunFile, catalogue: Catalogue, *, resumed_from: int | None = None) -> Self:
        """Write what is known at the start, with the status `running`: a run that was killed keeps it."""
        manifest = cls(
            directory.manifest,
            {
                "name": file.run.name,
                "status": "running",
                "started": _now(),
                "ended": None,
                "resumed_from": resumed_from,
                "seed": file.run.seed,
                "algorithm": algorithm_line(file.algorithm.options),
                "formulas": as_records(explain(file)),
                "command": _command(sys.argv),
                "git": git(Path.cwd()),
                "machine": machine(),
                "plugins": plugins_used(file, catalogue),
                "described": _described(catalogue),
                "earlier": _earlier(directory.manifest) if resumed_from is not None else [],
                "packages": packages(),
            },
        )
        manifest._write()
        return manifest

    def end(self, status: Literal["done", "failed", "interrupted"]) -> None:
        self._facts |= {"status": status, "ended": _now()}
        self._write()

    def _write(self) -> None:
        write_atomically(self._path, json.dumps(self._facts, indent=1, ensure_ascii=False, default=str) + "\n")


def algorithm_line(algorithm: AlgorithmConfig | OfflineConfig) -> str:
    """The algorithm that was resolved, as one line; `formulas` of the manifest says it in full."""
    if isinstance(algorithm, OfflineConfig):
        return "; ".join([f"loss {algorithm.loss.name}", *_extra(algorithm), algorithm.aggregation.name])
    kl = algorithm.kl
    ratio = "ratio · " if kl.unbiased else ""
    parts = [
        f"advantage {algorithm.advantage.name} over groups of {algorithm.group_size}",
        f"loss {algorithm.loss.name}",
        *_extra(algorithm),
        f"{algorithm.aggregation.name}",
        *([f"{kl.coef:g} · {ratio}KL {kl.estimator.name} in the {kl.place}"] if kl.coef else []),
        *([f"{algorithm.entropy_coef:g} · entropy"] if algorithm.entropy_coef else []),
        *([f"rejections {', '.join(one.name for one in algorithm.rejections)}"] if algorithm.rejections else []),
        f"{algorithm.epochs * algorithm.minibatches} optimizer step(s) a batch",
        f"proximal {algorithm.proximal}",
    ]
    return "; ".join(parts)


def _extra(algorithm: AlgorithmConfig | OfflineConfig) -> list[str]:
    return [f"{one.weight:g} · loss {one.name}" for one in algorithm.extra_losses]


def _described(catalogue: Catalogue) -> dict[str, Any]:
    """`core_rl_describe` of every plugin; one that fails says so here and nowhere else."""
    facts: dict[str, Any] = {}
    for implementation in catalogue.manager.hook.core_rl_describe.get_hookimpls():
        try:
            result: Any = implementation.function()
            described: Any = dict(result)
        except Exception as error:  # noqa: BLE001 - a plugin's facts are not worth a run
            described = f"{type(error).__name__}: {error}"
        facts[implementation.plugin_name] = described
    return facts


def _command(arguments: list[str]) -> list[str]:
    """As it was typed, without the values of overrides that look like secrets."""
    masked = [
        f"{key}={MASK}" if (key := one.partition("=")[0]) != one and _SECRET.search(key) else one for one in arguments[1:]
    ]
    return [Path(arguments[0]).name, *masked]


def _earlier(path: Path) -> list[Mapping[str, Any]]:
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        return [*before.get("earlier", []), {key: before.get(key) for key in _SESSION}]
    except (OSError, ValueError, AttributeError, TypeError):
        return []  # cut short or gone: the run itself does not need it


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
