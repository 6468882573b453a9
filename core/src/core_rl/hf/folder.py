"""A model as a Hugging Face folder, for a server that loads it by itself."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from core_rl.hf.load import load_model
from core_rl.hf.paths import resolve_path
from core_rl.hf.tokenizer import end_ids, load_tokenizer

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec


class ModelFolder:
    """`path` is a folder with weights and tokenizer, or a hub name. What had to be written goes with `close`."""

    def __init__(self, spec: ModelSpec, *, seed: int) -> None:
        self._own: tempfile.TemporaryDirectory[str] | None = None
        changed = spec.init == "random" or spec.config or spec.tokenizer or spec.chat_template
        self.path = self._written(spec, seed) if spec.path is None or changed else resolve_path(spec.path)

    def _written(self, spec: ModelSpec, seed: int) -> str:
        self._own = tempfile.TemporaryDirectory(prefix="core-rl-model-")
        load_model(spec, seed=seed).save_pretrained(self._own.name)
        load_tokenizer(spec).save_pretrained(self._own.name)
        return self._own.name

    def close(self) -> None:
        if self._own is not None:
            self._own.cleanup()
            self._own = None


def end_ids_of(path: str, spec: ModelSpec) -> tuple[int, ...]:
    """Of the generation config, the model's config and the tokenizer, as an engine in this process takes them."""
    from transformers import AutoConfig, GenerationConfig

    try:
        generation = GenerationConfig.from_pretrained(path)
    except OSError:
        generation = None
    config = AutoConfig.from_pretrained(path, trust_remote_code=spec.trust_remote_code).get_text_config()
    return end_ids(generation, config, load_tokenizer(spec))
