"""What is put to the test: an engine with its options, and on how many ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from core_rl.errors import UserError
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference
from core_rl.testing.train_engine.differences import Tolerances
from core_rl.testing.train_engine.models import MODELS, pretrained
from core_rl.testing.train_engine.setting import SET_BY_THE_SUITE, Setting

if TYPE_CHECKING:
    from core_rl.component import Component
    from core_rl.hf.spec import ModelSpec
    from core_rl.roles.train import TrainContext


@attrs.frozen(kw_only=True)
class Subject:
    """See `core_rl.testing.train_engines.TrainEngineConformance`, whose attributes these are."""

    engine: str
    options: Mapping[str, Any] = attrs.field(factory=dict)
    world_sizes: Sequence[int] = (1,)
    models: Mapping[str, ModelSpec] = attrs.field(factory=lambda: MODELS)
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    tolerances: Tolerances = attrs.field(factory=Tolerances)
    prepare: str | None = None
    expected_failures: Mapping[str, str] = attrs.field(factory=dict)
    modules: Path | None = None
    """A folder whose modules can be imported, here and in workers."""
    component: Component = attrs.field(init=False)

    @component.default
    def _find(self) -> Component:
        return Catalogue.discover().find("train_engine", self.engine).component

    def __attrs_post_init__(self) -> None:
        taken = sorted(SET_BY_THE_SUITE & set(self.options))
        if taken:
            message = f"options of {self.engine}: {', '.join(taken)} is set by the suite, which compares with the same settings"
            raise UserError(message)
        if max(self.world_sizes) > 1 and "distributed" not in self.component.provides:
            message = (
                f"world_sizes of {self.engine}: {tuple(self.world_sizes)}, and the component does not provide `distributed`"
            )
            raise UserError(message)

    @property
    def title(self) -> str:
        """The engine and what is special about its options."""
        special = ", ".join(f"{name}={value}" for name, value in self.options.items() if (name, value) != ("device", "cpu"))
        words = [self.engine, *([special] if special else []), *([self.dtype] if self.dtype != "float32" else [])]
        return " ".join(words)

    def engine_options(self, setting: Setting) -> Any:
        if self.component.config is None:
            return None
        return load_reference(self.component.config)(**self.options, **setting.options())

    def context(self, setting: Setting) -> TrainContext:
        return setting.context(attrs.evolve(spec_of(self.models, setting), dtype=self.dtype))


def spec_of(models: Mapping[str, ModelSpec], setting: Setting) -> ModelSpec:
    spec = models[setting.model]
    return pretrained(spec) if setting.pretrained else spec
