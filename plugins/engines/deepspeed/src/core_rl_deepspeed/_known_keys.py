"""Are these keys of DeepSpeed's configuration? The installed DeepSpeed itself is asked, so that the answer fits its version.

Its sections are pydantic models, which know their fields. What stands above them and between is read by plain look-ups: a dictionary
that notes what is looked up in it tells which names are keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from core_rl.errors import UserError
from core_rl.suggest import did_you_mean
from core_rl_deepspeed._backend import backend

_PLACE = "train_engine.config"
_MODEL_ALONE = "zero_optimization"
"""A section that a model reads in whole; of others DeepSpeed asks key by key, or leaves all to a model."""


class _Noting(dict[str, Any]):
    """A dictionary that remembers which keys were asked for, also through the copy that DeepSpeed makes."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.asked: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def keys(self) -> Any:
        return self

    def __copy__(self) -> _Noting:
        return self


def check_keys(config: Mapping[str, Any]) -> None:
    """Raises `UserError` for a key that DeepSpeed does not know, or a value that it does not take."""
    import pydantic

    deepspeed = backend()
    sections = {name: _Noting(value) for name, value in config.items() if isinstance(value, Mapping) and name != _MODEL_ALONE}
    noting = _Noting({**config, **sections})
    try:
        deepspeed.DeepSpeedConfig(noting)
    except pydantic.ValidationError as error:
        raise UserError(_explained(error, config)) from error
    except (ValueError, TypeError, AssertionError, KeyError, AttributeError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        message = f"{_PLACE}: deepspeed {deepspeed.__version__} refuses it: {lines[0]}"
        raise UserError(message) from error
    read = {"": noting, **{f"{name}.": section for name, section in sections.items() if section.asked}}
    for before, found in read.items():
        for name in sorted(set(found) - found.asked):
            message = (
                f"{_PLACE}: deepspeed {deepspeed.__version__} knows no {before}{name}{did_you_mean(name, sorted(found.asked))}"
            )
            raise UserError(message)


def _explained(error: Any, config: Mapping[str, Any]) -> str:
    """The first of pydantic's complaints, with the section that it is about."""
    version = backend().__version__
    first = error.errors()[0]
    steps = [str(step) for step in first["loc"]]
    sections = (name for name, value in config.items() if isinstance(value, Mapping) and _holds(value, steps))
    path = ".".join([next(sections, error.title), *steps])
    if first["type"] != "extra_forbidden":
        return f"{_PLACE}: {path}: {first['msg'][0].lower()}{first['msg'][1:]}; found {first['input']!r}"
    known = _fields(error.title, steps[:-1])
    return f"{_PLACE}: deepspeed {version} knows no {path}{did_you_mean(steps[-1], known)}"


def _holds(section: Mapping[str, Any], steps: list[str]) -> bool:
    inner: Any = section
    for step in steps:
        if not isinstance(inner, Mapping) or step not in inner:
            return False
        inner = inner[step]
    return True


def _fields(title: str, steps: list[str]) -> list[str]:
    """The fields of the model of that name, or of the one that its fields lead to."""
    import pydantic

    models = {model.__name__: model for model in _subclasses(pydantic.BaseModel)}
    model: Any = models.get(title)
    for step in steps:
        annotation = getattr(model, "model_fields", {}).get(step)
        options = [] if annotation is None else [annotation.annotation, *get_args(annotation.annotation)]
        model = next((option for option in options if hasattr(option, "model_fields")), None)
    return sorted(getattr(model, "model_fields", {}))


def _subclasses(model: Any) -> Iterator[Any]:
    for each in model.__subclasses__():
        yield each
        yield from _subclasses(each)
