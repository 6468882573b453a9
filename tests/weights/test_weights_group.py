"""The group of a trainer and workers over gloo, in processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

MEMBER = Path(__file__).with_name("group_member.py")


def test_what_is_received_is_what_was_sent():
    """Several buckets and dtypes, several updates, and after `leave` a second group of another name in the same place.

    The members check the values; what they print is what arrived.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    members = [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(MEMBER), str(rank), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    sender, receiver = [member.communicate()[0] for member in members]

    assert [member.returncode for member in members] == [0, 0], sender + receiver
    expected = [
        (name, update, count) for name, update in zip(["first"] * 3 + ["second"], [1, 2, 3, 4], strict=True) for count in (1, 4)
    ]
    assert [(line.split()[0], int(line.split()[1]), int(line.split()[2])) for line in receiver.splitlines()] == expected
