"""Registers the losses and algorithms `clip_cov` and `kl_cov`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_algorithms() -> list[Component]:
    named = (
        ("clip_cov", "ClipCov", "GRPO; a few tokens that drive entropy down lose their gradient"),
        ("kl_cov", "KlCov", "GRPO without a clip; a KL penalty on the tokens that drive entropy down"),
    )
    return [
        Component(
            name=name,
            target=f"core_rl_cov.config:{cls}",
            config=f"core_rl_cov.config:{cls}",
            summary=summary,
            paper="2505.22617",
        )
        for name, cls, summary in named
    ]


@hookimpl
def core_rl_losses() -> list[Component]:
    return [
        Component(
            name="clip_cov",
            target="core_rl_cov.clip_cov:ClipCov",
            config="core_rl_cov.config:ClipCovConfig",
            summary="PPO-clip without the gradient of a few tokens of high covariance",
            needs=frozenset({"old_logprobs"}),
            paper="2505.22617",
        ),
        Component(
            name="kl_cov",
            target="core_rl_cov.kl_cov:KlCov",
            config="core_rl_cov.config:KlCovConfig",
            summary="the plain ratio, with a KL penalty on the tokens of highest covariance",
            needs=frozenset({"old_logprobs"}),
            paper="2505.22617",
        ),
    ]
