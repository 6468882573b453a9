"""From logits to sampled tokens, for many sequences at once.

The uniform number behind token t of sample k is a hash of (seed, k, t): a sample never depends on what else is in flight, on
its slot or on the order of the batch. Log-probabilities are those of the distribution really sampled from, after penalties,
temperature, top-k and top-p; a greedy token's is that of the model's own distribution (temperature 1).

R sequences, V vocabulary, C candidates of a restricted sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import torch

from core_rl.roles.rollout import SamplingParams

_CANDIDATES = 1024
"""Likeliest tokens looked at first for top-k and top-p; a full sort of 49,152 takes 4 ms a sequence, this a tenth of it."""


@attrs.frozen(kw_only=True)
class Draw:
    """What the next token of one sequence depends on, beside its logits."""

    params: SamplingParams
    seed: int
    sample: int
    generated: Sequence[int]
    end_ids: Sequence[int]
    """Ids that may not come before `min_new_tokens`."""

    @property
    def restricted(self) -> bool:
        return self.params.temperature > 0 and (self.params.top_k is not None or self.params.top_p < 1.0)


def sample(logits: torch.Tensor, draws: Sequence[Draw]) -> tuple[list[int], list[float]]:
    """The next token of each row of logits [R, V] and its log-probability. `logits` is changed in place."""
    logits = logits.float()
    _penalise(logits, draws)
    greedy = torch.tensor([draw.params.temperature == 0 for draw in draws])
    temperature = torch.tensor([draw.params.temperature or 1.0 for draw in draws])
    if (temperature != 1).any():
        logits /= temperature.to(logits.device)[:, None]
    uniform = torch.from_numpy(uniforms(draws)).to(logits.device)
    restricted = [row for row, draw in enumerate(draws) if draw.restricted]
    if len(restricted) == len(draws):
        tokens, logprobs = _restricted(logits, draws, uniform)
    else:
        tokens, logprobs = _plain(logits, uniform, greedy.to(logits.device))
        if restricted:
            where = torch.tensor(restricted, device=logits.device)
            tokens[where], logprobs[where] = _restricted(logits[where], [draws[row] for row in restricted], uniform[where])
    return tokens.tolist(), logprobs.tolist()


def uniforms(draws: Sequence[Draw]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """[R] in [0, 1): splitmix64 of seed, sample and index, one after the other."""
    state = np.zeros(len(draws), dtype=np.uint64)
    for part in (
        [draw.seed % 2**64 for draw in draws],
        [draw.sample for draw in draws],
        [len(draw.generated) for draw in draws],
    ):
        state = _mix(state ^ np.array(part, dtype=np.uint64))
    return ((state >> np.uint64(40)).astype(np.float32) / np.float32(2**24)).astype(np.float32)


def _mix(state: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _penalise(logits: torch.Tensor, draws: Sequence[Draw]) -> None:
    for row, draw in enumerate(draws):
        if draw.params.frequency_penalty != 0 and draw.generated:
            seen = torch.tensor(draw.generated, device=logits.device)
            penalty = torch.full(seen.shape, -draw.params.frequency_penalty, device=logits.device)
            logits[row].index_add_(0, seen, penalty)  # a token seen twice is hit twice
        if len(draw.generated) < draw.params.min_new_tokens and draw.end_ids:
            logits[row, torch.tensor(draw.end_ids, device=logits.device)] = -torch.inf


def _plain(logits: torch.Tensor, uniform: torch.Tensor, greedy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """From the whole vocabulary: inverse of the cumulative distribution."""
    normaliser = logits.logsumexp(-1, keepdim=True)
    if greedy.all():
        tokens = logits.argmax(-1)
    else:
        cumulative = (logits - normaliser).exp_().cumsum(-1)
        tokens = _invert(cumulative, uniform)
        tokens = torch.where(greedy, logits.argmax(-1), tokens) if greedy.any() else tokens
    return tokens, (logits.gather(-1, tokens[:, None]) - normaliser)[:, 0]


def _invert(cumulative: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The first index whose cumulative mass exceeds u times the whole; never one without mass of its own."""
    total = cumulative[:, -1]
    # u < 1, but u * total can round up to the total: stay below it
    target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target[:, None], right=True)[:, 0].clamp(max=cumulative.shape[-1] - 1)


def _restricted(logits: torch.Tensor, draws: Sequence[Draw], uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """From the top-k tokens, and of these from the smallest set that reaches top-p."""
    vocabulary = logits.shape[-1]
    top_k = torch.tensor([min(draw.params.top_k or vocabulary, vocabulary) for draw in draws], device=logits.device)
    top_p = torch.tensor([draw.params.top_p for draw in draws], device=logits.device)
    enough = int(top_k.max()) if int(top_k.max()) < vocabulary else _CANDIDATES
    values, ids = logits.topk(min(max(enough, 1), vocabulary), dim=-1)
    whole = torch.where(top_k < vocabulary, torch.inf, logits.logsumexp(-1))  # inf: the mass of the k, below
    if bool(((values - whole[:, None]).exp().sum(-1) < top_p).logical_and(top_k > values.shape[-1]).any()):
        values, ids = logits.sort(dim=-1, descending=True)
    rank = torch.arange(values.shape[-1], device=logits.device)
    values = values.masked_fill(rank >= top_k[:, None], -torch.inf)
    whole = torch.where(top_k < vocabulary, values.logsumexp(-1), whole)
    mass = (values - whole[:, None]).exp()
    before = mass.cumsum(-1) - mass
    values = values.masked_fill((before >= top_p[:, None]) & (rank > 0), -torch.inf)
    normaliser = values.logsumexp(-1, keepdim=True)
    place = _invert((values - normaliser).exp().cumsum(-1), uniform)[:, None]
    return ids.gather(-1, place)[:, 0], (values.gather(-1, place) - normaliser)[:, 0]
