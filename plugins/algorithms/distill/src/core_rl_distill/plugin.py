"""Registers the algorithms `opd`, `gkd` and `kd` and their parts: the advantages `distill` and `zero`, the losses `distill_kl` and `gjsd`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name="opd",
            target="core_rl_distill.config:Opd",
            config="core_rl_distill.config:Opd",
            summary="on-policy distillation: log-ratio to the teacher as each token's advantage (2306.08543, 2601.02780)",
            paper="2306.13649",
        ),
        Component(
            name="gkd",
            target="core_rl_distill.config:Gkd",
            config="core_rl_distill.config:Gkd",
            summary="generalised knowledge distillation: Jensen-Shannon divergence to the teacher on the student's own samples",
            paper="2306.13649",
        ),
        Component(
            name="kd",
            target="core_rl_distill.config:Kd",
            config="core_rl_distill.config:Kd",
            summary="knowledge distillation on a data set: KL to the teacher in every place of its rows",
            paper="1503.02531",
        ),
    ]


@hookimpl
def core_rl_advantages() -> list[Component]:
    return [
        Component(
            name="distill",
            target="core_rl_distill.advantage:Distill",
            config="core_rl_distill.config:DistillConfig",
            summary="how much likelier the teacher finds a token than the policy did, beside an advantage of rewards if there is one",
            needs=frozenset({"teacher_logprobs", "old_logprobs"}),
            paper="2601.02780",
        ),
        Component(
            name="zero",
            target="core_rl_distill.advantage:Zero",
            summary="0 everywhere, for losses that read no advantage",
            formula="A_t = 0",
        ),
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="distill_kl",
            target="core_rl_distill.kl_loss:DistillKl",
            config="core_rl_distill.config:DistillKlConfig",
            summary="an estimate of KL(policy || teacher) from the sampled token",
            needs=frozenset({"teacher_logprobs"}),
            paper="2306.13649",
        ),
        Component(
            name="gjsd",
            target="core_rl_distill.gjsd:Gjsd",
            config="core_rl_distill.config:GjsdConfig",
            summary="generalised Jensen-Shannon divergence of the next token's distributions, whole or of the likeliest tokens",
            needs=frozenset({"teacher_logprobs", "gathered_logprobs"}),
            paper="2306.13649",
        ),
    ]
