"""A run that samples from vLLM itself. Needs an environment that has it (`make test-all`)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed in this environment"),
]

ROOT = Path(__file__).parents[4]
MODEL = "{model_type: llama, hidden_size: 128, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64, tie_word_embeddings: true}"


def train(folder, engine, *more):
    command = [
        sys.executable,
        "-m",
        "core_rl",
        "train",
        "examples/tiny.yaml",
        f"model.config={MODEL}",
        f"rollout_engine={engine}",
    ]
    command += ["run.steps=4", "eval.every=0", "loggers=[jsonl]", f"run.dir={folder}", *more]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CORE_RL_TEST": str(folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)


def left_behind(folder) -> list[str]:
    """Processes that this run has started and not ended."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"CORE_RL_TEST={folder}" in (process / "environ").read_text(errors="replace"):
                found.append((process / "cmdline").read_text().replace("\0", " ")[:200])
        except OSError:
            continue
    return found


@pytest.mark.parametrize("transport", ["shared_memory", "delta"])
def test_a_run_with_a_server(tmp_path, transport):
    """Four steps: both sides agree in every one, and the server ends with the run."""
    engine = "{name: vllm, sleep: true, args: {enforce_eager: true, max_num_seqs: 64}, env: {VLLM_CPU_KVCACHE_SPACE: '1'}}"
    done = train(tmp_path, engine, f"weight_transport={transport}")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(row) for row in (tmp_path / "tiny" / "latest" / "metrics.jsonl").read_text().splitlines()]

    assert len(rows) == 4
    assert all(row["mismatch/abs_max"] < 1e-4 for row in rows)
    assert all(row["mismatch/ess"] > 0.999 for row in rows)
    assert all(row["rollout/tokens"] >= 128 for row in rows)
    assert left_behind(tmp_path) == []


def test_an_option_that_vllm_does_not_have(tmp_path):
    """One line with the nearest name, exit code 2, nothing left behind."""
    done = train(tmp_path, "{name: vllm, args: {max_model_length: 64}}", "weight_transport=shared_memory")

    assert done.returncode == 2
    assert "rollout_engine.args.max_model_length: vLLM" in done.stderr
    assert "did you mean max_model_len?" in done.stderr
    assert left_behind(tmp_path) == []
