"""Training on one batch: through the local engine, and as plain transformers, which is what the engine is measured against."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import torch
import transformers
from _machine import best_seconds

from core_rl.data.batch import PackedBatch
from core_rl.data.packing import pack, shared_prefix_lengths
from core_rl.data.rows import Row, RowOptions, rows_to_prompts
from core_rl.data.sample import Group, Prompt, Sample, Turn, VersionSpan
from core_rl.hf.load import load_model
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.numerics.aggregation import Aggregator
from core_rl.roles.train import LossOutput, PolicyOutputs, TrainContext
from core_rl_local.config import LocalTrainConfig
from core_rl_local.train import LocalTrainEngine

if TYPE_CHECKING:
    from _cases import Case


@attrs.frozen(kw_only=True)
class Piece:
    """Tokens that plain transformers computes in one row, as sequences of their own (positions start again)."""

    tokens: torch.Tensor
    positions: torch.Tensor


class ScoreFunction:
    """The plainest objective with a gradient: -advantage times log-probability."""

    entropy_grad = False

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        return LossOutput(values=-batch["advantages"] * outputs.logprobs, metrics={})


def make_batch(case: Case, spec: ModelSpec, folder: Path) -> PackedBatch:
    """The prompts of a case with random completions of its length: what they say does not change the time."""
    tokenizer, generator = load_tokenizer(spec), torch.Generator().manual_seed(1)
    lines = case.write_prompts(folder).read_text(encoding="utf-8").splitlines()
    rows = [Row(str(index), json.loads(line)) for index, line in enumerate(lines)]
    groups = []
    for prompt in rows_to_prompts(rows, RowOptions(), source=case.name):
        text = tokenizer.apply_chat_template(list(prompt.messages or ()), tokenize=False, add_generation_prompt=True)
        ids = tokenizer.encode(text, add_special_tokens=False)
        written = torch.randint(len(tokenizer), (case.group_size, case.new_tokens), generator=generator).tolist()
        samples = [_sample(prompt, ids, completion) for completion in written]
        groups.append(Group(prompt=prompt, samples=samples))
    batch = pack(groups)
    return batch.with_tokens(advantages=torch.randn(batch.num_tokens, generator=generator))


def _sample(prompt: Prompt, ids: Sequence[int], completion: Sequence[int]) -> Sample:
    written = Turn(
        tokens=completion,
        generated=True,
        logprobs=[0.0] * len(completion),
        versions=[VersionSpan(version=0, start=0, end=len(completion))],
    )
    turns = (Turn(tokens=ids, generated=False), written)
    return Sample(prompt=prompt, turns=turns, finish_reason="length", completion_text="", reward=0.0)


def pieces(batch: PackedBatch, budget: int) -> list[Piece]:
    """The tokens that are left after prefix sharing, in rows of at most `budget`: each prompt once, and every completion."""
    sequences: list[torch.Tensor] = []
    seen: set[int] = set()
    starts, shared = batch.cu_seqlens.tolist(), shared_prefix_lengths(batch)
    for index, group in enumerate(batch["group"].tolist()):
        tokens = batch.tokens[starts[index] : starts[index + 1]]
        if group not in seen:
            seen.add(group)
            sequences.append(tokens[: shared[index]])
        sequences.append(tokens[shared[index] :])
    rows: list[list[torch.Tensor]] = [[]]
    for sequence in sequences:
        if sum(map(len, rows[-1])) + len(sequence) > budget:
            rows.append([])
        rows[-1].append(sequence)
    return [Piece(tokens=torch.cat(row), positions=torch.cat([torch.arange(len(part)) for part in row])) for row in rows]


def plain_seconds(spec: ModelSpec, rows: Sequence[Piece], *, repeats: int) -> float:
    """Forward and backward of transformers over packed rows with all logits at once. No optimizer."""
    transformers.utils.logging.disable_progress_bar()
    model = load_model(spec, seed=1)

    def step() -> None:
        model.zero_grad(set_to_none=False)
        for row in rows:
            logits = model(input_ids=row.tokens[None], position_ids=row.positions[None], use_cache=False).logits[0]
            torch.nn.functional.cross_entropy(logits[:-1], row.tokens[1:]).backward()

    return best_seconds(step, repeats=repeats)


def engine_seconds(spec: ModelSpec, batch: PackedBatch, *, repeats: int) -> float:
    """`train_step` of the local engine on the same batch: forward, backward, clipping and AdamW."""
    engine = LocalTrainEngine(LocalTrainConfig(lr=1e-6), TrainContext(model=spec, seed=1, total_steps=100))
    engine.setup()
    objective, aggregation = ScoreFunction(), Aggregator("token-mean")
    seconds = best_seconds(lambda: engine.train_step(batch, objective, aggregation), repeats=repeats)
    engine.close()
    return seconds
