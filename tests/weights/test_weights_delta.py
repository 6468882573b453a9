"""Changes of weights: both sides agree whatever changes, few changes are few bytes, and what was lost or damaged is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.errors import RunError
from core_rl.weights.buckets import size_of
from core_rl.weights.delta import Receiver, Sender, checksum, whole_changes

BYTES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
DTYPES = [torch.bfloat16, torch.float32, torch.float16, torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float64, torch.bool]
SPECIAL = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.0]


def equal(a, b):
    kind = BYTES[a.element_size()]
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


def changes(sender, weights, limit=2**30):
    return list(whole_changes(sender.changes(iter(weights.items())), limit))


def filled(shape, dtype, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def changed(tensor, places, value):
    flat = tensor.flatten().float()
    flat[[place % flat.numel() for place in places]] = value
    return flat.to(tensor.dtype).view(tensor.shape)


@st.composite
def histories(draw):
    """Some weights, and what happens to one of them at a time: some places, all of it, another dtype or form, nothing."""
    steps = []
    weights = {name: filled((3, 5 + number), draw(st.sampled_from(DTYPES)), number) for number, name in enumerate("abc")}
    steps.append(dict(weights))
    for number in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from("abc"))
        kind = draw(st.sampled_from(["places", "places", "all", "dtype", "form", "nothing", "forget"]))
        old = weights[name]
        if kind == "places":
            places = draw(st.lists(st.integers(0, 20), min_size=1, max_size=4))
            weights[name] = changed(old, places, draw(st.sampled_from(SPECIAL)))
        elif kind == "all":
            weights[name] = filled(old.shape, old.dtype, 100 + number)
        elif kind == "dtype":
            weights[name] = old.float().to(draw(st.sampled_from(DTYPES)))
        elif kind == "form":
            weights[name] = old.T if old.dim() == 2 else old.reshape(-1)
        steps.append(None if kind == "forget" else dict(weights))
    return steps


@settings(deadline=None, max_examples=60)
@given(steps=histories(), limit=st.sampled_from([1, 64, 10**6]))
def test_both_sides_agree_whatever_changes(steps, limit):
    """Bit by bit, after every update, in buckets of any size; a sender that forgets sends all again."""
    sender, receiver = Sender(), Receiver()
    for weights in steps:
        if weights is None:
            sender.forget()
            continue
        for bucket in changes(sender, weights, limit):
            for name, tensor in receiver.apply(bucket):
                assert equal(tensor, weights[name])
        found = dict(receiver.weights())

        assert all(equal(found[name], tensor) for name, tensor in weights.items())


def test_one_number_and_nothing_are_weights_too():
    """0-d and empty tensors, and those that do not lie row by row."""
    sender, receiver = Sender(), Receiver()
    weights = {"number": torch.tensor(1.0), "empty": torch.empty(0, 3), "transposed": torch.randn(4, 6).T}
    for value in (1.0, 2.0, 2.0):
        weights["number"] = torch.tensor(value)
        for bucket in changes(sender, weights):
            list(receiver.apply(bucket))

    assert all(equal(tensor, weights[name]) for name, tensor in receiver.weights())
    assert len(dict(receiver.weights())) == 3


def test_few_changes_are_few_bytes():
    """6 bytes for an element of bfloat16, and one checksum for each weight that changed; all of it where that is shorter."""
    sender = Sender()
    weights = {"a": filled((100, 1000), torch.bfloat16, 0), "b": filled((100, 1000), torch.bfloat16, 1)}
    sent = []
    for _ in range(3):
        sent.append(sum(size_of(tensor) for bucket in changes(sender, weights) for _, tensor in bucket))
        weights["a"] = changed(weights["a"], range(0, 1000, 10), float("nan"))
    dense = changed(weights["a"], range(40_000), 7.0)
    last = changes(sender, {"a": dense, "b": weights["b"]})

    assert sent == [2 * 200_000 + 2 * 16, 100 * 6 + 16, 0]
    assert [name for bucket in last for name, _ in bucket] == ["a|whole", "a|sum"]


def test_what_is_sent_does_not_change_with_the_weight():
    """The trainer steps in place: what the sender knows of the last update must be a copy."""
    sender, weight = Sender(), torch.zeros(100)
    changes(sender, {"w": weight})
    weight[3] = 1.0

    [[(_, places), *_]] = changes(sender, {"w": weight})

    assert places.tolist() == [3]


def test_no_weight_is_in_two_buckets():
    """So that a server can apply each as it comes."""
    sender = Sender()
    weights = {str(number): torch.randn(10 * number + 1) for number in range(8)}
    changes(sender, weights)
    stepped = {name: changed(tensor, [0], 5.0) for name, tensor in weights.items()}

    found = changes(sender, stepped, limit=30)

    assert len(found) > 2
    assert all(bucket[-1][0].endswith("|sum") for bucket in found)
    assert [name for bucket in found for name, _ in bucket if name.endswith("|sum")] == [f"{name}|sum" for name in weights]


def three_updates():
    """Of a weight with `|` in its name: all of it, and two changes."""
    sender, weight = Sender(), torch.arange(100.0)
    found = []
    for value in (0.0, 1.0, 2.0):
        weight = changed(weight, [7], value)
        found.append(changes(sender, {"odd|name": weight})[0])
    return found


def test_a_lost_change_is_refused():
    """At the weight's next change, also where that puts right what the lost one would have done."""
    first, _, third = three_updates()
    receiver = Receiver()
    list(receiver.apply(first))

    with pytest.raises(RunError, match=r"change of odd\|name belongs to another weight .* lost on the way"):
        list(receiver.apply(third))
    with pytest.raises(RunError, match=r"change of odd\|name belongs to another weight"):
        list(Receiver().apply(third))


def test_a_change_that_comes_twice_is_refused():
    """At once, and after the next one."""
    first, second, third = three_updates()
    receiver = Receiver()
    for bucket in (first, second):
        list(receiver.apply(bucket))
    with pytest.raises(RunError, match="or came twice"):
        list(receiver.apply(second))
    list(receiver.apply(third))

    with pytest.raises(RunError, match="or came twice"):
        list(receiver.apply(second))
    assert dict(receiver.weights())["odd|name"][7] == 2.0


def test_everything_is_taken_at_any_time():
    """A sender that has forgotten, or a new one, starts anew."""
    first, second, third = three_updates()
    receiver = Receiver()

    for bucket in (first, second, third, first, second):
        list(receiver.apply(bucket))


@pytest.mark.parametrize("part", ["places", "values", "sum"])
def test_a_change_in_part_is_refused(part):
    """The message says what arrived."""
    first, second, _ = three_updates()
    receiver = Receiver()
    list(receiver.apply(first))

    with pytest.raises(RunError, match=r"change of odd\|name arrived in part: \w+, \w+"):
        list(receiver.apply([(name, tensor) for name, tensor in second if not name.endswith(part)]))


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("places", lambda tensor: tensor + 1),
        ("places", lambda tensor: tensor + 1000),
        ("places", lambda tensor: tensor - 1000),
        ("places", lambda tensor: torch.cat([tensor, tensor])),
        ("values", lambda tensor: -tensor),
        ("values", lambda tensor: tensor.double()),
        ("sum", lambda tensor: tensor ^ torch.tensor([0, 1])),
        ("whole", lambda tensor: tensor.flip(0)),
        ("whole", lambda tensor: tensor[:-1]),
    ],
)
def test_a_damaged_change_is_refused(part, damage):
    """Other places, places outside, other values, another sum."""
    first, second, _ = three_updates()
    receiver = Receiver()
    if part != "whole":
        list(receiver.apply(first))
    bucket = [
        (name, damage(tensor) if name.endswith(part) else tensor) for name, tensor in (first if part == "whole" else second)
    ]

    with pytest.raises(RunError, match=r"odd\|name is not what the trainer has: it was damaged on the way"):
        list(receiver.apply(bucket))


@settings(deadline=None, max_examples=200)
@given(
    bits=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=12),
    place=st.integers(0, 11),
    flip=st.integers(1, 2**31 - 1),
    other=st.integers(0, 11),
)
def test_the_checksum_sees_bits_and_places(bits, place, flip, other):
    """Any bits of an element, and any two different elements that change places."""
    tensor = torch.tensor(bits, dtype=torch.int32)
    place, other = place % len(bits), other % len(bits)
    damaged, swapped = tensor.clone(), tensor.clone()
    damaged[place] ^= flip
    swapped[place], swapped[other] = tensor[other], tensor[place]

    assert checksum(damaged) != checksum(tensor)
    assert (checksum(swapped) == checksum(tensor)) == torch.equal(swapped, tensor)


def test_small_changes_do_not_cancel():
    """Every pair of places, a few steps up in one and down in the other: no two of them have one sum. A linear sum has many."""
    sums = []
    for first in range(12):
        for second in range(first + 1, 12):
            for up in range(-3, 4):
                for down in range(-3, 4):
                    tensor = torch.full((12,), 16_000, dtype=torch.int16)
                    tensor[first] += up
                    tensor[second] += down
                    sums.append((checksum(tensor.view(torch.bfloat16)), tuple(tensor.tolist())))
    different = set(sums)

    assert len({number for number, _ in different}) == len(different)


def test_the_checksum_is_of_bits():
    """Whatever the shape or the layout in memory; -0.0 and 0.0 are different, and NaN is what its bits are."""
    tensor = torch.randn(10, 100).bfloat16()

    assert checksum(tensor.view(-1)) == checksum(tensor) == checksum(tensor.t().contiguous().t())
    assert checksum(torch.tensor([0.0])) != checksum(torch.tensor([-0.0]))
    assert checksum(torch.tensor([float("nan")])) == checksum(torch.tensor([float("nan")]))
    assert checksum(torch.empty(0)) == 0
