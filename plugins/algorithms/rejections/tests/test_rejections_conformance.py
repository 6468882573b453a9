"""The kit on every component of this plugin."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import LossConformance, RejectionConformance


class TestZeroVarianceRejection(RejectionConformance):
    component = "zero_variance"


class TestRatioBandRejection(RejectionConformance):
    component = "ratio_band"


class TestTisRejection(RejectionConformance):
    component = "tis"


class TestMisRejection(RejectionConformance):
    component = "mis"


class TestIcepopRejection(RejectionConformance):
    component = "icepop"


class TestSeqMaskTisRejection(RejectionConformance):
    component = "seq_mask_tis"


class TestOutlierVetoRejection(RejectionConformance):
    component = "outlier_veto"


class TestOpsmRejection(RejectionConformance):
    component = "opsm"


class TestTruncatedRejection(RejectionConformance):
    component = "truncated"


class TestSharedPrefixRejection(RejectionConformance):
    component = "shared_prefix"


class TestHighEntropyRejection(RejectionConformance):
    component = "high_entropy"


class TestOpsmLoss(LossConformance):
    component = "opsm"
    options: ClassVar = {"of": "ppo_clip"}
