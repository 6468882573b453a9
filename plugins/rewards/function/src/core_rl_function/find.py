"""From `module:name` or `path/to/file.py:name` to the function."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from core_rl.errors import PluginError
from core_rl.plugins.references import load_reference
from core_rl.suggest import did_you_mean


def find_function(reference: str) -> Callable[..., Any]:
    """The callable of that name.

    Raises:
        PluginError: no such module, file or name, the import raises, or what is there cannot be called.
    """
    place, _, name = reference.rpartition(":")
    if place.endswith(".py"):
        module = _load_file(Path(place).expanduser())
        if not hasattr(module, name):
            known = [key for key, item in vars(module).items() if callable(item) and not key.startswith("_")]
            message = f"reward function: {place} has no {name!r}{did_you_mean(name, known)}"
            raise PluginError(message)
        found = getattr(module, name)
    else:
        found = load_reference(reference)
    if not callable(found):
        message = f"reward function: {reference} is no function, it is of type {type(found).__name__}"
        raise PluginError(message)
    function: Callable[..., Any] = found
    return function


def _load_file(path: Path) -> ModuleType:
    """The file as a module, once. Its folder is searched for what it imports, after everything that is installed."""
    if not path.is_file():
        message = f"reward function: there is no file {path} (looked from {Path.cwd().name}/)"
        raise PluginError(message)
    path = path.resolve()
    module_name = f"_core_rl_function_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # A user's own file runs here: whatever it raises is a fact about it, told in one line, kept as the cause.
        del sys.modules[module_name]
        message = f"reward function: importing {path.name} raised {type(error).__name__}: {_place(error, path)}{error}"
        raise PluginError(message) from error
    return module


def _place(error: BaseException, path: Path) -> str:
    """The line of the file at which the error came up."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f"line {line}: "
