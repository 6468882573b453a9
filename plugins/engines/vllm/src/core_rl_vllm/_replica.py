"""What is the same for a vLLM server and for vLLM in this process: how weights arrive, how decoding stops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.errors import RunError
from core_rl.serving.answers import at_temperature_one, version_number
from core_rl_vllm._sampling import scores

if TYPE_CHECKING:
    from core_rl.roles.rollout import PauseMode, ScoreRequest, Scores
    from core_rl.serving.replica import Bucket
    from core_rl.weights.buckets import TensorSpec
    from core_rl.weights.group import GroupPlace


class VllmReplica(ABC):
    """Most of a `core_rl.serving.replica.Replica`."""

    name: str
    workers: int = 1
    reads_memory = True
    facts: Mapping[str, Any] = {}
    """What every request needs to know of the model."""

    def prepare(self, *, end_ids: tuple[int, ...], context_length: int) -> None:
        self.facts = {"end_ids": end_ids, "context_length": context_length}

    async def score(self, request: ScoreRequest) -> Scores:
        at_temperature_one(request, "vLLM")
        rows = [None] if len(request.tokens) == 1 else await self.prompt_logprobs(request)
        return scores(request, rows)

    @abstractmethod
    async def prompt_logprobs(self, request: ScoreRequest) -> Sequence[Mapping[Any, Any] | None]:
        """An entry for each token: {token id: {"logprob": …}}, None for the first."""

    @abstractmethod
    async def call_workers(self, method: str, *args: Any) -> list[Any]:
        """A method of `core_rl_vllm.worker.Extension` on every worker, with arguments and results in JSON's types."""

    @abstractmethod
    async def stop_decoding(self, mode: str) -> None:
        """vLLM's own modes: `abort`, `wait`, `keep`."""

    @abstractmethod
    async def go_on(self) -> None: ...

    @abstractmethod
    async def forget_prefixes(self, *, running: bool) -> bool:
        """Drop cached keys and values; with `running` also those of requests in flight, which are computed anew. Whether it did."""

    @abstractmethod
    async def label(self) -> str:
        """Of the weights that it serves."""

    @abstractmethod
    async def set_label(self, label: str) -> None: ...

    async def version(self) -> int | None:
        return version_number(await self.label())

    async def pause(self, mode: PauseMode) -> None:
        await self.stop_decoding("abort" if mode == "abort" else "keep")
        if mode == "retract":
            await self._forget(running=True)

    async def resume(self) -> None:
        await self.go_on()

    async def begin_update(self) -> None:
        await self.stop_decoding("keep")
        await self.call_workers("core_rl_begin")

    async def update(self, bucket: Bucket) -> None:
        await self.call_workers("core_rl_memory", await bucket.note())

    async def update_delta(self, bucket: Bucket) -> None:
        await self.call_workers("core_rl_changes", await bucket.note())

    async def update_from_disk(self, path: str) -> None:
        await self.call_workers("core_rl_disk", path)

    async def join_group(self, place: GroupPlace) -> None:
        await self.call_workers("core_rl_join", attrs.asdict(place))

    async def update_from_group(self, specs: Sequence[TensorSpec]) -> None:
        await self.call_workers("core_rl_group", [spec.to_json() for spec in specs])

    async def end_update(self, version: int) -> None:
        """Prompts that were computed with the old weights are forgotten. What is in flight keeps its own part of the cache where
        vLLM can drop the rest, and is computed anew where it cannot.
        """
        await self.call_workers("core_rl_end")
        await self.set_label(str(version))
        if not await self.forget_prefixes(running=False):
            await self._forget(running=True)
        await self.go_on()

    async def _forget(self, *, running: bool) -> None:
        if not await self.forget_prefixes(running=running):
            message = f"rollout_engine: {self.name} could not drop the prompts that it had computed with older weights"
            raise RunError(message)

    async def fingerprint(self) -> Mapping[str, float]:
        """Raises `RunError` when two workers were given different weights."""
        first, *others = await self.call_workers("core_rl_fingerprint")
        for number, other in enumerate(others, 1):
            differing = [name for name in {*first, *other} if first.get(name) != other.get(name)]
            if differing:
                message = (
                    f"rollout_engine: workers 0 and {number} of {self.name} were given different weights: {min(differing)}"
                )
                raise RunError(message)
        found: Mapping[str, float] = first
        return found
