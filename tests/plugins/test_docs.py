"""docs/hooks.md tells of every hook and every argument."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import attrs
import pytest

from core_rl import Component
from core_rl.kinds import KINDS, ROLES
from core_rl.plugins.guard import HEAVY
from core_rl.plugins.references import load_reference
from core_rl.plugins.registration import HOOKS

TEXT = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
ROLE_MODULES = ("parts", "rollout", "scoring", "train")
LIFECYCLE = sorted(set(HOOKS) - set(KINDS.values()))


@pytest.mark.parametrize("hook", LIFECYCLE)
def test_every_lifecycle_hook_has_a_section_with_its_arguments(hook: str) -> None:
    """The heading is the signature, and the text below speaks of each argument."""
    heading = f"### `{hook}({', '.join(HOOKS[hook])})`\n"
    body = TEXT.partition(heading)[2].partition("\n#")[0]

    assert heading in TEXT
    assert all(f"`{argument}`" in body for argument in HOOKS[hook])


@pytest.mark.parametrize("kind", KINDS)
def test_every_registration_hook_has_a_row(kind: str) -> None:
    """With the contract of its targets."""
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{KINDS[kind]}` |"))
    contract = ROLES.get(kind, "core_rl.config.algorithm:AlgorithmConfig")

    assert f"`{contract.replace(':', '.')}`" in row
    assert isinstance(load_reference(contract), type)


def test_the_docs_name_no_hook_that_is_none() -> None:
    """Nothing stays in the docs that has left the code."""
    assert set(re.findall(r"`(core_rl_[a-z_]+)[`(]", TEXT)) == set(HOOKS)


def test_fields_of_a_component_and_heavy_modules_are_told() -> None:
    """The table of fields, and the list of what may not be imported."""
    assert all(f"| `{field.name}` |" in TEXT for field in attrs.fields(Component))
    assert all(re.search(rf"\b{name}\b", TEXT) for name in HEAVY)


def protocols() -> list[type]:
    """Every contract, also those that an engine may meet besides."""
    modules = [importlib.import_module(f"core_rl.roles.{name}") for name in ROLE_MODULES]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and getattr(value, "_is_protocol", False)
    ]


def test_the_contracts_of_all_kinds_are_among_the_protocols() -> None:
    """What the next test asks of protocols, it asks of them."""
    assert {load_reference(contract) for contract in ROLES.values()} <= set(protocols())


@pytest.mark.parametrize("protocol", protocols(), ids=lambda protocol: protocol.__name__)
def test_every_method_of_a_contract_says_what_it_does(protocol: type) -> None:
    """In words of its own, or in those of its class: which names it, or has this method alone."""
    about = inspect.cleandoc(protocol.__doc__ or "")
    methods = {name: value for name, value in vars(protocol).items() if inspect.isfunction(value) and _is_public(name)}
    silent = [name for name, method in methods.items() if not method.__doc__ and f"`{name}`" not in about]

    assert methods
    assert len(about) > 40
    assert silent == [] or len(methods) == 1


def _is_public(name: str) -> bool:
    return name == "__call__" or not name.startswith("_")
