"""Registers the algorithms `sft` and `dft` and their losses `nll` and `dft`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_algorithms() -> list[Component]:
    return [
        Component(
            name="sft",
            target="core_rl_sft.config:Sft",
            config="core_rl_sft.config:Sft",
            summary="supervised fine-tuning: imitate the completions of a data set (2203.02155)",
            paper="2203.02155",
        ),
        Component(
            name="dft",
            target="core_rl_sft.config:Dft",
            config="core_rl_sft.config:Dft",
            summary="supervised fine-tuning with tokens weighted by their own probability (2508.05629)",
            paper="2508.05629",
        ),
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="nll",
            target="core_rl_sft.nll:Nll",
            config="core_rl_sft.config:NllConfig",
            summary="the negative log-likelihood of a token",
            formula="l = -log pi",
            paper="2203.02155",
        ),
        Component(
            name="dft",
            target="core_rl_sft.dft:Dft",
            config="core_rl_sft.config:DftConfig",
            summary="the negative log-likelihood of a token, weighted by its probability (2508.05629)",
            formula="l = -sg(pi) log pi",
            paper="2508.05629",
        ),
    ]
