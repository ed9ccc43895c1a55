"""From YAML and overrides to a validated Declaration; nothing of Hydra or OmegaConf goes further.

In: names of files of conf/ and overrides. Out: a Declaration, or refusals. Hydra's compose API
merges conf/ with the overrides into a plain dictionary, which is validated strictly. pydantic names
a fault by its place in the types; `refusals` names it by its key in the YAML, with the docstring of
the field, and every refusal names the value, the rule and the remedy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from fgrpo_bench.core import registry
from fgrpo_bench.core.commandline import CHECKOUT, INSTALLED, NO_MULTIRUN, check_once
from fgrpo_bench.specs import BenchmarkSpec, Declaration, from_dict
from fgrpo_bench.specs.sweep import MOST_POINTS

Place = tuple[int | str, ...]
SHOWN_FAULTS = 50
"""Most faults that a refusal explains: a list of thousands may have the same one in each value."""


def refusals(error: ValidationError, config: dict[str, Any], kind: type) -> list[str]:
    """A line a fault of a configuration that was to become a kind; where a value may be one of
    several types and is none of them, one line with what each of them asks."""
    by_place: dict[Place, list[ErrorDetails]] = {}
    faults = error.errors()
    for fault in faults[:SHOWN_FAULTS]:
        by_place.setdefault(_choice(fault["loc"], kind) or fault["loc"], []).append(fault)
    lines = []
    for place, place_errors in by_place.items():
        if place == place_errors[0]["loc"]:
            lines += [_explain(fault, config, kind) for fault in place_errors]
        else:
            lines.append(_no_variant(place, place_errors, kind))
    if len(faults) > SHOWN_FAULTS:
        lines.append(
            f"  and {len(faults) - SHOWN_FAULTS:,} more, of {len(faults):,}: mend these first"
        )
    return lines


def _no_variant(place: Place, faults: list[ErrorDetails], kind: type) -> str:
    by_type = {fault["loc"][len(place)]: fault for fault in reversed(faults)}  # first of each type
    rules = [_rule(fault).removeprefix("input should be ") for fault in by_type.values()][::-1]
    loc, node = _find(place, kind)
    where = ".".join(map(str, loc))
    rule = f"input should be {', or '.join(rules)}"
    hint = _hint(place, node, kind)
    return f"  {where} = {faults[0]['input']!r}: {rule}; set {where}=<value>.{hint}"


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
    return [item for item in node.get("anyOf", ()) if item.get("type") != "null"]


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    kinds = _kinds(node)
    if len(kinds) == 1:
        node = kinds[0] | {key: value for key, value in node.items() if key != "anyOf"}
    if "$ref" not in node:
        return node
    described = {key: value for key, value in node.items() if key != "$ref"}
    target: dict[str, Any] = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return target | described


CONF = CHECKOUT / ("fgrpo_bench/conf" if INSTALLED else "conf")
T = TypeVar("T")

CHOICES = ("sweep", "experiment", "profile")
SHOWN = 3
"""Most keys that a refusal offers for a misspelt one."""
BENCHMARKS: dict[str, Any] = {path.stem: path for path in (CONF / "benchmark").glob("*.yaml")}
"""Ours by their files; those of plug-ins as what such a file would compose to."""


def option_names(group: str, conf: Path = CONF) -> list[str]:
    """Names of a config group, e.g. options("sweep")."""
    further = _brought() if group == "benchmark" else {}
    return sorted({path.stem for path in (conf / group).glob("*.yaml")} | further.keys())


def contents(group: str, conf: Path = CONF) -> list[dict[str, Any]]:
    """What the files of a config group say by themselves."""
    import yaml

    files = sorted((conf / group).glob("*.yaml"))
    return [yaml.safe_load(file.read_text(encoding="utf-8")) or {} for file in files]


def set_in_experiment(sweep: str, conf: Path = CONF) -> dict[str, Any]:
    """What the file of a sweep sets in its experiment, whichever that is; empty for most."""
    import yaml

    declared = yaml.safe_load((conf / "sweep" / f"{sweep}.yaml").read_text(encoding="utf-8"))
    return dict(declared.get("experiment", {}))


def load(sweep: str, overrides: Sequence[str] = (), *, conf: Path = CONF) -> Declaration:
    """The validated declaration of a sweep.

    overrides: Hydra overrides, e.g. ["experiment=countdown", "sweep.grid.seed=[1,2]"].
    Raises ValueError for an unknown name, an unknown key, a wrong type or a value against a rule.
    """
    return validate(compose([f"sweep={sweep}", *overrides], conf=conf))


def load_benchmark(name: str, overrides: Sequence[str] = (), *, conf: Path = CONF) -> BenchmarkSpec:
    """A benchmark by itself, validated as within a declaration.

    overrides: of its own keys, e.g. ["dataset.limit=3"].
    """
    if name not in option_names("benchmark", conf):
        _unknown("benchmark", name, conf)
    prefixed = [f"benchmark.{override}" for override in overrides]
    composed = compose(prefixed, conf=conf, root=f"benchmark/{name}")["benchmark"]
    try:
        return from_dict(BenchmarkSpec, composed)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, fault['loc']))} = {fault['input']!r}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise ValueError(f"benchmark {name} is refused:\n" + "\n".join(lines)) from error


def _brought() -> dict[str, dict[str, Any]]:
    """The benchmarks of plug-ins."""
    return {
        name: item for name, item in registry.table("benchmarks").items() if isinstance(item, dict)
    }


def compose(overrides: Sequence[str], *, conf: Path = CONF, root: str = "config") -> dict[str, Any]:
    """The merged configuration as plain dictionaries, lists and scalars.

    root: the file that it begins with. ValueError for overrides that cannot be applied, a file that
    cannot be read, and for an environment variable anywhere but in run_root.
    """
    check_once(overrides)
    overrides = [_with_path(override) for override in overrides]
    _load_plugins(overrides, conf / f"{root}.yaml")
    for override in overrides:
        name, equals, value = override.partition("=")
        if name.lstrip("+~").startswith(("hydra/", "hydra.")):
            raise ValueError(f"{override!r} sets what is not used here: {NO_MULTIRUN}")
        if not equals and not name.startswith("~"):
            raise ValueError(f"{override!r} is no override: write key=value, e.g. version=v2")
        if (listed := value.count(",") + 1) > MOST_POINTS:  # Hydra's parser would take minutes
            raise ValueError(
                f"{name} is given {listed:,} values, more than {MOST_POINTS:,}, the most runs of "
                "a sweep: name fewer"
            )
        if name in CHOICES and value not in option_names(name, conf):
            _unknown(name, value, conf)
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    for name, benchmark in _brought().items():
        ConfigStore.instance().store(group="benchmark", name=name, node=benchmark)
    try:
        with initialize_config_dir(str(conf), version_base="1.3"):
            config = hydra_compose(root, overrides=list(overrides))
        _check_environment(OmegaConf.to_container(config, resolve=False))
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException) as error:
        text = str(error).partition("Config search path:")[0]
        lines = [
            line
            for line in text.splitlines()
            if not line.startswith("To append") and "--multirun" not in line
        ]
        near = _meant_key(overrides, lines[0], conf, root) if lines else ""
        raise ValueError(
            f"these overrides cannot be applied: {' '.join(overrides)}\n"
            + "\n".join(lines)
            + f"{near}\n"
            + f"conf/{root}.yaml and the files it names hold every key with its value"
        ) from error
    except (YAMLError, RecursionError, UnicodeDecodeError, OSError) as error:
        nested = f"these overrides are nested too deeply: {_shortened(overrides)}"
        raise ValueError(_damaged(conf) or nested) from error
    assert isinstance(plain, dict)
    with_given_seeds(plain, overrides)
    return {str(key): value for key, value in plain.items()}


def with_given_seeds(composed: dict[Any, Any], overrides: Sequence[str]) -> None:
    """Let seeds that overrides name be those of every cell, in place, unless they name cells."""
    keys = {override.partition("=")[0].lstrip("+") for override in overrides}
    if "sweep.grid.seed" in keys and "sweep.cells" not in keys:
        for cell in composed["sweep"]["cells"]:
            cell.pop("seed", None)


def as_overrides(config: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Every key of a composed configuration as an override that sets it to its value."""
    lines = []
    for key, value in config.items():
        if isinstance(value, dict) and value:
            lines += as_overrides(value, f"{prefix}{key}.")
        else:
            lines.append(f"{prefix}{key}={_literal(value)}")
    return lines


PATHS = ("checkpoint", "path", "python", "run_root")
"""Last words of keys whose values are paths."""


def _with_path(override: str) -> str:
    """A path's value in quotes, as it may hold what means something to Hydra: out/lr=1e-6,seed=1"""
    key, equals, value = override.partition("=")
    is_path = key.lstrip("+").rpartition(".")[2] in PATHS and not key.startswith("sweep.")
    if not (equals and is_path) or value in ("", "null") or value[0] in "'\"" or "${" in value:
        return override
    return f"{key}={_literal(value)}"


def _literal(value: Any) -> str:
    """A value in the grammar of Hydra's overrides."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_literal, value)) + "]"
    if isinstance(value, str):
        plain = re.fullmatch(r"[a-z][a-z0-9_-]*", value) and value not in ("null", "true", "false")
        return value if plain else "'" + value.replace("\\'", "\\\\'").replace("'", "\\'") + "'"
    return json.dumps(value)


def _unknown(group: str, name: str, conf: Path) -> NoReturn:
    valid = option_names(group, conf)
    raise ValueError(
        f"unknown {group} {name!r}{registry.suggestion(name, valid)}: valid ones are "
        f"{', '.join(valid)} (the files of conf/{group}/)"
    )


IMPLIED = ("sweep.grid.", "evaluation.")
"""What commands put before a key of one word, as `seed=11`: of `sweep`, and of `evaluate`."""


def _meant_key(overrides: Sequence[str], refusal: str, conf: Path, root: str) -> str:
    """What the refusal of a key that does not exist adds: the keys that are spelt much like it, or
    whose last word is, where it has one word alone; of these one that needs no more than its last
    word, with the value."""
    refused = re.match(r"Could not override '([^'@]+)'", refusal)
    if refused is None:
        return ""
    values = dict(override.split("=", 1) for override in overrides if "=" in override)
    others = [override for override in overrides if override.partition("=")[0] != refused[1]]
    try:
        keys = list(_keys(compose(others, conf=conf, root=root)))
    except ValueError:  # they are refused too
        return ""
    if "." in refused[1]:
        return registry.suggestion(refused[1], keys)
    last = {key: key.rpartition(".")[2] for key in keys}
    near = registry.nearest(refused[1], last.values())
    if any(f"{prefix}{near}" in last for prefix in IMPLIED):
        return registry.did_you_mean([f"{near}={values.get(refused[1], '')}"])
    return registry.did_you_mean([key for key in keys if last[key] == near][:SHOWN])


def _keys(config: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def _load_plugins(overrides: Sequence[str], path: Path) -> None:
    """Load those that will be declared, whose benchmarks the rest may name; what is no list of
    names is left to the validation, and a damaged file to Hydra."""
    import yaml

    texts = [
        override.partition("=")[2] for override in overrides if override.startswith("plugins=")
    ]
    try:
        declared = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
        modules = yaml.safe_load(texts[-1]) if texts else declared.get("plugins")
    except (yaml.YAMLError, RecursionError, AttributeError, UnicodeDecodeError, OSError):
        return
    if isinstance(modules, list):
        registry.load(module for module in modules if isinstance(module, str))


def _check_environment(node: Any, where: tuple[str, ...] = ()) -> None:
    """ValueError where anything but the run root is read from the environment: what is declared is
    stored, printed and sent to MLflow, and a token must not be."""
    if isinstance(node, dict):
        for key, value in node.items():
            _check_environment(value, (*where, str(key)))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            _check_environment(value, (*where, str(i)))
    elif isinstance(node, str) and where != ("run_root",) and re.search(r"\$\{\s*oc\.env", node):
        raise ValueError(
            f"{'.'.join(where)} = {node!r} reads the environment, and what is declared is stored "
            "and shown: only run_root may; write the value itself"
        )


def _damaged(conf: Path) -> str | None:
    """The first file that cannot be read by itself, and why; None where all can."""
    from omegaconf import OmegaConf
    from yaml import MarkedYAMLError, YAMLError

    for path in sorted(conf.rglob("*.yaml")):
        try:
            OmegaConf.load(path)
        except MarkedYAMLError as error:
            line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
            return f"{path}{line}: {error.problem}: mend the file"
        except RecursionError:
            return f"{path}: it holds itself, or is nested too deeply: mend the file"
        except (YAMLError, UnicodeDecodeError, OSError) as error:
            return f"{path} cannot be read: {_shortened(str(error).split())}: mend the file"
    return None


def _shortened(parts: Sequence[str]) -> str:
    text = " ".join(parts)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def validate(config: dict[str, Any]) -> Declaration:
    """Strict validation; ValueError with one line a fault."""
    return validated(Declaration, config)


def validated(kind: type[T], config: dict[str, Any]) -> T:
    """The same for another type that configurations become."""
    try:
        return from_dict(kind, config)
    except ValidationError as error:
        lines = refusals(error, config, kind)
        raise ValueError("the configuration is refused:\n" + "\n".join(lines)) from error
