"""New weights in the rollout engine, and the proof that they act: a few sampled tokens have the trainer's log-probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.data.batch import PackedBatch
from core_rl.errors import RunError
from core_rl.roles.rollout import GenerateRequest, SamplingParams, SleepingEngine
from core_rl.seeds import derive

if TYPE_CHECKING:
    from core_rl.loops.parts import Parts
    from core_rl.roles.rollout import Completion

_PROMPT, _TOKENS = 8, 16
_TOLERANCES = {"float32": 0.01}
_TOLERANCE = 0.2


async def sync(parts: Parts, version: int) -> None:
    """Raises `RunError` when weights did not arrive, or arrived and are not what samples are drawn from."""
    if isinstance(parts.rollout, SleepingEngine):
        await parts.rollout.wake()
    await parts.transport.sync(parts.train, parts.rollout, version)
    component = parts.file.weight_transport.component
    shares = component is not None and "shared_weights" in component.needs
    if parts.file.guard.canary and not shares:
        await _sing(parts, version)


async def _sing(parts: Parts, version: int) -> None:
    file = parts.file
    size = len(parts.tokenizer)
    prompt = [derive(file.run.seed, "canary", place) % size for place in range(_PROMPT)]
    params = SamplingParams(temperature=file.sampling.temperature or 1.0, max_new_tokens=_TOKENS, ignore_eos=True)
    request = GenerateRequest(id=f"canary-{version}", prompt_ids=prompt, params=params, seed=file.run.seed)
    (completion,) = await parts.rollout.generate(request)
    stamped = {span.version for span in completion.versions}
    if stamped != {version}:
        message = (
            f"weight_transport: version {version} was sent, and the rollout engine still says that it serves {sorted(stamped)}"
        )
        raise RunError(message)
    trained = parts.train.forward(_batch(prompt, completion), ["logprobs"])["logprobs"][len(prompt) :]
    difference = float((trained - torch.tensor(list(completion.logprobs))).abs().mean())
    tolerance = file.guard.canary_tolerance or _TOLERANCES.get(file.model.dtype, _TOLERANCE)
    if not difference <= tolerance:
        message = (
            f"weight_transport {file.weight_transport.name}: version {version} arrived, but samples do not come from it: log-probabilities "
            f"of {len(completion.tokens)} sampled tokens are {difference:.3g} away from the train engine's on average, and "
            f"{tolerance:g} passes (guard.canary_tolerance)"
        )
        raise RunError(message)


def _batch(prompt: list[int], completion: Completion) -> PackedBatch:
    tokens = torch.tensor([*prompt, *completion.tokens])
    count = len(tokens)
    return PackedBatch(
        tokens=tokens,
        cu_seqlens=torch.tensor([0, count], dtype=torch.int32),
        positions=torch.arange(count, dtype=torch.int32),
        loss_mask=torch.arange(count) >= len(prompt),
        sequence_fields={"group": torch.tensor([0])},
    )
