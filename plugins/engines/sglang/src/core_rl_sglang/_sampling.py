"""Requests in SGLang's words, and its answers in ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core_rl.roles.rollout import Completion, GenerateRequest, ScoreRequest, Scores
from core_rl.seeds import derive
from core_rl.serving.answers import finish_reason, version_spans
from core_rl.serving.replica import ServerLostError


def request_ids(request_id: str, n: int) -> list[str]:
    """Of the samples. No one begins with another: SGLang takes back every request whose id begins with what it is told."""
    return [f"{request_id}/{sample}." for sample in range(n)]


def body(request: GenerateRequest, *, end_ids: Sequence[int], context_length: int) -> dict[str, Any]:
    """Of `/generate`, a request for each sample.

    Raises:
        PromptTooLongError: the prompt leaves no room in the context.
    """
    shared = sampling_params(request, end_ids=end_ids, context_length=context_length)
    return {
        "rid": request_ids(request.id, request.n),
        "input_ids": [list(request.prompt_ids)] * request.n,
        "sampling_params": [{**shared, "sampling_seed": derive(request.seed, sample)} for sample in range(request.n)],
        "return_logprob": True,
    }


def sampling_params(request: GenerateRequest, *, end_ids: Sequence[int], context_length: int) -> dict[str, Any]:
    """SGLang's `SamplingParams`, without the seed."""
    most, params = request.most_new_tokens(context_length), request.params
    found: dict[str, Any] = {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": -1 if params.top_k is None else params.top_k,
        "max_new_tokens": most,
        "min_new_tokens": min(params.min_new_tokens, most),
        "stop_token_ids": list(dict.fromkeys(params.ends(end_ids))),
        "ignore_eos": params.ignore_eos,
        "frequency_penalty": params.frequency_penalty,
        "no_stop_trim": True,
    }
    if params.stop:
        found["stop"] = list(params.stop)
    return found


def completion(request: GenerateRequest, answer: Mapping[str, Any]) -> Completion:
    """From one entry of the answer to `/generate`. SGLang says log-probabilities of the whole distribution where one token is left."""
    about = answer["meta_info"]
    entries = about.get("output_token_logprobs") or ()
    certain = request.params.top_k == 1 and request.params.temperature > 0
    return Completion(
        tokens=[entry[1] for entry in entries],
        logprobs=[0.0 if certain else entry[0] for entry in entries],
        finish_reason=finish_reason(str(about["finish_reason"]["type"]), "SGLang"),
        versions=version_spans(about.get("weight_versions")) if entries else (),
    )


def scoring_body(request: ScoreRequest) -> dict[str, Any]:
    """One token is sampled, since SGLang answers nothing without; the prompt is what is asked about."""
    return {
        "rid": request_ids(request.id, 1)[0],
        "input_ids": list(request.tokens),
        "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": request.top_k,
    }


def scores(request: ScoreRequest, answer: Mapping[str, Any]) -> Scores:
    """SGLang has an entry [log-probability, token id, …] for each token, the first without a number; with `top_k` a list of them as well."""
    about = answer["meta_info"]
    rows = about["input_token_logprobs"]
    if [row[1] for row in rows] != list(request.tokens):
        message = f"SGLang answered about {len(rows)} tokens, and was asked about {len(request.tokens)}"
        raise ServerLostError(message)
    logprobs = [0.0, *(float(row[0]) for row in rows[1:])]
    if not request.top_k:
        return Scores(logprobs=logprobs)
    best = [sorted(row or (), key=lambda entry: -entry[0]) for row in about["input_top_logprobs"]]
    return Scores(
        logprobs=logprobs,
        topk_ids=[[], *([entry[1] for entry in row] for row in best[1:])],
        topk_logprobs=[[], *([float(entry[0]) for entry in row] for row in best[1:])],
    )
