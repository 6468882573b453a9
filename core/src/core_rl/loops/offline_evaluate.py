"""The loss and its metrics on held-out rows, without a gradient. All of them are one batch, as in an optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from core_rl.errors import DataError
from core_rl.roles.train import PolicyOutputs

if TYPE_CHECKING:
    from core_rl.loops.offline_parts import OfflineParts


def evaluate_rows(parts: OfflineParts, rows: Sequence[Any]) -> dict[str, float]:
    """Metrics under `eval/` of the first `eval.prompts` rows.

    Raises:
        DataError: every one of them is too long.
    """
    made = parts.batch(rows[: parts.file.eval.prompts])
    if made.batch is None:
        message = f"eval_data: all {made.too_long} held-out rows are too long; see algorithm.encoding.too_long and max_length"
        raise DataError(message)
    batch = parts.prepared(made.batch)
    found = parts.train.forward(batch, parts.outputs)
    nothing = torch.zeros(batch.num_tokens)
    outputs = PolicyOutputs(
        logprobs=found.get("logprobs", nothing),
        entropy=found.get("entropy", nothing),
        values=found.get("values"),
        gathered=found.get("gathered_logprobs"),
    )
    output = parts.objective(outputs, batch)
    used = parts.aggregation.weights(batch)
    total = (output.values.where(used != 0, 0.0).double() * used).sum()
    if output.direct is not None:
        total = total + output.direct.double().sum()
    metrics = {name: float(value) / float(count) for name, (value, count) in output.metrics.items() if count}
    metrics |= {name: float(value) for name, value in output.maxima.items()}
    return {f"eval/{name}": value for name, value in {"loss": float(total), **metrics}.items()}
