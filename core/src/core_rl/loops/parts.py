"""From a resolved run file to the objects that the online loop works with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.capabilities import LATE
from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.run_file import RunFile
from core_rl.config.selection import Selection
from core_rl.loops.engines import critic_engine, policy_engine, rollout_engine
from core_rl.loops.launchers import Launchers
from core_rl.plugins.build import build
from core_rl.plugins.selected import selected

if TYPE_CHECKING:
    from core_rl.hf.tokenizer import Tokenizer
    from core_rl.loops.teacher import Teacher
    from core_rl.objective import PolicyObjective
    from core_rl.objective_extras import ExtraLoss
    from core_rl.objective_value import ValueObjective
    from core_rl.roles.parts import WeightTransport, Workflow
    from core_rl.roles.rollout import RolloutEngine
    from core_rl.roles.scoring import Advantage, Normaliser, Rejection, Resampler
    from core_rl.roles.train import Aggregation, TrainEngine
    from core_rl.scoring import Scorer


@attrs.frozen(kw_only=True)
class Parts:
    """Everything selected in a run file, built; engines are not set up yet."""

    file: RunFile
    tokenizer: Tokenizer
    launchers: Launchers
    train: TrainEngine
    critic: TrainEngine | None
    """With a model of its own; None also where values come from a head on the policy (`shares_critic`)."""
    teacher: Teacher | None
    rollout: RolloutEngine
    transport: WeightTransport
    workflow: Workflow
    scorer: Scorer
    eval_scorer: Scorer
    """Without the rewards that belong to the algorithm."""
    reward_norm: Normaliser | None
    advantage: Advantage
    advantage_norm: Normaliser | None
    early_rejections: Sequence[Rejection]
    """Those that look at rewards and text alone: they save the forward pass of what they drop."""
    late_rejections: Sequence[Rejection]
    """Those that need what a forward pass says, or advantages."""
    resampler: Resampler | None
    proximal: str
    needs_reference: bool
    needs_entropy: bool
    greedy: bool
    """Whether a greedy completion of every prompt is sampled too."""
    objective: PolicyObjective
    value_objective: ValueObjective | None
    aggregation: Aggregation
    value_aggregation: Aggregation

    @property
    def algorithm(self) -> AlgorithmConfig:
        return algorithm_of(self.file)

    @property
    def shares_critic(self) -> bool:
        critic = self.algorithm.critic
        return critic is not None and critic.shared

    def setup(self) -> None:
        self.train.setup()
        if self.critic is not None:
            self.critic.setup()
        if self.teacher is not None:
            self.teacher.setup()

    async def start(self) -> None:
        """After `setup`: a rollout engine may share the train engine's weights."""
        await self.rollout.start()
        if self.teacher is not None:
            await self.teacher.start()

    async def stop(self) -> None:
        """Also where `start` failed half-way."""
        await self.rollout.close()
        if self.teacher is not None:
            await self.teacher.stop()

    def save(self, path: Path) -> None:
        """What `load` needs of every engine that learns. `path` is an empty folder."""
        self.train.save(path)
        if self.critic is not None:
            (path / "critic").mkdir()
            self.critic.save(path / "critic")

    def load(self, path: Path) -> None:
        self.train.load(path)
        if self.critic is not None:
            self.critic.load(path / "critic")

    def close(self) -> None:
        self.train.close()
        if self.critic is not None:
            self.critic.close()
        if self.teacher is not None:
            self.teacher.close()
        self.launchers.close()


def algorithm_of(file: RunFile) -> AlgorithmConfig:
    options = file.algorithm.options
    assert isinstance(options, AlgorithmConfig)  # the config check has seen to it
    return options


def needs_reference(algorithm: AlgorithmConfig) -> bool:
    """Whether log-probabilities of the reference policy are asked for."""
    return algorithm.kl.coef > 0 or _asked(algorithm, "ref_logprobs")


def proximal_mode(algorithm: AlgorithmConfig) -> str:
    """Where old log-probabilities come from: `auto` reuses the training forward when the batch is one optimizer step
    and nothing needs them, or another output of that forward pass, earlier.
    """
    if algorithm.proximal != "auto":
        return algorithm.proximal
    chosen = (algorithm.loss, algorithm.advantage, algorithm.resampler, *algorithm.rejections)
    needed_early = any("old_logprobs" in _needs(selection) for selection in chosen)
    in_reward = algorithm.kl.coef > 0 and algorithm.kl.place != "loss"
    beside = _asked(algorithm, "entropy") or (algorithm.critic is not None and algorithm.critic.shared)
    one_step = algorithm.epochs * algorithm.minibatches == 1
    return "reuse" if one_step and not (needed_early or in_reward or beside) else "recompute"


def assemble(file: RunFile) -> Parts:
    """Build every part. Nothing heavy is loaded before `Parts.setup` and `RolloutEngine.start`, but the tokenizer."""
    from core_rl.hf.tokenizer import load_tokenizer
    from core_rl.numerics.aggregation import Aggregator
    from core_rl.objective_value import ValueObjective

    algorithm = algorithm_of(file)
    launchers = Launchers(file.launcher)
    train = policy_engine(file, algorithm, launchers.own, reference=needs_reference(algorithm))
    late = [selection for selection in algorithm.rejections if _needs(selection) & LATE]
    early = [selection for selection in algorithm.rejections if selection not in late]
    critic = algorithm.critic
    return Parts(
        file=file,
        tokenizer=load_tokenizer(file.model),
        launchers=launchers,
        train=train,
        critic=critic_engine(file, algorithm, critic, launchers.of(critic.launcher)) if critic and not critic.shared else None,
        teacher=_teacher(file, algorithm, launchers),
        rollout=rollout_engine(file, launchers.own, train),
        transport=build(file.weight_transport),
        workflow=build(file.workflow),
        scorer=_scorer(file, (*file.rewards, *algorithm.rewards)),
        eval_scorer=_scorer(file, file.rewards),
        reward_norm=_built(algorithm.reward_norm),
        advantage=build(algorithm.advantage),
        advantage_norm=_built(algorithm.advantage_norm),
        early_rejections=[build(selection) for selection in early],
        late_rejections=[build(selection) for selection in late],
        resampler=_built(algorithm.resampler),
        proximal=proximal_mode(algorithm),
        needs_reference=needs_reference(algorithm),
        needs_entropy=_asked(algorithm, "entropy"),
        greedy=_asked(algorithm, "greedy_rewards"),
        objective=_objective(algorithm),
        value_objective=ValueObjective(critic) if critic and not critic.shared else None,
        aggregation=build(algorithm.aggregation, file.sampling.max_new_tokens),
        value_aggregation=Aggregator("token-mean"),
    )


def _objective(algorithm: AlgorithmConfig) -> PolicyObjective:
    from core_rl.numerics.aggregation import Aggregator
    from core_rl.objective import PolicyObjective
    from core_rl.objective_extras import ExtraLoss
    from core_rl.objective_value import ValueLoss

    proximal = proximal_mode(algorithm)
    extras = extra_losses(algorithm.extra_losses)
    critic = algorithm.critic
    if critic is not None and critic.shared:
        value = ExtraLoss(name="value", loss=ValueLoss(critic), weight=critic.coef, aggregation=Aggregator("token-mean"))
        extras.append(value)
    return PolicyObjective(
        build(algorithm.loss),
        kl=algorithm.kl,
        entropy_coef=algorithm.entropy_coef,
        entropy_target=algorithm.entropy_target,
        proximal="reuse" if proximal == "reuse" else "loglinear" if proximal == "loglinear" else "batch",
        old_is_rollout=proximal == "rollout",
        extras=extras,
    )


def extra_losses(selections: Sequence[Selection]) -> list[ExtraLoss]:
    """The extra losses of an algorithm; a name's second use is `name_2`."""
    from core_rl.objective_extras import ExtraLoss

    extras: list[ExtraLoss] = []
    for selection in selections:
        short = selection.name.rpartition("/")[2].rpartition(":")[2]
        count = sum(extra.name.partition("#")[0] == short for extra in extras)
        name = short if count == 0 else f"{short}#{count + 1}"
        extras.append(ExtraLoss(name=name, loss=build(selection), weight=selection.weight))
    return extras


def _asked(algorithm: AlgorithmConfig, capability: str) -> bool:
    """Whether any part of the algorithm needs it before training."""
    chosen = (algorithm.loss, algorithm.advantage, algorithm.resampler, *algorithm.extra_losses, *algorithm.rejections)
    return any(capability in _needs(selection) for selection in chosen)


def _needs(selection: Selection | None) -> frozenset[str]:
    """Of the component and of those within its options."""
    components = (one.component for _, one in selected(selection))
    return frozenset().union(*(component.needs for component in components if component is not None))


def _built(selection: Selection | None) -> Any:
    return None if selection is None else build(selection)


def _teacher(file: RunFile, algorithm: AlgorithmConfig, launchers: Launchers) -> Teacher | None:
    if algorithm.teacher is None:
        return None
    from core_rl.loops.teacher import make_teacher

    return make_teacher(file, algorithm, algorithm.teacher, launchers.of(algorithm.teacher.launcher))


def _scorer(file: RunFile, rewards: Sequence[Selection]) -> Scorer:
    from core_rl.scoring import Scorer

    return Scorer(
        [(selection.name, selection.weight, build(selection)) for selection in rewards],
        timeout_s=file.run.reward_timeout_s,
        on_failure=file.run.on_reward_failure,
    )
