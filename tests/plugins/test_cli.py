"""`core-rl` as a user runs it: exit codes, lines for a person, and what is not imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core_rl.cli import main as main_module
from core_rl.cli.main import main
from core_rl.errors import ConfigError, Problem
from core_rl.plugins.guard import HEAVY

RUN = "from core_rl.cli.main import main; raise SystemExit(main())"


def _core_rl(*arguments: str, path: Path | None = None, code: str = RUN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(path or "")},
    )


def test_help_names_every_command() -> None:
    """`--help` goes to stdout with 0; no command at all is a mistake, with the same text on stderr."""
    asked, silent = _core_rl("--help"), _core_rl()

    assert (asked.returncode, silent.returncode) == (0, 2)
    assert asked.stdout == silent.stderr
    assert all(f"\n    {name} " in asked.stdout for name in main_module.COMMANDS)


def test_version() -> None:
    """`--version` is the distribution's."""
    assert _core_rl("--version").stdout == "core-rl 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], {"importlib.metadata", "email", "packaging", "rich", "yaml", "difflib", "json", *HEAVY}),
        (["plugins", "list"], {"rich", "yaml", *HEAVY}),
        (["plugins", "list", "--json"], {"rich", "yaml", *HEAVY}),
    ],
)
def test_what_a_command_does_not_import(arguments: list[str], absent: set[str]) -> None:
    """Start-up stays short because these stay out; the figure itself depends on the machine."""
    code = (
        "import sys\nfrom core_rl.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )

    done = _core_rl(*arguments, code=code)

    assert "core_rl.errors" in done.stderr.splitlines()
    assert not absent & set(done.stderr.splitlines())


def test_a_misspelled_command() -> None:
    """Exit 2, the nearest command."""
    done = _core_rl("trian", "run.yaml")

    assert done.returncode == 2
    assert done.stderr == (
        "core-rl: error: there is no command 'trian'; did you mean `train`? (core-rl --help lists the commands)\n"
    )


def test_wrong_arguments() -> None:
    """argparse's own complaints look like ours."""
    done = _core_rl("plugins", "list", "--kind", "los")

    assert done.returncode == 2
    assert done.stderr.startswith("core-rl: error: argument --kind: invalid choice: 'los'")


class _Command:
    """A command that does as it is told."""

    def __init__(self, outcome: object) -> None:
        self._outcome = outcome

    def add_arguments(self, parser) -> None:
        parser.add_argument("rest", nargs="*")

    def run(self, args) -> object:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


@pytest.mark.parametrize(
    ("outcome", "code", "stderr"),
    [
        (0, 0, ""),
        (7, 7, ""),
        (
            ConfigError([Problem("a.yaml:1:2", "run.steps", "too low"), Problem("x=1", "", "no such key")]),
            2,
            "core-rl: error: a.yaml:1:2: run.steps: too low\ncore-rl: error: x=1: no such key\n",
        ),
        (KeyboardInterrupt(), 130, "core-rl: interrupted\n"),
        (
            OSError("disk\nfull"),
            1,
            "core-rl: error: OSError: disk (this may be a bug: --debug for the traceback)\n",
        ),
    ],
)
def test_outcomes(
    outcome: object, code: int, stderr: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code and the lines of each way that a command can end."""
    monkeypatch.setitem(sys.modules, "core_rl.cli.train", _Command(outcome))

    assert main(["train", "x"]) == code
    assert capsys.readouterr().err == stderr


@pytest.mark.parametrize("arguments", [["--debug", "train", "x"], ["train", "x", "--debug"], ["train", "--debug", "x"]])
def test_debug_shows_the_traceback(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Anywhere on the line; the error then comes through as it is."""
    monkeypatch.setitem(sys.modules, "core_rl.cli.train", _Command(OSError("disk full")))

    with pytest.raises(OSError, match="disk full"):
        main(arguments)


@pytest.mark.parametrize(
    "arguments",
    ["run.yaml a=1 b=2 --flag", "--flag run.yaml a=1 b=2", "run.yaml --flag a=1 b=2", "run.yaml a=1 --flag --debug b=2"],
)
def test_options_stand_anywhere(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overrides after an option are overrides still."""
    seen: list[object] = []

    class Train:
        def add_arguments(self, parser) -> None:
            parser.add_argument("file")
            parser.add_argument("overrides", nargs="*")
            parser.add_argument("--flag", action="store_true")

        def run(self, args) -> int:
            seen.append((args.file, args.overrides, args.flag))
            return 0

    monkeypatch.setitem(sys.modules, "core_rl.cli.train", Train())

    assert main(["train", *arguments.split()]) == 0
    assert seen == [("run.yaml", ["a=1", "b=2"], True)]


def test_nobody_reads() -> None:
    """A closed pipe ends the program quietly with 141."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN, "plugins", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        stderr = process.stderr.read()

    assert process.returncode == 141
    assert stderr == b""


def test_ctrl_c(site) -> None:
    """A real SIGINT during a command: 130 and no traceback."""
    command = "import sys, time\ndef run(args):\n    print('on', flush=True)\n    time.sleep(60)\n"
    site.add(
        "slow-command",
        "from core_rl import hookimpl\n@hookimpl\ndef core_rl_add_commands(commands):\n"
        "    import slow_impl\n    commands.add_parser('sleep').set_defaults(run=slow_impl.run)\n",
    )
    site.module("slow_impl", command)
    with subprocess.Popen(
        [sys.executable, "-c", RUN, "sleep"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(site.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell's background jobs ignore it
    ) as process:
        assert process.stdout.readline() == b"on\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stderr = process.stderr.read()

    assert process.returncode == 130
    assert stderr == b"core-rl: interrupted\n"


COMMANDS = """
from core_rl import hookimpl
@hookimpl
def core_rl_add_commands(commands):
    commands.add_parser("dance", help="dance").set_defaults(run=lambda args: 5)
    {more}
"""


def test_commands_of_plugins(site) -> None:
    """A plugin's command runs; it is listed; another plugin that fails here, or takes a core command, costs a warning."""
    site.add("dancer", COMMANDS.format(more=""))
    site.add("thief", COMMANDS.format(more="").replace("dance", "train"))
    site.add("torn", COMMANDS.format(more="raise ValueError('torn')").replace("dance", "tear"))

    dance, listing = _core_rl("dance", path=site.path), _core_rl("plugins", "list", "--json", path=site.path)

    assert dance.returncode == 5
    assert "core-rl: warning: the plugin thief failed in core_rl_add_commands (ArgumentError:" in dance.stderr
    assert "core-rl: warning: the plugin torn failed in core_rl_add_commands (ValueError: torn)" in dance.stderr
    assert {"name": "dance", "plugin": "dancer/dancer"} in json.loads(listing.stdout)["commands"]


def test_list(site) -> None:
    """Plain aligned columns where there is no terminal, with the broken at the end; JSON for programs."""
    site.add_good()
    site.add("bad-exits", "import sys\nprint('noise')\nsys.exit(3)")

    text, rows = _core_rl("plugins", "list", path=site.path), _core_rl("plugins", "list", "--json", path=site.path)

    assert (text.returncode, rows.returncode) == (0, 0)
    assert any(line.split()[:3] == ["loss", "good_loss", "good-plugin"] for line in text.stdout.splitlines())
    assert text.stdout.index("good_loss") < text.stdout.index("SystemExit: 3")
    document = json.loads(rows.stdout)
    row = next(row for row in document["components"] if row["name"] == "good_loss")
    assert (row["kind"], row["plugin"], row["target"]) == ("loss", "good-plugin", "good_plugin_impl:Loss")
    assert {"plugin": "bad-exits", "entry_point": "bad_exits", "version": "1.0", "reason": "SystemExit: 3"} in document[
        "broken"
    ]


def test_list_filters(site) -> None:
    """--kind, --allow and --block narrow the list."""
    site.add_good("plugin-one", "first_loss")
    site.add_good("plugin-two", "second_loss")

    def names(*arguments: str) -> set[str]:
        document = json.loads(_core_rl("plugins", "list", "--json", *arguments, path=site.path).stdout)
        return {row["name"] for row in document["components"]} & {"first_loss", "second_loss"}

    assert names() == names("--kind", "loss") == {"first_loss", "second_loss"}
    assert names("--kind", "logger") == set()
    assert names("--block", "plugin-one") == names("--allow", "plugin-t*") == {"second_loss"}


SHOWN = """
import attrs
from core_rl.config.selection import Selection, component

@attrs.frozen(kw_only=True)
class Inner:
    depth: int = attrs.field(default=4, metadata={"help": "how deep"})

@attrs.frozen(kw_only=True)
class Options:
    path: str = attrs.field(metadata={"help": "where"})
    quick: bool = attrs.field(default=True, metadata={"help": "hurry"})
    token: str = attrs.field(default="hush", metadata={"help": "a key", "secret": True})
    inner: Inner = attrs.field(factory=lambda: Inner(depth=9), metadata={"help": "inside"})
    loss: Selection = component("loss", "ppo_clip", help="a loss", clip_low=0.1)
"""
SHOWING = """
from core_rl import Component, hookimpl
@hookimpl
def core_rl_data():
    return [Component(name="shelf", target="shelf_impl:Shelf", config="shelf_config:Options", summary="books",
                      {more})]
"""


def test_show(site) -> None:
    """Every option with its default and help, sections flat, secrets hidden; by component, plugin and plugin/component."""
    site.add("shelf-plugin", SHOWING.format(more='provides={"rewards"}'))
    site.module("shelf_config", SHOWN)

    shown = [_core_rl("plugins", "show", name, path=site.path) for name in ("shelf", "shelf-plugin", "shelf_plugin/shelf")]

    assert {done.stdout for done in shown} == {shown[0].stdout}
    lines = [line.split() for line in shown[0].stdout.splitlines()]
    assert ["path", "(required)", "where"] in lines
    assert ["quick", "true", "hurry"] in lines
    assert ["token", "***", "a", "key"] in lines
    assert ["inner.depth", "9", "how", "deep"] in lines
    assert ["loss", "{name:", "ppo_clip,", "clip_low:", "0.1}", "a", "loss"] in lines
    assert ["provides", "rewards"] in lines
    assert _core_rl("plugins", "show", "shlf", path=site.path).stderr == (
        "core-rl: error: there is no plugin or component 'shlf'; did you mean `shelf`?\n"
    )


def test_check_of_a_sound_plugin(site) -> None:
    """Exit 0; a component whose options have no defaults is said to need them."""
    site.add("shelf-plugin", SHOWING.format(more=""))
    site.module("shelf_config", SHOWN)
    site.module("shelf_impl", "class Shelf:\n    def load(self, split, seed): ...")

    done = _core_rl("plugins", "check", "shelf-plugin", path=site.path)

    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "",
        "data shelf",
        "  -       not run: path has no default: give --options '{shelf: {path: …}}'",
        "",
        "shelf-plugin/shelf_plugin: nothing wrong with 1 components; checks: 1 of 1 components not run",
    ]


def test_check_finds_everything(site) -> None:
    """Exit 1 and a line for each finding."""
    site.add("shelf-plugin", SHOWING.format(more='needs={"rewrds"}'), requires=())
    config = SHOWN.replace('{"help": "hurry"}', "{}").replace('{"help": "how deep"}', "{}")
    site.module("shelf_config", config.replace("@attrs.frozen", "@attrs.define"))
    site.module("shelf_impl", "class Shelf: ...")

    done = _core_rl("plugins", "check", "shelf_plugin", path=site.path)

    assert done.returncode == 1
    assert [
        line.removeprefix("shelf-plugin/shelf_plugin: ").removeprefix("data shelf: ")
        for line in done.stdout.partition("\n\n")[0].splitlines()
    ] == [
        "its distribution does not require core-rl: write core-rl>=x,<y",
        "the options class Options is not frozen",
        "the option quick of Options has no help",
        "the options class Inner is not frozen",
        "the option inner.depth of Inner has no help",
        "the target shelf_impl:Shelf has no method load (see core_rl.roles.parts:Data)",
        "needs 'rewrds', which is no capability of core-rl; did you mean `rewards`?",
    ]


@pytest.mark.parametrize(
    ("config", "implementation", "finding"),
    [
        ("import jax", "class Shelf: ...", "the options class shelf_config:Options imports jax when plugins are listed"),
        ("class Options: ...", "class Shelf: ...", "the options class shelf_config:Options is no attrs class"),
        ("", "class Shelf: ...", "the options class: shelf_config:Options: shelf_config has no 'Options'"),
        (SHOWN, "1 / 0", "the target: shelf_impl:Shelf: importing shelf_impl raised ZeroDivisionError: division by zero"),
        (SHOWN, "Shelf = 3", "the target shelf_impl:Shelf cannot be called"),
    ],
)
def test_check_imports_what_listing_does_not(site, config: str, implementation: str, finding: str) -> None:
    """Options classes are imported under the guard, targets without it."""
    site.add("shelf-plugin", SHOWING.format(more=""))
    site.module("shelf_config", config)
    site.module("shelf_impl", implementation)

    done = _core_rl("plugins", "check", "shelf-plugin", path=site.path)

    assert done.returncode == 1
    assert f"data shelf: {finding}" in done.stdout


def test_check_of_a_broken_and_of_a_missing_plugin(site) -> None:
    """A broken one is a finding (1); one that is not there is the user's mistake (2)."""
    site.add("bad-exits", "raise SystemExit(3)")

    broken, missing = (_core_rl("plugins", "check", name, path=site.path) for name in ("bad-exits", "bad-exit"))

    assert (broken.returncode, broken.stdout) == (1, "bad-exits: SystemExit: 3\n")
    assert missing.returncode == 2
