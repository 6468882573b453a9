"""Nodes into configuration classes. Every mistake is reported, and the walk goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from core_rl.config.construct import check_fields, complaint
from core_rl.config.fields import Field, fields_of, members
from core_rl.config.lookup import Lookup
from core_rl.config.merge import Merger, Spec, name_of, named
from core_rl.config.selection import Selection
from core_rl.config.tree import INVALID, ListNode, MapNode, Node, Origin, Scalar, from_python, join, origin_of, place
from core_rl.config.values import Place, Values
from core_rl.config.words import found
from core_rl.errors import PluginError, Problem
from core_rl.suggest import did_you_mean


@attrs.frozen(kw_only=True)
class Owner:
    """Whose keys a section holds, for messages and for the origin of defaults."""

    words: str
    default: str = "default"


@attrs.define
class Walker:
    """`origins` tells for every path of the result where its value comes from."""

    lookup: Lookup
    problems: list[Problem]
    origins: dict[str, Origin] = attrs.field(factory=dict)

    def report(self, where: str, path: str, message: str) -> Any:
        self.problems.append(Problem(where, path, message))
        return INVALID

    def section(self, node: Node, cls: type, path: str, owner: Owner, base: Any = None) -> Any:
        """An instance of an attrs class. `base` is the instance whose values stand where the file is silent."""
        if isinstance(node, Scalar) and node.value is INVALID:
            return INVALID
        if not isinstance(node, MapNode):
            hint = "; leave the key out to take the defaults" if isinstance(node, Scalar) and node.value is None else ""
            return self.report(node.origin.where, path, f"expected a mapping, found {found(node)}{hint}")
        fields = fields_of(cls)
        for key in node.items.keys() - fields.keys():
            self.unknown(node.items[key], join(path, key), key, owner, fields)
        values = {key: self.field(node, field, join(path, key), owner, base) for key, field in fields.items()}
        return self.construct(cls, {key: value for key, value in values.items() if value is not attrs.NOTHING}, node, path)

    def unknown(self, node: Node, path: str, key: str, owner: Owner, fields: Mapping[str, Any]) -> None:
        first, _, rest = key.partition(".")
        dotted = (
            f"; in a file it is written `{first}: {{{rest}: …}}`" if rest and first in fields else did_you_mean(key, fields)
        )
        self.report(place(node), path, f"unknown {owner.words}{dotted}")

    def field(self, section: MapNode, field: Field, path: str, owner: Owner, base: Any) -> Any:
        """One key's value; `attrs.NOTHING` leaves it to the class."""
        node, default = section.items.get(field.key), field.default(base)
        if node is None:
            if default is attrs.NOTHING:
                return self.missing(section, field, path) if field.required else attrs.NOTHING
            return self.silent(section, field, default, path, owner)
        self.origins[path] = origin_of(node, secret=field.secret)
        if field.kind is not None:
            return self.selections(node, field, default, path, owner)
        return Values(self, owner).read(node, field.hint, Place(path=path, base=default, secret=field.secret))

    def missing(self, section: MapNode, field: Field, path: str) -> Any:
        what = f": {field.help}" if field.help else ""
        return self.report(place(section), path, f"this key is required{what}")

    def silent(self, section: MapNode, field: Field, default: Any, path: str, owner: Owner) -> Any:
        """The default, with every component in it resolved."""
        origin = Origin(place(section), owner.default)
        self.origins[path] = origin
        if field.kind is not None and default is not None:
            return self.selections(from_python(default, origin), field, default, path, owner)
        if attrs.has(type(default)) and not isinstance(default, type):
            return self.section(MapNode(items={}, origin=origin), type(default), path, owner, base=default)
        return default

    def selections(self, node: Node, field: Field, default: Any, path: str, owner: Owner) -> Any:
        assert field.kind is not None
        if not field.many:
            if isinstance(node, Scalar) and node.value is None and type(None) in members(field.hint):
                return None
            return self.selection(node, field.kind, default if isinstance(default, Selection) else None, path, owner)
        if not isinstance(node, ListNode):
            return self.not_a_list(node, field.kind, path)
        weighted = field.weighted or field.kind == "reward"
        items = [
            self.selection(item, field.kind, None, join(path, i), owner, weighted=weighted) for i, item in enumerate(node.items)
        ]
        return INVALID if any(item is INVALID for item in items) else tuple(items)

    def not_a_list(self, node: Node, kind: str, path: str) -> Any:
        if isinstance(node, Scalar) and node.value is INVALID:
            return INVALID
        form = f" (write [{node.text}])" if isinstance(node, Scalar) and node.value is not None else ""
        return self.report(node.origin.where, path, f"expected a list of {kind} components, found {found(node)}{form}")

    def selection(
        self, node: Node, kind: str, default: Selection | None, path: str, owner: Owner, *, weighted: bool = False
    ) -> Any:
        """A component by name with its options, over the default selection where its name is kept."""
        if isinstance(node, Scalar) and node.value is INVALID:
            return INVALID
        written = named(node)
        if not isinstance(written, MapNode):
            message = f"expected the name of a {kind}, or a mapping with `name` and its options, found {found(node)}"
            return self.report(node.origin.where, path, message)
        if default is not None:
            base = from_python(default, Origin(place(node), owner.default))
            written = Merger(self.lookup, []).selection(base, written, Spec(kind=kind, default=default), path)
            assert isinstance(written, MapNode)
        self.origins.setdefault(path, origin_of(written))
        name = name_of(written)
        if name is None:
            return self.nameless(written, kind, path)
        self.origins[join(path, "name")] = written.items["name"].origin
        return self.resolved(written, kind, name, path, weighted=weighted)

    def nameless(self, node: MapNode, kind: str, path: str) -> Any:
        given = node.items.get("name")
        if given is None:
            return self.report(place(node), path, f"`name` is required: it selects the {kind}")
        if isinstance(given, Scalar) and given.value is INVALID:
            return INVALID
        return self.report(given.origin.where, join(path, "name"), f"expected the name of a {kind}, found {found(given)}")

    def resolved(self, node: MapNode, kind: str, name: str, path: str, *, weighted: bool) -> Any:
        options = {key: value for key, value in node.items.items() if key != "name"}
        weight = self.weight(options, path, node) if weighted else 1.0
        try:
            entry = self.lookup.find(kind, name)
            cls = self.lookup.options_class(kind, name)
        except PluginError as error:
            origin = node.items["name"].origin
            by_default = " (this is the default)" if origin.label.startswith("default") else ""
            return self.report(origin.where, path, f"{error}{by_default}")
        owner = Owner(words=f"option of {kind} `{name}`", default=f"default of {name}")
        if cls is None:
            for key, value in options.items():
                self.report(place(value), join(path, key), f"unknown {owner.words}, which has no options")
            read = INVALID if options else None
        else:
            read = self.section(attrs.evolve(node, items=options), cls, path, owner)
        if read is INVALID or weight is INVALID:
            return INVALID
        return Selection(kind=kind, name=name, options=read, component=entry.component, plugin=entry.plugin, weight=weight)

    def weight(self, options: dict[str, Node], path: str, node: MapNode) -> Any:
        """Taken out of the options: it belongs to the entry."""
        given, path = options.pop("weight", None), join(path, "weight")
        if given is None:
            self.origins[path] = Origin(place(node), "default")
            return 1.0
        self.origins[path] = given.origin
        return Values(self, Owner(words="")).read(given, float, Place(path=path))

    def construct(self, cls: type, values: Mapping[str, Any], node: MapNode, path: str) -> Any:
        """The instance; where a validator objects, each objection at its own key."""
        valid = {key: value for key, value in values.items() if value is not INVALID}
        error: Exception | None = None
        if len(valid) == len(values):
            try:
                return cls(**valid)
            except (ValueError, TypeError) as caught:
                error = caught
        complaints = check_fields(cls, valid)
        for field, message in complaints:
            child = node.items.get(field.key)
            self.report(child.origin.where if child else place(node), join(path, field.key), message)
        if error is not None and not complaints:
            self.report(place(node), path, complaint(error))
        return INVALID
