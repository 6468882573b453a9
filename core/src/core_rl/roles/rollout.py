"""The contract of a rollout engine: token ids in, sampled token ids and their log-probabilities out. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import attrs

from core_rl.data.sample import FinishReason, VersionSpan
from core_rl.errors import PromptTooLongError

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec
    from core_rl.roles.train import TrainEngine
    from core_rl.weights.buckets import TensorSpec
    from core_rl.weights.group import GroupPlace


def _positive(_: Any, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and value <= 0:
        message = f"{attribute.name} must be above 0, found {value}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class SamplingParams:
    """How to sample. The defaults sample from the model's own distribution."""

    temperature: float = attrs.field(
        default=1.0,
        validator=attrs.validators.ge(0.0),
        metadata={"help": "divides the logits; 0 is greedy"},
    )
    top_p: float = attrs.field(
        default=1.0,
        validator=[attrs.validators.gt(0.0), attrs.validators.le(1.0)],
        metadata={"help": "keep the smallest set of tokens whose probability reaches this"},
    )
    top_k: int | None = attrs.field(
        default=None, validator=_positive, metadata={"help": "keep the k likeliest tokens; null keeps all"}
    )
    max_new_tokens: int = attrs.field(
        default=256, validator=attrs.validators.ge(1), metadata={"help": "a sequence is cut here (finish_reason length)"}
    )
    min_new_tokens: int = attrs.field(
        default=0, validator=attrs.validators.ge(0), metadata={"help": "no end-of-sequence or stop id before this many"}
    )
    stop: tuple[str, ...] = attrs.field(
        default=(), metadata={"help": "texts that end a completion; they stay in it, as token ids do"}
    )
    stop_token_ids: tuple[int, ...] = attrs.field(
        default=(), metadata={"help": "token ids that end a completion, beside the tokenizer's end of sequence"}
    )
    ignore_eos: bool = attrs.field(default=False, metadata={"help": "go on after the tokenizer's end of sequence"})
    frequency_penalty: float = attrs.field(
        default=0.0, metadata={"help": "taken from a token's logit once for each time it was generated already"}
    )

    def ends(self, of_the_model: Sequence[int]) -> tuple[int, ...]:
        """Every token that ends a completion: the model's own, unless they are ignored, and those that are asked for."""
        return (*(() if self.ignore_eos else of_the_model), *self.stop_token_ids)


@attrs.frozen(kw_only=True)
class GenerateRequest:
    """One prompt and how many samples of it. Sample k depends on `seed` and k alone, never on what else is in flight."""

    id: str
    prompt_ids: Sequence[int]
    params: SamplingParams
    n: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    seed: int = 0

    def most_new_tokens(self, context_length: int) -> int:
        """What is asked for, as far as there is room behind the prompt.

        Raises:
            PromptTooLongError: there is none, or no prompt.
        """
        room = context_length - len(self.prompt_ids)
        if room < 1 or not self.prompt_ids:
            message = (
                f"prompt {self.id}: {len(self.prompt_ids)} tokens, but the context holds {context_length} and "
                "1 is needed to answer; shorten the prompt or raise model.max_length"
            )
            raise PromptTooLongError(message)
        return min(self.params.max_new_tokens, room)


@attrs.frozen(kw_only=True)
class Completion:
    """What was sampled. `logprobs` are those of the processed distribution (temperature, top-p, …) it was drawn from.

    The token that ended it (end of sequence, stop id) is the last of `tokens`. `versions` covers every token.
    """

    tokens: Sequence[int]
    logprobs: Sequence[float]
    finish_reason: FinishReason
    versions: Sequence[VersionSpan]


@attrs.frozen(kw_only=True)
class ScoreRequest:
    """One sequence, whose tokens are given."""

    id: str
    tokens: Sequence[int] = attrs.field(validator=attrs.validators.min_len(1))
    top_k: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """So many of the likeliest tokens in each place as well."""
    temperature: float = attrs.field(default=1.0, validator=attrs.validators.gt(0.0))


@attrs.frozen(kw_only=True)
class Scores:
    """One entry for each token of the request: entry t speaks of token t, given what stands before it. The first says nothing: 0, and no ids.

    With `top_k`, `topk_ids` and `topk_logprobs` have the likeliest tokens in each later token's place, best first.
    """

    logprobs: Sequence[float]
    topk_ids: Sequence[Sequence[int]] = ()
    topk_logprobs: Sequence[Sequence[float]] = ()


@attrs.frozen(kw_only=True)
class RolloutContext:
    """What every rollout engine is built with, beside its own options. An engine in the trainer's process gets it too."""

    model: ModelSpec
    seed: int
    train_engine: TrainEngine | None = None


PauseMode = Literal["abort", "retract", "keep"]


class RolloutEngine(Protocol):
    """Built as `Engine(options, context)`. Nothing is loaded before `start`."""

    async def start(self) -> None:
        """Load the model. Called once, after the train engine's `setup`."""
        ...

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        """`request.n` completions, in order. Many calls may be in flight; each returns as soon as its own are done.

        Raises `PromptTooLongError` for a prompt that leaves no room in the context.
        """
        ...

    async def pause(self, mode: PauseMode = "abort") -> None:
        """Stop decoding. `abort` returns what there is (finish_reason abort), `retract` starts the requests again from
        their tokens on resume, `keep` goes on with its caches as they are.
        """
        ...

    async def resume(self) -> None:
        """Go on after `pause`."""
        ...

    async def abort(self, request_id: str) -> None:
        """Take back one request: it returns what there is (finish_reason abort). Others go on."""
        ...

    async def begin_update(self) -> None:
        """New weights come now: no token is decoded until `end_update`. What is in flight stays."""
        ...

    async def update(self, tensors: Sequence[tuple[str, Any]]) -> None:
        """Some of the weights, by their Hugging Face names, in one of any number of calls between `begin_update` and `end_update`."""
        ...

    async def end_update(self, version: int) -> None:
        """Tokens sampled from here on carry `version`."""
        ...

    async def fingerprint(self) -> Mapping[str, float]:
        """`core_rl.fingerprint.fingerprint` of the weights that are served."""
        ...

    async def close(self) -> None:
        """Give back memory, processes and ports; also after a `start` that failed half-way."""
        ...

    def stats(self) -> Mapping[str, float]:
        """Counters since the last call: tokens, prefill and decode seconds, mean running sequences."""
        ...


class ScoringEngine(RolloutEngine, Protocol):
    """What a rollout engine may have beside the methods of `RolloutEngine`; its component then provides `scoring`."""

    async def score(self, request: ScoreRequest) -> Scores:
        """Log-probabilities under the weights that are served. Many calls may be in flight."""
        ...


@runtime_checkable
class SleepingEngine(Protocol):
    """What an engine has that gives its memory to the trainer between rollouts: `sleep` after one, `wake` before the next update."""

    async def sleep(self) -> None: ...

    async def wake(self) -> None: ...


@runtime_checkable
class ManyServers(Protocol):
    """What an engine of several servers has beside the methods of `RolloutEngine`: each of them can be asked."""

    async def generate_at_each(self, request: GenerateRequest) -> Mapping[str, Sequence[Completion]]:
        """The completions of every server that serves, by its name."""
        ...


class DiskReceiver(RolloutEngine, Protocol):
    """An engine that takes weights from a folder; its component then provides `weights_disk`."""

    async def update_from_disk(self, path: str) -> None:
        """A Hugging Face folder of safetensors with all weights, between `begin_update` and `end_update`."""
        ...


class GroupReceiver(RolloutEngine, Protocol):
    """An engine whose workers join a torch.distributed group; its component then provides `weights_collective`."""

    def members(self) -> Mapping[str, int]:
        """How many workers each server has that takes part in this update, by a name that is new when the server is."""
        ...

    async def join_group(self, place: GroupPlace) -> None:
        """The workers get the ranks from 1 on, in the order of `members`."""
        ...

    async def update_from_group(self, specs: Sequence[TensorSpec]) -> None:
        """Receive one bucket from rank 0, in this order."""
        ...


class DeltaReceiver(RolloutEngine, Protocol):
    """An engine that applies changes to the weights it has; its component then provides `weights_delta`."""

    def members(self) -> Mapping[str, int]:
        """As of a `GroupReceiver`."""
        ...

    async def update_delta(self, changes: Sequence[tuple[str, Any]]) -> None:
        """As `core_rl.weights.delta` describes them. Raises `RunError` when one was lost."""
        ...
