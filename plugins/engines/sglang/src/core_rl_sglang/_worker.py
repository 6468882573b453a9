"""Weights in a worker of SGLang: those of this machine's memory are loaded here, and of all that are loaded a fingerprint is taken.

SGLang's own ways to load (from a folder, from a group) end in the model's `load_weights` too, where they are seen.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint
from core_rl.weights.delta import Receiver
from core_rl.weights.segment import Reader
from core_rl_sglang._calls import asked, packed

if TYPE_CHECKING:
    import torch

    Named = Iterable[tuple[str, torch.Tensor]]


class Weights:
    """What this process has been given. A server has one model."""

    def __init__(self) -> None:
        self.given: dict[str, float] = {}
        """Of the last update, by name."""
        self._reader = Reader()
        self._changes = Receiver()
        self._changed = False

    def begin(self, model: Any) -> None:
        self.given, self._changed = {}, False
        if "load_weights" not in vars(model):
            own = model.load_weights
            model.load_weights = lambda weights, *args, **more: own(self._noted(weights), *args, **more)

    def _noted(self, weights: Named) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in weights:
            self.given |= fingerprint([(name, tensor)])
            yield name, tensor

    def memory(self, model: Any, note: dict[str, Any]) -> None:
        """A bucket in this machine's shared memory."""
        model.load_weights(list(self._reader.read(note)))

    def changes(self, model: Any, note: dict[str, Any]) -> None:
        """A bucket of changes: the weights that have changed are loaded, whole."""
        self._changed = True
        model.load_weights(list(self._changes.apply(list(self._reader.read(note)))))

    def fingerprint(self) -> dict[str, float]:
        """Of all weights that are served, as they were given."""
        return fingerprint(self._changes.weights()) if self._changed or not self.given else self.given


WEIGHTS = Weights()
PROCESS = secrets.token_hex(8)
"""No other process is called so, on whatever machine."""


def load(original: Callable[..., Any], updater: Any, named_tensors: Any, load_format: str | None = None) -> tuple[bool, str]:
    """Around `WeightUpdater.update_weights_from_tensor`. What goes wrong is said: an exception would end the server."""
    text = asked(load_format)
    if text is None:
        found: tuple[bool, str] = original(updater, named_tensors, load_format)
        return found
    method, argument = json.loads(text)
    try:
        {"memory": WEIGHTS.memory, "changes": WEIGHTS.changes}[method](updater.get_model(), argument)
    except Exception as error:  # noqa: BLE001 - whatever a model's loader raises
        return False, str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}"
    return True, "Success"


def answer(original: Callable[..., Any], worker: Any, request: Any) -> Any:
    """Around `BaseTpWorker.get_weights_by_name`, which SGLang calls on all workers at once. The first one's answer is sent."""
    method = asked(request.name)
    if method is None:
        return original(worker, request)
    if method == "hooks":
        from core_rl_sglang.extension import missing_hooks

        return packed({"missing": missing_hooks()})
    if method == "process":
        return packed({"id": PROCESS})
    if method == "begin":
        WEIGHTS.begin(worker.model_runner.model)
        return packed({})
    ours = WEIGHTS.fingerprint()
    return packed({"fingerprint": ours, "differing": _differing(ours)})


def _differing(ours: dict[str, float]) -> str | None:
    """A weight of which another worker was given another value."""
    import torch.distributed as dist
    from sglang.srt.runtime_context import get_parallel

    parallel = get_parallel()
    if parallel.tp_size == 1:
        return None
    everyone: list[Any] = [None] * parallel.tp_size
    dist.all_gather_object(everyone, ours, group=parallel.tp_group.cpu_group)
    differing = [name for other in everyone for name in {*ours, *other} if ours.get(name) != other.get(name)]
    return min(differing, default=None)
