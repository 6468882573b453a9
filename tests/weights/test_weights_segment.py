"""Tensors in shared memory: what is read is what was written, in any form, from any process; and nothing stays behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest
import torch

from core_rl.errors import RunError
from core_rl.weights import segment as module
from core_rl.weights.segment import Reader, Segment

DTYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e8m0fnu,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.bool,
    torch.complex64,
]
READ = """
import hashlib, json, sys
from core_rl.weights.segment import Reader
reader = Reader()
for line in sys.stdin:
    print(json.dumps({name: [str(tensor.dtype), list(tensor.shape), float(tensor.double().sum())]
                      for name, tensor in reader.read(json.loads(line))}), flush=True)
"""


@pytest.fixture
def segment():
    made = Segment()
    yield made
    made.close()


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist() if tensor.numel() else []


def ours():
    """Files of this process in shared memory."""
    return {path.name for path in module.FOLDER.glob(f"core-rl-{os.getpid()}-*")}


def through_json(note):
    return json.loads(json.dumps(note))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_comes_back_bit_by_bit(segment, dtype):
    """Also where a value is NaN or -0.0 in it."""
    raw = torch.arange(7 * dtype.itemsize, dtype=torch.uint8)
    tensor = torch.tensor([True, False, True]) if dtype == torch.bool else raw.view(dtype)

    [(name, found)] = Reader().read(through_json(segment.write([("w", tensor)])))

    assert (name, found.dtype, found.shape) == ("w", dtype, tensor.shape)
    assert bits(found) == bits(tensor)


def test_every_form_comes_back(segment):
    """Empty tensors, one number, transposed and sliced ones, and what stands beside them."""
    whole = torch.randn(6, 8)
    tensors = {
        "empty": torch.empty(0, 3),
        "none": torch.empty(0, dtype=torch.int32),
        "number": torch.tensor(2.5, dtype=torch.float64),
        "odd": torch.arange(3, dtype=torch.int8),
        "transposed": whole.T,
        "every other": whole[:, ::2],
        "expanded": torch.ones(1, 5).expand(4, 5),
        "wants a gradient": torch.randn(3, requires_grad=True),
        "nan": torch.tensor([float("nan"), -0.0]),
    }

    found = dict(Reader().read(through_json(segment.write(list(tensors.items())))))

    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name].shape == tensor.shape
        assert found[name].dtype == tensor.dtype
        assert bits(found[name]) == bits(tensor.detach()), name
    assert list(Reader().read(segment.write([]))) == []


def test_the_memory_is_used_again_and_grows(segment):
    """Less or as much takes the same place; more takes another one, and the first is gone."""
    reader = Reader()
    first = segment.write([("w", torch.zeros(1000))])
    list(reader.read(first))
    second = segment.write([("w", torch.ones(500))])
    same = dict(reader.read(second))["w"].clone()
    third = segment.write([("w", torch.full((5000,), 2.0))])
    grown = dict(reader.read(third))["w"].clone()

    assert first["path"] == second["path"] != third["path"]
    assert torch.equal(same, torch.ones(500))
    assert torch.equal(grown, torch.full((5000,), 2.0))
    assert ours() == {os.path.basename(third["path"])}  # noqa: PTH119 - a string out of the note


def test_a_reader_that_missed_a_bucket_reads_the_next(segment):
    """The segment grew while it did not look: what it has mapped is not what is written now."""
    reader = Reader()
    list(reader.read(segment.write([("w", torch.zeros(100))])))
    segment.write([("w", torch.ones(10_000))])

    found = dict(reader.read(segment.write([("w", torch.full((100,), 2.0))])))

    assert torch.equal(found["w"], torch.full((100,), 2.0))


def test_another_process_reads_it(segment):
    """One bucket after the other, of one reader, while the segment grows and is written again."""
    buckets = [
        [("a", torch.arange(10.0)), ("b", torch.tensor(4, dtype=torch.int16))],
        [("a", torch.ones(3000, dtype=torch.bfloat16))],
        [("a", torch.full((2, 2), -1.0))],
    ]
    found = []
    with subprocess.Popen([sys.executable, "-c", READ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        for bucket in buckets:
            child.stdin.write(json.dumps(segment.write(bucket)) + "\n")
            child.stdin.flush()
            found.append(json.loads(child.stdout.readline()))
        child.stdin.close()

    assert found == [
        {"a": ["torch.float32", [10], 45.0], "b": ["torch.int16", [], 4.0]},
        {"a": ["torch.bfloat16", [3000], 3000.0]},
        {"a": ["torch.float32", [2, 2], -4.0]},
    ]


def test_nothing_stays_behind():
    """After `close` the file is gone, a reader that still looks keeps its values, and one that comes late is told."""
    segment, reader = Segment(), Reader()
    note = segment.write([("w", torch.ones(4))])
    [(_, held)] = reader.read(note)
    segment.close()
    segment.close()

    assert ours() == set()
    assert torch.equal(held, torch.ones(4))
    with pytest.raises(
        RunError, match=r"lie in the memory of .* cannot read .*No such file.*weight_transport disk or collective"
    ):
        list(Reader().read(note))


def test_a_memory_that_is_too_small_says_so(monkeypatch, segment):
    """One line, with what to do; and nothing stays behind, nor is the segment spoiled for something smaller."""
    real = os.posix_fallocate

    def full(descriptor, start, size):
        if size > 2**20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor, start, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    segment.write([("w", torch.zeros(10))])
    with pytest.raises(RunError, match=r"4 MiB of shared memory .*/dev/shm \(No space left on device\): lower .*bucket_mb"):
        segment.write([("w", torch.zeros(2**20))])

    assert ours() == set()
    assert torch.equal(dict(Reader().read(segment.write([("w", torch.ones(10))])))["w"], torch.ones(10))
