"""The local rollout engine: continuous batching in this process, on the train engine's own weights when it is here too.

The scheduler is a task of the event loop; the model runs in one worker thread, so that rewards are scored meanwhile. Requests
are taken in only between steps and in the order of submission: the same submissions give the same batches and the same bits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.errors import PromptTooLongError, RunError
from core_rl.fingerprint import fingerprint
from core_rl.hf.load import context_length, load_model
from core_rl.hf.packed.weights import column_major, named_weights
from core_rl.hf.tokenizer import end_ids, load_tokenizer
from core_rl.weights.delta import Receiver
from core_rl_local._generator import Counters, Generator
from core_rl_local._rollout_probe import check_generation
from core_rl_local._scheduler import Job, Scheduler

if TYPE_CHECKING:
    import torch

    from core_rl.roles.rollout import Completion, GenerateRequest, PauseMode, RolloutContext, ScoreRequest, Scores
    from core_rl_local.config import LocalRolloutConfig


class LocalRolloutEngine:
    """A `core_rl.roles.rollout.RolloutEngine`."""

    def __init__(self, options: LocalRolloutConfig, context: RolloutContext) -> None:
        self.options = options
        self.context = context
        self.version = 0
        self._shares = False
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self._changes = Receiver()

    async def start(self) -> None:
        """Needs the train engine's `setup` to be over when the weights are shared."""
        import torch

        self.module = self._load()
        self._tokenizer = None
        if self.context.model.tokenizer is not None or self.context.model.path is not None:
            self._tokenizer = load_tokenizer(self.context.model)
        config = self.module.config.get_text_config()
        self._eos_ids = end_ids(getattr(self.module, "generation_config", None), config, self._tokenizer)
        self._context_length = context_length(self.context.model)
        room = cache_bytes(self.options.cache_gb, self.module.device)
        cells = room / _bytes_per_token(config, getattr(torch, self.context.model.dtype))
        self._scheduler = Scheduler(self.options.max_running_sequences, cells)
        self._generator = Generator(
            self.module, self._scheduler, self._tokenizer, max_prefill_tokens=self.options.max_prefill_tokens
        )
        self._jobs: dict[str, Job] = {}
        self._left: list[Job] = []
        self._may_run = asyncio.Event()
        self._may_run.set()
        self._between_steps = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rollout")
        with torch.no_grad():
            check_generation(self.module)

    def _load(self) -> Any:
        trained = getattr(self.context.train_engine, "module", None)
        if trained is not None:
            self._shares = True
            return trained
        import torch

        module = load_model(self.context.model, seed=self.context.seed)
        module.to(getattr(torch, self.context.model.dtype))
        if torch.cuda.is_available():
            return module.to("cuda")
        column_major(module)
        return module

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        self._check_alive()
        most = request.most_new_tokens(self._context_length)
        job = Job(
            request=request,
            max_new_tokens=most,
            end_ids=request.params.ends(self._eos_ids),
            future=asyncio.get_running_loop().create_future(),
        )
        self._scheduler.submit(job)
        self._jobs[request.id] = job
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            return await job.future
        except asyncio.CancelledError:
            self._left.append(job)  # a step may be running, whose thread has the scheduler
            raise
        finally:
            self._jobs.pop(request.id, None)

    async def score(self, request: ScoreRequest) -> Scores:
        """Log-probabilities of given tokens under the weights that are served, between two steps of decoding; not while paused."""
        if len(request.tokens) > self._context_length:
            message = f"{request.id}: {len(request.tokens)} tokens, and the context holds {self._context_length}"
            raise PromptTooLongError(message)
        while True:
            await self._may_run.wait()
            async with self._between_steps:
                self._check_alive()
                if self._may_run.is_set():  # an update may have begun while this waited for its turn
                    return await asyncio.get_running_loop().run_in_executor(self._thread, self._scores, request)

    def _check_alive(self) -> None:
        if self._failure is not None or self._closed:
            message = f"the local rollout engine is {'closed' if self._closed else f'dead since: {self._failure!r}'}"
            raise RunError(message) from self._failure

    def _scores(self, request: ScoreRequest) -> Scores:
        from core_rl_local._scoring import scores

        return scores(self.module, request)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # what is submitted in this turn of the event loop starts together
        try:
            while self._scheduler.busy:
                await self._may_run.wait()
                async with self._between_steps:
                    if not self._may_run.is_set():
                        continue
                    self._drop_left()
                    done = await loop.run_in_executor(self._thread, self._generator.step, self.version)
                _deliver(done)
        except Exception as error:  # noqa: BLE001 - whatever the model raised belongs to those who wait for it
            self._failure = error
            for job in self._jobs.values():
                if not job.future.done():
                    job.future.set_exception(error)
        finally:
            self._task = None

    def _drop_left(self) -> None:
        """What nobody waits for any more. Between two steps."""
        left, self._left = self._left, []
        if left:
            self._scheduler.abort(lambda job: any(job is one for one in left))

    async def pause(self, mode: PauseMode = "abort") -> None:
        self._may_run.clear()
        async with self._between_steps:
            if mode == "abort":
                _deliver(self._scheduler.abort(lambda _job: True))
            elif mode == "retract":
                self._scheduler.retract()

    async def resume(self) -> None:
        self._may_run.set()

    async def abort(self, request_id: str) -> None:
        async with self._between_steps:
            _deliver(self._scheduler.abort(lambda job: job.request.id == request_id))

    async def begin_update(self) -> None:
        self._may_run.clear()
        async with self._between_steps:
            pass  # the running step is over

    async def update(self, tensors: Sequence[tuple[str, Any]]) -> None:
        """Copy new values into the weights, between `begin_update` and `end_update`."""
        if self._shares:
            message = "the local rollout engine shares the train engine's weights; weight_transport: shared is the one for it"
            raise RunError(message)
        import torch

        with torch.no_grad():
            _copy(self.module, tensors)

    async def update_from_disk(self, path: str) -> None:
        from safetensors.torch import load_file

        for file in _files(path):
            await self.update(list(load_file(file).items()))

    def members(self) -> Mapping[str, int]:
        return {"local": 1}

    async def update_delta(self, changes: Sequence[tuple[str, Any]]) -> None:
        await self.update(list(self._changes.apply(changes)))

    async def end_update(self, version: int) -> None:
        self.version = version
        self._may_run.set()

    async def fingerprint(self) -> Mapping[str, float]:
        return fingerprint(named_weights(self.module))

    async def close(self) -> None:
        if self._closed or not hasattr(self, "_thread"):
            self._closed = True
            return
        await self.pause("abort")
        self._may_run.set()
        self._closed = True
        if self._task is not None:
            await self._task
        self._thread.shutdown()
        self._generator.cache.release()

    def stats(self) -> Mapping[str, float]:
        counters, self._generator.counters = self._generator.counters, Counters()
        return {
            "rollout/tokens": float(counters.tokens),
            "rollout/prefill_tokens": float(counters.prefill_tokens),
            "rollout/prefill_s": counters.prefill_s,
            "rollout/decode_s": counters.decode_s,
            "rollout/steps": float(counters.decode_steps),
            "rollout/mean_running": counters.decode_rows / max(counters.decode_steps, 1),
        }


def cache_bytes(gigabytes: float | None, device: torch.device) -> float:
    """Of all keys and values. Never from what is free: the same run would decode other batches another time."""
    if gigabytes is not None:
        return gigabytes * 1e9
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_properties(device).total_memory / 3
    return 4e9


def _bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    """Of keys and values in all layers."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    found: int = 2 * config.num_hidden_layers * heads * size * dtype.itemsize
    return found


def _deliver(jobs: Iterable[Job]) -> None:
    for job in jobs:
        if job.done and not job.future.done():
            job.future.set_result(job.completions())


def _copy(module: Any, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    own: dict[str, torch.Tensor] = dict(module.state_dict(keep_vars=True))
    for name, value in tensors:
        if name not in own:
            message = f"weight update: the model has no {name!r}"
            raise RunError(message)
        if own[name].shape != value.shape:
            message = f"weight update: {name} is {tuple(own[name].shape)} here and {tuple(value.shape)} in the update"
            raise RunError(message)
        own[name].data.copy_(value)


def _files(path: str) -> list[Path]:
    return sorted(Path(path).glob("*.safetensors"))
