"""Rows and a reward for a run of a few steps on a tiny model, as `module:Object` in its run file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core_rl.data.records import Conversation, Labelled, Pair
from core_rl.data.sample import Prompt

if TYPE_CHECKING:
    from core_rl.data.sample import Sample

_SUMS = [(left, right) for left in range(4) for right in range(4)]
MODEL: Mapping[str, Any] = {
    "init": "random",
    "tokenizer": "characters:0123456789+= ",
    "config": {
        "model_type": "llama",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    },
}
"""The section `model`: a few thousand weights."""
TEACHER: Mapping[str, Any] = {**MODEL, "config": {**MODEL["config"], "hidden_size": 32}}
"""The section `model` of a teacher: another model of the same tokens."""


class Prompts:
    """Sums of two digits."""

    provides = frozenset({"prompts"})

    def load(self, split: str, seed: int) -> Sequence[Any]:
        del split, seed
        return [Prompt(id=str(index), text=f"{a}+{b}=", answer=str(a + b)) for index, (a, b) in enumerate(_SUMS)]


class Conversations:
    """The same, answered."""

    provides = frozenset({"conversations"})

    def load(self, split: str, seed: int) -> Sequence[Any]:
        del split, seed
        return [Conversation(id=str(index), prompt=f"{a}+{b}=", completion=str(a + b)) for index, (a, b) in enumerate(_SUMS)]


class Pairs:
    """The right answer, and a wrong one."""

    provides = frozenset({"pairs"})

    def load(self, split: str, seed: int) -> Sequence[Any]:
        del split, seed
        return [
            Pair(id=str(index), prompt=f"{a}+{b}=", chosen=str(a + b), rejected=str(a + b + 1))
            for index, (a, b) in enumerate(_SUMS)
        ]


class LabelledRows:
    """Right and wrong answers in turn."""

    provides = frozenset({"labelled"})

    def load(self, split: str, seed: int) -> Sequence[Any]:
        del split, seed
        return [
            Labelled(id=str(index), prompt=f"{a}+{b}=", completion=str(a + b + index % 2), desirable=index % 2 == 0)
            for index, (a, b) in enumerate(_SUMS)
        ]


class Reward:
    """How many of the first two characters are even digits: a random model gets some right."""

    def score(self, sample: Sample) -> float:
        return sum(character in "02468" for character in sample.completion_text[:2]) / 2
