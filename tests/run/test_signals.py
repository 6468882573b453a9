"""Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from core_rl.run.signals import Interrupts


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_the_first_asks_and_the_second_aborts(capsys, number, name):
    """The first is a request and says what happens; the second is a KeyboardInterrupt; afterwards all is as before."""
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert not interrupts.requested()
        signal.raise_signal(number)
        asked = interrupts.requested()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)

    assert asked
    assert capsys.readouterr().err.strip().startswith(f"{name}: finishing this step, then saving.")
    assert signal.getsignal(number) is before


def test_asyncio_leaves_the_handler_alone():
    """Inside `asyncio.run` the first Ctrl-C cancels nothing."""
    with Interrupts() as interrupts:

        async def work():
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0.01)
            return interrupts.requested()

        assert asyncio.run(work())


def test_outside_the_main_thread_nothing_is_handled():
    """Python allows handlers in the main thread only; a run elsewhere still runs."""
    seen = []

    def work():
        with Interrupts() as interrupts:
            seen.append(interrupts.requested())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert seen == [False]
