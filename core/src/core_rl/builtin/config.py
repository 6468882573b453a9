"""Options of the core's own components. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class ConsoleConfig:
    """What the console shows."""

    metrics: tuple[str, ...] = attrs.field(
        default=(
            "reward/mean",
            "eval/reward/mean",
            "loss",
            "eval/loss",
            "eval/rewards/accuracy",
            "optim/grad_norm",
            "entropy/mean",
            "len/completion_mean",
            "perf/tok_s",
        ),
        metadata={"help": "metrics to show, in this order; the first one has a trend; one that a step lacks is left out"},
    )
    samples: int = attrs.field(
        default=4, validator=attrs.validators.ge(0), metadata={"help": "rows of a table of completions; 0 shows none"}
    )
    width: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(40)),
        metadata={"help": "columns to use; null takes the terminal's"},
    )


@attrs.frozen(kw_only=True)
class JsonlConfig:
    """How the files are written."""

    fsync: bool = attrs.field(
        default=False,
        metadata={
            "help": "force every row to the disk, so that it survives a power cut; a killed process loses none either way"
        },
    )


@attrs.frozen(kw_only=True)
class SingleTurnConfig:
    """How a prompt is put to the model."""

    system_prompt: str | None = attrs.field(
        default=None, metadata={"help": "a system message before the prompt's messages, where they have none"}
    )
    add_special_tokens: bool = attrs.field(
        default=True, metadata={"help": "let the tokenizer add its begin-of-sequence token to a prompt that is text"}
    )


@attrs.frozen(kw_only=True)
class ScaleLengthConfig:
    """Options of the aggregation `seq-mean-token-sum-norm`."""

    scale_length: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={"help": "the constant that stands for a sequence's length; null takes sampling.max_new_tokens"},
    )

    def formula(self) -> str:
        return f"loss = 1/(B S) sum_i sum_t l_it, S = {self.scale_length or 'sampling.max_new_tokens'}"


@attrs.frozen(kw_only=True)
class LocalMeanConfig:
    """Options of the aggregation `token-mean-local`."""

    sequences: int = attrs.field(
        validator=attrs.validators.ge(1),
        metadata={"help": "sequences of a part: the other system's micro-batch, whatever the engine's own is"},
    )

    def formula(self) -> str:
        return f"loss = 1/P sum_p (sum_(i in p, t) l_it / sum_(i in p) L_i), parts p of {self.sequences} sequences in order"


@attrs.frozen(kw_only=True)
class LocalLauncherConfig:
    """Worker processes of this machine."""

    workers: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={"help": "processes that hold each train engine together; null: one for each GPU, one without GPUs"},
    )
    threads: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={"help": "threads of each worker's computations on the CPU; null: the cores over the workers"},
    )
    env: Mapping[str, str] = attrs.field(factory=dict, metadata={"help": "environment variables of the workers"})


@attrs.frozen(kw_only=True)
class SharedMemoryConfig:
    """How weights are sent."""

    bucket_mb: int = attrs.field(
        default=64, validator=attrs.validators.ge(1), metadata={"help": "megabytes of tensors that are on their way at once"}
    )


@attrs.frozen(kw_only=True)
class DiskConfig:
    """Where weights are written for the rollout engine."""

    dir: str | None = attrs.field(
        default=None,
        metadata={"help": "a folder that both sides see, of this run alone; null: a temporary one of this machine"},
    )
    bucket_mb: int = attrs.field(
        default=1024, validator=attrs.validators.ge(1), metadata={"help": "megabytes of tensors in a file"}
    )


@attrs.frozen(kw_only=True)
class CollectiveConfig:
    """The group of the trainer and the rollout engine's workers."""

    backend: Literal["auto", "gloo", "nccl"] = attrs.field(
        default="auto", metadata={"help": "auto is nccl where the trainer has a GPU"}
    )
    address: str = attrs.field(
        default="127.0.0.1", metadata={"help": "of this machine, as the rollout engine's workers reach it"}
    )
    port: int | None = attrs.field(default=None, metadata={"help": "where they meet; null takes a free one"})
    bucket_mb: int = attrs.field(
        default=512, validator=attrs.validators.ge(1), metadata={"help": "megabytes of tensors that are on their way at once"}
    )
    timeout_s: float = attrs.field(
        default=300.0,
        validator=attrs.validators.gt(0.0),
        metadata={"help": "seconds until a member that does not answer is lost"},
    )


@attrs.frozen(kw_only=True)
class DeltaConfig:
    """How changes are sent."""

    bucket_mb: int = attrs.field(
        default=256, validator=attrs.validators.ge(1), metadata={"help": "megabytes of changes that are on their way at once"}
    )


@attrs.frozen(kw_only=True)
class KlEstimatorConfig:
    """Options of every KL estimator of the core."""

    value_bound: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.gt(0.0)),
        metadata={"help": "the estimate of a token is kept within ± this: 10 in verl (k3) and OpenRLHF; null: no bound"},
    )


@attrs.frozen(kw_only=True)
class WhitenConfig:
    """Options of the normaliser `whiten`."""

    std: Literal["sample", "population"] = attrs.field(
        default="sample", metadata={"help": "divide the squares by n - 1 (verl, OpenRLHF) or n (NeMo-RL)"}
    )
    eps: float = attrs.field(
        default=1e-8, validator=attrs.validators.ge(0.0), metadata={"help": "added to the variance, under the root"}
    )
    centre: bool = attrs.field(default=True, metadata={"help": "take the mean away; without it only the scale changes"})

    def formula(self) -> str:
        back = "" if self.centre else " + mean"
        return f"x <- (x - mean) / sqrt(var + {self.eps:g}){back}, {self.std} variance over the batch"


@attrs.frozen(kw_only=True)
class MomentsConfig:
    """Options of the normaliser `moments`."""

    mean_level: Literal["group", "batch", "none"] = attrs.field(default="batch", metadata={"help": "whose mean is taken away"})
    std_level: Literal["group", "batch", "none"] = attrs.field(
        default="batch", metadata={"help": "by whose standard deviation is divided"}
    )
    std: Literal["sample", "population"] = attrs.field(
        default="sample", metadata={"help": "divide the squares by n - 1 (sample) or n (population)"}
    )
    leave_one_out: Literal["none", "mean", "std", "both"] = attrs.field(
        default="none", metadata={"help": "which statistics leave out the value itself"}
    )
    eps: float = attrs.field(
        default=1e-6, validator=attrs.validators.ge(0.0), metadata={"help": "added to the standard deviation"}
    )

    def formula(self) -> str:
        mean = "" if self.mean_level == "none" else f" - mean over the {self.mean_level}"
        std = "" if self.std_level == "none" else f" / ({self.std} std over the {self.std_level} + {self.eps:g})"
        return f"x <- (x{mean}){std}"
