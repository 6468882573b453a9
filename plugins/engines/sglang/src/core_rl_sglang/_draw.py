"""How a token is drawn: by the request's own seed, and with the log-probability of the distribution that it was drawn from.

SGLang has seeds in its deterministic mode alone, and says log-probabilities from before top-k and top-p; both are part of what core-rl
asks of a rollout engine. Each function stands around one of SGLang's, whose arguments it has after the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_UNSEEDED = -1


def with_seeds(original: Callable[..., Any], cls: type, batch: Any, vocab_size: int) -> Any:
    """Around `SamplingBatchInfo.from_schedule_batch`: the seeds come along."""
    info = original(cls, batch, vocab_size)
    if info.sampling_seed is None:
        seeds = [request.sampling_params.sampling_seed for request in batch.reqs]
        info.sampling_seed = torch.tensor([_UNSEEDED if seed is None else seed for seed in seeds], device=batch.device)
    return info


def sample(  # noqa: PLR0917 - as SGLang calls it
    original: Callable[..., Any], sampler: Any, probs: torch.Tensor, info: Any, positions: torch.Tensor, simple: bool
) -> Any:
    """Around `Sampler._sample_from_probs`. `probs` [B, V] becomes what is drawn from: SGLang takes its log-probabilities of it then."""
    if info.sampling_mask_batch_indices is not None:
        return original(sampler, probs, info, positions, simple)
    if not simple:
        restrict(probs, info.top_ks, info.top_ps, info.min_ps)
    tokens = draw(probs, uniforms(info.sampling_seed, positions), greedy=info.top_ks == 1)
    return tokens.to(torch.int32), None


def stops(original: Callable[..., Any], request: Any, new_tokens: list[int]) -> Any:
    """Around `Req._check_token_based_finish`: with `ignore_eos` SGLang ignores the stop ids of the request too."""
    params = request.sampling_params
    if not (params.ignore_eos and params.stop_token_ids):
        return original(request, new_tokens)
    for place, token in enumerate(new_tokens):
        if token in params.stop_token_ids:
            from sglang.srt.managers.schedule_batch import FINISH_MATCHED_TOKEN

            request.finished_reason = FINISH_MATCHED_TOKEN(matched=token)
            request.finished_len = len(request.output_ids) - len(new_tokens) + place + 1
            return True
    return False


def restrict(probs: torch.Tensor, top_ks: torch.Tensor, top_ps: torch.Tensor, min_ps: torch.Tensor) -> None:
    """Probabilities [B, V] in place: the k likeliest, of those the smallest set that reaches top-p, of those what is at least min-p of the
    likeliest, normalized. Rows with k = 1 are greedy and stay whole: their log-probability is that of the model.
    """
    ordered, places = probs.sort(dim=-1, descending=True)
    ranks = torch.arange(probs.shape[-1], device=probs.device)
    kept = ordered.masked_fill(ranks >= top_ks.unsqueeze(-1), 0.0)
    kept /= kept.sum(-1, keepdim=True)
    kept.masked_fill_(kept.cumsum(-1) - kept >= top_ps.unsqueeze(-1), 0.0)
    kept.masked_fill_(kept < kept[:, :1] * min_ps.unsqueeze(-1), 0.0)
    kept /= kept.sum(-1, keepdim=True)
    restricted = torch.empty_like(probs).scatter_(-1, places, kept)
    probs.copy_(torch.where((top_ks == 1).unsqueeze(-1), probs, restricted))


def draw(probs: torch.Tensor, uniform: torch.Tensor, *, greedy: torch.Tensor) -> torch.Tensor:
    """[B] tokens: where the sum of probabilities [B, V] passes the number [B] in [0, 1)."""
    sums = probs.cumsum(-1, dtype=torch.float64)
    found = torch.searchsorted(sums, (uniform * sums[:, -1]).unsqueeze(-1), right=True).squeeze(-1)
    return torch.where(greedy, probs.argmax(-1), found.clamp(max=probs.shape[-1] - 1))


def uniforms(seeds: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """[B] float64 in [0, 1): of seed and place alone (SplitMix64, Steele et al. 2014), so that no one else in the batch has a say."""
    bits = _mix(seeds + _mix(positions.to(torch.int64)))
    hashed = _shift(bits, 11).double() / 2**53
    return torch.where(seeds == _UNSEEDED, torch.rand(seeds.shape, dtype=torch.float64, device=seeds.device), hashed)


def _mix(bits: torch.Tensor) -> torch.Tensor:
    bits = bits + _signed(0x9E3779B97F4A7C15)
    bits = (bits ^ _shift(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shift(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shift(bits, 31)


def _shift(bits: torch.Tensor, by: int) -> torch.Tensor:
    """To the right, as without a sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
