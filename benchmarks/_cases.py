"""What is compared: the settings, and their prompts and run file on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import reasoning_gym

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


@attrs.frozen(kw_only=True)
class Case:
    """One setting. Every completion has exactly `new_tokens` tokens, on both sides."""

    name: str
    task: str
    prompts: int
    group_size: int
    new_tokens: int
    micro_batch: int
    """Sequences of one forward and backward of TRL."""

    def write_prompts(self, folder: Path) -> Path:
        """The first rows of a reasoning-gym task, as JSON lines."""
        rows = reasoning_gym.create_dataset(self.task, size=self.prompts, seed=1)
        path = folder / f"{self.name}.jsonl"
        lines = [json.dumps({"prompt": row["question"], "answer": row["answer"]}) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def run_file(self, *, model: str, prompts: Path, steps: int, dir: Path) -> dict[str, Any]:  # noqa: A002
        """The same step for core-rl: every prompt in every step, no checkpoint, no table of completions."""
        return {
            "run": {
                "name": self.name,
                "steps": steps,
                "prompts_per_step": self.prompts,
                "dir": str(dir),
                "log_samples_every": 0,
            },
            "model": {"path": model},
            "data": {"name": "jsonl", "path": str(prompts)},
            "sampling": {"max_new_tokens": self.new_tokens, "min_new_tokens": self.new_tokens},
            "algorithm": {"name": "grpo", "group_size": self.group_size, "kl": {"coef": 0}},  # as TRL: beta 0
            "train_engine": {"name": "local", "lr": 1e-6},
            "rewards": [{"name": "function", "function": f"{HERE / '_reward.py'}:variety"}],
            "loggers": ["jsonl"],
            "checkpoint": {"at_end": False, "export_hf": False},
        }


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case(name="8x8x64", task="gsm_symbolic", prompts=8, group_size=8, new_tokens=64, micro_batch=16),
        Case(name="4x4x32", task="chain_sum", prompts=4, group_size=4, new_tokens=32, micro_batch=16),
    )
}
