"""Plain YAML scalars by the core schema of YAML 1.2, and nothing beyond it.

`1e-4` is a number; `yes`, `off`, `12:30`, `2024-01-01` and `1_000` are text.
"""

from __future__ import annotations

import re

NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
FLOAT = re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_LONGEST_INT = 4000  # Python refuses to convert much longer ones, which stay text


def parse_scalar(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar."""
    if NULL.match(text):
        return None
    if BOOL.match(text):
        return text[0] in "tT"
    if INT.match(text):
        return _integer(text) if len(text) <= _LONGEST_INT else text
    if FLOAT.match(text):
        return float(text.replace(".", "", 1)) if text.lstrip("+-")[:2].lower() in {".i", ".n"} else float(text)
    return text


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)
