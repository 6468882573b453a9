"""The kit on every component that the core brings."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import (
    AggregationConformance,
    KlEstimatorConformance,
    LauncherConformance,
    LoggerConformance,
    NormaliserConformance,
    WeightTransportConformance,
    WorkflowConformance,
)


class TestConsoleLogger(LoggerConformance):
    component = "console"


class TestJsonlLogger(LoggerConformance):
    component = "jsonl"


class TestSingleTurn(WorkflowConformance):
    component = "single_turn"


class TestSharedTransport(WeightTransportConformance):
    component = "shared"


class TestSharedMemoryTransport(WeightTransportConformance):
    component = "shared_memory"


class TestDiskTransport(WeightTransportConformance):
    component = "disk"


class TestDeltaTransport(WeightTransportConformance):
    component = "delta"


class TestCollectiveTransport(WeightTransportConformance):
    component = "collective"


class TestInline(LauncherConformance):
    component = "inline"


class TestLocalLauncher(LauncherConformance):
    component = "local"
    options: ClassVar = {"workers": 1}


class TestTokenMean(AggregationConformance):
    component = "token-mean"


class TestTokenSum(AggregationConformance):
    component = "token-sum"


class TestSeqMeanTokenMean(AggregationConformance):
    component = "seq-mean-token-mean"


class TestSeqMeanTokenSum(AggregationConformance):
    component = "seq-mean-token-sum"


class TestSeqMeanTokenSumNorm(AggregationConformance):
    component = "seq-mean-token-sum-norm"


class TestPromptMean(AggregationConformance):
    component = "prompt-mean"


class TestTokenMeanLocal(AggregationConformance):
    component = "token-mean-local"
    options: ClassVar = {"sequences": 2}


class TestK1Kl(KlEstimatorConformance):
    component = "k1"


class TestAbsKl(KlEstimatorConformance):
    component = "abs"


class TestK2Kl(KlEstimatorConformance):
    component = "k2"


class TestK3Kl(KlEstimatorConformance):
    component = "k3"


class TestK1PlusKl(KlEstimatorConformance):
    component = "k1+"


class TestK3PlusKl(KlEstimatorConformance):
    component = "k3+"


class TestWhitenNormaliser(NormaliserConformance):
    component = "whiten"


class TestMomentsNormaliser(NormaliserConformance):
    component = "moments"
