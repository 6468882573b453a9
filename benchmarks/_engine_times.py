"""Seconds of one train step of an engine in its worker processes, as the driver sees it."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.data.batch import PackedBatch
from core_rl.errors import UserError
from core_rl.hf.spec import ModelSpec
from core_rl.testing.train_engine.objectives import Ratio
from core_rl.testing.train_engine.scripts import TOKEN_MEAN
from core_rl.testing.train_engine.setting import Setting

if TYPE_CHECKING:
    from _engine_suites import Suites

    from core_rl.testing.train_engines import TrainEngineConformance

MODEL = ModelSpec(
    init="random",
    config={
        "model_type": "llama",
        "vocab_size": 8192,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    },
)
"""6 million parameters."""
SEQUENCES, LENGTH, PROMPT, GROUP = 16, 128, 32, 4
BUDGET = 1024
"""Tokens of a micro-batch: two of them, or one for each of two ranks."""
STEPS, WARM_UP = 5, 2


def step_times(suites: Suites, *, rounds: int) -> list[dict[str, Any]]:
    """Every engine and number of ranks in turn, `rounds` times over, so that a slow minute of the machine is nobody's own.

    Not those in half precision on the CPU, which has no fast way to compute it.
    """
    timed = {t: one for t, one in suites.items() if one.dtype == "float32" or one.options.get("device") == "cuda"}
    places = [(title, suite, size) for title, suite in timed.items() for size in suite.world_sizes]
    seconds: dict[tuple[str, int], list[float]] = {(title, size): [] for title, _, size in places}
    for number in range(rounds):
        for title, suite, size in places:
            seconds[title, size] += _one_round(suite, size)
            print(f"round {number + 1}: {title} on {size}: {statistics.median(seconds[title, size]):.3f} s", flush=True)
    return [
        {"title": title, "world_size": size, "median": statistics.median(found), "min": min(found), "steps": found}
        for (title, size), found in seconds.items()
        if found
    ]


def _one_round(suite: type[TrainEngineConformance], world_size: int) -> list[float]:
    """In new processes that share the cores of the machine."""
    bench = suite.bench(threads=None)
    try:
        subject = attrs.evolve(suite.subject(), models={"small": MODEL})
        setting = Setting(model="small", max_tokens_per_micro_batch=BUDGET, max_grad_norm=1.0)
        engine, batch = bench.engine(subject, setting, world_size), make_batch()
        found = []
        for _ in range(WARM_UP + STEPS):
            start = time.perf_counter()
            engine.train_step(batch, Ratio(), TOKEN_MEAN)
            found.append(time.perf_counter() - start)
        return found[WARM_UP:]
    except UserError as error:
        print(f"{suite.__name__} on {world_size} has no time: {error}", flush=True)
        return []
    finally:
        bench.close()


def make_batch() -> PackedBatch:
    """Sequences of one length, in groups with one prompt, three quarters of each written by the policy."""
    random = torch.Generator().manual_seed(1)
    rows = torch.randint(0, MODEL.config["vocab_size"], (SEQUENCES, LENGTH), generator=random)
    rows[:, :PROMPT] = rows[::GROUP, :PROMPT].repeat_interleave(GROUP, 0)
    positions = torch.arange(LENGTH, dtype=torch.int32).repeat(SEQUENCES)
    count = rows.numel()
    return PackedBatch(
        tokens=rows.flatten(),
        cu_seqlens=torch.arange(0, count + 1, LENGTH, dtype=torch.int32),
        positions=positions,
        loss_mask=positions >= PROMPT,
        token_fields={"advantages": torch.randn(count, generator=random), "old_logprobs": torch.full((count,), -9.0)},
        sequence_fields={"group": torch.arange(SEQUENCES) // GROUP},
    )
