"""Does this model give the same logits through our slots as by itself? A few tokens say so, whatever kind of model it is."""

from __future__ import annotations

from typing import Any

import torch

from core_rl.errors import ModelError
from core_rl.hf.packed.interface import UnsupportedAttentionError
from core_rl_local._decode import slot_attention
from core_rl_local._slots import Segment, SlotCache

_TOLERANCE = 1e-3
_BFLOAT16_TOLERANCE = 5e-2


def check_generation(module: Any) -> None:
    """Two prompts in one prefill and one decode step, against the model's own forward pass.

    Raises:
        ModelError: the logits differ: recurrent layers, or attention that is more than softmax of scaled products.
    """
    vocabulary = module.get_output_embeddings().weight.shape[0]
    prompts = [[token % vocabulary for token in prompt] for prompt in ((3, 4, 5, 6), (7, 3))]
    following = [8 % vocabulary, 9 % vocabulary]
    expected = torch.cat([_plain(module, [*prompt, token]) for prompt, token in zip(prompts, following, strict=True)])
    try:
        got = _through_slots(module, prompts, following)
    except (UnsupportedAttentionError, TypeError, AttributeError) as error:
        raise ModelError(_message(module, str(error))) from error
    tolerance = _TOLERANCE if module.dtype == torch.float32 else _BFLOAT16_TOLERANCE
    difference = float((got - expected).abs().max() / expected.abs().max())
    if not difference <= tolerance:
        raise ModelError(_message(module, f"logits differ by {difference:.2g} of the largest"))


def _plain(module: Any, tokens: list[int]) -> torch.Tensor:
    logits: torch.Tensor = module(input_ids=torch.tensor([tokens], device=module.device), use_cache=False).logits
    return logits[:, -1].float()


def _through_slots(module: Any, prompts: list[list[int]], following: list[int]) -> torch.Tensor:
    cache, device = SlotCache(), module.device
    lengths = [len(prompt) for prompt in prompts]
    starts = [0, lengths[0]]
    with slot_attention(module, cache):
        cache.prefill(
            [
                Segment(start=start, end=start + n, row=row, copies=1)
                for row, (start, n) in enumerate(zip(starts, lengths, strict=True))
            ]
        )
        positions = torch.cat([torch.arange(length) for length in lengths])
        tokens = torch.tensor([[token for prompt in prompts for token in prompt]], device=device)
        module(input_ids=tokens, position_ids=positions[None].to(device), past_key_values=cache, use_cache=True)
        cache.decode(lengths, device)
        output = module(
            input_ids=torch.tensor(following, device=device)[:, None],
            position_ids=torch.tensor(lengths, device=device)[:, None],
            past_key_values=cache,
            use_cache=True,
        )
    logits: torch.Tensor = output.logits[:, -1]
    return logits.float()


def _message(module: Any, reason: str) -> str:
    return (
        f"model: the local rollout engine cannot sample from {module.config.model_type} ({reason}); "
        "choose another rollout_engine"
    )
