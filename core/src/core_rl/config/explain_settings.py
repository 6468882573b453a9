"""The parts of an algorithm that are settings rather than components, in words and in symbols.

i sequence, t token, w_t the aggregation's weight of a token, pi the policy, pi_old the policy before the update, mu the rollout engine,
sg stop-gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from core_rl.config.explain import Part, formula_of, part_of, selected_parts
from core_rl.config.selection import Selection
from core_rl.config.show import plain

if TYPE_CHECKING:
    from core_rl.config.algorithm import AlgorithmConfig, CriticConfig, KlConfig
    from core_rl.config.offline import OfflineConfig
    from core_rl.config.run_file import RunFile

_PROXIMAL = {
    "recompute": ("a forward pass before the update", "pi_old = pi at the start of the step", ""),
    "reuse": ("the training forward itself: a batch is one optimizer step", "pi_old = sg(pi)", ""),
    "rollout": ("the rollout engine's own", "pi_old = mu", "1707.06347"),
    "loglinear": (
        "between rollout engine and policy, by the age of the token",
        "log pi_old = log mu + alpha (sg(log pi) - log mu), alpha = clamp((v - 1 - v_b) / (v - v_b), 0, 1)",
        "2512.06547",
    ),
}


def online_parts(run_file: RunFile, algorithm: AlgorithmConfig) -> Iterator[Part]:
    """From rewards to optimizer steps."""
    yield _rewards((*run_file.rewards, *algorithm.rewards), algorithm.group_size)
    yield from selected_parts("reward_norm", algorithm.reward_norm)
    yield from selected_parts("advantage", algorithm.advantage)
    yield from selected_parts("advantage_norm", algorithm.advantage_norm)
    for rejection in algorithm.rejections:
        yield from selected_parts("rejections", rejection)
    yield from _refill(algorithm)
    yield from selected_parts("resampler", algorithm.resampler)
    yield _proximal(algorithm)
    yield from selected_parts("loss", algorithm.loss)
    yield from _extra_losses(algorithm.extra_losses)
    yield _kl(algorithm.kl)
    yield _entropy(algorithm)
    for part in selected_parts("aggregation", algorithm.aggregation):
        yield attrs.evolve(part, formula=part.formula.replace("sampling.max_new_tokens", str(run_file.sampling.max_new_tokens)))
    yield Part(place="critic", name="none") if algorithm.critic is None else _critic(algorithm.critic)
    yield _teacher(algorithm)
    yield _minimised(algorithm)


def offline_parts(algorithm: OfflineConfig) -> Iterator[Part]:
    yield from selected_parts("loss", algorithm.loss)
    yield from _extra_losses(algorithm.extra_losses)
    yield from selected_parts("aggregation", algorithm.aggregation)
    yield _teacher(algorithm)
    values = {field.name: getattr(algorithm, field.name) for field in attrs.fields(type(algorithm))}
    settings = {
        name: plain(value) for name, value in values.items() if name != "teacher" and not isinstance(value, Selection | tuple)
    }
    yield Part(
        place="rows",
        name="each once an epoch",
        words="what is learnt of them, and from where a reference comes",
        options=settings,
    )
    extra = "".join(f" + {_times(one.weight)}mean_t l_t({one.name})" for one in algorithm.extra_losses)
    yield Part(place="minimised", name="each step", formula=f"sum_t w_t l_t({algorithm.loss.name}){extra}")


def _rewards(rewards: tuple[Selection, ...], group_size: int) -> Part:
    total = " + ".join(f"{_times(one.weight)}{one.name}" for one in rewards) or "0"
    words = f"of each of the {group_size} samples of a prompt"
    return Part(place="rewards", name=", ".join(one.name for one in rewards) or "none", words=words, formula=f"R_i = {total}")


def _refill(algorithm: AlgorithmConfig) -> Iterator[Part]:
    refill = algorithm.refill
    if refill is None:
        yield Part(place="refill", name="none")
        return
    words = f"groups that the rejections empty are sampled anew, in at most {refill.max_rounds} rounds"
    options = attrs.asdict(refill)
    yield Part(place="refill", name="dynamic sampling", words=words, paper="2503.14476", options=options)


def _proximal(algorithm: AlgorithmConfig) -> Part:
    from core_rl.loops.parts import proximal_mode

    mode = proximal_mode(algorithm)
    words, formula, paper = _PROXIMAL[mode]
    name = mode if algorithm.proximal == mode else f"{mode} (by {algorithm.proximal})"
    return Part(place="proximal", name=name, words=words, formula=formula, paper=paper)


def _extra_losses(losses: tuple[Selection, ...]) -> Iterator[Part]:
    for loss in losses:
        first, *within = selected_parts("extra_losses", loss)
        yield attrs.evolve(first, options={"weight": loss.weight, **first.options})
        yield from within


def _kl(kl: KlConfig) -> Part:
    if kl.coef == 0:
        return Part(place="kl", name="none")
    ratio = "pi/pi_old · " if kl.unbiased else ""
    where = {
        "loss": f"l_t <- l_t + {kl.coef:g} {ratio}KL_t",
        "reward": f"r_t <- r_t - {kl.coef:g} KL_t",
        "advantage": f"A_t <- A_t + {kl.coef:g} (mean KL - KL_t)",
    }[kl.place]
    steered = "" if kl.target is None else f"; coef <- coef (1 + clip(KL / {kl.target:g} - 1, -0.2, 0.2) n / {kl.horizon:g})"
    policy = "pi" if kl.place == "loss" else "pi_old"
    estimator = formula_of(kl.estimator).replace("log pi ", f"log {policy} ") or kl.estimator.name
    papers = ("2512.02556" if kl.unbiased else "", "1909.08593" if kl.target is not None else "")
    reset = "" if kl.reset_every is None else f"; the reference becomes the policy every {kl.reset_every} steps"
    return Part(
        place="kl",
        name=f"{kl.estimator.name} in the {kl.place}",
        words=f"distance to the reference policy: {part_of('kl', kl.estimator).words}{reset}",
        formula=f"{where}, KL_t = {estimator}{steered}",
        paper=", ".join(paper for paper in papers if paper),
        options=part_of("kl", kl.estimator).options,
    )


def _entropy(algorithm: AlgorithmConfig) -> Part:
    coef, target = algorithm.entropy_coef, algorithm.entropy_target
    if target is None:
        if coef == 0:
            return Part(place="entropy", name="none")
        return Part(
            place="entropy", name="bonus", words="of every token, with its gradient", formula=f"l_t <- l_t - {coef:g} H_t"
        )
    step = algorithm.entropy_step
    formula = f"l_t <- l_t - coef H_t while mean H <= {target:g}; coef <- max(0, coef +- {step:g}), from {coef:g}"
    return Part(
        place="entropy",
        name="steered bonus",
        words="up while the mean entropy is below the target",
        formula=formula,
        paper="2505.22312",
    )


def _critic(critic: CriticConfig) -> Part:
    error = "(V - R)^2 / 2" if critic.huber_delta is None else f"huber_{critic.huber_delta:g}(V - R)"
    formula = f"l_t = {error}"
    if critic.clip is not None:
        formula = f"l_t = max({error}, the same of V within V_old +- {critic.clip:g})"
    words = "a value head on the policy's trunk" if critic.shared else "a model of its own"
    warmup = f"; it learns alone for {critic.warmup_steps} steps" if critic.warmup_steps else ""
    options = {"coef": critic.coef} if critic.shared else {}
    return Part(place="critic", name="values", words=words + warmup, formula=formula, paper="1707.06347", options=options)


def _teacher(algorithm: AlgorithmConfig | OfflineConfig) -> Part:
    from core_rl.config.teacher import teacher_tokens

    teacher = algorithm.teacher
    if teacher is None:
        return Part(place="teacher", name="none")
    engine = teacher.rollout_engine or teacher.train_engine
    where = "an engine as the policy's" if engine is None else f"{engine.kind.replace('_', ' ')} {engine.name}"
    tokens = teacher_tokens(algorithm)
    of = "the sampled token" if tokens is None else f"the sampled token and {tokens}"
    return Part(
        place="teacher", name=str(teacher.model.path or "random"), words=f"frozen, in {where}; log-probabilities of {of}"
    )


def _minimised(algorithm: AlgorithmConfig) -> Part:
    """What the optimizer gets to see, all parts together."""
    terms = [f"{'weights_t ' if algorithm.rejections else ''}l_t({algorithm.loss.name})"]
    if algorithm.kl.coef and algorithm.kl.place == "loss":
        terms.append("+ kl.coef KL_t")
    if algorithm.entropy_coef or algorithm.entropy_target is not None:
        terms.append("- entropy_coef H_t")
    inside = f"({' '.join(terms)})" if len(terms) > 1 else terms[0]
    extra = "".join(f" + {_times(one.weight)}mean_t l_t({one.name})" for one in algorithm.extra_losses)
    if algorithm.critic is not None and algorithm.critic.shared:
        extra += f" + {algorithm.critic.coef:g} mean_t l_t(critic)"
    steps = algorithm.epochs * algorithm.minibatches
    words = f"{steps} optimizer step{'s' if steps > 1 else ''} on a batch"
    options = {"epochs": algorithm.epochs, "minibatches": algorithm.minibatches}
    return Part(place="minimised", name="each step", words=words, formula=f"sum_t w_t {inside}{extra}", options=options)


def _times(weight: float) -> str:
    return "" if weight == 1 else f"{weight:g} "
