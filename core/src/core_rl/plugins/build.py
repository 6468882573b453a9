"""From a selected component to the object: `Target(options, ...)`, or `Target(...)` when it has no options.

Workers get `(name, target, options)` from the driver and do not discover again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rl.plugins.references import load_reference

if TYPE_CHECKING:
    from core_rl.component import Component
    from core_rl.config.selection import Selection

WorkerForm = tuple[str, str, Any]
"""(name, target, options): everything that another process needs to build the component. It pickles."""


def build(selection: Selection, *args: Any) -> Any:
    """Import the target of a resolved selection and call it."""
    assert selection.component is not None, f"{selection.kind} {selection.name} was not resolved"
    return build_component(selection.component, selection.options, *args)


def build_component(component: Component, options: Any, *args: Any) -> Any:
    """The same, for who holds a component and its options."""
    return build_worker_form(worker_form(component, options), *args)


def worker_form(component: Component, options: Any) -> WorkerForm:
    """What a driver sends to a worker."""
    return component.name, component.target, options if component.config is not None else None


def build_worker_form(form: WorkerForm, *args: Any) -> Any:
    """What a worker makes of it."""
    _, target, options = form
    factory = load_reference(target)
    return factory(*args) if options is None else factory(options, *args)
