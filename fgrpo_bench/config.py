"""From YAML and overrides to a validated Declaration; nothing of Hydra or OmegaConf goes further.

Hydra's compose API merges conf/ with the overrides into a plain dictionary, which is validated
strictly. Every refusal names the value, the rule and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from fgrpo_bench.specs import Declaration, from_dict

CONF = Path(__file__).resolve().parents[1] / "conf"
CHOICES = ("sweep", "experiment", "profile")


def options(group: str, conf: Path = CONF) -> list[str]:
    """Names of a config group, e.g. options("sweep")."""
    return sorted(path.stem for path in (conf / group).glob("*.yaml"))


def load(sweep: str, overrides: Sequence[str] = (), *, conf: Path = CONF) -> Declaration:
    """The validated declaration of a sweep.

    overrides: Hydra overrides, e.g. ["experiment=countdown", "sweep.grid.seed=[1,2]"].
    Raises ValueError for an unknown name, an unknown key, a wrong type or a value against a rule.
    """
    return validate(compose([f"sweep={sweep}", *overrides], conf=conf))


def compose(overrides: Sequence[str], *, conf: Path = CONF) -> dict[str, Any]:
    """The merged configuration as plain dictionaries, lists and scalars."""
    for override in overrides:
        name, _, value = override.partition("=")
        if name in CHOICES and value not in options(name, conf):
            raise ValueError(
                f"unknown {name} {value!r}: valid ones are {', '.join(options(name, conf))} "
                f"(the files of conf/{name}/)"
            )
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        with initialize_config_dir(str(conf), version_base="1.3"):
            config = hydra_compose("config", overrides=list(overrides))
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException) as error:
        said = [line for line in str(error).splitlines() if not line.startswith("To append")]
        raise ValueError(
            f"these overrides cannot be applied: {' '.join(overrides)}\n" + "\n".join(said) + "\n"
            "`python -m sweeps plan <sweep> --config` shows every key with its value"
        ) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def validate(config: dict[str, Any]) -> Declaration:
    """Strict validation; ValueError with one line a fault."""
    try:
        return from_dict(Declaration, config)
    except ValidationError as error:
        lines = [_explain(fault, config) for fault in error.errors()]
        raise ValueError("the configuration is refused:\n" + "\n".join(lines)) from error


def _explain(fault: ErrorDetails, config: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in fault["loc"]) or "configuration"
    if fault["type"] == "unexpected_keyword_argument":
        valid = ", ".join(_keys_at(fault["loc"][:-1], config))
        return f"  {where}: unknown key; remove it (valid here: {valid})"
    if fault["type"] == "value_error":
        return f"  {where}: {fault['ctx']['error']}"
    meaning = _describe(fault["loc"])
    rule = fault["msg"][0].lower() + fault["msg"][1:]
    hint = f" It is: {meaning}" if meaning else ""
    return f"  {where} = {fault['input']!r}: {rule}; set {where}=<value>.{hint}"


def _keys_at(loc: tuple[int | str, ...], config: Any) -> list[str]:
    """Valid keys beside an unknown one: what the schema lists there."""
    node = _schema_at(loc)
    return sorted(node.get("properties", {})) or sorted(config)


def _describe(loc: tuple[int | str, ...]) -> str:
    """The docstring under the field that a location names; empty where there is none."""
    for end in range(len(loc), 0, -1):
        text = _schema_at(loc[:end]).get("description")
        if isinstance(text, str) and isinstance(loc[end - 1], str):
            return text
    return ""


def _schema_at(loc: tuple[int | str, ...]) -> dict[str, Any]:
    root = TypeAdapter(Declaration).json_schema()
    node: dict[str, Any] = root
    for part in loc:
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
        if isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(part) or node.get("additionalProperties") or {}
        if not isinstance(node, dict):
            return {}
    if "$ref" in node:
        described = {key: value for key, value in node.items() if key != "$ref"}
        node = root["$defs"][node["$ref"].rsplit("/", 1)[1]] | described
    return node
