"""A model's folder in Hugging Face's form, written from a stream of weights: the whole model is never in memory.

config.json · generation_config.json · tokenizer files · model-00001-of-0000N.safetensors · model.safetensors.index.json
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.hf.tokenizer import load_tokenizer

if TYPE_CHECKING:
    import torch

    from core_rl.hf.spec import ModelSpec

_SHARD_BYTES = 4 * 2**30


def save_weights(weights: Iterable[tuple[str, torch.Tensor]], folder: Path, *, shard_bytes: int = _SHARD_BYTES) -> None:
    """One file, or several of about `shard_bytes` with an index."""
    files: list[tuple[Path, list[str]]] = []
    total = 0
    shard: dict[str, torch.Tensor] = {}
    size = 0

    def write() -> None:
        from safetensors.torch import save_file

        path = folder / f"part-{len(files)}.safetensors"
        save_file(shard, path, metadata={"format": "pt"})
        files.append((path, list(shard)))
        shard.clear()

    for name, tensor in weights:
        shard[name] = tensor.detach().cpu().contiguous()
        size += tensor.numel() * tensor.element_size()
        if size >= shard_bytes:
            write()
            total, size = total + size, 0
    if shard or not files:
        write()
    _name(files, folder, total + size)


def _name(files: list[tuple[Path, list[str]]], folder: Path, total: int) -> None:
    """The final names, once their number is known."""
    if len(files) == 1:
        files[0][0].rename(folder / "model.safetensors")
        return
    index: dict[str, str] = {}
    for number, (path, names) in enumerate(files, 1):
        name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
        path.rename(folder / name)
        index |= dict.fromkeys(names, name)
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=2)
    (folder / "model.safetensors.index.json").write_text(text + "\n", encoding="utf-8")


def save_about(model: Any, spec: ModelSpec, folder: Path) -> None:
    """Everything beside the weights: config, generation config, tokenizer. `model` may be without weights of its own."""
    config = model.config
    config.architectures = [type(model).__name__]
    config.dtype = spec.dtype
    config.save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)
    if spec.tokenizer is not None or spec.path is not None:
        load_tokenizer(spec).save_pretrained(str(folder))
