"""Ctrl-C while a run is in progress: the first asks it to end after the step, the second ends it at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""SIGTERM is how schedulers take a machine back; it deserves a checkpoint as well."""


class Interrupts:
    """Within `with Interrupts() as interrupts:`, `interrupts.requested()` says whether someone wants the run to stop.

    asyncio leaves a handler alone that is not Python's own. Outside the main thread nothing is handled.
    """

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}

    def requested(self) -> bool:
        return self._requested

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        text = f"\n{name}: finishing this step, then saving. Once more stops at once, without saving.\n"
        try:
            sys.stderr.write(text)
        except RuntimeError:  # the signal came amid another write to the same stream
            os.write(2, text.encode())
