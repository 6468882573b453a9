"""The shape of a run file: one attrs class per section. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.guard import GuardSection
from core_rl.config.selection import Selection, component, components
from core_rl.hf.spec import ModelSpec
from core_rl.roles.rollout import SamplingParams


def _at_least(bound: int) -> Any:
    return attrs.validators.ge(bound)


@attrs.frozen(kw_only=True)
class RunSection:
    """What the run is called, how long it is and where it goes."""

    name: str = attrs.field(default="run", metadata={"help": "the run's folder is <dir>/<name>/<time>"})
    seed: int = attrs.field(default=1, metadata={"help": "of data order, sampling and initial weights"})
    steps: int = attrs.field(default=100, validator=_at_least(1), metadata={"help": "rounds of rollout and training"})
    epochs: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.gt(0.0)),
        metadata={"help": "passes over the data, in place of `steps`; null: as many as the steps take"},
    )
    prompts_per_step: int = attrs.field(
        default=8,
        validator=_at_least(1),
        metadata={"help": "prompts of a step, each sampled group_size times; or rows of an offline step"},
    )
    dir: str = attrs.field(default="runs", metadata={"help": "where run folders are made"})
    log_samples_every: int = attrs.field(
        default=10, validator=_at_least(0), metadata={"help": "steps between tables of completions; 0 never"}
    )
    reward_timeout_s: float = attrs.field(default=30.0, metadata={"help": "seconds until a reward counts as failed"})
    on_reward_failure: Literal["drop", "zero", "stop"] = attrs.field(
        default="drop", metadata={"help": "what becomes of a sample whose reward raised, hung or was not finite"}
    )
    long_prompts: Literal["drop", "stop"] = attrs.field(
        default="drop", metadata={"help": "what becomes of a prompt that leaves no room for a completion in the context"}
    )


def _inherited(kind: Any) -> Any:
    """A field of `EvalSampling` that takes the value of `sampling` where it is null."""
    original = attrs.fields_dict(SamplingParams)[kind]
    text = f"{original.metadata['help']}; null takes that of sampling"
    validator = None if original.validator is None else attrs.validators.optional(original.validator)
    return attrs.field(default=None, validator=validator, metadata={"help": text})


@attrs.frozen(kw_only=True)
class EvalSampling:
    """How held-out completions are sampled: greedy, and otherwise as in training, unless said otherwise."""

    temperature: float = attrs.field(
        default=0.0, validator=attrs.validators.ge(0.0), metadata={"help": "divides the logits; 0 is greedy"}
    )
    top_p: float | None = _inherited("top_p")
    top_k: int | None = _inherited("top_k")
    max_new_tokens: int | None = _inherited("max_new_tokens")
    min_new_tokens: int | None = _inherited("min_new_tokens")
    stop: tuple[str, ...] | None = _inherited("stop")
    stop_token_ids: tuple[int, ...] | None = _inherited("stop_token_ids")
    ignore_eos: bool | None = _inherited("ignore_eos")
    frequency_penalty: float | None = _inherited("frequency_penalty")

    def over(self, sampling: SamplingParams) -> SamplingParams:
        """`sampling` with what is said here."""
        said = attrs.asdict(self, recurse=False)
        return attrs.evolve(sampling, **{name: value for name, value in said.items() if value is not None})


@attrs.frozen(kw_only=True)
class EvalSection:
    """Evaluation on held-out prompts."""

    every: int = attrs.field(default=0, validator=_at_least(0), metadata={"help": "steps between evaluations; 0 never"})
    at_start: bool = attrs.field(default=True, metadata={"help": "also before the first step, when `every` is above 0"})
    prompts: int = attrs.field(default=64, validator=_at_least(1), metadata={"help": "held-out prompts, the first so many"})
    n: int = attrs.field(default=1, validator=_at_least(1), metadata={"help": "samples of each"})
    sampling: EvalSampling = attrs.field(
        factory=EvalSampling, metadata={"help": "greedy, and otherwise as in training, unless said otherwise"}
    )


@attrs.frozen(kw_only=True)
class CheckpointSection:
    """What is kept to resume from, and what is exported."""

    every: int = attrs.field(
        default=0, validator=_at_least(0), metadata={"help": "steps between checkpoints; 0: only at the end"}
    )
    keep: int = attrs.field(default=2, validator=_at_least(1), metadata={"help": "the newest so many stay"})
    keep_every: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_at_least(1)),
        metadata={"help": "checkpoints of steps divisible by this stay too"},
    )
    at_end: bool = attrs.field(default=True, metadata={"help": "also after the last step"})
    export_hf: bool = attrs.field(default=True, metadata={"help": "write the final model as a Hugging Face folder"})


@attrs.frozen(kw_only=True)
class PluginsSection:
    """Which installed plugins this run may see."""

    allow: tuple[str, ...] | None = attrs.field(default=None, metadata={"help": "only these distributions"})
    block: tuple[str, ...] = attrs.field(default=(), metadata={"help": "not these distributions"})


@attrs.frozen(kw_only=True)
class RunFile:
    """A run file, whole."""

    run: RunSection = attrs.field(factory=RunSection, metadata={"help": "name, seed, length"})
    model: ModelSpec = attrs.field(metadata={"help": "weights, tokenizer, precision"})
    data: Selection = component("data", help="where prompts come from")
    eval_data: Selection | None = component("data", optional=True, help="held-out prompts; null takes the eval split of data")
    sampling: SamplingParams = attrs.field(factory=SamplingParams, metadata={"help": "how completions are sampled"})
    algorithm: Selection = component("algorithm", help="a named set of defaults for advantage, loss, KL, …")
    train_engine: Selection = component("train_engine", "local", help="holds the weights and changes them")
    rollout_engine: Selection = component("rollout_engine", "local", help="samples completions")
    weight_transport: Selection = component("weight_transport", "shared", help="how new weights reach the rollout engine")
    launcher: Selection = component("launcher", "inline", help="where engines run")
    workflow: Selection = component("workflow", "single_turn", help="how a prompt becomes samples")
    rewards: tuple[Selection, ...] = components("reward", help="each with `weight` (default 1); the sum is the reward")
    loggers: tuple[Selection, ...] = components("logger", ("console", "jsonl"), help="where metrics go")
    eval: EvalSection = attrs.field(factory=EvalSection, metadata={"help": "evaluation on held-out prompts"})
    checkpoint: CheckpointSection = attrs.field(factory=CheckpointSection, metadata={"help": "resume and export"})
    guard: GuardSection = attrs.field(
        factory=GuardSection, metadata={"help": "whether sampler and trainer are the same policy: when to warn, when to stop"}
    )
    plugins: PluginsSection = attrs.field(factory=PluginsSection, metadata={"help": "which plugins this run may see"})
