"""What the manifest of a run says of the plugins it used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rl.plugins.selected import selected

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.plugins.catalogue import Catalogue


def plugins_used(run_file: RunFile, catalogue: Catalogue) -> list[dict[str, Any]]:
    """One row for every component that is selected. `distribution` and `version` are None for a `module:Object`."""
    rows: list[dict[str, Any]] = []
    for _, selection in selected(run_file):
        assert selection.component is not None, f"{selection.kind} {selection.name} was not resolved"
        row = {
            "kind": selection.kind,
            "name": selection.component.name,
            "distribution": selection.plugin,
            "version": None if selection.plugin is None else catalogue.version(selection.plugin),
            "target": selection.component.target,
        }
        if row not in rows:
            rows.append(row)
    return rows
