"""`core-rl plugins lock` and `--locked`: what is installed is written down, and anything else is refused before it is imported."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from core_rl import __version__
from core_rl.cli.main import main
from core_rl.plugins.lock import VARIABLE

PLUGIN = """
from core_rl import hookimpl

@hookimpl
def core_rl_run_start(run):
    pass
"""
RUN = """
run: {name: small, steps: 1}
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
algorithm: grpo
rewards: [{name: function, function: "rewards:reward"}]
train_engine: local
"""


def record(site: Any, name: str, version: str = "1.0") -> Path:
    """The RECORD that pip writes last; the folder of the metadata comes back."""
    info: Path = site.path / f"{name}-{version}.dist-info"
    names = [f"{name}.py", f"{info.name}/METADATA", f"{info.name}/RECORD", f"__pycache__/{name}.cpython-311.pyc", "../bin/acme"]
    (info / "RECORD").write_text("".join(f"{one},,\n" for one in names))
    return info


@pytest.fixture
def acme(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The plugin `acme-watch` is installed, and nothing of it will be selected; the working directory has a run file."""
    monkeypatch.setenv(VARIABLE, "")  # so that what --locked sets is taken back
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(RUN)
    site.add("acme-watch", PLUGIN)
    return record(site, "acme_watch")


def lock(*arguments: str) -> int:
    return main(["plugins", "lock", *arguments])


def test_the_lock_is_stable_sorted_and_complete(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Core and every plugin, by name, with version, entry points and hash; written twice, it is the same file. Nothing is imported."""
    assert lock() == 0
    text = Path("core-rl.lock").read_text()
    assert lock("--output", "again.lock") == 0
    names = [plugin["name"] for plugin in tomllib.loads(text)["plugin"]]
    (block,) = [block for block in text.split("\n\n") if "acme-watch" in block]

    assert Path("again.lock").read_text() == text
    assert names == sorted(names)
    assert {"acme-watch", "core-rl", "core-rl-grpo"} <= set(names)
    assert block.splitlines()[:4] == [
        "[[plugin]]",
        'name = "acme-watch"',
        'version = "1.0"',
        'entry_points = ["acme_watch = acme_watch"]',
    ]
    assert "acme_watch" not in sys.modules
    assert f"core-rl.lock: {len(names)} plugins" in capsys.readouterr().out


def test_what_is_locked_passes(acme: Path) -> None:
    """`--check` and a locked command find nothing to say, also after Python has left its bytecode."""
    lock()
    (acme.parent / "__pycache__").mkdir()
    (acme.parent / "__pycache__" / "acme_watch.cpython-311.pyc").write_bytes(b"made later")

    assert lock("--check") == 0
    assert main(["plugins", "list"]) == 0
    assert main(["config", "check", "run.yaml", "--locked"]) == 0


def add_another(site: Any) -> None:
    site.add("acme-extra", PLUGIN)
    record(site, "acme_extra")


def change_version(site: Any) -> None:
    (site.path / "acme_watch-1.0.dist-info").rename(site.path / "acme_watch-1.1.dist-info")
    metadata = site.path / "acme_watch-1.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))


def change_file(site: Any) -> None:
    site.module("acme_watch", PLUGIN + "# patched on this machine\n")


def change_entry_point(site: Any) -> None:
    (site.path / "acme_watch-1.0.dist-info" / "entry_points.txt").write_text("[core_rl.plugins]\nwatch = acme_watch\n")


def uninstall(site: Any) -> None:
    for path in (site.path / "acme_watch-1.0.dist-info").iterdir():
        path.unlink()


def tear_file(site: Any) -> None:
    (site.path / "acme_watch.py").unlink()


CHANGES = [
    (
        add_another,
        "acme-extra: core-rl.lock does not have it, installed is 1.0: pip uninstall acme-extra, or core-rl plugins lock",
    ),
    (
        change_version,
        "acme-watch: core-rl.lock has 1.0, installed is 1.1: pip install acme-watch==1.0, or core-rl plugins lock",
    ),
    (change_file, "acme-watch: core-rl.lock has 1.0 with files sha256:"),
    (
        change_entry_point,
        "has the entry points acme_watch = acme_watch, installed are watch = acme_watch: pip install --force-reinstall",
    ),
    (
        uninstall,
        "acme-watch: core-rl.lock has 1.0, and it is not installed: pip install acme-watch==1.0, or core-rl plugins lock",
    ),
    (tear_file, "acme-watch: core-rl.lock has 1.0; what is installed cannot be compared: its module acme_watch is not there"),
]


@pytest.mark.parametrize(("change", "line"), CHANGES)
def test_anything_else_is_one_line(acme: Path, site: Any, change: Any, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` prints it and exits with 1; a locked command is refused with it, exit code 2, before the plugin is imported."""
    lock()
    change(site)
    capsys.readouterr()

    assert lock("--check") == 1
    assert line in capsys.readouterr().out
    assert main(["config", "check", "run.yaml", "--locked"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("core-rl: error: ")
    assert line in error
    assert not {"acme_watch", "acme_extra"} & set(sys.modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "run.yaml"],
        ["eval", "run.yaml"],
        ["generate", "run.yaml", "1"],
        ["doctor", "run.yaml"],
        ["config", "check", "run.yaml"],
        ["config", "show", "run.yaml"],
    ],
    ids=" ".join,
)
def test_every_command_with_a_run_file_takes_locked(
    acme: Path, site: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The plugin that changed is not selected; it is refused, because its lifecycle hooks would run."""
    lock()
    change_file(site)
    capsys.readouterr()

    assert main([*arguments, "--locked"]) == 2
    assert "acme-watch: core-rl.lock has 1.0 with files" in capsys.readouterr().err


def test_the_environment_names_the_lock(
    acme: Path, site: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CORE_RL_LOCKED holds for every command that meets plugins, is what `lock` writes, and comes before `--locked`'s own file."""
    monkeypatch.setenv(VARIABLE, "team.lock")
    lock()
    change_version(site)

    assert not Path("core-rl.lock").exists()
    assert main(["plugins", "list"]) == 2
    assert main(["config", "check", "run.yaml", "--locked"]) == 2
    assert capsys.readouterr().err.count("acme-watch: team.lock has 1.0, installed is 1.1") == 2
    assert lock() == 0
    assert main(["plugins", "list"]) == 0


GOOD = '[[plugin]]\nname = "a"\nversion = "1"\nentry_points = []\nhash = "sha256:0"\neditable = false\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "core-rl.lock: there is no such lock file: write it with core-rl plugins lock"),
        (b"format = 1\n<<<<<<< ours\n", "no lock file of core-rl (Invalid"),
        (b"\xff\xfe", "no lock file of core-rl ('utf-8'"),
        (b"", "format is None, and a number is expected"),
        (b"format = true", "format is True, and a number is expected"),
        (b"format = 2", f"the lock has format 2, and core-rl {__version__} reads up to 1: upgrade core-rl"),
        (b"format = 1\nplugin = 3", "plugin is not a list of tables"),
        (f"format = 1\n{GOOD}{GOOD}".encode(), "a is in it twice"),
        (f"format = 1\n{GOOD}colour = 1".encode(), "plugin a has the key colour; the keys are name, version"),
        (b"format = 1\n[[plugin]]\nname = 'a'", "plugin a has version = None, expected str"),
    ],
)
def test_a_lock_that_is_none(acme: Path, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing, torn, merged or newer lock file is one line that says what to do, for `--check` and for `--locked`."""
    if content is not None:
        Path("core-rl.lock").write_bytes(content)

    for arguments in (["plugins", "lock", "--check"], ["config", "check", "run.yaml", "--locked"]):
        assert main(arguments) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert message in error


def test_a_lock_that_cannot_be_read_or_written(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder in its place, and a folder that is not there."""
    Path("core-rl.lock").mkdir()

    assert lock("--check") == 2
    assert "core-rl.lock: the lock file cannot be read (Is a directory)" in capsys.readouterr().err
    assert lock() == 2
    assert "core-rl.lock: the lock cannot be written" in capsys.readouterr().err
    assert lock("--output", "nowhere/core-rl.lock") == 2
    assert "name another file with --output" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["core-rl.lock", "run.yaml", "site"]


def lose_record(info: Path) -> None:
    (info / "RECORD").unlink()


def make_unreadable(info: Path) -> None:
    (info.parent / "acme_data").mkdir()
    with (info / "RECORD").open("a") as file:
        file.write("acme_data,,\n")


def copy(info: Path) -> None:
    second = info.parent / "acme_watch-2.0.dist-info"
    second.mkdir()
    (second / "entry_points.txt").write_text((info / "entry_points.txt").read_text())
    (second / "METADATA").write_text((info / "METADATA").read_text().replace("1.0", "2.0"))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lose_record, "its RECORD is missing, so that its files are not known: install it again, with pip"),
        (make_unreadable, "acme_data cannot be read (Is a directory)"),
        (copy, "a second copy of the distribution"),
    ],
)
def test_what_cannot_be_locked(acme: Path, harm: Any, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No half of a lock is written; a lock from before refuses the plugin with the same reason."""
    lock("--output", "before.lock")
    harm(acme)
    capsys.readouterr()

    assert lock() == 2
    assert not Path("core-rl.lock").exists()
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("core-rl: error: acme-watch: cannot be locked: ")
    assert message in error
    assert lock("--check", "--output", "before.lock") == 1
    assert message in capsys.readouterr().out


def test_a_module_that_hides_the_installed_one(
    acme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PYTHONPATH with another copy of the code: what would run is not what was locked."""
    lock()
    other = tmp_path / "other"
    other.mkdir()
    (other / "acme_watch.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(other))
    capsys.readouterr()

    assert lock("--check") == 1
    assert f"acme_watch would be imported from {other}" in capsys.readouterr().out


def test_an_editable_install_is_its_sources(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock says `editable`, hashes the package that the entry point names, and an edit undoes it; hidden files do not."""
    monkeypatch.chdir(tmp_path)
    site.add("acme-watch", entry_points="watch = acme_watch.plugin")
    info = record(site, "acme_watch")
    package = tmp_path / "acme watch" / "src" / "acme_watch"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "plugin.py").write_text(PLUGIN)
    source = {"url": (tmp_path / "acme watch").as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(source))
    monkeypatch.syspath_prepend(str(package.parent))
    assert lock() == 0
    (plugin,) = [one for one in tomllib.loads(Path("core-rl.lock").read_text())["plugin"] if one["name"] == "acme-watch"]

    assert plugin["editable"] is True
    assert "editable installs: every edit of their sources undoes the lock" in capsys.readouterr().err
    (package / ".plugin.py.swp").touch()
    assert lock("--check") == 0
    (package / "plugin.py").write_text(f"{PLUGIN}# edited\n")
    assert lock("--check") == 1
    assert "it is an editable install, so take its sources back to what was locked" in capsys.readouterr().out
