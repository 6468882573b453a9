"""The conformance kit: a test class for every kind of component, and what tests of components need besides.

Importing one kind does not import the others, nor an engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core_rl.testing.conformance import AdvantageConformance as AdvantageConformance
    from core_rl.testing.conformance import AggregationConformance as AggregationConformance
    from core_rl.testing.conformance import AlgorithmConformance as AlgorithmConformance
    from core_rl.testing.conformance import ConfigImporterConformance as ConfigImporterConformance
    from core_rl.testing.conformance import DataConformance as DataConformance
    from core_rl.testing.conformance import KlEstimatorConformance as KlEstimatorConformance
    from core_rl.testing.conformance import LauncherConformance as LauncherConformance
    from core_rl.testing.conformance import LoggerConformance as LoggerConformance
    from core_rl.testing.conformance import LossConformance as LossConformance
    from core_rl.testing.conformance import NormaliserConformance as NormaliserConformance
    from core_rl.testing.conformance import RejectionConformance as RejectionConformance
    from core_rl.testing.conformance import ResamplerConformance as ResamplerConformance
    from core_rl.testing.conformance import RewardConformance as RewardConformance
    from core_rl.testing.conformance import WeightTransportConformance as WeightTransportConformance
    from core_rl.testing.conformance import WorkflowConformance as WorkflowConformance
    from core_rl.testing.rollout_engines import RolloutEngineConformance as RolloutEngineConformance
    from core_rl.testing.samples import sample as sample
    from core_rl.testing.train_engines import TrainEngineConformance as TrainEngineConformance

_ELSEWHERE = {
    "RolloutEngineConformance": "core_rl.testing.rollout_engines",
    "TrainEngineConformance": "core_rl.testing.train_engines",
    "sample": "core_rl.testing.samples",
}
__all__ = [
    "AdvantageConformance",
    "AggregationConformance",
    "AlgorithmConformance",
    "ConfigImporterConformance",
    "DataConformance",
    "KlEstimatorConformance",
    "LauncherConformance",
    "LoggerConformance",
    "LossConformance",
    "NormaliserConformance",
    "RejectionConformance",
    "ResamplerConformance",
    "RewardConformance",
    "RolloutEngineConformance",
    "TrainEngineConformance",
    "WeightTransportConformance",
    "WorkflowConformance",
    "sample",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        import importlib

        return getattr(importlib.import_module(_ELSEWHERE.get(name, "core_rl.testing.conformance")), name)
