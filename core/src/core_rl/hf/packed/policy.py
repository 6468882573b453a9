"""The model as a policy: log-probabilities and entropies of the scored tokens of a micro-batch, with gradient if wanted.

N tokens of the micro-batch, T computed tokens and M scored ones of its layout, E hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import attrs
import torch

from core_rl.data.batch import PackedBatch
from core_rl.hf.packed.attention import activate
from core_rl.hf.packed.choice import Attention, context_of
from core_rl.hf.packed.head import Head, token_logprobs, top_logprobs
from core_rl.hf.packed.layout import Layout, make_layout
from core_rl.hf.packed.ulysses import Ulysses
from core_rl.roles.train import PolicyOutputs
from core_rl.train import vocabulary

Sink = Callable[[torch.Tensor], torch.Tensor | None]


@attrs.frozen(kw_only=True)
class Outputs(PolicyOutputs):
    """With the likeliest tokens in each token's place, [N, k], where they were asked for."""

    topk_ids: torch.Tensor | None = None
    topk_logprobs: torch.Tensor | None = None


class Policy:
    """A transformers causal language model. `packed`: one row for all sequences; else each is in a row of its own."""

    def __init__(self, model: Any, *, logits_memory_mb: int, packed: bool = True, attention: Attention = "packed") -> None:
        self.model = model
        self.packed = packed
        self.shares = packed and attention == "packed"
        """Whether the prompt of a group may be computed once."""
        self._attention: Attention = attention
        self.value_weight: torch.Tensor | None = None
        """[1, E]: of a value head; values are this times the hidden state before each token."""
        self.has_logits = model.get_output_embeddings() is not None
        self.ulysses: Ulysses | None = None
        """Who shares the tokens of a packed row with this rank."""
        self.vocabulary_group: Any = None
        """Who shares the output layer with this rank, each with its rows of the vocabulary (a DTensor's)."""
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
        return context_of(self.model, self._attention) if self.packed else nullcontext()

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
        self,
        batch: PackedBatch,
        prefix_lengths: Sequence[int],
        *,
        entropy_grad: bool = False,
        sink: Sink | None = None,
        top_k: int = 0,
    ) -> Outputs:
        """[N] on the model's device, for a batch on the CPU. Sequences without a scored token are not computed."""
        nothing = torch.zeros(batch.num_tokens, device=self.device)
        if not batch.loss_mask.any():
            return Outputs(logprobs=nothing, entropy=nothing, values=None if self.value_weight is None else nothing)
        layout = make_layout(batch, prefix_lengths if self.shares else [0] * batch.num_sequences, self.device)
        rows, targets, where = layout.predictors, layout.targets, layout.scored
        if self.ulysses is not None:
            here, rows = self.ulysses.scored(layout)
            targets, where = targets[here], where[here]
        hidden = self.hidden_states(layout)[rows]

        def spread(scored: torch.Tensor) -> torch.Tensor:
            """[M, …] -> [N, …], 0 elsewhere; log-probabilities as float32."""
            full = torch.zeros(batch.num_tokens, *scored.shape[1:], device=self.device, dtype=scored.dtype)
            full = full.index_put((where,), scored)
            return full if self.ulysses is None else self.ulysses.total(full)

        found: dict[str, torch.Tensor] = {}
        if self.value_weight is not None:
            found["values"] = spread((hidden.float() @ self.value_weight.float().t())[:, 0])
        if not self.has_logits:
            return Outputs(logprobs=nothing, entropy=nothing, **found)
        if self._scale != 1.0:
            hidden = hidden * self._scale
        ids = targets[:, None]
        if "gather_ids" in batch:
            ids = torch.cat([ids, batch["gather_ids"].to(self.device)[where]], 1)
        scored, entropy, likeliest = self._scores(hidden, ids, entropy_grad=entropy_grad, sink=sink, top_k=top_k)
        if "gather_ids" in batch:
            found["gathered"] = spread(scored[:, 1:].float())
        if likeliest is not None:
            found |= {"topk_ids": spread(likeliest[0]), "topk_logprobs": spread(likeliest[1].float())}
        return Outputs(logprobs=spread(scored[:, 0].float()), entropy=spread(entropy.float()), **found)

    def _scores(
        self, hidden: torch.Tensor, ids: torch.Tensor, *, entropy_grad: bool, sink: Sink | None, top_k: int
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor] | None]:
        """Log-probabilities [M, 1 + K], entropies [M], and the likeliest ids with theirs."""
        best = None
        if self.vocabulary_group is not None:
            weight, part = self._vocabulary_part()
            scored, entropy = vocabulary.token_logprobs(hidden, weight, ids, part, entropy_grad=entropy_grad)
            if top_k:
                k = min(top_k, self.model.get_output_embeddings().weight.shape[0])
                best = vocabulary.top_logprobs(hidden.detach(), weight.detach(), part, k)
            return scored, entropy, best
        head = self.head(sink)
        scored, entropy = token_logprobs(hidden, ids, head, entropy_grad=entropy_grad)
        if top_k:
            best = top_logprobs(hidden.detach(), head, min(top_k, len(head.weight)))
        return scored, entropy, best

    def _vocabulary_part(self) -> tuple[torch.Tensor, vocabulary.Shard]:
        """This rank's rows of the output layer, of which every rank before it has as many as fit in equal parts."""
        table = self.model.get_output_embeddings().weight
        rows = -(-table.shape[0] // self.vocabulary_group.size())
        own = table.to_local()
        part = vocabulary.Shard(
            group=self.vocabulary_group,
            start=min(rows * self.vocabulary_group.rank(), table.shape[0]),
            size=len(own),
            temperature=self.temperature,
            rows=max(1, self._budget // (4 * rows)),
        )
        return own, part

    def hidden_states(self, layout: Layout) -> torch.Tensor:
        """[T, E], the last layer's, after its norm; of this rank's slice where others share the row."""
        if self.packed:
            activate(layout, self.ulysses)
            own = (layout.tokens, layout.positions) if self.ulysses is None else self.ulysses.own(layout)
            return self._run(*own)
        starts = (layout.positions == 0).nonzero()[:, 0].tolist()
        ends = [*starts[1:], len(layout.tokens)]
        pieces = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
        return torch.cat([self._run(layout.tokens[piece], layout.positions[piece]) for piece in pieces])

    def _run(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        positional = {"position_ids": positions[None]} if self.packed else {}
        output = self.model.base_model(input_ids=tokens[None], use_cache=False, **positional)
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden
