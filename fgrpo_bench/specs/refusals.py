"""Why a configuration is refused, in lines for the person who wrote it: place, value, rule, remedy.

pydantic names a fault by its place in the types; these lines name it by its key in the YAML, with
the docstring of the field.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from fgrpo_bench.core import registry

Place = tuple[int | str, ...]
SHOWN = 50
"""Most faults that a refusal explains: a list of thousands may have the same one in each value."""


def refusals(error: ValidationError, config: dict[str, Any], kind: type) -> list[str]:
    """A line a fault of a configuration that was to become a kind; where a value may be one of
    several types and is none of them, one line with what each of them asks."""
    of_place: dict[Place, list[ErrorDetails]] = {}
    faults = error.errors()
    for fault in faults[:SHOWN]:
        of_place.setdefault(_choice(fault["loc"], kind) or fault["loc"], []).append(fault)
    lines = []
    for place, own in of_place.items():
        if place == own[0]["loc"]:
            lines += [_explain(fault, config, kind) for fault in own]
        else:
            lines.append(_none_of_several(place, own, kind))
    if len(faults) > SHOWN:
        lines.append(f"  and {len(faults) - SHOWN:,} more, of {len(faults):,}: mend these first")
    return lines


def _none_of_several(place: Place, faults: list[ErrorDetails], kind: type) -> str:
    of_type = {fault["loc"][len(place)]: fault for fault in reversed(faults)}  # first of each type
    rules = [_rule(fault).removeprefix("input should be ") for fault in of_type.values()][::-1]
    loc, node = _find(place, kind)
    where = ".".join(map(str, loc))
    asked = f"input should be {', or '.join(rules)}"
    hint = _hint(place, node, kind)
    return f"  {where} = {faults[0]['input']!r}: {asked}; set {where}=<value>.{hint}"


def _explain(fault: ErrorDetails, config: dict[str, Any], kind: type) -> str:
    loc, node = _find(fault["loc"], kind)
    where = ".".join(map(str, loc)) or "configuration"
    if fault["type"] == "unexpected_keyword_argument":
        valid = sorted(_find(fault["loc"][:-1], kind)[1].get("properties", config))
        near = registry.suggestion(str(loc[-1]), valid)
        return f"  {where}: unknown key{near}; remove it (valid here: {', '.join(valid)})"
    if fault["type"] == "value_error":
        return f"  {where}: {fault['ctx']['error']}"
    if fault["type"] == "union_tag_invalid":
        key = fault["ctx"]["discriminator"].strip("'")
        tag, valid_tags = fault["ctx"]["tag"], fault["ctx"]["expected_tags"]
        return f"  {where}.{key} = {tag!r}: must be one of {valid_tags}"
    example = "<value>"
    if fault["type"] in ("list_type", "tuple_type"):
        example = f"[{fault['input']}]" if isinstance(fault["input"], int | float) else "[<value>]"
    names = [*loc]
    while len(names) > 1 and isinstance(names[-1], int):  # an override sets a list as a whole
        names.pop()
        example = "[<value>, ...]"
    target = ".".join(map(str, names)) or "configuration"
    hint = _hint(fault["loc"], node, kind)
    return f"  {where} = {fault['input']!r}: {_rule(fault)}; set {target}={example}.{hint}"


def _rule(fault: ErrorDetails) -> str:
    if fault["type"] in ("list_type", "tuple_type"):
        return "must be a list, also where it has one value"
    return fault["msg"][0].lower() + fault["msg"][1:]


def _hint(loc: Place, node: dict[str, Any], kind: type) -> str:
    """The docstring under the field that a location names; empty where there is none."""
    while loc and not (isinstance(loc[-1], str) and isinstance(node.get("description"), str)):
        loc = loc[:-1]
        node = _find(loc, kind)[1]
    return f" It is: {' '.join(str(node['description']).split())}" if loc else ""


def _choice(loc: Place, kind: type) -> Place | None:
    """The place in a location whose value may be one of several types; None where there is none."""
    for length in range(1, len(loc)):
        if len(_kinds(_find(loc[:length], kind)[1])) > 1:
            return loc[:length]
    return None


def _find(loc: Place, kind: type) -> tuple[Place, dict[str, Any]]:
    """A fault's place as a reader of the YAML knows it, and its schema; a fault in one of several
    kinds of a thing, e.g. ("profile", "local", "device"), names the kind too."""
    root = _schema(kind)
    node, keys = _resolved(root, root), list[int | str]()
    for part in loc:
        if "discriminator" in node:
            node = _resolved({"$ref": node["discriminator"]["mapping"][part]}, root)
            continue
        keys.append(part)
        if isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(part) or node.get("additionalProperties") or {}
        node = _resolved(node, root) if isinstance(node, dict) else {}
    return tuple(keys), node


@cache  # a refusal of fifty faults looks up 250 places, and a schema takes 20 ms to make
def _schema(kind: type) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema()


def _kinds(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The types that a value may have, null not among them."""
    return [each for each in node.get("anyOf", ()) if each.get("type") != "null"]


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    kinds = _kinds(node)
    if len(kinds) == 1:
        node = kinds[0] | {key: value for key, value in node.items() if key != "anyOf"}
    if "$ref" not in node:
        return node
    described = {key: value for key, value in node.items() if key != "$ref"}
    target: dict[str, Any] = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return target | described
