"""Whatever a plugin does wrong: it is listed with its reason, and harms nobody else."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from core_rl.errors import PluginError, RunError
from core_rl.plugins.catalogue import Catalogue

HEAD = "from core_rl import Component, hookimpl\n"


def _hook(body: str, *, name: str = "core_rl_losses", arguments: str = "") -> str:
    return f"{HEAD}\n@hookimpl\ndef {name}({arguments}):\n    {body}\n"


def _loss(name: str) -> str:
    return f'Component(name="{name}", target="nowhere:Loss")'


HOSTILE: dict[str, tuple[str | None, dict[str, Any], str]] = {
    "bad-raises": ("raise ValueError('no luck')", {}, "ValueError: no luck"),
    "bad-exits": ("import sys\nsys.exit(3)", {}, "SystemExit: 3"),
    "bad-base": ("class Odd(BaseException): pass\nraise Odd('odd')", {}, "Odd: odd"),
    "bad-mute": ("class Mute(Exception):\n    def __str__(self): raise RuntimeError\nraise Mute", {}, "Mute"),
    "bad-syntax": ("def (", {}, "SyntaxError"),
    "bad-deep": ("def f(): f()\nf()", {}, "RecursionError"),
    "bad-none": (_hook("return None"), {}, "core_rl_losses returned None; it returns a list of Component"),
    "bad-text": (_hook("return 'ppo'"), {}, "core_rl_losses returned 'ppo'; it returns a list of Component"),
    "bad-items": (_hook("return [1]"), {}, "core_rl_losses returned a list with 1 in it; every item is a Component"),
    "bad-hook": (_hook("raise OSError('gone')"), {}, "OSError: gone"),
    "bad-middle": (_hook(f"yield {_loss('half')}\n    raise OSError('midway')"), {}, "OSError: midway"),
    "bad-name": (_hook('return [Component(name="Not A Name", target="a:b")]'), {}, "a component's name is lower case"),
    "bad-target": (_hook('return [Component(name="x", target="a.b")]'), {}, "target is written 'package.module:Object'"),
    "bad-needs": (_hook('return [Component(name="x", target="a:b", needs="values")]'), {}, "sets of capability names"),
    "bad-spelling": (
        _hook("return []", name="core_rl_losss"),
        {},
        "implements core_rl_losss, which is no hook of core-rl; did you mean `core_rl_losses`?",
    ),
    "bad-arguments": (
        _hook("return None", name="core_rl_step_end", arguments="stp, metrics"),
        {},
        "core_rl_step_end takes the argument 'stp'; the hook's arguments are: step, metrics",
    ),
    "bad-wrapper": (
        f"{HEAD}\n@hookimpl(wrapper=True)\ndef core_rl_losses():\n    return (yield)\n",
        {},
        "core_rl_losses is a hook wrapper",
    ),
    "bad-unmarked": (
        "def core_rl_losses():\n    return []\n",
        {},
        "core_rl_losses is not marked @core_rl.hookimpl, so it would never be called",
    ),
    "bad-silent": ("", {}, "implements no hook of core-rl"),
    "bad-twice": (_hook(f"return [{_loss('same')}, {_loss('same')}]"), {}, "registers the loss 'same' twice"),
    "bad-version": (
        _hook(f"return [{_loss('newer')}]"),
        {"requires": ["core-rl>=99,<100"]},
        "requires core-rl<100,>=99, and this is core-rl",
    ),
    "bad-requirement": (_hook("return []"), {"requires": ["core-rl >=>= 1"]}, "InvalidRequirement"),
    "bad-module": (None, {}, "its module bad_module is not there (half uninstalled?): install bad-module again"),
    "bad-dependency": ("import not_on_this_machine", {}, "needs the module not_on_this_machine, which is not installed"),
    "bad-attribute": (_hook("return []"), {"entry_points": "bad_attribute = bad_attribute:nope"}, "AttributeError"),
    "bad-metadata": (_hook("return []"), {"metadata": ""}, "its metadata has no name or version (half uninstalled?)"),
    "bad-points": (_hook("return []"), {"entry_points": "bad points"}, "its entry_points.txt cannot be parsed"),
    "bad-heavy": ("import jax", {}, "imports jax when plugins are listed"),
}
NAMELESS = {"bad-metadata": "bad_metadata", "bad-points": "bad-points"}


def _reasons(catalogue: Catalogue) -> dict[str, str]:
    return {row.plugin: row.reason for row in catalogue.broken if row.plugin.startswith("bad")}


def _components(catalogue: Catalogue) -> set[tuple[str, str]]:
    return {(found.kind, found.component.name) for found in catalogue.components()}


@pytest.mark.parametrize("distribution", HOSTILE)
def test_a_broken_plugin_is_listed_with_its_reason(site, distribution: str) -> None:
    """One bad plugin: its reason is there in one line, and the good one beside it is whole."""
    code, options, reason = HOSTILE[distribution]
    site.add(distribution, code, **options)
    site.add_good()

    catalogue = Catalogue.discover()

    found = _reasons(catalogue)[NAMELESS.get(distribution, distribution)]
    assert reason in found
    assert "\n" not in found
    assert catalogue.find("loss", "good_loss").plugin == "good-plugin"


def test_all_broken_plugins_together_harm_nobody(site) -> None:
    """With every bad plugin installed, what can be selected is the same as with none of them."""
    site.add_good()
    before = _components(Catalogue.discover())
    for distribution, (code, options, _) in HOSTILE.items():
        site.add(distribution, code, **options)

    catalogue = Catalogue.discover()

    assert _components(catalogue) == before
    assert ("loss", "good_loss") in before
    assert set(_reasons(catalogue)) == {NAMELESS.get(name, name) for name in HOSTILE}
    assert not [name for name, _ in catalogue.manager.list_name_plugin() if name.startswith("bad")]


def test_a_broken_plugin_is_fatal_when_it_is_selected(site) -> None:
    """Selected by plugin/name, or by a name that the plugin is called after, its reason is the error."""
    site.add("core-rl-broken", "raise ValueError('no luck')")
    catalogue = Catalogue.discover()

    for name in ("core-rl-broken/anything", "core_rl_broken/anything", "broken"):
        with pytest.raises(PluginError, match=r"core-rl-broken 1\.0 is broken: ValueError: no luck"):
            catalogue.find("loss", name)


def test_ctrl_c_is_not_swallowed(site) -> None:
    """KeyboardInterrupt alone leaves discovery."""
    site.add("bad-interrupt", "raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        Catalogue.discover()


def test_what_a_plugin_prints_stays_out_of_stdout(site, capsys: pytest.CaptureFixture[str]) -> None:
    """Output of a plugin's import goes to stderr, so that `plugins list --json` is JSON."""
    site.add("chatty", "print('hello')\n" + _hook("return []"))

    Catalogue.discover()

    captured = capsys.readouterr()
    assert "hello" not in captured.out
    assert "hello" in captured.err


def test_a_second_copy_of_a_distribution_is_named(site, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy that comes first on sys.path counts; the hidden one is listed as broken, with the version that hides it."""
    site.add_good()
    other = type(site)(tmp_path / "other")
    other.add("good-plugin", "", version="0.9")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other.path)])

    catalogue = Catalogue.discover()

    assert catalogue.find("loss", "good_loss").version == "1.0"
    assert [
        (row.version, "hidden by version 1.0" in row.reason) for row in catalogue.broken if row.plugin == "good-plugin"
    ] == [("0.9", True)]


def test_a_folder_twice_on_the_path_is_no_mistake(site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same distribution seen twice through one folder is one plugin."""
    site.add_good()
    monkeypatch.setattr(sys, "path", [*sys.path, str(site.path)])

    catalogue = Catalogue.discover()

    assert [plugin.distribution for plugin in catalogue.plugins].count("good-plugin") == 1
    assert "good-plugin" not in {row.plugin for row in catalogue.broken}


def test_one_module_under_two_entry_points_is_one_plugin(site) -> None:
    """The second entry point to the same module is broken, and the first stays."""
    site.add("doubled", _hook(f"return [{_loss('once')}]"), entry_points="one = doubled\ntwo = doubled")

    catalogue = Catalogue.discover()

    assert catalogue.find("loss", "once").entry_point == "one"
    assert [(row.entry_point, row.reason) for row in catalogue.broken if row.plugin == "doubled"] == [
        ("two", "its module is that of doubled/one: one entry point is enough")
    ]


LIFECYCLE = f"""{HEAD}
from core_rl.errors import RunError
@hookimpl
def core_rl_step_end(step):
    {{}}
@hookimpl
def core_rl_should_stop(step, metrics):
    return {{!r}}
"""


def test_a_lifecycle_hook_that_fails_stops_nobody(site, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are called, before it and after it; the failure is told once; firstresult takes the first real answer."""
    site.add("a-sound", LIFECYCLE.format("print('a', step)", None))
    site.add("b-bad", LIFECYCLE.format("raise ValueError('torn')", None))
    site.add("c-sound", LIFECYCLE.format("print('c', step)", "enough"))
    hooks = Catalogue.discover(allow=["*-sound", "*-bad"]).manager.hook

    for step in (1, 2):
        hooks.core_rl_step_end(step=step, metrics={})

    captured = capsys.readouterr()
    assert sorted(captured.out.split("\n")) == ["", "a 1", "a 2", "c 1", "c 2"]
    assert captured.err == (
        "core-rl: warning: the plugin b-bad failed in core_rl_step_end (ValueError: torn); going on without\n"
    )
    assert hooks.core_rl_should_stop(step=2, metrics={}) == "enough"


def test_a_lifecycle_hook_may_stop_the_run_on_purpose(site) -> None:
    """A UserError goes through."""
    site.add("a-stopper", LIFECYCLE.format("raise RunError('the house is on fire')", None))
    hooks = Catalogue.discover(allow=["a-stopper"]).manager.hook

    with pytest.raises(RunError, match="on fire"):
        hooks.core_rl_step_end(step=1, metrics={})
