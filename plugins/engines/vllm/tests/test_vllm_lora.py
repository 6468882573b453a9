"""Completions of vLLM itself through a low-rank adapter are those of the model with the adapter merged. Needs an environment that has it."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch
from safetensors.torch import save_file

from core_rl.testing.rollout_engine.bench import FREE, MODEL, RolloutBench

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # vLLM's own
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed in this environment"),
]

RANK, ALPHA = 4, 16.0


def adapter(folder, module) -> dict[str, torch.Tensor]:
    """A peft folder for the projections of queries and values; what it adds to each weight."""
    random = torch.Generator().manual_seed(3)
    tensors, added = {}, {}
    for name, weight in module.named_parameters():
        if name.endswith(("q_proj.weight", "v_proj.weight")):
            up = torch.randn(weight.shape[0], RANK, generator=random) * 0.1
            down = torch.randn(RANK, weight.shape[1], generator=random) * 0.1
            layer = f"base_model.model.{name.removesuffix('.weight')}"
            tensors |= {f"{layer}.lora_A.weight": down, f"{layer}.lora_B.weight": up}
            added[name] = ALPHA / RANK * up @ down
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps({**config, "target_modules": ["q_proj", "v_proj"]}))
    return added


@pytest.mark.parametrize("mode", ["server", "inline"])
def test_an_adapter_answers(tmp_path, mode):
    """Before and after an update of the weights below it."""
    from core_rl.hf.load import load_model

    added = adapter(tmp_path, load_model(MODEL, seed=5))
    bench = RolloutBench(
        engine_name="vllm",
        options={
            "mode": mode,
            "args": {"max_model_len": 256, "enforce_eager": True, "max_num_seqs": 16},
            "env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
            "lora_adapter": str(tmp_path),
        },
        dtype="float32",
        logprob_tolerance=1e-4,
    )
    try:
        bench.open()
        for seed in (1, 2):
            for name, delta in added.items():
                bench.module.get_parameter(name).data += delta
            bench.compare("adapter", bench.run(bench.sample(n=3)), FREE)
            for name, delta in added.items():
                bench.module.get_parameter(name).data -= delta
            bench.move_weights(seed=seed)
            bench.run(bench.send(list(bench.weights().items())))
    finally:
        bench.close()
