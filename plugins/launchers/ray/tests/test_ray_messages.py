"""What goes to actors and comes back is what was sent."""

from __future__ import annotations

import threading

import pytest
import torch

from core_rl_ray.messages import pack, unpack

TENSORS = {
    "floats": torch.randn(3, 4),
    "bfloat16": torch.randn(5).to(torch.bfloat16),
    "half_in_steps": torch.randn(4, 6, dtype=torch.float16)[:, ::2],
    "turned": torch.arange(6).reshape(2, 3).t(),
    "scalar": torch.tensor(3, dtype=torch.int32),
    "mask": torch.tensor([True, False]),
    "complex": torch.randn(2, dtype=torch.complex64),
    "empty": torch.empty(0, 3),
}


def test_tensors_come_back_bit_for_bit():
    """Every type and shape, within tuples and mappings; their numbers travel beside the pickle."""
    message = pack({"tensors": TENSORS, "others": (1, "x")})
    found = unpack(message)

    assert found["others"] == (1, "x")
    assert len(message[1]) == len(TENSORS)
    for name, tensor in TENSORS.items():
        torch.testing.assert_close(found["tensors"][name], tensor, rtol=0.0, atol=0.0)


def test_tensors_that_come_back_are_ones_own():
    """Arrays out of Ray's store are read-only, and shared by the processes of a node."""
    sent = torch.zeros(4)
    pickled, buffers = pack(sent)
    for buffer in buffers:
        buffer.flags.writeable = False
    found = unpack((pickled, buffers))
    found += 1

    assert found.tolist() == [1.0] * 4
    assert sent.tolist() == [0.0] * 4


def test_parameters_stay_parameters():
    """They pickle as ever."""
    found = unpack(pack(torch.nn.Parameter(torch.ones(2))))

    assert isinstance(found, torch.nn.Parameter)
    assert found.requires_grad


def test_a_function_of_a_notebook_goes_along():
    """A lambda has no module to be imported from."""
    assert unpack(pack(lambda number: number + 1))(1) == 2


def test_what_does_not_pickle_is_told():
    """As pickle tells it."""
    with pytest.raises(TypeError, match="cannot pickle"):
        pack({"lock": threading.Lock()})
