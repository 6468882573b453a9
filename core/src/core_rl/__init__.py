"""core-rl: plugin-based reinforcement-learning post-training of language models."""

from __future__ import annotations

from core_rl.component import Component, hookimpl

__version__ = "0.1.0"

__all__ = ["Component", "__version__", "hookimpl"]
