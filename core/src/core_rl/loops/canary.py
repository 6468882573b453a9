"""New weights in the rollout engine, and the proof that they act: a few sampled tokens have the trainer's log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from core_rl.data.batch import PackedBatch
from core_rl.errors import RunError
from core_rl.roles.rollout import GenerateRequest, ManyServers, SamplingParams, SleepingEngine
from core_rl.seeds import derive

if TYPE_CHECKING:
    from core_rl.loops.parts import Parts
    from core_rl.roles.rollout import Completion, RolloutEngine

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
    heard = await _heard(parts.rollout, request)
    for where, completion in heard.items():
        stamped = {span.version for span in completion.versions}
        if stamped != {version}:
            message = f"weight_transport: version {version} was sent, and {where} still says that it serves {sorted(stamped)}"
            raise RunError(message)
    batch = _batch(prompt, list(heard.values()))
    trained = parts.train.forward(batch, ["logprobs"])["logprobs"]
    tolerance = file.guard.canary_tolerance or _TOLERANCES.get(file.model.dtype, _TOLERANCE)
    for (where, completion), own in zip(heard.items(), _sequences(trained, batch), strict=True):
        difference = float((own[len(prompt) :] - torch.tensor(list(completion.logprobs))).abs().mean())
        if not difference <= tolerance:
            message = (
                f"weight_transport {file.weight_transport.name}: version {version} arrived, but samples of {where} do not come from it: "
                f"log-probabilities of {len(completion.tokens)} sampled tokens are {difference:.3g} away from the train engine's on "
                f"average, and {tolerance:g} passes (guard.canary_tolerance)"
            )
            raise RunError(message)


async def _heard(rollout: RolloutEngine, request: GenerateRequest) -> dict[str, Completion]:
    """What every server says, by its name."""
    if isinstance(rollout, ManyServers):
        return {where: completions[0] for where, completions in (await rollout.generate_at_each(request)).items()}
    return {"the rollout engine": (await rollout.generate(request))[0]}


def _batch(prompt: list[int], completions: Sequence[Completion]) -> PackedBatch:
    rows = [[*prompt, *completion.tokens] for completion in completions]
    lengths = torch.tensor([0, *(len(row) for row in rows)])
    positions = torch.cat([torch.arange(len(row)) for row in rows])
    return PackedBatch(
        tokens=torch.tensor([token for row in rows for token in row]),
        cu_seqlens=lengths.cumsum(0).int(),
        positions=positions.int(),
        loss_mask=positions >= len(prompt),
        sequence_fields={"group": torch.arange(len(rows))},
    )


def _sequences(values: torch.Tensor, batch: PackedBatch) -> list[torch.Tensor]:
    return list(values.split(batch.cu_seqlens.diff().tolist()))
