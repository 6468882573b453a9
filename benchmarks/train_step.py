"""One train step of a large model on one GPU: tokens a second and the share of the machine's matrix products that they are.

A Qwen3-shaped model of 1.7 billion random weights, rows of 16k and 32k packed tokens, bfloat16, through `local` and `fsdp`; beside it the raw
forward and backward of transformers over the same row, and the rate of a matrix product in the same precision. On a machine without a GPU
`--shape tiny` shows that it runs, and writes nothing. See README.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import _machine
import attrs
import torch
from _cases import HERE
from _training import ScoreFunction

from core_rl.data.batch import PackedBatch
from core_rl.hf.load import load_model
from core_rl.hf.packed.weights import enable_checkpointing
from core_rl.hf.spec import ModelSpec
from core_rl.numerics.aggregation import Aggregator
from core_rl.plugins.build import build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference
from core_rl.roles.train import TrainContext

RESULTS = HERE / "results"


@attrs.frozen(kw_only=True)
class Shape:
    """A model, the packed rows and the length of a sequence in them."""

    config: Mapping[str, Any]
    tokens: Sequence[int]
    sequence: int
    dtype: str


_QWEN3 = {"model_type": "qwen3", "head_dim": 128, "num_key_value_heads": 8, "tie_word_embeddings": True, "vocab_size": 151_936}
SHAPES = {
    "qwen3-1.7b": Shape(
        config=_QWEN3
        | {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "max_position_embeddings": 40_960,
        },
        tokens=(16_384, 32_768),
        sequence=4096,
        dtype="bfloat16",
    ),
    "tiny": Shape(
        config=_QWEN3
        | {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "head_dim": 16,
            "vocab_size": 512,
        },
        tokens=(256, 512),
        sequence=64,
        dtype="float32",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=list(SHAPES), default="qwen3-1.7b")
    parser.add_argument("--engine", action="append", help="may be given several times; default local and fsdp")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of each, after one that is not; medians")
    parser.add_argument("--options", default='{"gradient_checkpointing": true}', help="JSON of further options of the engines")
    args = parser.parse_args()
    shape, device = SHAPES[args.shape], "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and args.shape != "tiny":
        parser.exit(2, "train_step: no GPU here; --shape tiny shows on a CPU that the benchmark runs\n")
    peak = matmul_flops(device, shape.dtype)
    print(f"matrix product {peak / 1e12:.2f} TFLOP/s in {shape.dtype}", flush=True)
    rows = []
    for tokens in shape.tokens:
        batch, flops = make_batch(shape, tokens), model_flops(shape, tokens)
        sides: dict[str, Callable[[], Callable[[], None]]] = {"transformers": lambda batch=batch: raw(shape, batch, device)}
        for name in args.engine or ["local", "fsdp"]:
            sides[name] = lambda name=name, batch=batch: engine_step(name, shape, batch, json.loads(args.options))
        for name, prepare in sides.items():
            seconds = median_seconds(prepare(), args.steps, device)
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()
            rows.append({"side": name, "tokens": tokens, "tok_s": tokens / seconds, "of_matmul": flops / seconds / peak})
            print(f"{name}, {tokens} tokens: {tokens / seconds:.0f} tok/s, {flops / seconds / peak:.1%} of it", flush=True)
    report = {"shape": args.shape, "dtype": shape.dtype, "options": args.options, "matmul_tflops": peak / 1e12, "rows": rows}
    if args.shape == "tiny":
        return
    report |= {"machine": torch.cuda.get_device_name(), "versions": _machine.versions()}
    (RESULTS / "train_step.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (RESULTS / "train_step.md").write_text(table(report), encoding="utf-8")


def make_batch(shape: Shape, tokens: int) -> PackedBatch:
    """Random tokens in sequences of one length, all but the first quarter of each written by the policy."""
    random, count = torch.Generator().manual_seed(1), tokens // shape.sequence
    positions = torch.arange(shape.sequence, dtype=torch.int32).repeat(count)
    return PackedBatch(
        tokens=torch.randint(shape.config["vocab_size"], (tokens,), generator=random),
        cu_seqlens=torch.arange(0, tokens + 1, shape.sequence, dtype=torch.int32),
        positions=positions,
        loss_mask=positions >= shape.sequence // 4,
        token_fields={"advantages": torch.randn(tokens, generator=random)},
        sequence_fields={"group": torch.arange(count)},
    )


def model_flops(shape: Shape, tokens: int) -> float:
    """Of forward and backward: 6 for each weight of a matrix and token, the output layer at every token, causal attention halved."""
    c = shape.config
    heads = c["num_attention_heads"] * c["head_dim"]
    attention = c["hidden_size"] * (2 * heads + 2 * c["num_key_value_heads"] * c["head_dim"])
    layer = attention + 3 * c["hidden_size"] * c["intermediate_size"]
    weights = c["num_hidden_layers"] * layer + c["hidden_size"] * c["vocab_size"]
    pairs = tokens * shape.sequence / 2
    return 6.0 * weights * tokens + 12.0 * c["num_hidden_layers"] * heads * pairs


def spec_of(shape: Shape) -> ModelSpec:
    return ModelSpec(init="random", config=shape.config, dtype=shape.dtype)  # type: ignore[arg-type]


def engine_step(name: str, shape: Shape, batch: PackedBatch, options: Mapping[str, Any]) -> Callable[[], None]:
    """A whole optimizer step, clipping and AdamW included."""
    component = Catalogue.discover().find("train_engine", name).component
    assert component.config is not None
    config = load_reference(component.config)(lr=1e-6, max_tokens_per_micro_batch=batch.num_tokens, **options)
    engine = build_component(component, config, TrainContext(model=spec_of(shape), seed=1, total_steps=100))
    engine.setup()
    objective, aggregation = ScoreFunction(), Aggregator("token-mean")

    def step() -> None:
        engine.train_step(batch, objective, aggregation)

    return step


def raw(shape: Shape, batch: PackedBatch, device: str) -> Callable[[], None]:
    """transformers' forward and backward over the same row with its own attention, checkpointing, no optimizer; the loss in pieces."""
    model: Any = load_model(spec_of(shape), seed=1).to(device, getattr(torch, shape.dtype))
    enable_checkpointing(model)
    model.train()
    tokens, positions = batch.tokens.to(device), batch.positions.long().to(device)
    head = model.get_output_embeddings().weight

    def step() -> None:
        model.zero_grad()
        hidden = model.base_model(input_ids=tokens[None], position_ids=positions[None], use_cache=False).last_hidden_state[0]
        leaf = hidden.detach().requires_grad_()
        for part in torch.arange(len(tokens) - 1, device=device).split(2048):
            torch.nn.functional.cross_entropy((leaf[part] @ head.t()).float(), tokens[part + 1], reduction="sum").backward()
        hidden.backward(leaf.grad)

    return step


def median_seconds(step: Callable[[], None], steps: int, device: str) -> float:
    seconds = []
    for _ in range(steps + 1):
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def matmul_flops(device: str, dtype: str, size: int | None = None) -> float:
    """Of a large square product, the best of ten."""
    size = size or (8192 if device == "cuda" else 1024)
    a, b = (torch.randn(size, size, device=device, dtype=getattr(torch, dtype)) for _ in range(2))
    return max(2.0 * size**3 / median_seconds(lambda: discard(torch.mm(a, b)), 1, device) for _ in range(10))


def discard(result: torch.Tensor) -> None:
    """A step returns nothing."""
    del result


def table(report: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    about = f"{report['shape']}, {report['dtype']}, {report['machine']}, options {report['options']}"
    lines = [
        "# One train step",
        "",
        f"{about}. Matrix product {report['matmul_tflops']:.0f} TFLOP/s.",
        "",
        "| | packed tokens | tokens/s | of the matrix product's rate |",
        "|---|---|---|---|",
        *(f"| {row['side']} | {row['tokens']} | {row['tok_s']:.0f} | {row['of_matmul']:.1%} |" for row in report["rows"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
