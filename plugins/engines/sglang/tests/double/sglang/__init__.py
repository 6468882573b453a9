"""Stands in SGLang's place where there is none: what core-rl uses of it, as its documentation has it, with real completions.

Written from SGLang's documented routes (native API, reinforcement learning, plugins). The engine `local` samples behind it, so that tokens,
log-probabilities, versions and updates are real; `faults` breaks what is asked for. This file has the parts that a plugin of SGLang sees:
modules, hooks, options. `http.py` has the routes.
"""

import argparse
import enum
import functools
import importlib.metadata
import pkgutil
import sys
import types
from typing import ClassVar

__version__ = "0.5.23"


def module(name: str, **members: object) -> types.ModuleType:
    """`sglang.NAME`, and the packages above it."""
    parts = ["sglang", *name.split(".")]
    for end in range(2, len(parts) + 1):
        path = ".".join(parts[:end])
        if path not in sys.modules:
            sys.modules[path] = types.ModuleType(path)
            setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], sys.modules[path])
    vars(sys.modules[path]).update(members)
    return sys.modules[path]


class HookType(enum.Enum):
    AROUND = "around"


class HookRegistry:
    """Hooks around functions by their dotted names, put there by `apply_hooks`."""

    _hooks: ClassVar[dict[str, object]] = {}
    _patched: ClassVar[set[str]] = set()

    @classmethod
    def register(cls, target: str, hook: object, hook_type: HookType) -> None:
        assert hook_type is HookType.AROUND
        cls._hooks[target] = hook

    @classmethod
    def apply_hooks(cls) -> None:
        for target, hook in cls._hooks.items():
            owner, _, name = target.rpartition(".")
            owner = pkgutil.resolve_name(owner)
            original = vars(owner)[name]
            wrapped = functools.partialmethod(_around, getattr(original, "__func__", original), hook)
            setattr(owner, name, wrapped)
            cls._patched.add(target)


def _around(self, original, hook, *args, **more):
    return hook(original, self, *args, **more)


def load_plugins() -> None:
    for entry in importlib.metadata.entry_points(group="sglang.srt.plugins"):
        entry.load()()
    HookRegistry.apply_hooks()


class ServerArgs:
    """The options that tests set; SGLang has hundreds."""

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--model-path", "--model", dest="model_path", required=True)
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=30000)
        parser.add_argument("--api-key")
        parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
        parser.add_argument("--random-seed", type=int, default=0)
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument("--context-length", type=int)
        parser.add_argument("--tensor-parallel-size", "--tp-size", dest="tp_size", type=int, default=1)
        parser.add_argument("--data-parallel-size", "--dp-size", dest="dp_size", type=int, default=1)
        parser.add_argument("--stop-after", type=int, help="ends by itself after so many requests; not SGLang's")


def prepare_server_args(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser.parse_args(argv)


class SamplingBatchInfo:
    """Has its hook; the engine behind the double draws."""

    @classmethod
    def from_schedule_batch(cls, batch, vocab_size):
        raise NotImplementedError


class Sampler:
    def _sample_from_probs(self, probs, info, positions, simple):
        raise NotImplementedError


class Req:
    def _check_token_based_finish(self, new_tokens):
        raise NotImplementedError


class BaseTpWorker:
    """Of one worker, whose `model_runner.model` is the double's."""

    def __init__(self, model_runner):
        self.model_runner = model_runner

    def get_weights_by_name(self, request):
        return None


class WeightUpdater:
    def __init__(self, get_model):
        self.get_model = get_model

    def update_weights_from_tensor(self, named_tensors, load_format=None):
        self.get_model().load_weights(named_tensors)
        return True, "Success"


def run_server(arguments: argparse.Namespace) -> None:
    from sglang.http import run

    run(arguments)


module("launch_server", run_server=run_server)
module("srt.plugins", load_plugins=load_plugins)
module("srt.plugins.hook_registry", HookRegistry=HookRegistry, HookType=HookType)
module("srt.runtime_context", get_parallel=lambda: types.SimpleNamespace(tp_size=1))
module("srt.server_args", ServerArgs=ServerArgs, prepare_server_args=prepare_server_args)
module("srt.utils", kill_process_tree=lambda pid, include_parent: None)
module("srt.sampling.sampling_batch_info", SamplingBatchInfo=SamplingBatchInfo)
module("srt.layers.sampler", Sampler=Sampler)
module("srt.managers.schedule_batch", Req=Req)
module("srt.managers.tp_worker", BaseTpWorker=BaseTpWorker)
module("srt.model_executor.model_runner_components.weight_updater", WeightUpdater=WeightUpdater)
