"""An SGLang server, started here or running somewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core_rl.errors import RunError, UserError
from core_rl.serving.answers import at_temperature_one, version_number
from core_rl.serving.replica import ServerLostError
from core_rl.serving.server import HttpServer
from core_rl_sglang import _calls
from core_rl_sglang._sampling import body, completion, request_ids, scores, scoring_body

if TYPE_CHECKING:
    from core_rl.roles.rollout import Completion, GenerateRequest, PauseMode, ScoreRequest, Scores
    from core_rl.serving.replica import Bucket
    from core_rl.weights.buckets import TensorSpec
    from core_rl.weights.group import GroupPlace
    from core_rl_sglang.config import SglangConfig

_MODES = {"abort": "abort", "retract": "retract", "keep": "in_place"}
_ENVIRONMENT = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
"""By the tokens that SGLang keeps for itself; no request reaches them."""
_HOW = "Start it with `python -m core_rl_sglang.serve` and SGLang's own flags, in an environment that has core-rl-sglang"


class SglangServer(HttpServer):
    """A `core_rl.serving.replica.Replica`, by HTTP."""

    kind = "SGLang"
    module = "core_rl_sglang.serve"
    environment = _ENVIRONMENT
    reads_memory = True

    def __init__(
        self,
        options: SglangConfig,
        *,
        url: str | None,
        number: int,
        arguments: Mapping[str, Any],
        end_ids: Sequence[int],
        context_length: int,
    ) -> None:
        super().__init__(options, url=url, number=number)
        self.workers = 1
        self._arguments = arguments
        self._facts: dict[str, Any] = {"end_ids": end_ids, "context_length": context_length}
        self._samples: dict[str, int] = {}
        """Of the requests in flight."""
        self._process_id: str | None = None
        """Of the process that was told what follows; one that was started again knows nothing of it."""
        self._loading = False
        """Between SGLang's begin and end of an update."""
        self._group: str | None = None
        self._asleep = False
        """SGLang breaks when it is to take back memory that it has."""

    def arguments(self) -> Mapping[str, Any]:
        found = {**self._arguments, "host": self.options.host, "port": self.port}
        return found if self.options.api_key is None else {**found, "api_key": self.options.api_key}

    async def start(self) -> None:
        """Raises `UserError` for a server without core-rl's extension, or one that it does not fit."""
        await self.ready()
        try:
            missing = (await self._ask("hooks"))["missing"]
            info = await self.client.get("/server_info")
        except (RunError, ValueError) as error:
            message = f"rollout_engine.url: {self.name} has no extension of core-rl ({error}). {_HOW}"
            raise UserError(message) from error
        if missing:
            message = (
                f"rollout_engine: {self.name} is SGLang {info.get('version')}, in which core-rl-sglang does not find "
                f"{', '.join(missing)}: it was written for 0.5.23"
            )
            raise UserError(message)
        if int(info.get("dp_size", 1)) != 1:
            message = (
                "rollout_engine.args.dp_size: SGLang updates no weights of data-parallel servers; take rollout_engine.servers"
            )
            raise UserError(message)
        self.workers = int(info.get("tp_size", 1)) * int(info.get("pp_size", 1))

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        sent = body(request, **self._facts)
        self._samples[request.id] = request.n
        try:
            answers = await self.client.post("/generate", sent)
            return [completion(request, answer) for answer in answers]
        except (KeyError, TypeError, IndexError) as error:
            message = f"{self.name} answered in a form that is not SGLang's: {error!r}"
            raise ServerLostError(message) from error
        finally:
            self._samples.pop(request.id, None)

    async def score(self, request: ScoreRequest) -> Scores:
        at_temperature_one(request, self.kind)
        answer = await self.client.post("/generate", scoring_body(request))
        try:
            return scores(request, answer)
        except (KeyError, TypeError, IndexError) as error:
            message = f"{self.name} answered in a form that is not SGLang's: {error!r}"
            raise ServerLostError(message) from error

    async def abort(self, request_id: str) -> None:
        for sample in request_ids(request_id, self._samples.get(request_id, 0)):
            await self.client.post("/abort_request", {"rid": sample})

    async def version(self) -> int | None:
        return version_number(str((await self.client.get("/model_info"))["weight_version"]))

    async def pause(self, mode: PauseMode) -> None:
        await self.client.post("/pause_generation", {"mode": _MODES[mode]})

    async def resume(self) -> None:
        await self.client.post("/continue_generation", {})

    async def begin_update(self) -> None:
        """What is in flight is computed anew afterwards: keys and values of older weights are not kept."""
        await self.pause("retract")
        await self._meet()
        if self._loading:  # an update before this one was not ended
            await self._end_loading()
        await self._ask("begin")

    async def update(self, bucket: Bucket) -> None:
        await self._load("memory", await bucket.note())

    async def update_delta(self, bucket: Bucket) -> None:
        await self._load("changes", await bucket.note())

    async def update_from_disk(self, path: str) -> None:
        await self.client.post("/update_weights_from_disk", {"model_path": path, "flush_cache": False})

    async def join_group(self, place: GroupPlace) -> None:
        if self._group is not None:
            await self.client.post("/destroy_weights_update_group", {"group_name": self._group})
        where = {"master_address": place.address, "master_port": place.port, "rank_offset": place.rank}
        about = {"world_size": place.world_size, "group_name": place.name, "backend": place.backend}
        await self.client.post("/init_weights_update_group", {**where, **about})
        self._group = place.name

    async def update_from_group(self, specs: Sequence[TensorSpec]) -> None:
        await self._begin_loading()
        what = {
            "names": [spec.name for spec in specs],
            "dtypes": [spec.dtype for spec in specs],
            "shapes": [list(spec.shape) for spec in specs],
        }
        about = {"group_name": self._group, "flush_cache": False, "selector": "target"}
        await self.client.post("/update_weights_from_distributed", {**what, **about})

    async def end_update(self, version: int) -> None:
        """Prompts that were computed with the old weights are forgotten."""
        if self._loading:
            await self._end_loading()
        await self.client.post("/update_weight_version", {"new_version": str(version), "abort_all_requests": False})
        await self.client.touch("/flush_cache", method="POST")
        await self.resume()

    async def fingerprint(self) -> Mapping[str, float]:
        """Raises `RunError` when two workers were given different weights."""
        answer = await self._ask("fingerprint")
        if answer["differing"]:
            message = f"rollout_engine: two workers of {self.name} were given different weights: {answer['differing']}"
            raise RunError(message)
        found: Mapping[str, float] = answer["fingerprint"]
        return found

    async def sleep(self) -> None:
        await self._meet()
        if not self._asleep:
            await self.client.post("/release_memory_occupation", {})
            self._asleep = True

    async def wake(self) -> None:
        await self._meet()
        if self._asleep:
            self._asleep = False
            await self.client.post("/resume_memory_occupation", {})

    async def _meet(self) -> None:
        found = (await self._ask("process"))["id"]
        if found != self._process_id:
            self._process_id, self._loading, self._group, self._asleep = found, False, None, False

    async def _ask(self, method: str) -> dict[str, Any]:
        return _calls.unpacked(await self.client.post("/get_weights_by_name", _calls.question(method)))

    async def _load(self, method: str, argument: Any) -> None:
        await self._begin_loading()
        await self.client.post("/update_weights_from_tensor", _calls.loading(method, argument, workers=self.workers))

    async def _begin_loading(self) -> None:
        if not self._loading:
            await self.client.post("/begin_weight_update", {"selector": "target"})
            self._loading = True

    async def _end_loading(self) -> None:
        self._loading = False
        await self.client.post("/end_weight_update", {})
