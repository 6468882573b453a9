"""A model of values from its spec: a critic or a reward model, one number for each token in place of the output layer.

E hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core_rl.errors import ModelError
from core_rl.hf.load import first_line, from_pretrained, load_config
from core_rl.hf.paths import source_of
from core_rl.hf.tokenizer import load_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from core_rl.hf.spec import ModelSpec


def load_value_model(spec: ModelSpec, *, seed: int) -> PreTrainedModel:
    """The model with one number for each token in place of its output layer: a critic, or a reward model.

    A sequence classification model of one label in transformers' terms, whose layer `score` is that of a folder that has one, and
    `small_head` where there is none.
    """
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    config = load_config(spec)
    config.num_labels = 1
    if config.get_text_config().pad_token_id is None:
        config.get_text_config().pad_token_id = config.pad_token_id = load_tokenizer(spec).pad_token_id
    auto = transformers.AutoModelForSequenceClassification
    known = False
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, known = (_random(auto, spec, config), False) if spec.init == "random" else _pretrained(auto, spec, config)
    if not hasattr(model, "score") or model.score.weight.shape[0] != 1:
        message = f"model: {config.model_type} in transformers has no layer `score` of one output, which a critic or a reward model is"
        raise ModelError(message)
    if not known:
        small_head(model.score.weight, seed=seed)
    loaded: PreTrainedModel = model.eval()
    return loaded


def small_head(weight: torch.Tensor, *, seed: int) -> None:
    """A new value head [1, E]: N(0, (0.01 / sqrt E)^2), so that values begin within some hundredths of 0 for any width.

    Not zeros: they would let no gradient into the trunk at the first step. Not transformers' own 0.02: on normalised hidden states
    of width 4096 a critic would begin with values of the size of its rewards.
    """
    import torch

    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=random) * (0.01 / weight.shape[1] ** 0.5))


def _random(auto: Any, spec: ModelSpec, config: Any) -> Any:
    import torch

    try:
        return auto.from_config(config, dtype=torch.float32, trust_remote_code=spec.trust_remote_code)
    except (ValueError, TypeError, RuntimeError) as error:
        message = f"model: transformers has no {config.model_type} with a score for a sequence: {first_line(error)}"
        raise ModelError(message) from error


def _pretrained(auto: Any, spec: ModelSpec, config: Any) -> tuple[Any, bool]:
    """The model, and whether its score layer was in the folder."""
    import torch
    import transformers

    source = source_of(spec)
    assert source is not None  # load_config has refused a pretrained model without a path
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()  # a new layer is no news here
    try:
        options = {"output_loading_info": True, "ignore_mismatched_sizes": True}  # told below, in one line
        model, report = from_pretrained(auto, source, spec, config=config, dtype=torch.float32, **options)
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
    _refuse_other_scores(report, spec)
    return model, not any(name.startswith("score") for name in report["missing_keys"])


def _refuse_other_scores(report: Mapping[str, Any], spec: ModelSpec) -> None:
    """What is in the folder, but is not one number for each token without a bias."""
    message = None
    if report["mismatched_keys"]:
        name, found, wanted = min(report["mismatched_keys"])
        message = (
            f"model.path: {name} of {spec.path} has the shape {list(found)}, and {list(wanted)} is wanted of a value model"
        )
    elif "score.bias" in report["unexpected_keys"]:  # as token classification models have one
        message = (
            f"model.path: the layer `score` of {spec.path} has a bias, and values here have none: every one would be off by it"
        )
    if message is not None:
        raise ModelError(message)
