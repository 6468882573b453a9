"""The reward of `tiny.yaml`: an ordinary function, named in the run file."""

from __future__ import annotations


def same_text(completion: str, answer: str) -> float:
    """The share of characters that stand where they should; writing on after the answer costs too."""
    right = sum(found == wanted for found, wanted in zip(completion, answer, strict=False))
    return right / max(len(answer), len(completion))
