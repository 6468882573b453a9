"""Every conformance check of a plugin's components, with default or given options. What a component raises is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.errors import UserError
from core_rl.suggest import did_you_mean

if TYPE_CHECKING:
    from core_rl.component import Component
    from core_rl.plugins.loading import Plugin
    from core_rl.testing.kit.subject import Subject

SLOW = frozenset({"train_engine", "rollout_engine", "launcher"})
"""Kinds whose checks start processes, and take minutes."""
HUNG = "the rest of its checks, as this one did not end"


@attrs.frozen(kw_only=True)
class Row:
    """One check of one component. `check` is empty where none was run; `status` is `ok`, `failed`, `not judged` or `not run`."""

    plugin: str
    kind: str
    component: str
    check: str
    status: str
    reason: str = ""
    about: str = ""
    """What holds where the check is met."""


def conformance(
    plugin: Plugin,
    options: Mapping[str, Mapping[str, Any]],
    *,
    engines: bool,
    leave_out: frozenset[tuple[str, str]],
    limit_s: float | None = None,
) -> Iterator[Row]:
    """`options` by component name, or `kind/name`. `leave_out`: components of which the imports alone are wrong.

    A check that takes longer than `limit_s` has failed, and the rest of its component is left out.
    """
    for kind, component in plugin.components:
        row = Row(plugin=plugin.title, kind=kind, component=component.name, check="", status="not run")
        if (kind, component.name) in leave_out:
            yield attrs.evolve(row, reason="the findings above come first")
        elif kind in SLOW and not engines:
            yield attrs.evolve(row, reason="it starts processes: give --engines")
        else:
            yield from _checked(row, plugin, component, _options(options, kind, component.name), limit_s)


def check_names(plugins: list[Plugin], options: Mapping[str, Any]) -> None:
    """Raises `UserError` for options of a component that is in none of them."""
    names = [name for plugin in plugins for kind, one in plugin.components for name in (one.name, f"{kind}/{one.name}")]
    for name, value in options.items():
        if name not in names:
            message = f"--options: there is no component {name!r} in the plugin{did_you_mean(name, names)}"
            raise UserError(message)
        if not isinstance(value, Mapping):
            message = f"--options: {name}: expected a mapping of its options, found {value!r}"
            raise UserError(message)


def _options(options: Mapping[str, Mapping[str, Any]], kind: str, name: str) -> Mapping[str, Any]:
    return options.get(f"{kind}/{name}", options.get(name, {}))


def _checked(
    row: Row, plugin: Plugin, component: Component, options: Mapping[str, Any], limit_s: float | None
) -> Iterator[Row]:
    from core_rl.testing.kit.subject import Subject

    name = f"{plugin.entry_point}/{component.name}"
    subject = Subject(kind=row.kind, name=name, options=options)
    try:
        several = sum(one.name == component.name for _, one in plugin.components) > 1
        key = f"{row.kind}/{component.name}" if several else component.name
        refusal = _refusal(subject, key, given=bool(options))
        if refusal is not None:
            yield attrs.evolve(row, reason=refusal)
            return
        for one in _outcomes(subject, limit_s):
            yield attrs.evolve(row, check=one.check, status=one.status, reason=one.reason, about=one.about)
            if isinstance(one.error, KeyboardInterrupt):
                yield attrs.evolve(row, reason=HUNG)
                return
    except ModuleNotFoundError as error:  # what the checks themselves are computed with
        yield attrs.evolve(row, reason=f"its checks need the module {error.name}, which is not installed")
    finally:
        subject.close()


def _outcomes(subject: Subject, limit_s: float | None) -> Iterator[Any]:
    from core_rl.testing.kit.runner import ENGINES, outcomes

    yield from outcomes(subject, limit_s=limit_s)
    if subject.kind in ENGINES:
        from core_rl.testing.kit.engines import engine_outcomes

        yield from engine_outcomes(subject, limit_s=limit_s)


def _refusal(subject: Subject, key: str, *, given: bool) -> str | None:
    """Why its options cannot be judged: some have no default, or the defaults alone are refused."""
    from core_rl.testing.kit.subject import needs_options

    missing = needs_options(subject)
    example = f"--options '{{{key}: {{{missing[0] if missing else 'option'}: …}}}}'"
    if missing:
        return f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no default: give {example}"
    try:
        subject.build()
    except UserError as error:
        return str(error) if given else f"{error}; give {example}"
    except Exception:  # noqa: BLE001 - the checks will tell it
        return None
    return None
