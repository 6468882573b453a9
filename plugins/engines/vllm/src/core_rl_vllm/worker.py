"""What core-rl adds to vLLM's workers (`--worker-extension-cls`): receiving weights. Every method is called on all workers at once.

A model is reloaded as vLLM does it itself, layer by layer: a layer takes its weights when all of them are there, and puts them into the
form that its kernels want. What a layer waits for must not change, so that tensors in shared memory are copied first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from core_rl.fingerprint import fingerprint
from core_rl.weights.buckets import TensorSpec
from core_rl.weights.delta import Receiver
from core_rl.weights.group import GroupPlace, join, leave, receive
from core_rl.weights.segment import Reader


class Extension:
    """Mixed into the worker's class, whose attributes it reads."""

    model_runner: Any
    rank: int
    device: Any

    def core_rl_begin(self) -> None:
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        state = self._core_rl()
        state["served"] = {}
        initialize_layerwise_reload(self.model_runner.get_model())

    def core_rl_memory(self, note: dict[str, Any]) -> None:
        """A bucket in this machine's shared memory."""
        self._load((name, tensor.clone()) for name, tensor in self._core_rl()["reader"].read(note))

    def core_rl_changes(self, note: dict[str, Any]) -> None:
        """A bucket of changes; what changed is loaded whole at the end, with all the rest."""
        state = self._core_rl()
        for _ in state["changes"].apply(list(state["reader"].read(note))):
            pass
        state["changed"] = True

    def core_rl_disk(self, path: str) -> None:
        from safetensors import safe_open

        def stream() -> Iterator[tuple[str, Any]]:
            for file in sorted(Path(path).glob("*.safetensors")):
                with safe_open(file, "pt") as opened:
                    for name in opened.keys():  # noqa: SIM118 - not a mapping
                        yield name, opened.get_tensor(name)

        self._load(stream())

    def core_rl_join(self, place: dict[str, Any]) -> None:
        state = self._core_rl()
        if state["group"] is not None:
            leave(state["group"])
        state["group"] = join(GroupPlace(**place), offset=self.rank)

    def core_rl_group(self, specs: list[dict[str, Any]]) -> None:
        """A bucket that the trainer broadcasts."""
        group = self._core_rl()["group"]
        self._load(receive(group, [TensorSpec.from_json(spec) for spec in specs], device=self.device))

    def core_rl_end(self) -> None:
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        state = self._core_rl()
        if state["changed"]:  # vLLM holds weights in other forms than they are sent in, and takes a layer only as a whole
            self._load((name, tensor.clone()) for name, tensor in state["changes"].weights())
            state["changed"] = False
        elif not state["served"]:  # nothing has changed
            state["served"] = fingerprint(state["changes"].weights())
        runner = self.model_runner
        with set_current_vllm_config(runner.vllm_config):
            finalize_layerwise_reload(runner.get_model(), runner.model_config)
            if self.device.type == "cpu":
                pack_tied(runner.get_model())
        runner.reset_lora_state()

    def core_rl_fingerprint(self) -> dict[str, float]:
        """Of the weights that this worker was given in the last update."""
        served: dict[str, float] = self._core_rl()["served"]
        return served

    def _load(self, stream: Iterable[tuple[str, Any]]) -> None:
        from vllm.config import set_current_vllm_config

        served = self._core_rl()["served"]

        def noted() -> Iterator[tuple[str, Any]]:
            for name, tensor in stream:
                served.update(fingerprint([(name, tensor)]))
                yield name, tensor

        with set_current_vllm_config(self.model_runner.vllm_config):
            self.model_runner.get_model().load_weights(noted())

    def _core_rl(self) -> dict[str, Any]:
        state: dict[str, Any] | None = self.__dict__.get("_core_rl_state")
        if state is None:
            state = {"reader": Reader(), "changes": Receiver(), "changed": False, "group": None, "served": {}}
            self.__dict__["_core_rl_state"] = state
        return state


def pack_tied(model: Any) -> None:
    """On CPUs a layer multiplies by a packed copy of its weight. An output layer that is tied to the embeddings is given no weight of its
    own in a reload, and vLLM 0.32 leaves its copy as it was: samples would come from a model of two versions.
    """
    seen: set[int] = set()
    for module in model.modules():
        weight, method = getattr(module, "weight", None), getattr(module, "quant_method", None)
        if weight is None or method is None or not weight.numel():
            continue
        if weight.data_ptr() in seen:
            method.process_weights_after_loading(module)
        seen.add(weight.data_ptr())
