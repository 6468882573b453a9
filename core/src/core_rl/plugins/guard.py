"""The heavy-import guard: listing plugins must not import a deep-learning framework.

Three nets, because a process may have imported torch long before plugins are listed, and an import of a module that is already in
`sys.modules` asks no finder:

1. `builtins.__import__` sees every import statement, `from torch import x` and `import torch.nn as nn` too;
2. `importlib.import_module` sees imports by name;
3. a finder at the head of `sys.meta_path` sees what comes another way. It hides nothing: `importlib.util.find_spec("torch")`
   answers as ever, which is the light way to ask whether a backend is there.

All three speak only to the thread that holds the guard. The refusal is a BaseException, so that `except ImportError` in a library
cannot swallow it and go on, half set up, for the rest of the process; an attempt that is swallowed all the same is on record.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import attrs

HEAVY = frozenset({"torch", "transformers", "vllm", "sglang", "megatron", "deepspeed", "ray", "jax", "tensorflow"})
"""Top-level modules that no plugin may import when it is listed."""


class HeavyImportError(BaseException):
    """Raised where a plugin imports a heavy module while it is listed."""


@attrs.define
class Attempts:
    """What the guard refused: heavy modules, in order, and the top-level packages that asked for them."""

    modules: list[str] = attrs.field(factory=list)
    importers: set[str] = attrs.field(factory=set)
    thread: int = attrs.field(factory=threading.get_ident)

    def refuse(self, name: str, importer: str | None = None) -> None:
        """Raise, and remember, if this thread may not import `name`."""
        if name.partition(".")[0] not in HEAVY or threading.get_ident() != self.thread:
            return
        self.modules.append(name)
        if importer:
            self.importers.add(importer.partition(".")[0])
        message = f"imports {name} when plugins are listed"
        raise HeavyImportError(message)


class _RefusingLoader:
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        self._attempts.refuse(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Never reached: `create_module` has raised."""


class _Finder:
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in HEAVY or threading.get_ident() != self._attempts.thread:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, _Finder):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _RefusingLoader(self._attempts)  # type: ignore[assignment]
                return spec
        return None


def _guarded_import(original: Callable[..., Any], attempts: Attempts) -> Callable[..., Any]:
    def guarded(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the signature of builtins.__import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if level == 0:
            attempts.refuse(name, (globals or {}).get("__name__"))
        return original(name, globals, locals, fromlist, level)

    return guarded


def _guarded_import_module(original: Callable[..., Any], attempts: Attempts) -> Callable[..., Any]:
    def import_module(name: str, package: str | None = None) -> Any:
        attempts.refuse(name)
        return original(name, package)

    return import_module


@contextmanager
def heavy_import_guard() -> Iterator[Attempts]:
    """Refuse heavy imports of this thread inside the block; the record says which were tried, swallowed ones too."""
    attempts = Attempts()
    finder = _Finder(attempts)
    original_import, original_import_module = builtins.__import__, importlib.import_module
    builtins.__import__ = _guarded_import(original_import, attempts)
    importlib.import_module = _guarded_import_module(original_import_module, attempts)
    sys.meta_path.insert(0, finder)
    try:
        yield attempts
    finally:
        # A reference to a guarded function may outlive the block: no thread has this number, so it lets everything through.
        attempts.thread = -1
        builtins.__import__ = original_import
        importlib.import_module = original_import_module
        sys.meta_path[:] = [entry for entry in sys.meta_path if entry is not finder]


def forget(attempts: Attempts, before: frozenset[str], root: str) -> None:
    """Drop the modules that were set up while a heavy import was denied to them, so that nobody gets them half made.

    `before`: the names in `sys.modules` ahead of the block. `root`: the plugin's own top-level package.
    """
    roots = {root, *attempts.importers}
    for name in [name for name in sys.modules if name not in before and name.partition(".")[0] in roots]:
        del sys.modules[name]
