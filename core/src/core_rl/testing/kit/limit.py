"""A limit of time for code that is somebody else's: what hangs is ended and named, as Ctrl-C would end it."""

from __future__ import annotations

import signal
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_S = 5.0
"""What goes on after it was ended, such as a wait for a thread, is ended again."""


class OutOfTimeError(KeyboardInterrupt):
    """Not an `Exception`: a component that catches those would hide it. Its words say where the time went."""


@contextmanager
def ends_within(seconds: float | None) -> Iterator[None]:
    """Raises `OutOfTimeError` inside. Without a limit where there is none, on another thread than the first, and on Windows."""
    if seconds is None or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(_: int, frame: FrameType | None) -> None:
        message = f"it did not end within {seconds:g} s{_place(frame)}"
        raise OutOfTimeError(message)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _place(frame: FrameType | None) -> str:
    """The innermost line that is not the standard library's."""
    library = sysconfig.get_path("stdlib")
    while frame is not None and frame.f_code.co_filename.startswith((library, "<")):
        frame = frame.f_back
    return "" if frame is None else f" ({frame.f_code.co_filename}:{frame.f_lineno})"
