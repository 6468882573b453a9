"""The aggregations as components: see `core_rl.numerics.aggregation` for the weight of a token in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.aggregation import Aggregator, LocalMean

if TYPE_CHECKING:
    from core_rl.builtin.config import LocalMeanConfig, ScaleLengthConfig


def token_mean(_: int) -> Aggregator:
    return Aggregator("token-mean")


def token_sum(_: int) -> Aggregator:
    return Aggregator("token-sum")


def seq_mean_token_mean(_: int) -> Aggregator:
    return Aggregator("seq-mean-token-mean")


def seq_mean_token_sum(_: int) -> Aggregator:
    return Aggregator("seq-mean-token-sum")


def seq_mean_token_sum_norm(options: ScaleLengthConfig, max_new_tokens: int) -> Aggregator:
    return Aggregator("seq-mean-token-sum-norm", scale_length=options.scale_length or max_new_tokens)


def prompt_mean(_: int) -> Aggregator:
    return Aggregator("prompt-mean")


def token_mean_local(options: LocalMeanConfig, _: int) -> LocalMean:
    return LocalMean(options.sequences)
