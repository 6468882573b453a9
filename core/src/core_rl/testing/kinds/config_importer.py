"""Checks of importers: `core_rl.roles.parts.ConfigImporter`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.errors import UserError
from core_rl.testing.kit.check import checks, expect, not_judged, shown

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject


def reads(subject: Subject) -> None:
    """A file of the other system becomes a mapping with the sections of a run file, the same each time."""
    files: Mapping[str, str] = subject.given.get("files") or {}
    if not files:
        not_judged("the test class gives no `files`: contents by file name")
    for name, text in files.items():
        path = _written(subject, name, text)
        found = subject.build().load(path)
        expect(isinstance(found, Mapping), f"{name} became {shown(found)}, expected a mapping")
        unknown = sorted(set(found) - _sections())
        expect(not unknown, f"{name} became a run file with {', '.join(unknown)}, which no run file has")
        expect(found == subject.build().load(path), f"{name} becomes something else when it is read again")
        expect(path.read_text(encoding="utf-8") == text, f"it changed {name}")


def refuses(subject: Subject) -> None:
    """A file that is missing, and one that is no configuration, is a `UserError` in words."""
    folder = subject.folder()
    (folder / "rubbish.yaml").write_bytes(b"\xff\xfe: [\x00")
    for name in ("missing.yaml", "rubbish.yaml"):
        try:
            found: Any = subject.build().load(Path(folder / name))
        except UserError as error:
            expect(str(error).strip(), f"{name}: it raised an error without a word")
            continue
        expect(holds=False, words=f"{name} became {shown(found)}, expected a UserError")


def _written(subject: Subject, name: str, text: str) -> Path:
    path = subject.folder() / name
    path.write_text(text, encoding="utf-8")
    return path


def _sections() -> set[str]:
    from core_rl.config.fields import fields_of
    from core_rl.config.run_file import RunFile

    return set(fields_of(RunFile))


CHECKS = checks(reads, refuses)
