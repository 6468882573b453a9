"""DeepSpeed's own configuration, passed through and checked."""

from __future__ import annotations

import json

import pytest
import torch

from core_rl.errors import PluginError, UserError
from core_rl.hf.spec import ModelSpec
from core_rl.roles.train import TrainContext
from core_rl_deepspeed import _backend
from core_rl_deepspeed._backend import require_deepspeed
from core_rl_deepspeed._known_keys import check_keys
from core_rl_deepspeed._launch import settings_of
from core_rl_deepspeed._settings import ds_config
from core_rl_deepspeed.config import DeepSpeedConfig


def checked(config, **options):
    require_deepspeed(torch.device("cpu"))
    settings = ds_config(DeepSpeedConfig(config=config, **options), "bfloat16")
    check_keys(settings)
    return settings


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"zero_optimisation": {}}, "knows no zero_optimisation; did you mean `zero_optimization`"),
        ({"zero_optimization": {"reduce_buket_size": 1}}, "no zero_optimization.reduce_buket_size; did you mean `reduce_bucket_size`"),
        ({"zero_optimization": {"offload_optimizer": {"pin_memry": True}}}, "offload_optimizer.pin_memry; did you mean `pin_memory`"),
        ({"data_types": {"grad_acum_dtype": "fp32"}}, "no data_types.grad_acum_dtype; did you mean `grad_accum_dtype`"),
        ({"flops_profiler": {"profile_stepp": 1}}, "no flops_profiler.profile_stepp; did you mean `profile_step`"),
        ({"zero_optimization": {"overlap_comm": "maybe"}}, "zero_optimization.overlap_comm: .*found 'maybe'"),
        ({"communication_data_type": "fp8"}, "refuses it: .*fp8"),
        ({"gradient_clipping": 1.0}, "gradient_clipping is set from train_engine.max_grad_norm"),
        ({"bf16": {"enabled": True}}, "bf16.enabled is set from model.dtype"),
        ({"optimizer": {"type": "Adam"}}, "optimizer is set from train_engine.optimizer"),
        ({"zero_optimization": {"offload_param": {"device": "cpu"}}}, "is set from train_engine.offload_parameters"),
        ({"tensor_parallel": {"autotp_size": 2}}, "tensor_parallel cannot be set: .*megatron"),
        ("nowhere.json", "expected a mapping or the path of a JSON file; nowhere.json"),
    ],
)  # fmt: skip
def test_a_key_that_is_wrong_or_not_the_users_is_named(config, message):
    """In one line, with the nearest known key, or the option that says it here."""
    with pytest.raises(UserError, match=message) as caught:
        checked(config, offload_optimizer="cpu")

    assert "\n" not in str(caught.value)


def test_the_users_keys_reach_deepspeed_and_auto_is_ours(tmp_path):
    """From a JSON file too; `auto`, which files for other programs have, leaves a key to the engine."""
    theirs = {
        "gradient_clipping": "auto",
        "steps_per_print": 7,
        "zero_optimization": {"stage": "auto", "reduce_bucket_size": 1000, "offload_optimizer": {"pin_memory": False}},
    }
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(theirs))
    settings = checked(str(path), zero_stage=2, offload_optimizer="cpu", max_grad_norm=0.5)

    assert settings["steps_per_print"] == 7
    assert settings["gradient_clipping"] == 0.5
    assert settings["zero_optimization"] == {
        "stage": 2,
        "reduce_bucket_size": 1000,
        "offload_optimizer": {"pin_memory": False, "device": "cpu"},
    }


@pytest.mark.parametrize(
    "options", [{"zero_stage": 0, "offload_optimizer": "cpu"}, {"zero_stage": 2, "offload_parameters": "cpu"}]
)
def test_offload_needs_a_stage(options):
    """What is not in shards is not offloaded."""
    with pytest.raises(ValueError, match="needs zero_stage"):
        DeepSpeedConfig(**options)


def test_a_second_form_of_the_weights_does_not_go_with_a_reference():
    """It would answer for the policy where the reference is asked."""
    require_deepspeed(torch.device("cpu"))
    context = TrainContext(model=ModelSpec(), seed=1, total_steps=1, reference=True)
    options = DeepSpeedConfig(config={"zero_optimization": {"zero_hpz_partition_size": 2}})

    with pytest.raises(UserError, match="zero_hpz_partition_size"):
        settings_of(options, context)


def test_without_deepspeed_the_extra_is_named(monkeypatch):
    """One line that says what to install."""

    def missing():
        raise ModuleNotFoundError(name="deepspeed")

    monkeypatch.setattr(_backend, "backend", missing)

    with pytest.raises(PluginError, match=r"core-rl\[deepspeed\]"):
        require_deepspeed(torch.device("cpu"))


def test_one_process_has_one_kind_of_device():
    """DeepSpeed was imported for the CPU."""
    require_deepspeed(torch.device("cpu"))

    with pytest.raises(UserError, match="DeepSpeed runs on cpu in this process"):
        require_deepspeed(torch.device("cuda", 0))
