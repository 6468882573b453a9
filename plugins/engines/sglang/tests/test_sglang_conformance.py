"""SGLang itself: the conformance suite of rollout engines. Needs an environment that has it (`make test-all`)."""

from __future__ import annotations

from core_rl.testing.rollout_engines import UNTIED, RolloutEngineConformance

from .real import REAL, options

pytestmark = REAL


class TestServer(RolloutEngineConformance):
    component = "sglang"
    options = options()


class TestTensorParallel(RolloutEngineConformance):
    component = "sglang"
    model = UNTIED
    options = options(tp_size=2)
