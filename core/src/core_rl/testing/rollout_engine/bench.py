"""A started rollout engine on an event loop of its own, and the model that it is to sample from, in float32 by transformers."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeVar

import attrs
import torch

from core_rl.component import Component
from core_rl.errors import RunError
from core_rl.hf.load import load_model
from core_rl.hf.spec import ModelSpec
from core_rl.plugins.build import build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference
from core_rl.roles.rollout import Completion, GenerateRequest, RolloutContext, SamplingParams
from core_rl.testing.kit.check import UnmetError

Result = TypeVar("Result")
SEED = 5
MODEL = ModelSpec(
    init="random",
    tokenizer="characters:0123456789+= ",
    config={
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.25,
        "tie_word_embeddings": True,
    },
)
"""Heads of 32: some engines have no kernel for smaller ones. Tied: an output layer without a weight of its own is easily left behind."""
UNTIED = attrs.evolve(MODEL, config={**MODEL.config, "tie_word_embeddings": False})
PROMPT = (3, 4, 5, 6)
FREE = SamplingParams(max_new_tokens=12, ignore_eos=True)


@attrs.define(eq=False, kw_only=True)
class RolloutBench:
    """`engine` is the one under test. Its weights are `module`'s; a check that changes either puts it back."""

    engine_name: str
    options: Mapping[str, Any]
    dtype: Literal["float32", "bfloat16"]
    logprob_tolerance: float
    model: ModelSpec = MODEL
    component: Component = attrs.field(init=False)
    engine: Any = None
    module: Any = None
    version: int = 0
    measured: dict[str, float] = attrs.field(factory=dict)
    """Largest difference of log-probabilities, by check."""
    _first: list[torch.Tensor] = attrs.field(factory=list)
    _loop: asyncio.AbstractEventLoop = attrs.field(factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _numbers: Any = attrs.field(factory=itertools.count)

    @component.default
    def _find(self) -> Component:
        return Catalogue.discover().find("rollout_engine", self.engine_name).component

    def begin(self) -> None:
        """The event loop alone."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollout bench", daemon=True)
        self._thread.start()

    def open(self) -> RolloutBench:
        self.begin()
        spec = attrs.evolve(self.model, dtype=self.dtype)
        self.module = load_model(spec, seed=SEED).eval()
        self._first = [parameter.detach().clone() for parameter in self.module.parameters()]
        kind = None if self.component.config is None else load_reference(self.component.config)
        context = RolloutContext(model=spec, seed=SEED)
        self.engine = build_component(self.component, None if kind is None else kind(**self.options), context)
        self.run(self.engine.start())
        self.run(self.send(list(self.weights().items())))  # so that every token has a version
        return self

    def close(self) -> None:
        if self.engine is not None:
            self.run(self.engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Result], *, timeout_s: float = 600.0) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def request(
        self, params: SamplingParams = FREE, *, prompt: Sequence[int] = PROMPT, n: int = 1, seed: int = 1
    ) -> GenerateRequest:
        """With an id that no other has."""
        return GenerateRequest(id=f"check-{next(self._numbers)}", prompt_ids=list(prompt), params=params, n=n, seed=seed)

    async def sample(self, params: SamplingParams = FREE, **about: Any) -> list[Completion]:
        found: list[Completion] = await self.engine.generate(self.request(params, **about))
        return found

    def end_ids(self) -> set[int]:
        """Tokens that end a sequence of the suite's model."""
        from core_rl.hf.tokenizer import end_ids, load_tokenizer

        return set(end_ids(self.module.generation_config, self.module.config, load_tokenizer(MODEL)))

    def weights(self) -> dict[str, torch.Tensor]:
        """As an engine is sent them: Hugging Face names, a tied one once."""
        from core_rl.hf.packed.weights import named_weights

        dtype = getattr(torch, self.dtype)
        return {name: tensor.detach().to(dtype) for name, tensor in named_weights(self.module)}

    def move_weights(self, *, seed: int) -> None:
        """Other weights in `module`, which the engine has not. Always as far from those of the start: weights that grow grow float noise."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for first, parameter in zip(self._first, self.module.parameters(), strict=True):
                noise = 0.05 * torch.randn(parameter.shape, generator=generator)
                parameter.copy_(first + noise.to(parameter.dtype))

    async def send(self, tensors: list[tuple[str, torch.Tensor]]) -> int:
        """One update. Returns its version."""
        self.version += 1
        await self.engine.begin_update()
        await self.engine.update(tensors)
        await self.engine.end_update(self.version)
        return self.version

    def compare(
        self, check: str, completions: Sequence[Completion], params: SamplingParams, *, prompt: Sequence[int] = PROMPT
    ) -> None:
        """Log-probabilities of the distribution sampled from are those of `module`."""
        for completion in completions:
            expected = self.logprobs(prompt, completion.tokens, params)
            difference = max((abs(a - b) for a, b in zip(expected, completion.logprobs, strict=True)), default=0.0)
            self.measured[check] = max(self.measured.get(check, 0.0), difference)
            if difference > self.logprob_tolerance:
                message = f"log-probabilities are {difference:.3g} away from the model's, {self.logprob_tolerance:g} is allowed"
                raise UnmetError(message)

    def logprobs(self, prompt: Sequence[int], tokens: Sequence[int], params: SamplingParams) -> list[float]:
        """Of given tokens: logits over the temperature, then top-k, then top-p; penalties first."""
        ids = torch.tensor([[*prompt, *tokens]])
        with torch.no_grad():
            logits = self.module(input_ids=ids, use_cache=False).logits[0].float()
        found = []
        for place, token in enumerate(tokens):
            row = logits[len(prompt) - 1 + place].clone()
            for earlier in tokens[:place]:
                row[earlier] -= params.frequency_penalty
            found.append(float(processed(row, params)[token]))
        return found


def processed(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """[V] log-probabilities of the distribution that is sampled from; greedy has those of temperature 1."""
    scaled = logits / (params.temperature or 1.0)
    if params.temperature and params.top_k is not None:
        scaled = scaled.where(scaled >= scaled.topk(min(params.top_k, len(scaled))).values[-1], -torch.inf)
    if params.temperature and params.top_p < 1.0:
        ordered, places = scaled.softmax(-1).sort(descending=True)
        dropped = ordered.cumsum(-1) - ordered >= params.top_p
        scaled[places[dropped]] = -torch.inf
    return scaled.log_softmax(-1)


def expect(holds: bool, words: str) -> None:
    if not holds:
        raise UnmetError(words)


async def refused(work: Coroutine[Any, Any, Any], kind: type[BaseException] = RunError) -> str:
    """The words of the error that must come."""
    try:
        await work
    except kind as error:
        return str(error)
    message = f"expected {kind.__name__}, and nothing was raised"
    raise UnmetError(message)
