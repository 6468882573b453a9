"""Where a model's weights come from, read piece by piece under their Hugging Face names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core_rl.errors import ModelError

if TYPE_CHECKING:
    import torch

    from core_rl.hf.spec import ModelSpec
    from core_rl.roles.train import Heads

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


class Source(Protocol):
    """Weights by name. `read` gives a part along an axis, which may end before `stop`."""

    def __contains__(self, name: str) -> bool: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str, axis: int | None = None, start: int = 0, stop: int = 0) -> torch.Tensor: ...


class Folder:
    """A folder of safetensors: only the parts that are asked for are read."""

    def __init__(self, path: Path) -> None:
        from safetensors import safe_open

        self.path = path
        index = path / _INDEX
        files = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.is_file() else [_SINGLE]
        opened: list[Any] = [safe_open(path / file, "pt") for file in files]
        self._files = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 - not a mapping

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._slice(name).get_shape())

    def read(self, name: str, axis: int | None = None, start: int = 0, stop: int = 0) -> torch.Tensor:
        if axis is None:
            whole: torch.Tensor = self._files[name].get_tensor(name)
            return whole
        stop = min(stop, self.shape(name)[axis])
        where = (slice(None),) * axis + (slice(min(start, stop), stop),)
        part: torch.Tensor = self._slice(name)[where]
        return part

    def _slice(self, name: str) -> Any:
        if name not in self._files:
            message = f"model.path: {self.path} has no weight {name!r}"
            raise ModelError(message)
        return self._files[name].get_slice(name)


class Module:
    """A transformers model in memory. Its experts lie in one tensor; they are found under the names of a folder."""

    def __init__(self, module: Any) -> None:
        self._state = module.state_dict()

    def __contains__(self, name: str) -> bool:
        return name in self._state or _EXPERT.fullmatch(name) is not None

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensor(name).shape)

    def read(self, name: str, axis: int | None = None, start: int = 0, stop: int = 0) -> torch.Tensor:
        tensor = self._tensor(name)
        if axis is None:
            return tensor
        stop = min(stop, tensor.shape[axis])
        return tensor.narrow(axis, min(start, stop), stop - min(start, stop))

    def _tensor(self, name: str) -> torch.Tensor:
        if name in self._state:
            tensor: torch.Tensor = self._state[name]
            return tensor
        found = _EXPERT.fullmatch(name)
        assert found is not None, f"transformers' model has no {name}"
        experts, number, which = found.groups()
        if which == "down":
            down: torch.Tensor = self._state[f"{experts}.down_proj"][int(number)]
            return down
        both: torch.Tensor = self._state[f"{experts}.gate_up_proj"][int(number)]
        return both.chunk(2)[which == "up"]


def open_source(spec: ModelSpec, heads: Heads, *, seed: int) -> Source:
    """The folder itself where there is one; else transformers makes or fetches the model, in memory, as every engine does."""
    from core_rl.hf.load import load_model
    from core_rl.hf.paths import source_of
    from core_rl.hf.values import load_value_model

    path = source_of(spec)
    if spec.init == "pretrained" and path is not None:
        folder = Path(path)
        if (folder / _INDEX).is_file() or (folder / _SINGLE).is_file():
            return Folder(folder)
    load = load_value_model if heads == "value" else load_model
    return Module(load(spec, seed=seed))
