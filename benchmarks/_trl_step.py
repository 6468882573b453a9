"""GRPO steps of TRL, timed: one JSON line a step. Runs in TRL's own environment; `grpo_vs_trl.py` starts it.

`rollout` is the time inside the trainer's own generation method, `train` all the rest of the step: scoring, loss, backward,
optimizer. What the comparison needs equal is set here: prompts in the order of the file, no early end, float32, the same reward.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from _reward import variety
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Stopwatch(TrainerCallback):
    """Seconds of every step, from its beginning to its end."""

    def __init__(self) -> None:
        self.rollout = 0.0
        self._start = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.rollout, self._start = 0.0, time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        step = time.perf_counter() - self._start
        print(json.dumps({"step": step, "rollout": self.rollout, "train": step - self.rollout}), flush=True)


class TimedTrainer(GRPOTrainer):
    """TRL's trainer with a stopwatch around its generation."""

    stopwatch: Stopwatch

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = super()._generate_single_turn(*args, **kwargs)
        self.stopwatch.rollout += time.perf_counter() - start
        return result


def reward(completions: list[list[dict[str, str]]], **_: Any) -> list[float]:
    return [variety(completion[0]["content"]) for completion in completions]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", required=True, help="JSON lines with `prompt`")
    parser.add_argument("--group-size", type=int, required=True)
    parser.add_argument("--new-tokens", type=int, required=True)
    parser.add_argument("--micro-batch", type=int, required=True, help="sequences of one forward and backward")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--scratch", required=True)
    return parser.parse_args()


def config(args: argparse.Namespace, prompts: int) -> GRPOConfig:
    return GRPOConfig(
        output_dir=args.scratch,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=args.micro_batch,
        gradient_accumulation_steps=prompts * args.group_size // args.micro_batch,
        gradient_checkpointing=False,  # it would compute the forward pass twice
        num_generations=args.group_size,
        max_completion_length=args.new_tokens,
        generation_kwargs={"min_new_tokens": args.new_tokens},
        temperature=1.0,
        beta=0.0,
        learning_rate=1e-6,
        max_steps=args.steps,
        shuffle_dataset=False,
        logging_steps=10**6,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    with open(args.prompts, encoding="utf-8") as lines:  # noqa: PTH123
        rows = [{"prompt": [{"role": "user", "content": json.loads(line)["prompt"]}]} for line in lines]
    trainer = TimedTrainer(
        model=AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(args.model),
        reward_funcs=reward,
        args=config(args, len(rows)),
        train_dataset=Dataset.from_list(rows),
        callbacks=[stopwatch := Stopwatch()],
    )
    trainer.stopwatch = stopwatch
    trainer.train()


if __name__ == "__main__":
    main()
