"""Allow and block lists: which installed plugins may be seen at all."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping, Sequence

import attrs

ALLOW_VARIABLE = "CORE_RL_PLUGINS_ALLOW"
BLOCK_VARIABLE = "CORE_RL_PLUGINS_BLOCK"
CORE = "core-rl"
"""The core's own distribution. Its components are always there: no list takes them away."""


def canonical(name: str) -> str:
    """`Core_RL.grpo` and `core-rl-grpo` are one distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def matches(pattern: str, distribution: str, entry_point: str) -> bool:
    """Whether a pattern (`core-rl-grpo`, `grpo`, `acme-*`) means this plugin."""
    return any(fnmatch.fnmatchcase(canonical(name), canonical(pattern)) for name in (distribution, entry_point))


@attrs.frozen(kw_only=True)
class Lists:
    """Every list that holds. A plugin must be in each allow list (None allows all) and in no block list."""

    allow: tuple[tuple[str, Sequence[str]], ...]
    block: tuple[tuple[str, Sequence[str]], ...]

    def refusal(self, distribution: str, entry_point: str) -> str | None:
        """Why this plugin may not be seen, or None."""
        if canonical(distribution) == CORE:
            return None
        for source, patterns in self.block:
            for pattern in patterns:
                if matches(pattern, distribution, entry_point):
                    return f"blocked by {pattern!r} in {source}"
        for source, patterns in self.allow:
            if not any(matches(pattern, distribution, entry_point) for pattern in patterns):
                return f"not in {source}"
        return None


def given_lists(allow: Sequence[str] | None, block: Sequence[str]) -> Lists:
    """The lists of a run file or the command line."""
    return Lists(
        allow=() if allow is None else (("the allow list", tuple(allow)),),
        block=(("the block list", tuple(block)),),
    )


def environment_lists(environ: Mapping[str, str] = os.environ) -> Lists:
    """The lists of the environment: names with commas between them. An empty variable counts as not set."""
    allow, block = (_split(environ.get(variable, "")) for variable in (ALLOW_VARIABLE, BLOCK_VARIABLE))
    return Lists(
        allow=((ALLOW_VARIABLE, allow),) if allow else (),
        block=((BLOCK_VARIABLE, block),),
    )


def both(first: Lists, second: Lists) -> Lists:
    return Lists(allow=first.allow + second.allow, block=first.block + second.block)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
