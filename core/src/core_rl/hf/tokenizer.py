"""What core-rl asks of a tokenizer, and how one is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core_rl.errors import ModelError
from core_rl.hf.paths import resolve_path

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec


class Tokenizer(Protocol):
    """The part of `transformers.PreTrainedTokenizerBase` that core-rl uses."""

    eos_token_id: int | None
    pad_token_id: int | None
    chat_template: Any

    def __len__(self) -> int: ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...

    def apply_chat_template(
        self, conversation: Sequence[Mapping[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> Any: ...

    def save_pretrained(self, save_directory: str) -> Any: ...


_CHARACTERS = "characters:"
_PLAIN_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def load_tokenizer(spec: ModelSpec) -> Tokenizer:
    """The model's tokenizer, with the spec's chat template if it gives one, and a pad token.

    Raises:
        ModelError: there is none, or it has no end-of-sequence token.
    """
    name = spec.tokenizer or spec.path
    if name is None:
        message = "model.tokenizer: a model without a path needs one (a folder, a hub name, or characters:0123456789)"
        raise ModelError(message)
    if name.startswith(_CHARACTERS):
        tokenizer = character_tokenizer(name.removeprefix(_CHARACTERS))
    else:
        tokenizer = _pretrained_tokenizer(name, trust_remote_code=spec.trust_remote_code)
    if spec.chat_template is not None:
        tokenizer.chat_template = _template(spec.chat_template)
    if tokenizer.eos_token_id is None:
        message = f"model.tokenizer: {name} has no end-of-sequence token, so no completion would ever end"
        raise ModelError(message)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    loaded: Tokenizer = tokenizer
    return loaded


def character_tokenizer(characters: str) -> Any:
    """One token for each character, after `<pad>` (0), `<eos>` (1) and `<unk>` (2). For models made from a config.

    The chat template joins the contents of the messages.
    """
    import tokenizers
    import transformers

    if not characters or len(set(characters)) != len(characters):
        message = f"model.tokenizer: characters: needs different characters, found {characters!r}"
        raise ModelError(message)
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    vocabulary = {token: index for index, token in enumerate([*special.values(), *characters])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=special["unk_token"]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    tokenizer.chat_template = _PLAIN_TEMPLATE
    return tokenizer


def _pretrained_tokenizer(name: str, *, trust_remote_code: bool) -> Any:
    import transformers

    source = resolve_path(name)
    try:
        return transformers.AutoTokenizer.from_pretrained(
            source, trust_remote_code=trust_remote_code, local_files_only=Path(source).is_dir()
        )
    except (OSError, ValueError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        message = f"model.tokenizer: transformers cannot load {name}: {first}"
        raise ModelError(message) from error


def _template(text: str) -> str:
    path = Path(text)
    if "\n" not in text and "{" not in text:
        if not path.is_file():
            message = f"model.chat_template: {text} is neither a Jinja template nor a file"
            raise ModelError(message)
        return path.read_text(encoding="utf-8")
    return text


def end_ids(*sources: Any) -> tuple[int, ...]:
    """The tokens that end a sequence, of configs and tokenizers that say one, several or none; in their order, without repeats."""
    found: list[int] = []
    for source in sources:
        value = getattr(source, "eos_token_id", None)
        found += [] if value is None else [value] if isinstance(value, int) else list(value)
    return tuple(dict.fromkeys(found))
