"""`${NAME}` and `${NAME:-default}` inside scalars. `$${` stands for the text `${`."""

from __future__ import annotations

import os
import re

import attrs

_PATTERN = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")


@attrs.frozen(kw_only=True)
class Substituted:
    """`whole`: the scalar was one variable and nothing else, so that its text is typed like any other scalar."""

    text: str
    names: tuple[str, ...]
    whole: bool
    mistakes: tuple[str, ...]


def substitute(text: str) -> Substituted:
    """Replace every variable; like a shell's, a default also stands in for a variable that is empty."""
    names: list[str] = []
    mistakes: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if match["broken"]:
            mistakes.append("`${` begins no variable: write ${NAME} or ${NAME:-default}, or `$${` for the text `${`")
            return match[0]
        if name is None:
            return "${"
        names.append(name)
        value = os.environ.get(name)
        if value is None and default is None:
            mistakes.append(f"environment variable {name} is not set; ${{{name}:-default}} would give it a default")
            return match[0]
        return value if value is not None and (value or default is None) else str(default)

    result = _PATTERN.sub(replace, text)
    match = _PATTERN.fullmatch(text)
    whole = match is not None and match["name"] is not None
    return Substituted(text=result, names=tuple(names), whole=whole, mistakes=tuple(mistakes))


def escape(text: str) -> str:
    """Text that reads back as itself."""
    return text.replace("${", "$${")
