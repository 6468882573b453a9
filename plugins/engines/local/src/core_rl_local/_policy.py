"""The model as a policy: log-probabilities and entropies of the scored tokens of a micro-batch, with gradient if wanted.

N tokens of the micro-batch, T computed tokens and M scored ones of its layout, E hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from core_rl.data.batch import PackedBatch
from core_rl.roles.train import PolicyOutputs
from core_rl_local._attention import activate, packed_attention
from core_rl_local._head import Head, token_logprobs
from core_rl_local._layout import Layout, make_layout

Sink = Callable[[torch.Tensor], torch.Tensor | None]


class Policy:
    """A transformers causal language model. `packed`: one row with our attention; else each sequence in a row of its own."""

    def __init__(self, model: Any, *, logits_memory_mb: int, packed: bool = True) -> None:
        self.model = model
        self.packed = packed
        self.temperature = 1.0
        """Divides the logits, as in sampling: log-probabilities are those of the distribution that completions come from."""
        self._budget = logits_memory_mb * 2**20
        config = model.config.get_text_config()
        self._softcap = getattr(config, "final_logit_softcapping", None)
        # Cohere multiplies its logits by logit_scale, Granite divides them by logits_scaling
        self._scale = getattr(config, "logit_scale", None) or 1.0 / (getattr(config, "logits_scaling", None) or 1.0)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    def attention(self) -> Any:
        """The context in which `outputs` and its backward pass run."""
        return packed_attention(self.model) if self.packed else nullcontext()

    def head(self, sink: Sink | None = None) -> Head:
        layer = self.model.get_output_embeddings()
        vocabulary = layer.weight.shape[0]
        return Head(
            weight=layer.weight,
            bias=getattr(layer, "bias", None),
            sink=None if sink is None else sink(layer.weight),
            softcap=self._softcap,
            temperature=self.temperature,
            rows=max(1, self._budget // (4 * vocabulary)),
        )

    def outputs(
        self, batch: PackedBatch, prefix_lengths: Sequence[int], *, entropy_grad: bool = False, sink: Sink | None = None
    ) -> PolicyOutputs:
        """[N] on the model's device, for a batch on the CPU. Sequences without a scored token are not computed."""
        logprobs = torch.zeros(batch.num_tokens, device=self.device)
        if not batch.loss_mask.any():
            return PolicyOutputs(logprobs=logprobs, entropy=logprobs)
        layout = make_layout(batch, prefix_lengths if self.packed else [0] * batch.num_sequences, self.device)
        hidden = self.hidden_states(layout)[layout.predictors]
        if self._scale != 1.0:
            hidden = hidden * self._scale
        scored, entropy = token_logprobs(hidden, layout.targets, self.head(sink), entropy_grad=entropy_grad)
        return PolicyOutputs(
            logprobs=logprobs.index_put((layout.scored,), scored.float()),
            entropy=logprobs.index_put((layout.scored,), entropy.float()),
        )

    def hidden_states(self, layout: Layout) -> torch.Tensor:
        """[T, E], the last layer's, after its norm."""
        if self.packed:
            activate(layout)
            return self._run(layout.tokens, layout.positions)
        starts = (layout.positions == 0).nonzero()[:, 0].tolist()
        ends = [*starts[1:], len(layout.tokens)]
        pieces = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
        return torch.cat([self._run(layout.tokens[piece], layout.positions[piece]) for piece in pieces])

    def _run(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        positional = {"position_ids": positions[None]} if self.packed else {}
        output = self.model.base_model(input_ids=tokens[None], use_cache=False, **positional)
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden
