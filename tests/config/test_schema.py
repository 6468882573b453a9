"""The JSON Schema for editors."""

from __future__ import annotations

import json

from core_rl.config.schema import json_schema


def test_sections_components_and_their_help(catalogue):
    """Descriptions, defaults, choices, and the options of each installed component."""
    schema = json_schema(catalogue)
    loss = schema["definitions"]["loss:ppo_clip"]

    assert schema["properties"]["run"]["properties"]["seed"]["description"] == "of data order, sampling and initial weights"
    assert schema["properties"]["run"]["properties"]["on_reward_failure"]["enum"] == ["drop", "zero", "stop"]
    assert schema["properties"]["eval"]["properties"]["sampling"]["properties"]["temperature"]["default"] == 0.0
    assert (loss["properties"]["name"]["const"], loss["properties"]["clip_low"]["default"]) == ("ppo_clip", 0.2)
    assert (loss["required"], loss["additionalProperties"]) == (["name"], False)
    assert "weight" in schema["definitions"]["reward:exact"]["properties"]
    assert schema["definitions"]["data:rows"]["required"] == ["name"]
    json.dumps(schema, allow_nan=False)


def test_every_reference_leads_somewhere(catalogue):
    """No `$ref` without its definition."""
    schema = json_schema(catalogue)
    text = json.dumps(schema)
    references = {part.split('"')[0] for part in text.split('"$ref": "#/definitions/')[1:]}

    assert references <= schema["definitions"].keys()
    assert len(references) > 10


def test_nothing_is_required_that_a_base_may_give(catalogue):
    """A file that extends another need not have a model of its own."""
    schema = json_schema(catalogue)

    assert "required" not in schema
    nameless = schema["properties"]["train_engine"]["anyOf"][-1]

    assert nameless["not"] == {"required": ["name"]}
    assert {"lr", "corner"} <= set(nameless["propertyNames"]["enum"])
    assert "extends" in schema["properties"]


def test_secrets_have_no_default(catalogue):
    """Whatever a plugin's author has put there."""
    key = json_schema(catalogue)["definitions"]["logger:tracker"]["properties"]["api_key"]

    assert "default" not in key
