"""A sequence classification model with one label as a function from token sequences to scores."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from core_rl.config.encoding import EncodingConfig
from core_rl.data.encode import Encoder
from core_rl.data.records import Labelled
from core_rl.errors import ModelError
from core_rl.hf.paths import resolve_path
from core_rl.hf.spec import ModelSpec
from core_rl.hf.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from core_rl.data.records import Text
    from core_rl_reward_model.config import RewardModelRewardConfig


class ModelScorer:
    """The score of a sequence is what the head says of its last token.

    transformers' own pooling looks for the last token that is not padding, and passes over the end of a sequence where the two are the
    same token; here the place is known. A model without a `score` head, such as an encoder, pools as it always does.
    """

    def __init__(self, options: RewardModelRewardConfig) -> None:
        spec = ModelSpec(
            path=options.path,
            chat_template=options.chat_template,
            trust_remote_code=options.trust_remote_code,
            dtype=options.dtype,
        )
        tokenizer = load_tokenizer(spec)
        self.device = _device(options.device)
        self.model = _load(spec).to(self.device, getattr(torch, options.dtype)).eval()
        limit = options.max_length or getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self._encode = Encoder(tokenizer, EncodingConfig(too_long="truncate"), max_length=limit)
        self._pad = tokenizer.pad_token_id or 0

    def tokens(self, prompt: Text, completion: Text, *, name: str) -> Sequence[int]:
        """As both sides of a pair are put into tokens in training."""
        encoded = self._encode(Labelled(id=name, prompt=prompt, completion=completion, desirable=True))
        if encoded is None:
            message = f"{name}: the prompt alone is longer than the reward model's {self._encode.max_length} tokens"
            raise ModelError(message)
        return encoded[0].tokens

    @torch.inference_mode()
    def __call__(self, sequences: Sequence[Sequence[int]]) -> list[float]:
        """One score for each sequence; padded on the right, where a causal model does not look."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        tokens = torch.full((len(sequences), int(lengths.max())), self._pad)
        for row, sequence in zip(tokens, sequences, strict=True):
            row[: len(sequence)] = torch.tensor(sequence)
        mask = torch.arange(tokens.shape[1]) < lengths[:, None]
        inputs = {"input_ids": tokens.to(self.device), "attention_mask": mask.long().to(self.device)}
        if not hasattr(self.model, "score"):
            scores = self.model(**inputs).logits[:, 0]
        else:
            hidden = self.model.base_model(**inputs, use_cache=False).last_hidden_state
            scores = self.model.score(hidden[torch.arange(len(sequences)), lengths.to(self.device) - 1])[:, 0]
        return [float(score) for score in scores]


@functools.cache
def model_scorer(options: RewardModelRewardConfig) -> ModelScorer:
    """One model for all that ask for the same: training and evaluation have a scorer each."""
    return ModelScorer(options)


def _load(spec: ModelSpec) -> Any:
    import transformers

    assert spec.path is not None
    transformers.utils.logging.disable_progress_bar()
    try:
        model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            resolve_path(spec.path),
            dtype=torch.float32,
            trust_remote_code=spec.trust_remote_code,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = f"rewards: reward_model.path: transformers cannot load {spec.path}: {first}"
        raise ModelError(message) from error
    if report["missing_keys"]:
        message = (
            f"rewards: reward_model.path: {spec.path} is no reward model, it lacks {', '.join(sorted(report['missing_keys']))}"
        )
        raise ModelError(message)
    if model.config.num_labels != 1:
        message = f"rewards: reward_model.path: {spec.path} has {model.config.num_labels} labels, and a reward model has one"
        raise ModelError(message)
    return model


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        message = f"rewards: reward_model.device: expected auto, cpu, cuda or cuda:N, found {name!r}"
        raise ModelError(message) from error
    return device
