"""A model as a Hugging Face folder, for a server that loads it by itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from core_rl.hf.load import load_model
from core_rl.hf.paths import resolve_path
from core_rl.hf.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec


class ModelFolder:
    """`path` is a folder with weights and tokenizer, or a hub name. What had to be written goes with `close`."""

    def __init__(self, spec: ModelSpec, *, seed: int) -> None:
        self._own: tempfile.TemporaryDirectory[str] | None = None
        plain = (
            spec.path is not None and spec.init == "pretrained" and not (spec.config or spec.tokenizer or spec.chat_template)
        )
        self.path = resolve_path(spec.path) if plain and spec.path is not None else self._written(spec, seed)

    def _written(self, spec: ModelSpec, seed: int) -> str:
        self._own = tempfile.TemporaryDirectory(prefix="core-rl-model-")
        load_model(spec, seed=seed).save_pretrained(self._own.name)
        load_tokenizer(spec).save_pretrained(self._own.name)
        return str(Path(self._own.name))

    def close(self) -> None:
        if self._own is not None:
            self._own.cleanup()
            self._own = None


def end_ids(path: str, spec: ModelSpec) -> tuple[int, ...]:
    """Tokens that end a sequence: of the generation config, the model's config and the tokenizer, in this order, without repeats."""
    from transformers import AutoConfig, GenerationConfig

    found: list[int] = []
    try:
        generation = GenerationConfig.from_pretrained(path)
    except OSError:
        generation = None
    config = AutoConfig.from_pretrained(path, trust_remote_code=spec.trust_remote_code).get_text_config()
    for source in (generation, config, load_tokenizer(spec)):
        value = getattr(source, "eos_token_id", None)
        found += [] if value is None else [value] if isinstance(value, int) else list(value)
    return tuple(dict.fromkeys(found))
