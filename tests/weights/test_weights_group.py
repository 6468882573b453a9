"""The group of a trainer and workers over gloo, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from core_rl.ports import free_port

MEMBER = Path(__file__).with_name("group_member.py")


def test_what_is_received_is_what_was_sent():
    """Several buckets and dtypes, several updates, and after `leave` a second group of another name in the same place.

    The members check the values; what they print is what arrived.
    """
    port = free_port()
    members = [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(MEMBER), str(rank), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    # The store at the port goes with the sender's group: a receiver that joined sooner would join that one.
    said = [passed(members, "first", (1, 2, 3)), passed(members, "second", (4,))]
    rest = [member.communicate()[0] for member in members]

    assert [member.returncode for member in members] == [0, 0], (said, rest)
    assert said == [
        [["left first"], [f"first {update} {count}" for update in (1, 2, 3) for count in (1, 4)] + ["left first"]],
        [["left second"], ["second 4 1", "second 4 4", "left second"]],
    ]


def passed(members, name, updates):
    """What each member said of these updates, up to the end of the group."""
    for member in members:
        member.stdin.write(" ".join([name, *map(str, updates)]) + "\n")
        member.stdin.flush()
    return [said_until(member, f"left {name}") for member in members]


def said_until(member, last):
    said = []
    for line in member.stdout:
        said.append(line.rstrip("\n"))
        if said[-1] == last:
            break
    return said
