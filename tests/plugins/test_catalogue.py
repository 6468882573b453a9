"""Names: plain, plugin/name, module:Object; wrong ones; and the lists that keep plugins out."""

from __future__ import annotations

import pytest

from core_rl.errors import PluginError
from core_rl.plugins import missing
from core_rl.plugins.catalogue import Catalogue


def _message(catalogue: Catalogue, name: str, kind: str = "loss") -> str:
    with pytest.raises(PluginError) as caught:
        catalogue.find(kind, name)
    return str(caught.value)


def test_a_name_is_found_with_its_plugin(site) -> None:
    """A component comes with the distribution and the version it is from."""
    site.add_good()

    found = Catalogue.discover().find("loss", "good_loss")

    assert (found.component.target, found.plugin, found.version) == ("good_plugin_impl:Loss", "good-plugin", "1.0")


def test_two_owners_are_an_error_only_when_selected(site) -> None:
    """Both owners are named, with how to say which; either way of naming the plugin picks one."""
    site.add_good("plugin-one", "shared_loss")
    site.add_good("plugin-two", "shared_loss")
    catalogue = Catalogue.discover()

    assert _message(catalogue, "shared_loss") == (
        "the loss 'shared_loss' is in plugin-one (entry point plugin_one) and in plugin-two (entry point plugin_two): "
        "write plugin-one/shared_loss or plugin-two/shared_loss"
    )
    assert catalogue.find("loss", "plugin-one/shared_loss").plugin == "plugin-one"
    assert catalogue.find("loss", "plugin_two/shared_loss").plugin == "plugin-two"


def test_two_owners_within_one_distribution(site) -> None:
    """Entry points of one distribution are told apart by their own names."""
    site.add_good("one-dist", "same")
    site.module("one_dist_b", (site.path / "one_dist.py").read_text())
    points = site.path / "one_dist-1.0.dist-info" / "entry_points.txt"
    points.write_text("[core_rl.plugins]\nleft = one_dist\nright = one_dist_b\n")
    catalogue = Catalogue.discover()

    assert "write left/same or right/same" in _message(catalogue, "same")
    assert catalogue.find("loss", "right/same").entry_point == "right"


def test_did_you_mean(site) -> None:
    """A slip is answered with the nearest name of that kind; a name of another kind with the kind."""
    site.add_good()
    catalogue = Catalogue.discover()

    assert "there is no loss 'god_loss'; did you mean `good_loss`?" in _message(catalogue, "god_loss")
    assert "did you mean `good_loss`?" in _message(catalogue, "good-loss")
    assert "there is no logger 'good_loss'; 'good_loss' is a loss" in _message(catalogue, "good_loss", "logger")
    assert _message(catalogue, "good-plugin/other") == (
        "the loss 'good-plugin/other' cannot be used: the plugin good-plugin has no loss 'other'; it has: good_loss"
    )
    assert "there is no plugin 'god-plugin'; did you mean `good-plugin`?" in _message(catalogue, "god-plugin/good_loss")


def test_install_hint(site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first-party name that is not installed is answered with the pip command, a slip in one too."""
    monkeypatch.setattr(missing, "KNOWN", {"loss": {"far_loss": "far_extra"}})
    catalogue = Catalogue.discover()

    assert _message(catalogue, "far_loss") == "the loss 'far_loss' is not installed: pip install 'core-rl[far_extra]'"
    assert "did you mean `far_loss`? pip install 'core-rl[far_extra]'" in _message(catalogue, "fra_loss")
    assert "pip install 'core-rl[far_extra]'" in _message(catalogue, "core-rl-far-extra/far_loss")


@pytest.mark.parametrize("pattern", ["plugin-one", "Plugin_One", "plugin_one", "*-one"])
def test_block(site, pattern: str) -> None:
    """A blocked plugin is not even imported; selecting it says which list keeps it out."""
    site.add("plugin-one", "raise RuntimeError('was imported')")
    site.add_good("plugin-two", "other_loss")
    catalogue = Catalogue.discover(block=[pattern])

    assert "plugin-one" not in {row.plugin for row in catalogue.broken}
    assert f"plugin-one 1.0 is kept out: blocked by '{pattern}' in the block list" in _message(catalogue, "plugin-one/x")
    assert catalogue.find("loss", "other_loss").plugin == "plugin-two"


def test_allow_and_environment(site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin must be in every allow list and in no block list, wherever the lists come from."""
    for name in ("plugin-one", "plugin-two", "plugin-three"):
        site.add_good(name, name.replace("-", "_"))
    monkeypatch.setenv("CORE_RL_PLUGINS_ALLOW", "plugin-one, plugin-two")
    monkeypatch.setenv("CORE_RL_PLUGINS_BLOCK", "plugin_two")

    catalogue = Catalogue.discover(allow=["plugin-*"])

    ours = {plugin.distribution for plugin in catalogue.plugins if plugin.distribution != "core-rl"}
    assert ours == {"plugin-one"}
    reasons = {row.plugin: row.reason for row in catalogue.blocked}
    assert reasons["plugin-two"] == "blocked by 'plugin_two' in CORE_RL_PLUGINS_BLOCK"
    assert reasons["plugin-three"] == "not in CORE_RL_PLUGINS_ALLOW"


def test_the_core_is_always_there(site) -> None:
    """No list takes the core's own plugin away."""
    catalogue = Catalogue.discover(allow=[], block=["*"])

    assert "core-rl" not in {row.plugin for row in catalogue.blocked}
    assert {plugin.distribution for plugin in catalogue.plugins} <= {"core-rl"}


def test_restricted(site) -> None:
    """The lists of a run file narrow a catalogue after discovery, its hooks included."""
    hook = "\n@hookimpl\ndef core_rl_describe():\n    return {}\n"
    site.add_good("plugin-one", "first_loss")
    site.add_good("plugin-two", "second_loss")
    for name in ("plugin_one", "plugin_two"):
        with (site.path / f"{name}.py").open("a") as file:
            file.write(hook)
    whole = Catalogue.discover(allow=["plugin-*"])

    small = whole.restricted(block=["plugin-two"])

    assert [found.component.name for found in small.components("loss") if found.plugin != "core-rl"] == ["first_loss"]
    assert "kept out: blocked by 'plugin-two' in the block list" in _message(small, "plugin-two/second_loss")
    assert len(whole.manager.hook.core_rl_describe()) - len(small.manager.hook.core_rl_describe()) == 1


def test_an_object_works_where_a_name_does(site) -> None:
    """`module:Object` is a component: named after the object, with its options class, needs and provides."""
    site.module(
        "my_file",
        """
import attrs
@attrs.frozen(kw_only=True)
class Options:
    sharpness: float = attrs.field(default=1.0, metadata={"help": "how sharp"})
class MyLoss:
    \"\"\"A sharp loss.\"\"\"
    __core_rl_config__ = Options
    needs = frozenset({"ref_logprobs"})
class ByText:
    __core_rl_config__ = "my_file:Options"
class Plain: ...
""",
    )
    catalogue = Catalogue.discover(allow=[])

    found = catalogue.find("loss", "my_file:MyLoss")

    assert (found.plugin, found.version) == (None, None)
    assert found.component.name == "my_loss"
    assert found.component.summary == "A sharp loss."
    assert found.component.needs == {"ref_logprobs"}
    assert found.component.config == catalogue.find("loss", "my_file:ByText").component.config == "my_file:Options"
    assert catalogue.find("loss", "my_file:Plain").component.config is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("my_file:Nope", "my_file:Nope: my_file has no 'Nope'"),
        ("my_file:Lss", "my_file has no 'Lss'; did you mean `Loss`?"),
        ("my_file:number", "my_file:number is 3; a loss is a class, or a function that makes one"),
        ("no_such_file:Loss", "no_such_file:Loss: there is no module no_such_file (looked in the working directory too)"),
        ("my_broken:Loss", "my_broken:Loss: importing my_broken raised ZeroDivisionError: division by zero"),
        ("my_needy:Loss", "my_needy:Loss: my_needy needs the module not_on_this_machine, which is not installed"),
        ("my_file:Odd", "__core_rl_config__ is 3; it names an attrs class"),
        ("my_file:Wordy", "needs is 'values'; it is a set of capability names"),
        ("my_file:", "'my_file:': a reference is written package.module:Object"),
        ("my-file:Loss", "'my-file:Loss': a reference is written package.module:Object, each a Python name"),
        ("my/file.py:Loss", "'my/file.py:Loss': a reference is written package.module:Object"),
        ("my_file.part:Loss", "my_file.part:Loss: there is no module my_file.part"),
    ],
)
def test_objects_that_cannot_be_used(site, reference: str, message: str) -> None:
    """Each mistake with a `module:Object` has its own clear line."""
    site.module(
        "my_file",
        "number = 3\nclass Loss: ...\nclass Odd:\n    __core_rl_config__ = 3\nclass Wordy:\n    needs = 'values'\n",
    )
    site.module("my_broken", "1 / 0")
    site.module("my_needy", "import not_on_this_machine")

    assert message in _message(Catalogue.discover(allow=[]), reference)
