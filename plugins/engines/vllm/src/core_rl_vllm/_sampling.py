"""Requests in vLLM's words, and its answers in ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core_rl.roles.rollout import Completion, GenerateRequest, ScoreRequest, Scores
from core_rl.serving.answers import finish_reason, version_spans


def sampling_params(request: GenerateRequest, *, end_ids: Sequence[int], context_length: int) -> dict[str, Any]:
    """vLLM's `SamplingParams`. Sample k has the seed `request.seed` + k there.

    Raises:
        PromptTooLongError: the prompt leaves no room in the context.
    """
    most, params = request.most_new_tokens(context_length), request.params
    found: dict[str, Any] = {
        "n": request.n,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k or 0,
        "max_tokens": most,
        "min_tokens": min(params.min_new_tokens, most),
        "stop_token_ids": list(dict.fromkeys(params.ends(end_ids))),
        "ignore_eos": True,  # the ids that end a sequence are all named
        "frequency_penalty": params.frequency_penalty,
        "logprobs": 0,  # of the sampled token alone
        "seed": request.seed % 2**63,
    }
    if params.stop:
        found["stop"] = list(params.stop)
    return found


def completion(choice: Mapping[str, Any]) -> Completion:
    """From a choice with `token_ids`, `logprobs` (one number for each), `finish_reason` and `weight_versions`."""
    return Completion(
        tokens=list(choice["token_ids"] or ()),
        logprobs=list(choice["logprobs"]),
        finish_reason=finish_reason(str(choice["finish_reason"]), "vLLM"),
        versions=version_spans(choice["weight_versions"]),
    )


def scoring_params(request: ScoreRequest) -> dict[str, Any]:
    """One token is sampled, since vLLM answers nothing without; the prompt is what is asked about."""
    return {"n": 1, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": request.top_k, "ignore_eos": True}


def scores(request: ScoreRequest, table: Sequence[Mapping[Any, Any] | None]) -> Scores:
    """From vLLM's entry for each token: {token id: (log-probability, rank)}."""
    logprobs, ids, values = [0.0], [[]], [[]]  # type: ignore[var-annotated]
    for token, row in zip(request.tokens[1:], table[1:], strict=True):
        found = {int(one): entry for one, entry in (row or {}).items()}
        logprobs.append(float(found[token]["logprob"]))
        best = sorted(found.items(), key=lambda entry: -float(entry[1]["logprob"]))[: request.top_k]
        ids.append([one for one, _ in best])
        values.append([float(entry["logprob"]) for _, entry in best])
    if not request.top_k:
        return Scores(logprobs=logprobs)
    return Scores(logprobs=logprobs, topk_ids=ids, topk_logprobs=values)
