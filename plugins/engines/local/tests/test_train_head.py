"""Log-probabilities in chunks against whole logits in float64: values, gradients, and how much exists at once."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from core_rl.hf.packed.head import Head, token_logprobs, top_logprobs

M, E, V = 150, 8, 40


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def inputs(dtype=torch.float64, *, bias=False):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    return draw(M, E), draw(V, E), draw(V) if bias else None, torch.randint(V, (M, 1), generator=generator)


def reference(hidden, weight, bias, ids, softcap, *, temperature=1.0):
    logits = hidden @ weight.t() + (0 if bias is None else bias)
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    logits = logits / temperature
    table = logits.log_softmax(-1)
    return table.gather(1, ids), -(table.exp() * table).sum(-1)


@pytest.mark.parametrize("entropy_grad", [False, True])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 0), (1, V), (70, 0), (70, 3), (1000, 0), (1000, V)])
def test_values_and_gradients_equal_whole_logits(shape, bias, softcap, temperature, entropy_grad):
    """For any chunk, with and without further ids, a bias, a soft cap and a gradient through the entropy."""
    (rows, further), (hidden, weight, offset, ids) = shape, inputs(bias=bias)
    ids = torch.cat([ids, torch.rand(M, V, generator=torch.Generator().manual_seed(2)).argsort(1)[:, :further]], 1)
    slope, bend = torch.linspace(-1, 1, M, dtype=torch.float64), torch.linspace(2, -1, M, dtype=torch.float64)
    sink = torch.zeros(V, E, dtype=torch.float64)
    head = Head(weight=weight, bias=offset, sink=sink, softcap=softcap, temperature=temperature, rows=rows)

    pull = torch.linspace(0.5, 2, 1 + further, dtype=torch.float64)
    logprobs, entropy = token_logprobs(hidden, ids, head, entropy_grad=entropy_grad)
    (slope * (logprobs @ pull) + (bend * entropy if entropy_grad else 0)).sum().backward()
    got = [logprobs, entropy, hidden.grad, sink] + ([offset.grad] if bias else [])

    leaves = [hidden, weight] + ([offset] if bias else [])
    want = reference(hidden, weight, offset, ids, softcap, temperature=temperature)
    loss = (slope * (want[0] @ pull) + (bend * want[1] if entropy_grad else 0)).sum()
    for mine, theirs in zip(got, [*want, *torch.autograd.grad(loss, leaves)], strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("rows", [1, 70, 1000])
def test_the_likeliest_tokens_are_those_of_whole_logits(rows):
    """Best first, for any chunk."""
    hidden, weight, _, _ = inputs()
    ids, logprobs = top_logprobs(hidden.detach(), Head(weight=weight.detach(), temperature=0.7, rows=rows), 5)
    expected = (hidden.detach() @ weight.detach().t() / 0.7).log_softmax(-1).topk(5)

    assert torch.equal(ids, expected.indices)
    torch.testing.assert_close(logprobs, expected.values)


def test_logits_never_exist_at_once():
    """Forward and backward make nothing larger than one chunk of logits."""
    hidden, weight, _, targets = inputs(torch.float32)
    head = Head(weight=weight, sink=torch.zeros(V, E), rows=40)

    with Largest() as largest:
        logprobs, entropy = token_logprobs(hidden, targets, head, entropy_grad=True)
        (logprobs[:, 0] + entropy).sum().backward()

    assert largest.elements == max(40 * V, M * E)


def test_bfloat16_weights_are_summed_in_float32():
    """The log-probabilities of bfloat16 inputs are as near to float64 as their logits allow, and are float32."""
    hidden, weight, _, targets = inputs(torch.bfloat16)
    sink = torch.zeros(V, E)

    logprobs, _ = token_logprobs(hidden, targets, Head(weight=weight, sink=sink, rows=64))
    logprobs.sum().backward()

    want = reference(hidden.double(), weight.double(), None, targets, None)[0]
    (grad,) = torch.autograd.grad(want.sum(), [weight])
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs.double(), want, atol=0.05, rtol=0.01)
    torch.testing.assert_close(sink, grad.float(), atol=0.1, rtol=0.05)


def test_a_frozen_weight_gets_no_gradient():
    """Only the hidden states have one."""
    hidden, weight, _, targets = inputs()
    weight = weight.detach()

    token_logprobs(hidden, targets, Head(weight=weight, rows=64))[0].sum().backward()

    assert weight.grad is None
    assert hidden.grad is not None


@pytest.mark.parametrize("rows", [3, 64])
def test_without_a_sink_autograd_has_the_same_gradient(rows):
    """Engines that gather weights in autograd's hooks get it there, in one chunk or in several."""
    hidden, weight, _, targets = inputs()
    sink = torch.zeros_like(weight)

    token_logprobs(hidden, targets, Head(weight=weight.detach(), sink=sink, rows=64))[0].sum().backward()
    token_logprobs(hidden, targets, Head(weight=weight, rows=rows))[0].sum().backward()

    torch.testing.assert_close(weight.grad, sink)
