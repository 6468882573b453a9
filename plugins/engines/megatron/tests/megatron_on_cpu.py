"""megatron-core without CUDA, for tests alone: what it asks of CUDA is answered by the CPU, in the process that calls `apply`.

Megatron asks for a device, streams, events and generators, makes tensors on "cuda", and asserts on the names of tensor types.
"""

from __future__ import annotations

import contextlib
import functools

import torch

FACTORIES = [
    "arange",
    "as_tensor",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "rand",
    "randint",
    "randn",
    "tensor",
    "zeros",
    "zeros_like",
]


class Inert:
    """A stream or an event: nothing runs beside the CPU."""

    cuda_stream = 0

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return lambda *args, **kwargs: None

    def query(self):
        return True

    def record_event(self, event=None):
        return event or Inert()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def is_cuda(device):
    return str(device).startswith("cuda") if isinstance(device, (str, torch.device)) else False


def on_cpu(factory):
    @functools.wraps(factory)
    def make(*args, **kwargs):
        if is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
        return factory(*args, **kwargs)

    return make


def returning(value):
    """Each name gets a function of its own: torch's compiler refuses one object under two names."""
    return lambda *args, **kwargs: value


def apply():
    """Once in a process. Also a component's target: a worker group creates it before its engines."""
    if getattr(torch.cuda, "is_a_shim", False):
        return
    cuda = torch.cuda
    cuda.is_a_shim = True
    for name in ("synchronize", "empty_cache", "set_device", "set_stream"):
        setattr(cuda, name, returning(None))
    cuda.current_device = returning(torch.device("cpu"))
    cuda.Stream, cuda.Event = type("Stream", (Inert,), {}), type("Event", (Inert,), {})
    cuda.current_stream, cuda.default_stream = (lambda *_, **__: Inert()), (lambda *_, **__: Inert())
    cuda.stream = lambda _=None: contextlib.nullcontext()
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        setattr(cuda, name, returning(0))
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, returning(None))
    generators()
    experts()
    for name in FACTORIES:
        setattr(torch, name, on_cpu(getattr(torch, name)))
    tensors()


def generators():
    """CUDA's generator is the CPU's."""
    cuda = torch.cuda
    cuda.get_rng_state = cuda.random.get_rng_state = lambda *_, **__: torch.get_rng_state()
    cuda.set_rng_state = cuda.random.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    cuda.manual_seed = torch.default_generator.manual_seed
    cuda.manual_seed_all = torch.default_generator.manual_seed
    cuda.default_generators = (torch.default_generator,)
    cuda._lazy_call = lambda function, **_: function()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from megatron.core.tensor_parallel import random
    random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()


def experts():
    """Numbers of tokens for each expert come to the host as arrays, of which a CPU tensor is to be no exception."""
    from megatron.core.transformer.moe import token_dispatcher

    def to_host(tensor, *, as_numpy=False, **_):
        return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor

    token_dispatcher.maybe_move_tensor_to_cpu = to_host


def tensors():
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.nn.Module.cuda = lambda self, *_, **__: self
    to, type_name = torch.Tensor.to, torch.Tensor.type

    def to_cpu(self, *args, **kwargs):
        if is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
        return to(self, *("cpu" if is_cuda(arg) else arg for arg in args), **kwargs)

    def as_cuda(self, *args, **kwargs):
        found = type_name(self, *args, **kwargs)
        return found.replace("torch.", "torch.cuda.", 1) if isinstance(found, str) else found

    torch.Tensor.to, torch.Tensor.type = to_cpu, as_cuda
    for name in ("FloatTensor", "IntTensor", "LongTensor", "ByteTensor", "DoubleTensor"):
        setattr(torch.cuda, name, getattr(torch, name))
