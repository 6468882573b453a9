"""Registers the launcher `ray`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_launchers() -> list[Component]:
    return [
        Component(
            name="ray",
            target="core_rl_ray.launcher:RayLauncher",
            config="core_rl_ray.config:RayLauncherConfig",
            summary="train engines in Ray actors, on a cluster of its own or one that is there",
        )
    ]
