"""The launchers of a run: its own, and those that a critic or a teacher has beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.plugins.build import build

if TYPE_CHECKING:
    from core_rl.config.selection import Selection
    from core_rl.roles.parts import Launcher


class Launchers:
    """Engines of one launcher share its workers; a launcher of its own has workers of its own."""

    def __init__(self, own: Selection) -> None:
        self.own: Launcher = build(own)
        self._others: list[Launcher] = []

    def of(self, role: Selection | None) -> Launcher:
        """The one that a role names, or the run's."""
        if role is None:
            return self.own
        launcher: Launcher = build(role)
        self._others.append(launcher)
        return launcher

    def close(self) -> None:
        for launcher in (*self._others, self.own):
            launcher.close()
