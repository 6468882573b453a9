"""Checkpoints survive crashes, damage and full disks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.run_file import CheckpointSection
from core_rl.errors import CheckpointError
from core_rl.run.checkpoints import Checkpoints


def writer(content=b"weights" * 1000):
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(content)
        (folder / "optimizer").mkdir()
        (folder / "optimizer" / "state.bin").write_bytes(content[::-1])

    return write


def made(folder, *steps, **section):
    checkpoints = Checkpoints(folder, CheckpointSection(**section))
    for step in steps:
        checkpoints.save(step, writer(f"step {step}".encode() * 500), {"step": step, "prompts_used": 8 * step})
    return checkpoints


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_is_found_again(tmp_path):
    """Path, step and state of the newest one, and of any one by its step."""
    checkpoints = made(tmp_path / "new" / "checkpoints", 2, 4)
    newest = checkpoints.newest_good()

    assert (newest.path.name, newest.step, newest.state) == ("step-000004", 4, {"step": 4, "prompts_used": 32})
    assert (newest.path / "optimizer" / "state.bin").is_file()
    assert checkpoints.at(2).state["prompts_used"] == 16
    assert checkpoints.problems == []


def test_no_checkpoints(tmp_path):
    """A folder without any, or none at all, has no newest one; a step that is not there names those that are."""
    assert Checkpoints(tmp_path / "none", CheckpointSection()).newest_good() is None
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 3 in .*; there are: 1, 2"):
        made(tmp_path, 1, 2).at(3)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("file", "damage", "reason"),
    [
        ("model.safetensors", cut, "model.safetensors has 1500 bytes and should have 3000"),
        ("model.safetensors", flip, "the content of model.safetensors is not what was written"),
        ("optimizer/state.bin", Path.unlink, "optimizer/state.bin is missing"),
        ("checkpoint.json", cut, "checkpoint.json cannot be read"),
        ("checkpoint.json", Path.unlink, "checkpoint.json is missing"),
        ("checkpoint.json", lambda path: path.write_text("[]"), "checkpoint.json cannot be read"),
        ("checkpoint.json", lambda path: path.write_text(path.read_text().replace('"step": 4', '"step": 5')), "changed or cut"),
        ("checkpoint.json", lambda path: path.write_text(path.read_text().replace('"format": 1', '"format": 9')), "format 9"),
    ],
)
def test_a_damaged_one_is_passed_over_and_named(tmp_path, file, damage, reason):
    """The one before is used, the reason is said, and asking for the damaged one is an error."""
    checkpoints = made(tmp_path, 2, 4)
    damage(tmp_path / "step-000004" / file)
    found = checkpoints.newest_good()

    assert found.step == 2
    assert len(checkpoints.problems) == 1
    assert checkpoints.problems[0].startswith("checkpoint step-000004 is passed over: ")
    assert reason in checkpoints.problems[0]
    with pytest.raises(CheckpointError, match="step 4 is damaged"):
        checkpoints.at(4)


def test_a_resumed_run_replaces_the_damaged_one(tmp_path):
    """Saving the same step again puts a whole one in its place."""
    checkpoints = made(tmp_path, 2, 4)
    cut(tmp_path / "step-000004" / "model.safetensors")
    made(tmp_path, 4)

    assert checkpoints.newest_good().step == 4
    assert names(tmp_path) == ["step-000002", "step-000004"]


@given(
    steps=st.lists(st.integers(1, 40), min_size=1, max_size=8, unique=True).map(sorted),
    keep=st.integers(1, 4),
    keep_every=st.one_of(st.none(), st.integers(1, 10)),
)
@settings(deadline=None, max_examples=20)
def test_the_keep_rule(tmp_path_factory, steps, keep, keep_every):
    """After every save there are exactly the newest so many and those whose step is divisible."""
    folder = tmp_path_factory.mktemp("rule")
    checkpoints = Checkpoints(folder, CheckpointSection(keep=keep, keep_every=keep_every))
    for count, step in enumerate(steps, start=1):
        checkpoints.save(step, lambda path: (path / "x").touch(), {})
        so_far = steps[:count]
        expected = {s for s in so_far if s in so_far[-keep:] or (keep_every and s % keep_every == 0)}

        assert names(folder) == [f"step-{s:06d}" for s in sorted(expected)]


def test_later_damaged_ones_do_not_push_out_good_ones(tmp_path):
    """After a resume from step 2, step 3 is saved beside a damaged step 9; the good ones stay."""
    made(tmp_path, 1, 2, 9, keep=3)
    cut(tmp_path / "step-000009" / "model.safetensors")
    checkpoints = made(tmp_path, 3, keep=2)

    assert names(tmp_path) == ["step-000002", "step-000003", "step-000009"]
    assert checkpoints.newest_good().step == 3


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EFBIG, "File too large")])
def test_a_disk_that_fills_up_loses_nothing(tmp_path, error):
    """The error names step, place and reason; older checkpoints are whole, and nothing half-written stays."""
    checkpoints = made(tmp_path, 1, 2)

    def write(folder):
        (folder / "part").write_bytes(b"x" * 100)
        raise error

    with pytest.raises(CheckpointError, match=f"checkpoint of step 3 cannot be written to .*{error.strerror}; older"):
        checkpoints.save(3, write, {})
    assert names(tmp_path) == ["step-000001", "step-000002"]
    assert checkpoints.newest_good().step == 2


def test_a_disk_without_room_is_seen_before_writing(tmp_path, monkeypatch):
    """As much as the last one took has to be free."""
    checkpoints = made(tmp_path, 1)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=64 << 20))
    written = []

    with pytest.raises(CheckpointError, match=r"0\.07 GB are free and it takes 0\.07 GB"):
        checkpoints.save(2, written.append, {})
    assert written == []


def test_a_library_s_own_error_on_a_full_disk(tmp_path, monkeypatch):
    """safetensors and torch do not raise OSError; what the disk says decides."""
    checkpoints = made(tmp_path, 1)
    usage = shutil.disk_usage(tmp_path)

    def write(_):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        message = "unexpected pos 64 vs 0"
        raise RuntimeError(message)

    with pytest.raises(CheckpointError, match="the disk is full"):
        checkpoints.save(2, write, {})


def test_an_engine_s_mistake_stays_its_own(tmp_path):
    """Not everything that fails is the disk's fault, and nothing is left behind either way."""
    checkpoints = made(tmp_path, 1)

    def write(_):
        del {}["optimizer"]

    with pytest.raises(KeyError, match="optimizer"):
        checkpoints.save(2, write, {})
    assert names(tmp_path) == ["step-000001"]


def test_a_file_size_limit_of_the_system(tmp_path):
    """The real thing: the kernel refuses the write in a process of its own."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from core_rl.run.checkpoints import Checkpoints\n"
        "from core_rl.config.run_file import CheckpointSection; from core_rl.errors import CheckpointError\n"
        "c = Checkpoints(Path(sys.argv[1]), CheckpointSection()); c.save(1, lambda p: (p / 'x').write_bytes(b'1'), {})\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))\n"
        "try: c.save(2, lambda p: (p / 'x').write_bytes(bytes(200000)), {})\n"
        "except CheckpointError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=30, check=True)

    assert "checkpoint of step 2 cannot be written" in done.stdout
    assert "File too large" in done.stdout
    assert names(tmp_path) == ["step-000001"]


def test_killed_in_the_middle_of_a_save(tmp_path):
    """kill -9 leaves the older one good; the next save clears away what was left."""
    code = (
        "import os, signal, sys; from pathlib import Path; from core_rl.run.checkpoints import Checkpoints\n"
        "from core_rl.config.run_file import CheckpointSection\n"
        "c = Checkpoints(Path(sys.argv[1]), CheckpointSection()); c.save(1, lambda p: (p / 'x').write_bytes(b'1'), {'step': 1})\n"
        "c.save(2, lambda p: ((p / 'x').write_bytes(b'2'), os.kill(os.getpid(), signal.SIGKILL)), {})\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], timeout=30, check=False)
    left = names(tmp_path)
    checkpoints = Checkpoints(tmp_path, CheckpointSection(keep=5))
    newest = checkpoints.newest_good()
    checkpoints.save(2, writer(), {})

    assert done.returncode == -signal.SIGKILL
    assert len(left) == 2
    assert left[0].startswith(".tmp-")
    assert newest.step == 1
    assert checkpoints.problems == []
    assert names(tmp_path) == ["step-000001", "step-000002"]


def test_the_last_good_one_is_there_until_the_new_one_is(tmp_path):
    """With keep 1 the old one is deleted after the new one stands, not before."""
    seen = []
    checkpoints = made(tmp_path, 1, keep=1)
    checkpoints.save(2, lambda folder: (seen.extend(names(tmp_path)), (folder / "x").touch()), {})

    assert "step-000001" in seen
    assert names(tmp_path) == ["step-000002"]


def test_reading_deletes_nothing(tmp_path):
    """`core-rl eval` on a run that is being saved must leave the unfinished folder alone."""
    made(tmp_path, 1)
    (tmp_path / f".tmp-step-000002-{os.getpid()}").mkdir()
    Checkpoints(tmp_path, CheckpointSection()).newest_good()

    assert len(names(tmp_path)) == 2


def test_the_seal_is_plain_json(tmp_path):
    """Size and CRC-32 of every file, for anyone's tools."""
    made(tmp_path, 1)
    seal = json.loads((tmp_path / "step-000001" / "checkpoint.json").read_text())

    assert seal["files"]["model.safetensors"]["size"] == 3000
    assert sorted(seal["files"]) == ["model.safetensors", "optimizer/state.bin"]
