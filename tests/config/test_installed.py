"""The options classes of everything that is installed."""

from __future__ import annotations

import json

import pytest

from core_rl.config.fields import fields_of
from core_rl.config.lookup import Lookup
from core_rl.config.options import options_of
from core_rl.config.schema import json_schema
from core_rl.plugins.catalogue import Catalogue


@pytest.fixture(scope="module")
def everything():
    return Catalogue.discover()


def test_every_option_has_help(everything):
    """It is what `plugins show`, the schema and the docs say of it."""
    lookup = Lookup(everything)
    silent = []
    for one in everything.components():
        cls = lookup.options_class(one.kind, one.component.name)
        if cls is not None:
            silent += [f"{one.component.name}.{option.key}" for option in options_of(cls) if not option.help]

    assert silent == []


def test_no_option_has_a_name_that_is_taken(everything):
    """`name` selects the component, and `weight` belongs to the entry of `rewards`."""
    lookup = Lookup(everything)
    taken = []
    for one in everything.components():
        cls = lookup.options_class(one.kind, one.component.name)
        names = {"name", "weight"} if one.kind == "reward" else {"name"}
        taken += [f"{one.component.name}.{key}" for key in (fields_of(cls) if cls else {}) if key in names]

    assert taken == []


def test_the_schema_covers_every_component(everything):
    """And is JSON to the letter."""
    schema = json_schema(everything)
    json.dumps(schema, allow_nan=False)

    importers = everything.components("config_importer")  # not selected in a run file
    expected = {f"{one.kind}:{one.component.name}" for one in everything.components() if one not in importers}

    assert expected <= schema["definitions"].keys()
