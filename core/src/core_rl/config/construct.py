"""What the validators of a configuration class object to, field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from core_rl.config.fields import Field, fields_of

_ATTRS_MESSAGE = re.compile(r"'\w+' (?P<rule>must .+?)(?:: (?P<found>.*)| \(got (?P<got>.*)\))?", re.DOTALL)


def check_fields(cls: type, values: Mapping[str, Any]) -> list[tuple[Field, str]]:
    """Run every validator on its own; attrs itself stops at the first that objects.

    A validator that looks at other fields sees the values that are known; one that misses a field says nothing.
    """
    instance: Any = object.__new__(cls)
    fields = fields_of(cls)
    known: dict[str, Any] = {}
    for key, field in fields.items():
        value = values.get(key, field.default())
        if value is not attrs.NOTHING:
            known[key] = value
            object.__setattr__(instance, field.name, value)
    complaints = []
    for key, value in known.items():
        validator = fields[key].attribute.validator
        if key not in values or validator is None:
            continue
        try:
            validator(instance, fields[key].attribute, value)
        except AttributeError:
            continue
        except (ValueError, TypeError) as error:
            complaints.append((fields[key], complaint(error, secret=fields[key].secret)))
    return complaints


def complaint(error: Exception, *, secret: bool = False) -> str:
    """A validator's message. attrs' own repeats the field's name, which stands in front of it already."""
    text = str(error.args[0]) if error.args else type(error).__name__
    match = _ATTRS_MESSAGE.fullmatch(text)
    if match is None:
        return "this value is not allowed" if secret else text
    found = match["found"] or match["got"]
    return match["rule"] + ("" if found is None or secret else f", found {found}")
