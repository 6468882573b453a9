"""What listing does in a process of its own, plugin by plugin: told as JSON, once for all checks of a session.

`python -m core_rl.testing.kit.fresh` prints it.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from core_rl.plugins.selectors import ALLOW_VARIABLE, BLOCK_VARIABLE
from core_rl.testing.kit.check import UnmetError


def fresh_listing() -> dict[str, Any]:
    """`plugins`: by distribution and entry point, what listing it changed, and why it is broken. `components`: by kind and name, likewise."""
    return _listing(tuple(sys.path), os.environ.get(ALLOW_VARIABLE), os.environ.get(BLOCK_VARIABLE))


@functools.lru_cache(maxsize=4)
def _listing(path: tuple[str, ...], *_: Any) -> dict[str, Any]:
    environment = {**_first_environment(), **_lists(), "PYTHONPATH": os.pathsep.join(filter(None, path))}
    command = [sys.executable, "-m", "core_rl.testing.kit.fresh"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)  # noqa: S603 - our own module
    if done.returncode != 0:
        message = f"listing the plugins in a new process failed: {done.stderr.strip()[-500:]}"
        raise UnmetError(message)
    listing: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return listing


def _first_environment() -> dict[str, str]:
    """As this process got it: the plugins that are listed here may have changed it since."""
    try:
        text = Path("/proc/self/environ").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return dict(os.environ)
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def _lists() -> dict[str, str]:
    return {name: os.environ.get(name, "") for name in (ALLOW_VARIABLE, BLOCK_VARIABLE)}


def _load_all() -> dict[str, Any]:
    from core_rl.plugins.distributions import installed_plugins
    from core_rl.plugins.loading import Plugin, load_plugin
    from core_rl.plugins.selectors import environment_lists
    from core_rl.testing.kit.state import changed, state

    lists = environment_lists()
    plugins: list[dict[str, Any]] = []
    components: list[dict[str, Any]] = []
    for candidate in installed_plugins().candidates:
        if lists.refusal(candidate.distribution, candidate.entry_point) is not None:
            continue
        before = state()
        loaded = load_plugin(candidate)
        row = {"distribution": candidate.distribution, "entry_point": candidate.entry_point}
        if isinstance(loaded, Plugin):
            components += [_component(row, kind, component) for kind, component in loaded.components]
            reason = None
        else:
            reason = loaded.reason
        plugins.append({**row, "broken": reason, "changed": changed(before, state())})
    return {"plugins": plugins, "components": components}


def _component(row: dict[str, Any], kind: str, component: Any) -> dict[str, Any]:
    from core_rl.plugins.check import config_findings

    return {**row, "kind": kind, "name": component.name, "config": list(config_findings(kind, component))}


if __name__ == "__main__":
    print(json.dumps(_load_all()))
