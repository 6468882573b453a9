"""Run files that plugins bring: `recipes/demo.yaml` in the import package of `core-rl-grpo` is the recipe `core-rl-grpo/demo`.

They are found without importing the package.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import attrs

from core_rl.errors import PluginError
from core_rl.plugins.distributions import installed_plugins
from core_rl.plugins.selectors import canonical
from core_rl.suggest import did_you_mean


@attrs.frozen(kw_only=True)
class Recipe:
    name: str
    path: Path

    @property
    def summary(self) -> str:
        """The first line of its first comment."""
        for line in self.path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#") and not line.startswith("# yaml-language-server"):
                return line.lstrip("# ").strip()
            if line.strip():
                break
        return ""


def recipes() -> list[Recipe]:
    """Every recipe of every installed plugin, by name."""
    found: dict[str, Recipe] = {}
    for candidate in installed_plugins().candidates:
        for path in sorted(_folder(candidate.module).glob("*.yaml")):
            name = f"{candidate.distribution}/{path.stem}"
            found.setdefault(name, Recipe(name=name, path=path))
    return [found[name] for name in sorted(found)]


def find_recipe(name: str) -> Recipe:
    """The recipe of a name such as `core-rl-grpo/demo`.

    Raises:
        PluginError: there is none.
    """
    known = recipes()
    distribution, _, stem = name.rpartition("/")
    for recipe in known:
        owner, _, its_stem = recipe.name.rpartition("/")
        if its_stem == stem and canonical(owner) == canonical(distribution):
            return recipe
    message = f"there is no recipe {name!r}{did_you_mean(name, [recipe.name for recipe in known])} (see core-rl recipes)"
    raise PluginError(message)


def _folder(module: str) -> Path:
    package = module.partition(".")[0]
    spec = importlib.util.find_spec(package)
    locations = list(spec.submodule_search_locations or []) if spec else []
    return Path(locations[0]) / "recipes" if locations else Path(package) / "recipes"
