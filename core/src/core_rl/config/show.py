"""A resolved run file back into plain values and into YAML that loads to the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import yaml

from core_rl.config.environment import escape
from core_rl.config.fields import Field, fields_of
from core_rl.config.scalars import BOOL, FLOAT, INT, NULL
from core_rl.config.selection import Selection
from core_rl.config.tree import Origin, join

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile

MASK = "***"


def to_dict(run_file: RunFile, *, mask_secrets: bool = True) -> dict[str, Any]:
    """Every key with its value, defaults too, as plain values."""
    return _section(run_file, mask_secrets)


def to_yaml(run_file: RunFile, *, mask_secrets: bool = True, origins: Mapping[str, Origin] | None = None) -> str:
    """A run file that says everything and loads to an equal one. With `origins`, each line tells where its value is from."""
    text = dump(to_dict(run_file, mask_secrets=mask_secrets))
    return text if origins is None else _annotated(text, origins)


def inline(value: Any) -> str:
    """One value as YAML on one line."""
    text = yaml.dump(plain(value), Dumper=_Dumper, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...").removesuffix("...").rstrip("\n")


def _section(instance: Any, mask: bool) -> dict[str, Any]:
    cls: type = type(instance)
    return {key: _value(getattr(instance, field.name), field, mask) for key, field in fields_of(cls).items()}


def _value(value: Any, field: Field, mask: bool) -> Any:
    return MASK if mask and field.secret and value else plain(value, mask)


def plain(value: Any, mask: bool = True) -> Any:
    """A value as YAML and JSON have it."""
    if isinstance(value, Selection):
        weight = {"weight": value.weight} if value.kind == "reward" or value.weight != 1.0 else {}
        options = value.options
        return {"name": value.name, **weight, **({} if options is None else plain(options, mask))}
    if attrs.has(type(value)):
        return _section(value, mask)
    if isinstance(value, Mapping):
        return {str(key): plain(item, mask) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, mask) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item, mask) for item in value)
    return str(value) if isinstance(value, Path) else value


class _Dumper(yaml.SafeDumper):
    """Writes by the rules that our reader reads by: those of YAML 1.2."""

    yaml_implicit_resolvers: dict[str | None, list[Any]] = {  # noqa: RUF012 - PyYAML's name
        None: [
            ("tag:yaml.org,2002:null", NULL),
            ("tag:yaml.org,2002:bool", BOOL),
            ("tag:yaml.org,2002:int", INT),
            ("tag:yaml.org,2002:float", FLOAT),
            ("tag:yaml.org,2002:merge", re.compile(r"<<\Z")),
        ],
    }

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        """Variables are put into values alone: a key stays as it is."""
        node = super().represent_mapping(tag, mapping, flow_style)
        for (key, _), name in zip(node.value, mapping, strict=True):
            if isinstance(name, str):
                key.value = name
        return node


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text with line breaks goes on one line, in double quotes, so that a comment can follow every value."""
    style = '"' if any(not character.isprintable() for character in text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", escape(text), style=style)


def _represent_float(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    text = repr(number).replace("inf", ".inf").replace("nan", ".nan")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)


def dump(value: Any) -> str:
    """Plain values as YAML."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=float("inf"), allow_unicode=True)


def _annotated(text: str, origins: Mapping[str, Origin]) -> str:
    lines = text.split("\n")
    labels: dict[int, str] = {}
    _label(yaml.compose(text, Loader=yaml.SafeLoader), "", origins, labels)
    width = min(max((len(lines[number]) for number in labels), default=0), 60)
    return "\n".join(f"{line:<{width}}  # {labels[number]}" if number in labels else line for number, line in enumerate(lines))


def _label(node: yaml.Node | None, path: str, origins: Mapping[str, Origin], labels: dict[int, str]) -> None:
    """The origin of what stands on each line; of a place that nobody wrote, that of the section around it."""
    if isinstance(node, yaml.MappingNode) and node.value:
        for key, value in node.value:
            _label(value, join(path, key.value), origins, labels)
    elif isinstance(node, yaml.SequenceNode) and node.value:
        for index, value in enumerate(node.value):
            _label(value, join(path, index), origins, labels)
    elif node is not None:
        while path and path not in origins:
            path = path.rpartition(".")[0]
        labels[node.start_mark.line] = origins[path].label
