"""Types for plugin authors: mypy accepts right plugins and refuses wrong ones, as it does for somebody who has installed core-rl.

`typing/accepted` has a plugin of every kind. In `typing/refused` each wrong line ends with `# E:` and words of mypy's message.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from mypy import api

from core_rl.kinds import ROLES
from core_rl.plugins.registration import HOOKS

ROOT = Path(__file__).resolve().parent.parent
FILES = ROOT / "tests" / "typing"
EXAMPLES = [
    ROOT / "examples" / "plugins" / name for name in ("ce_gppo", "guess")
]  # not judge: the types of aiohttp take as long as torch's
CACHE = ROOT / ".mypy_cache" / "authors"  # torch alone takes 20 seconds the first time
_ERROR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<message>.*)")


def found_errors(files: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], list[str]]:
    """(file, line) -> messages of `mypy --strict`, of copies in a folder of their own, with nothing of this checkout's configuration."""
    for file in files:
        place = folder / file.parent.name
        place.mkdir(exist_ok=True)
        (place / "__init__.py").touch()
        shutil.copy(file, place)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MYPYPATH", raising=False)
    names = sorted({file.parent.name for file in files})
    options = ["--strict", "--config-file=", "--no-error-summary", "--hide-error-context", "--cache-dir", str(CACHE)]
    output, complaint, _ = api.run([*options, *names])
    assert complaint == ""
    errors: dict[tuple[str, int], list[str]] = {}
    for line in output.splitlines():
        match = _ERROR.fullmatch(line)
        if match:
            errors.setdefault((match["file"], int(match["line"])), []).append(match["message"])
    return errors


def expected_errors(files: list[Path]) -> dict[tuple[str, int], str]:
    return {
        (f"{file.parent.name}/{file.name}", number): line.partition("# E: ")[2].strip()
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if "# E: " in line
    }


def test_right_plugins_are_accepted_and_wrong_ones_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every error stands where one is expected, with those words, and nowhere else. The packages of the example plugins are right."""
    files = [*FILES.glob("*/*.py"), *(file for folder in EXAMPLES for file in folder.glob("src/*/*.py"))]
    expected = expected_errors(files)
    found = found_errors(files, tmp_path, monkeypatch)

    assert len(expected) > 40
    assert [f"{file}:{line}: {found[file, line]}" for file, line in found.keys() - expected.keys()] == []
    assert [f"{file}:{line}: nothing is refused" for file, line in expected.keys() - found.keys()] == []
    for place, words in expected.items():
        assert [message for message in found[place] if words not in message] == [], place


@pytest.mark.parametrize("folder", ["accepted", "refused"])
@pytest.mark.parametrize("kind", ROLES)
def test_every_contract_is_there(folder: str, kind: str) -> None:
    """A right and a wrong plugin of every kind is assigned to a name of the contract's type."""
    contract = ROLES[kind].partition(":")[2]
    text = "\n".join(file.read_text(encoding="utf-8") for file in (FILES / folder).glob("*.py"))

    assert re.search(rf"^\w+: (list\[)?{contract}\]? = ", text, re.MULTILINE)


def test_every_hook_is_there() -> None:
    """The accepted plugin module implements all of them."""
    text = (FILES / "accepted" / "plugin.py").read_text(encoding="utf-8")

    assert [hook for hook in HOOKS if f"@hookimpl\ndef {hook}(" not in text] == []
