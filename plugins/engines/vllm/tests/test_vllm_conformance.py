"""vLLM itself passes the suite: as a server, as two servers, and in this process. Needs an environment that has it (`make test-all`)."""

from __future__ import annotations

import importlib.util

import pytest

from core_rl.testing.rollout_engines import UNTIED, RolloutEngineConformance

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # vLLM's own
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed in this environment"),
]

ON_CPU = {
    "args": {"max_model_len": 256, "enforce_eager": True, "max_num_seqs": 16, "max_num_batched_tokens": 512},
    "env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
}


class TestServer(RolloutEngineConformance):
    component = "vllm"
    options = ON_CPU


class TestInline(RolloutEngineConformance):
    component = "vllm"
    options = {**ON_CPU, "mode": "inline"}  # noqa: RUF012 - it is read only


class TestTensorParallel(RolloutEngineConformance):
    component = "vllm"
    model = UNTIED
    options = {  # noqa: RUF012 - it is read only
        "args": {**ON_CPU["args"], "tensor_parallel_size": 2},
        "env": {**ON_CPU["env"], "VLLM_CPU_OMP_THREADS_BIND": "0|1"},
    }
