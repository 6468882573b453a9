"""`package.module:Object`: from the text to the object."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from typing import Any

from core_rl.errors import PluginError

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def load_reference(reference: str) -> Any:
    """Import the module and take the object out of it. A module that lies in the working directory is found too.

    Raises:
        PluginError: the text is no reference, the module is missing or raises, or has no such object.
    """
    if not _REFERENCE.fullmatch(reference):
        message = f"{reference!r}: a reference is written package.module:Object, each a Python name"
        raise PluginError(message)
    module_name, _, path = reference.partition(":")
    value = _import(module_name, reference)
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            raise PluginError(_missing(reference, value, name)) from None
    return value


def _import(module: str, reference: str) -> Any:
    _reach_working_directory(module)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            looked = "" if "." in error.name else " (looked in the working directory too)"
            message = f"{reference}: there is no module {error.name}{looked}"
            raise PluginError(message) from error
        message = f"{reference}: {module} needs the module {error.name}, which is not installed"
        raise PluginError(message) from error
    except Exception as error:
        # Someone else's module runs here: whatever it raises is a fact about it, told in one line, kept as the cause.
        text = str(error).strip().partition("\n")[0]
        message = f"{reference}: importing {module} raised {type(error).__name__}: {text}"
        raise PluginError(message) from error


def _reach_working_directory(module: str) -> None:
    """A console script has its own folder on `sys.path`, not the user's. Appended, so that it hides nothing installed."""
    root = module.partition(".")[0]
    if root in sys.modules or os.getcwd() in sys.path or "" in sys.path:  # noqa: PTH109 - sys.path holds text
        return
    if importlib.util.find_spec(root) is None:
        sys.path.append(os.getcwd())  # noqa: PTH109


def _missing(reference: str, owner: Any, name: str) -> str:
    from core_rl.suggest import did_you_mean

    place = getattr(owner, "__name__", type(owner).__name__)
    return f"{reference}: {place} has no {name!r}{did_you_mean(name, dir(owner))}"
