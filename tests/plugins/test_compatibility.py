"""A plugin built against an older core still works, or is refused with the versions named; what goes away warns for one minor version."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

import core_rl
from core_rl import hookspecs
from core_rl.cli.main import main
from core_rl.component import hookspec
from core_rl.deprecation import CoreRLDeprecationWarning, deprecated, removed_in, warn_deprecated
from core_rl.errors import PluginError
from core_rl.plugins import registration
from core_rl.plugins.catalogue import Catalogue

ROOT = Path(__file__).resolve().parents[2]
FROZEN = {
    "acme_tempered-1.0.0": "c84bae87511be6c7fb09bafce5e07c3463062920a991e2f729ab64d4a4eae87b",
    "nudge_rl-2.1.0": "62f32e28daeef555207a39c830f2dee04cdd9134e3c82832e741edc575a2ff43",
    "watchtower-0.4.2": "ddc3b5e2399b112bbd1e8d8f4d4d18b1b95a45b8be50d7a05c68c2aefd1e9c49",
}
"""The plugins in frozen/, and the hash of each as it was published."""
RUN = """
run: {name: old, seed: 3, steps: 2, prompts_per_step: 2}
model:
  init: random
  tokenizer: "characters:0123456789+="
  config: {model_type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2,
           num_key_value_heads: 1, max_position_embeddings: 16, tie_word_embeddings: true}
data: {name: jsonl, path: rows.jsonl, format: text}
algorithm: {name: grpo, group_size: 4, kl: {coef: 0}}
rewards: [{name: function, function: "reward.py:reward"}]
sampling: {max_new_tokens: 3}
train_engine: {name: local, lr: 0.01}
loggers: [jsonl]
checkpoint: {export_hf: false}
"""
REWARD = "def reward(completion):\n    return sum(letter in '02468' for letter in completion) / 3\n"


def digest(folder: Path) -> str:
    """Of the names and contents of all files."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(f"{path.relative_to(folder).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The frozen plugins as pip installs them, out of a copy of their sources."""
    folder = tmp_path_factory.mktemp("frozen")
    sources = [shutil.copytree(Path(__file__).parent / "frozen" / name, folder / name) for name in FROZEN]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-compile"]
    done = subprocess.run([*pip, "--target", folder / "site", *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture
def old(installed: Path, site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The frozen plugins are installed here; a folder with a run file that uses none of them is the working directory."""
    shutil.copytree(installed, site.path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": f"{a}+{b}=", "answer": str((a + b) % 10)} for a in range(3) for b in range(3)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("reward.py").write_text(REWARD)
    Path("run.yaml").write_text(RUN)
    return tmp_path


def train(*overrides: str, file: str = "run.yaml") -> tuple[Path, list[dict[str, Any]]]:
    """Run a training to its end in this process; its folder and its metrics."""
    assert main(["train", file, *overrides]) == 0
    (folder,) = [path for path in Path("runs/old").iterdir() if not path.is_symlink()]
    return folder, [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_frozen_plugins_are_frozen() -> None:
    """Whoever mends one of them in place has mended nothing: core-rl is what must go on working with it."""
    folders = sorted(path for path in (Path(__file__).parent / "frozen").iterdir() if path.is_dir())

    assert {path.name: digest(path) for path in folders} == FROZEN


use_of_what_goes_away = pytest.mark.filterwarnings("default::core_rl.deprecation.CoreRLDeprecationWarning")
"""An old plugin may use what is deprecated: it is warned, and works."""


@use_of_what_goes_away
def test_an_old_loss_trains(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its options are read, checked and explained, and its metric is logged; the policy moves."""
    loss = "algorithm.loss={name: tempered, beta: 4, cap: {ratio: 5}}"
    assert main(["config", "show", "run.yaml", loss, "--explain"]) == 0
    assert "l_t = -A_t tanh(4 (r_t - 1)) / 4, r_t <= 5" in capsys.readouterr().out
    assert main(["config", "check", "run.yaml", "algorithm.loss={name: tempered, beta: 0}"]) == 2
    assert "algorithm.loss.beta" in capsys.readouterr().err
    _, rows = train(loss, "algorithm.minibatches=2")

    assert [row["step"] for row in rows] == [1, 2]
    assert rows[0]["tempered/lost"] > 0
    assert rows[0]["optim/grad_norm"] > 0


@use_of_what_goes_away
def test_an_old_reward_and_logger_with_lifecycle_hooks_train(
    old: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reward scores, the logger writes, every hook is called: check, start, step, stop, end, describe, commands."""
    monkeypatch.setenv("WATCHTOWER_LAST_STEP", "1")
    folder, rows = train(
        "rewards=[{name: brief, cost: 0.25}]",
        "loggers=[jsonl, {name: csv, columns: [reward/mean]}]",
        "run.log_samples_every=1",
    )
    table = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    assert main(["watchtower", "--loud"]) == 0
    assert main(["config", "check", "run.yaml", "run.name=watchtower"]) == 2
    output = capsys.readouterr()

    assert [row["step"] for row in rows] == [1]
    assert table[0] == ["step", "reward/mean"]
    assert float(table[1][1]) == rows[0]["reward/mean"] < 0
    assert table[2] == ["done", "8"]
    assert (folder / "watchtower.txt").read_text() == "old: done after 1 steps\n"
    assert "AWAKE" in output.out
    assert "watchtower is taken: choose another name" in output.err
    assert {"watchtower": "awake"} in Catalogue.discover().manager.hook.core_rl_describe()


@use_of_what_goes_away
def test_an_old_algorithm_and_data_train(old: Path) -> None:
    """Out of the recipe that the plugin brings; its advantage is of the size that the recipe says."""
    sections = [line for line in RUN.splitlines() if not line.startswith(("data:", "algorithm:"))]
    Path("sums.yaml").write_text("\n".join(["extends: nudge-rl/sums", *sections]))
    folder, rows = train("eval.every=2", "eval.prompts=3", file="sums.yaml")
    used = {
        (row["kind"], row["name"], row["distribution"]) for row in json.loads((folder / "manifest.json").read_text())["plugins"]
    }

    assert [row["step"] for row in rows] == [0, 1, 2]
    assert "eval/reward/mean" in rows[-1]
    assert {("algorithm", "nudge", "nudge-rl"), ("advantage", "sign", "nudge-rl"), ("data", "sums", "nudge-rl")} <= used


@pytest.mark.parametrize(("version", "works"), [("0.1.0", True), ("0.9.3", True), ("1.0.0", False), ("0.0.9", False)])
def test_the_range_that_a_plugin_names_is_kept(old: Path, version: str, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within it a plugin is used; outside it is listed as broken, and refused when it is selected, with both versions in the line."""
    monkeypatch.setattr("core_rl.plugins.loading.__version__", version)
    catalogue = Catalogue.discover(allow=["acme-tempered"])
    reason = f"requires core-rl<1,>=0.1, and this is core-rl {version}"

    if works:
        assert catalogue.find("loss", "tempered").version == "1.0.0"
    else:
        assert [row.reason for row in catalogue.broken if row.plugin == "acme-tempered"] == [reason]
        with pytest.raises(PluginError, match=re.escape(f"acme-tempered 1.0.0 is broken: {reason}")):
            catalogue.find("loss", "acme/tempered")


@pytest.mark.parametrize("bounds", [">=9.0", "<0.1"])
def test_a_run_with_a_plugin_for_another_core_is_refused(
    old: Path, site: Any, bounds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `core-rl train` itself, in one line; a run that does not select it trains beside it."""
    site.add("acme-other", "raise SystemExit('never imported')", requires=[f"core-rl{bounds}"])

    assert main(["train", "run.yaml", "algorithm.loss=acme-other/sharp"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"acme-other 1.0 is broken: requires core-rl{bounds}, and this is core-rl {core_rl.__version__}" in line
    assert main(["config", "check", "run.yaml"]) == 0


OLD_HOOKS = """
from core_rl import hookimpl

seen = []

@hookimpl
def core_rl_step_end(step):
    seen.append(step)

@hookimpl
def core_rl_should_stop(metrics):
    return f"enough: {sorted(metrics)}"
"""
NEW_HOOK = """
from core_rl import hookimpl

seen = []

@hookimpl
def core_rl_step_end(elapsed_s, step):
    seen.append((step, elapsed_s))
"""


def test_a_new_argument_of_a_hook_breaks_no_old_implementation(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments go by name: an implementation takes those that it knew, and a newer one beside it takes the new one."""

    def core_rl_step_end(step: int, metrics: Any, elapsed_s: float) -> None:
        raise NotImplementedError

    def core_rl_should_stop(step: int, metrics: Any, elapsed_s: float) -> str | None:
        raise NotImplementedError

    monkeypatch.setattr(hookspecs, "core_rl_step_end", hookspec(core_rl_step_end))
    monkeypatch.setattr(hookspecs, "core_rl_should_stop", hookspec(firstresult=True)(core_rl_should_stop))
    monkeypatch.setitem(registration.HOOKS, "core_rl_step_end", ("step", "metrics", "elapsed_s"))
    site.add("acme-old", OLD_HOOKS)
    site.add("acme-new", NEW_HOOK)
    catalogue = Catalogue.discover(allow=["acme-*"])
    catalogue.manager.hook.core_rl_step_end(step=3, metrics={"a": 1.0}, elapsed_s=0.5)
    modules = {plugin.distribution: plugin.module for plugin in catalogue.plugins}

    assert modules["acme-old"].seen == [3]
    assert modules["acme-new"].seen == [(3, 0.5)]
    assert catalogue.manager.hook.core_rl_should_stop(step=3, metrics={"a": 1.0}, elapsed_s=0.5) == "enough: ['a']"


def test_an_argument_that_this_core_does_not_have_is_named(site: Any) -> None:
    """The other way round: a plugin for a newer core that forgot to say so."""
    site.add("acme-new", NEW_HOOK)
    (row,) = Catalogue.discover(allow=["acme-*"]).broken

    assert row.reason == "core_rl_step_end takes the argument 'elapsed_s'; the hook's arguments are: step, metrics"


@deprecated("core_rl.old_sum", since="0.1", instead="sum")
def old_sum(*numbers: int) -> int:
    """The sum."""
    return sum(numbers)


def test_a_deprecated_function_warns_once_for_each_place() -> None:
    """With its name, since when, when it goes and what to use; it works as before, and the warning points at the caller."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [old_sum(1, number) for number in range(3)]
        results.append(old_sum(5))

    assert results == [1, 2, 3, 5]
    assert [str(one.message) for one in caught] == [
        "core_rl.old_sum is deprecated since core-rl 0.1 and gone in 0.2: use sum"
    ] * 2
    assert {one.filename for one in caught} == {__file__}
    assert len({one.lineno for one in caught}) == 2
    assert old_sum.__doc__ == "The sum."


def test_a_deprecated_argument_warns_where_it_is_given() -> None:
    """And nobody else."""

    def scale(value: float, by: float | None = None) -> float:
        if by is not None:
            warn_deprecated("the argument `by`", since="0.3", instead="`factor`")
        return value * (by or 1.0)

    assert scale(2.0) == 2.0
    with pytest.warns(
        CoreRLDeprecationWarning, match="the argument `by` is deprecated since core-rl 0.3 and gone in 0.4"
    ) as caught:
        assert scale(2.0, by=3.0) == 6.0
    assert caught[0].filename == __file__


def test_users_see_deprecations(tmp_path: Path) -> None:
    """Python hides DeprecationWarning from all but __main__; ours is shown from any module."""
    (tmp_path / "library.py").write_text("from gone import old\ndef use():\n    old()\n")
    (tmp_path / "gone.py").write_text(
        "from core_rl.deprecation import deprecated\n\n@deprecated('gone.old', since='0.1', instead='new')\ndef old(): ...\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import library; library.use()"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert (
        "library.py:3: CoreRLDeprecationWarning: gone.old is deprecated since core-rl 0.1 and gone in 0.2: use new"
        in done.stderr
    )


def deprecations(files: Iterable[Path]) -> Iterator[tuple[str, str | None]]:
    """(place, since) of every use of `core_rl.deprecation`; None where `since` is not written out."""
    for path in files:
        text = path.read_text(encoding="utf-8")
        if "deprecated(" not in text or path.name == "deprecation.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"deprecated", "warn_deprecated"}:
                since = next((word.value for word in node.keywords if word.arg == "since"), None)
                yield f"{path.name}:{node.lineno}", since.value if isinstance(since, ast.Constant) else None


def overdue(files: Iterable[Path], version: str) -> list[str]:
    """What has warned for its minor version and must go, or does not say since when it warns, or says something of the future."""
    return [
        place
        for place, since in deprecations(files)
        if since is None or not Version(since) <= Version(version) < Version(removed_in(since))
    ]


def test_no_deprecation_outlives_its_minor_version() -> None:
    """What warned in the minor version before this one is deleted by now."""
    files = [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/*/src/**/*.py")]

    assert len(files) > 500
    assert overdue(files, core_rl.__version__) == []


@pytest.mark.parametrize(("version", "late"), [("0.3.0", []), ("0.3.9", []), ("0.4.0", ["old.py:3"]), ("0.2.9", ["old.py:3"])])
def test_a_deprecation_that_outlives_its_minor_version_is_found(tmp_path: Path, version: str, late: list[str]) -> None:
    """Deprecated in 0.3: it may stand in every 0.3.x and nowhere else."""
    (tmp_path / "old.py").write_text(
        "from core_rl import deprecation\n\n@deprecation.deprecated('x', since='0.3', instead='y')\ndef x(): ...\n"
    )

    assert overdue([tmp_path / "old.py"], version) == late
