"""Needs are met by what is selected, or the error names who needs and who does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from core_rl import Component
from core_rl.builtin.config import LocalLauncherConfig
from core_rl.capabilities import check_capabilities
from core_rl.config.algorithm import AlgorithmConfig, CriticConfig, KlConfig
from core_rl.config.run_file import RunFile
from core_rl.config.selection import Selection
from core_rl.errors import CapabilityError
from core_rl.hf.spec import ModelSpec
from core_rl.roles.rollout import SamplingParams

TRAIN = {"old_logprobs", "ref_logprobs", "entropy", "entropy_grad", "packing", "shared_weights"}
ROLLOUT = {"rollout_logprobs", "processed_logprobs", "shared_weights"}


def _select(kind: str, name: str, options: Any = None, *, needs: Any = (), provides: Any = ()) -> Selection:
    component = Component(name=name, target="nowhere:Thing", needs=needs, provides=provides)
    return Selection(kind=kind, name=name, options=options, component=component, plugin="a-plugin")


def _run_file(
    *,
    loss_needs: Any = (),
    transport_needs: Any = (),
    train: Any = TRAIN,
    rollout: Any = ROLLOUT,
    rewards: int = 1,
    sampling: SamplingParams | None = None,
    launcher: Selection | None = None,
    **algorithm: Any,
) -> RunFile:
    options = AlgorithmConfig(
        loss=_select("loss", "ppo_clip", needs=loss_needs), advantage=_select("advantage", "group"), **algorithm
    )
    return RunFile(
        model=ModelSpec(path="x"),
        data=_select("data", "jsonl"),
        algorithm=_select("algorithm", "grpo", options),
        train_engine=_select("train_engine", "local", provides=train),
        rollout_engine=_select("rollout_engine", "local", provides=rollout),
        weight_transport=_select("weight_transport", "shared", needs=transport_needs),
        rewards=tuple(_select("reward", f"reward_{index}") for index in range(rewards)),
        sampling=sampling or SamplingParams(),
        launcher=launcher or _select("launcher", "inline", provides={"shared_weights"}),
    )


def _message(run_file: RunFile) -> str:
    with pytest.raises(CapabilityError) as caught:
        check_capabilities(run_file)
    return str(caught.value)


def test_met_needs_are_silent() -> None:
    """Everything that the engines, the rewards and the loop give."""
    needs = {"rollout_logprobs", "old_logprobs", "ref_logprobs", "entropy", "rewards", "group"}

    check_capabilities(
        _run_file(loss_needs=needs, transport_needs={"shared_weights"}, kl=KlConfig(coef=0.1), entropy_coef=0.01)
    )


@pytest.mark.parametrize(
    ("name", "kind", "given"),
    [
        ("rollout_logprobs", "rollout_engine", ROLLOUT),
        ("ref_logprobs", "train_engine", TRAIN),
        ("values", "train_engine", TRAIN),
    ],
)
def test_an_unmet_need_names_both(name: str, kind: str, given: set[str]) -> None:
    """Who needs it, and which selected component does not provide it."""
    argument = {"rollout_engine": "rollout", "train_engine": "train"}[kind]

    message = _message(_run_file(loss_needs={name}, **{argument: given - {name}}))

    assert message.startswith(f"algorithm.loss: ppo_clip needs {name}")
    assert message.endswith(f"and {kind}: local does not provide it")


def test_every_problem_is_told_at_once() -> None:
    """A line each."""
    message = _message(_run_file(loss_needs={"values", "ref_logprobs"}, train=set()))

    assert len(message.splitlines()) == 2


@pytest.mark.parametrize(
    ("setting", "name"),
    [({"kl": KlConfig(coef=0.1)}, "ref_logprobs"), ({"entropy_coef": -0.01}, "entropy_grad")],
)
def test_settings_have_needs(setting: dict[str, Any], name: str) -> None:
    """A KL term needs a reference, an entropy bonus its gradient; at 0 they need nothing."""
    check_capabilities(_run_file(train=TRAIN - {name}))

    message = _message(_run_file(train=TRAIN - {name}, **setting))
    assert f"needs {name}" in message
    assert "train_engine: local does not provide it" in message


def test_rejections_are_components_too() -> None:
    """A need deep in the algorithm's options counts, with its path."""
    rejection = _select("rejection", "ratio_band", needs={"rollout_logprobs"})

    message = _message(_run_file(rollout=set(), rejections=(rejection,)))

    assert message.startswith("algorithm.rejections[0]: ratio_band needs rollout_logprobs")


@pytest.mark.parametrize(
    "params", [{"top_p": 0.9}, {"top_k": 5}, {"temperature": 0.7}, {"frequency_penalty": 0.1}, {"min_new_tokens": 4}]
)
def test_a_ratio_to_the_rollout_needs_the_processed_distribution(params: dict[str, Any]) -> None:
    """With another distribution than the model's own, a ratio needs its log-probabilities; without a ratio nothing does."""
    sampling = SamplingParams(**params)
    raw = ROLLOUT - {"processed_logprobs"}

    check_capabilities(_run_file(rollout=raw, sampling=sampling))
    check_capabilities(_run_file(rollout=raw, loss_needs={"rollout_logprobs"}))

    assert "needs processed_logprobs" in _message(_run_file(rollout=raw, sampling=sampling, loss_needs={"rollout_logprobs"}))
    assert "algorithm.proximal=rollout" in _message(_run_file(rollout=raw, sampling=sampling, proximal="rollout"))


def test_rewards_are_given_by_having_some() -> None:
    """An advantage that needs rewards, with an empty list."""
    check_capabilities(_run_file(loss_needs={"rewards"}, rewards=1))

    assert "needs rewards, and `rewards` is empty" in _message(_run_file(loss_needs={"rewards"}, rewards=0))


@pytest.mark.parametrize("lacking", ["train", "rollout"])
def test_shared_weights_need_both_engines(lacking: str) -> None:
    """One engine of two is not enough; the one that lacks it is named."""
    given = {"train": TRAIN, "rollout": ROLLOUT}
    given[lacking] = given[lacking] - {"shared_weights"}

    message = _message(_run_file(transport_needs={"shared_weights"}, **given))

    assert message.endswith(f"and {lacking}_engine: local does not provide it")


def test_several_workers_need_an_engine_of_several() -> None:
    """The launcher's number is compared with what the train engine can do; of a critic's engine nothing shared is asked."""
    four = _select("launcher", "local", LocalLauncherConfig(workers=4))
    one = _select("launcher", "local", LocalLauncherConfig(workers=1))
    critic = CriticConfig(train_engine=_select("train_engine", "other", provides={"values"}), launcher=one)

    assert "launcher: local with workers=4 needs distributed" in _message(_run_file(launcher=four))
    check_capabilities(_run_file(launcher=four, train=TRAIN | {"distributed"}))
    check_capabilities(_run_file(launcher=one))
    check_capabilities(_run_file(transport_needs={"shared_weights"}, critic=critic))


def test_plugins_may_have_names_of_their_own() -> None:
    """A name outside the core's table is met by any selected component, and only by one."""
    run_file = _run_file(loss_needs={"square_probs"})
    met = attrs.evolve(run_file, workflow=_select("workflow", "odd", provides={"square_probs"}))

    check_capabilities(met)

    assert "needs square_probs, and nothing that is selected provides it" in _message(run_file)
