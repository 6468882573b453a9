"""From a resolved run file to the objects that a loop works with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.run_file import RunFile
from core_rl.config.selection import Selection
from core_rl.plugins.build import build

if TYPE_CHECKING:
    from core_rl.hf.tokenizer import Tokenizer
    from core_rl.roles.parts import Launcher, WeightTransport, Workflow
    from core_rl.roles.rollout import RolloutEngine
    from core_rl.roles.scoring import Advantage, Rejection
    from core_rl.roles.train import Aggregation, Objective, TrainEngine
    from core_rl.scoring import Scorer


@attrs.frozen(kw_only=True)
class Parts:
    """Everything selected in a run file, built; engines are not set up yet."""

    file: RunFile
    tokenizer: Tokenizer
    launcher: Launcher
    train: TrainEngine
    rollout: RolloutEngine
    transport: WeightTransport
    workflow: Workflow
    scorer: Scorer
    advantage: Advantage
    early_rejections: Sequence[Rejection]
    """Those that look at rewards and text alone: they save the forward pass of what they drop."""
    late_rejections: Sequence[Rejection]
    """Those that need old log-probabilities."""
    proximal: str
    needs_reference: bool
    objective: Objective
    aggregation: Aggregation

    @property
    def algorithm(self) -> AlgorithmConfig:
        return algorithm_of(self.file)

    def close(self) -> None:
        self.train.close()
        self.launcher.close()


def algorithm_of(file: RunFile) -> AlgorithmConfig:
    options = file.algorithm.options
    assert isinstance(options, AlgorithmConfig)  # the config check has seen to it
    return options


def needs_reference(algorithm: AlgorithmConfig) -> bool:
    """Whether log-probabilities of the reference policy are asked for."""
    chosen = (algorithm.loss, algorithm.advantage, *algorithm.rejections)
    return algorithm.kl.coef > 0 or any("ref_logprobs" in _needs(selection) for selection in chosen)


def proximal_mode(algorithm: AlgorithmConfig) -> str:
    """Where old log-probabilities come from: `auto` reuses the training forward when the batch is one optimizer step
    and nothing needs them earlier.
    """
    if algorithm.proximal != "auto":
        return algorithm.proximal
    chosen = (algorithm.advantage, *algorithm.rejections)
    needed_early = any("old_logprobs" in _needs(selection) for selection in chosen)
    in_reward = algorithm.kl.coef > 0 and algorithm.kl.place == "reward"
    one_step = algorithm.epochs * algorithm.minibatches == 1
    return "reuse" if one_step and not needed_early and not in_reward else "recompute"


def assemble(file: RunFile) -> Parts:
    """Build every part. Nothing heavy is loaded before `TrainEngine.setup` and `RolloutEngine.start`, but the tokenizer."""
    from core_rl.hf.tokenizer import load_tokenizer
    from core_rl.numerics.aggregation import Aggregator
    from core_rl.objective import PolicyObjective

    algorithm = algorithm_of(file)
    launcher: Launcher = build(file.launcher)
    tokenizer = load_tokenizer(file.model)
    train = _train_engine(file, launcher)
    proximal = proximal_mode(algorithm)
    late = [selection for selection in algorithm.rejections if "old_logprobs" in _needs(selection)]
    early = [selection for selection in algorithm.rejections if selection not in late]
    return Parts(
        file=file,
        tokenizer=tokenizer,
        launcher=launcher,
        train=train,
        rollout=_rollout_engine(file, launcher, train),
        transport=build(file.weight_transport),
        workflow=build(file.workflow),
        scorer=_scorer(file),
        advantage=build(algorithm.advantage),
        early_rejections=[build(selection) for selection in early],
        late_rejections=[build(selection) for selection in late],
        proximal=proximal,
        needs_reference=needs_reference(algorithm),
        objective=PolicyObjective(
            build(algorithm.loss),
            kl=algorithm.kl,
            entropy_coef=algorithm.entropy_coef,
            proximal_reuse=proximal == "reuse",
            old_is_rollout=proximal == "rollout",
        ),
        aggregation=Aggregator(algorithm.aggregation, scale_length=algorithm.loss_scale_length or file.sampling.max_new_tokens),
    )


def _needs(selection: Selection) -> frozenset[str]:
    assert selection.component is not None
    return selection.component.needs


def _train_engine(file: RunFile, launcher: Launcher) -> TrainEngine:
    from core_rl.roles.train import TrainContext

    algorithm = algorithm_of(file)
    context = TrainContext(
        model=file.model,
        seed=file.run.seed,
        total_steps=file.run.steps * algorithm.epochs * algorithm.minibatches,
        temperature=file.sampling.temperature or 1.0,
        reference=needs_reference(algorithm),
    )
    assert file.train_engine.component is not None
    return launcher.train_engine(file.train_engine.component, file.train_engine.options, context)


def _rollout_engine(file: RunFile, launcher: Launcher, train: TrainEngine) -> RolloutEngine:
    from core_rl.roles.rollout import RolloutContext

    context = RolloutContext(model=file.model, seed=file.run.seed, train_engine=train)
    assert file.rollout_engine.component is not None
    return launcher.rollout_engine(file.rollout_engine.component, file.rollout_engine.options, context)


def _scorer(file: RunFile) -> Scorer:
    from core_rl.scoring import Scorer

    return Scorer(
        [(selection.name, selection.weight, build(selection)) for selection in file.rewards],
        timeout_s=file.run.reward_timeout_s,
        on_failure=file.run.on_reward_failure,
    )
