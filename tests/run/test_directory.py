"""A run's folder and its manifest."""

from __future__ import annotations

import json
import re
import sys

import pytest

from core_rl.component import hookimpl
from core_rl.config.load import load_run_file
from core_rl.errors import CheckpointError, RunError
from core_rl.plugins.catalogue import Catalogue
from core_rl.run import machine
from core_rl.run.directory import RunDirectory, safe_name
from core_rl.run.files import write_atomically
from core_rl.run.manifest import Manifest


def test_a_new_folder_and_the_way_to_it(tmp_path):
    """Named after the time; `latest` leads to the newest, also when two start in one second."""
    first = RunDirectory.create(tmp_path, "my run")
    second = RunDirectory.create(tmp_path, "my run")
    for one in (first, second):
        one.write_config("run: {}\n")

    assert first.path.parent == tmp_path / "my-run"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", first.path.name)
    assert second.path != first.path
    assert RunDirectory.latest(tmp_path, "my run").path == second.path.resolve()
    assert str((tmp_path / "my-run" / "latest").readlink()) == second.path.name


def test_latest_without_links(tmp_path, monkeypatch):
    """A file with the name in it does the same."""

    def refuse(*_, **__):
        raise OSError

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    directory = RunDirectory.create(tmp_path, "r")
    directory.write_config("run: {}\n")

    assert (tmp_path / "r" / "latest").is_file()
    assert RunDirectory.latest(tmp_path, "r").path == directory.path.resolve()


@pytest.mark.parametrize(
    ("name", "folder"), [("a/b", "a-b"), ("../../etc", "etc"), ("..", "run"), ("", "run"), ("Qwen 0.5B λ", "Qwen-0.5B-λ"), ("x" * 300, "x" * 100)]
)  # fmt: skip
def test_names_stay_inside_the_folder(name, folder):
    """Separators, dots and lengths cannot lead elsewhere."""
    assert safe_name(name) == folder


def test_mistakes_about_folders(tmp_path):
    """Each is a line with the place and the mend."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()

    with pytest.raises(RunError, match=r"run\.dir: no folder can be made in .*choose another run\.dir"):
        RunDirectory.create(tmp_path / "file", "r")
    with pytest.raises(CheckpointError, match=r"folder has no config\.yaml, so it is no run folder"):
        RunDirectory.open(tmp_path / "folder")
    with pytest.raises(CheckpointError, match="nowhere is no folder"):
        RunDirectory.open(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="there is no run named r in"):
        RunDirectory.latest(tmp_path, "r")


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    """Half a surrogate pair cannot be encoded; the old text stays, and nothing beside it."""
    path = tmp_path / "manifest.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")

    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["manifest.json"]


RUN = """
run: {name: small, seed: 5, steps: 2}
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
algorithm: {name: grpo, group_size: 4, kl: {coef: 0.1}}
rewards: [{name: format, pattern: "1"}]
"""


@pytest.fixture
def begun(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/core-rl", "train", "x.yaml", "seed=3", "loggers.0.api_key=sesame"])
    (tmp_path / "run.yaml").write_text(RUN)
    directory = RunDirectory.create(tmp_path / "runs", "small")

    def begin(**options):
        catalogue = Catalogue.discover()
        file = load_run_file(tmp_path / "run.yaml")
        return directory, catalogue, lambda: Manifest.begin(directory, file, catalogue, **options)

    return begin


def read(directory):
    return json.loads(directory.manifest.read_text())


def test_the_manifest_says_what_the_run_was_made_of(begun):
    """Plugins with versions, packages, machine, command without secrets, algorithm; `running` until it ends."""
    directory, _, begin = begun()
    manifest = begin()
    started = read(directory)
    manifest.end("done")
    ended = read(directory)

    assert (started["status"], started["ended"], ended["status"]) == ("running", None, "done")
    assert started["command"] == ["core-rl", "train", "x.yaml", "seed=3", "loggers.0.api_key=***"]
    assert "sesame" not in directory.manifest.read_text()
    assert started["seed"] == 5
    assert {"core-rl", "core-rl-grpo", "torch", "attrs"} <= set(started["packages"])
    assert ("algorithm", "grpo", "core-rl-grpo") in {
        (row["kind"], row["name"], row["distribution"]) for row in started["plugins"]
    }
    assert "over groups of 4" in started["algorithm"]
    assert "0.1 · KL k3 in the loss" in started["algorithm"]
    assert [part["place"] for part in started["formulas"]][:2] == ["algorithm", "rewards"]
    assert any("l_t <- l_t + 0.1 KL_t" in part.get("formula", "") for part in started["formulas"])
    assert started["machine"]["cores"] >= 1
    assert started["machine"]["memory_gb"] > 0
    assert ended["ended"]


def test_a_resumed_run_keeps_the_sessions_before(begun):
    """Status and time of each; a session that was killed stays `running`."""
    directory, _, begin = begun(resumed_from=4)
    begin().end("interrupted")
    begin()
    begin()
    manifest = read(directory)

    assert [session["status"] for session in manifest["earlier"]] == ["interrupted", "running"]
    assert manifest["resumed_from"] == 4


def test_a_damaged_manifest_does_not_stop_a_resume(begun):
    """It is only told about the run, the run does not need it."""
    directory, _, begin = begun(resumed_from=4)
    directory.manifest.write_text('{"name": ')
    begin()

    assert read(directory)["earlier"] == []


def test_a_plugin_that_cannot_describe_itself(begun):
    """Its facts are the error; the others' are there."""

    class Broken:
        @hookimpl
        def core_rl_describe(self):
            raise RuntimeError

    class Fine:
        @hookimpl
        def core_rl_describe(self):
            return {"device": "cpu"}

    directory, catalogue, begin = begun()
    catalogue.manager.register(Broken(), "broken")
    catalogue.manager.register(Fine(), "fine")
    begin()
    described = read(directory)["described"]

    assert described["broken"].startswith("RuntimeError")
    assert described["fine"] == {"device": "cpu"}


def test_git_of_a_folder(tmp_path):
    """Commit and whether it was changed; None outside a repository."""
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "file").write_text("1")
    for arguments in (["init", "-q"], ["add", "."], [*settings, "commit", "-qm", "x"]):
        assert machine._output("git", "-C", str(tmp_path / "repo"), *arguments) is not None
    clean = machine.git(tmp_path / "repo")
    (tmp_path / "repo" / "file").write_text("2")

    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    assert machine.git(tmp_path / "repo")["dirty"] is True
    assert machine.git(tmp_path) is None
    assert machine._output("no-such-program") is None
