"""A run in progress as the loop sees it: where to log, where to save, and whether someone wants it to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from core_rl.loops.journal import Journal
    from core_rl.loops.offline import OfflinePosition
    from core_rl.loops.online import Position
    from core_rl.run.checkpoints import Checkpoints

INTERRUPTED = "interrupted"


@attrs.frozen(kw_only=True)
class Session:
    """Loggers, checkpoints and the lifecycle hooks of all plugins."""

    journal: Journal
    checkpoints: Checkpoints
    hooks: Any
    """pluggy's hook caller (`Catalogue.manager.hook`)."""
    interrupted: Callable[[], bool] = lambda: False
    folder: Path | None = None
    """The run's."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.journal.log(step, metrics)
        self.hooks.core_rl_step_end(step=step, metrics=metrics)

    def reason_to_stop(self, step: int, metrics: Mapping[str, float]) -> str | None:
        """Ctrl-C, or what a plugin's `core_rl_should_stop` says."""
        if self.interrupted():
            return INTERRUPTED
        reason: str | None = self.hooks.core_rl_should_stop(step=step, metrics=metrics)
        return reason

    def save(self, write: Callable[[Path], None], position: Position | OfflinePosition) -> None:
        self.checkpoints.save(position.step, write, attrs.asdict(position))
