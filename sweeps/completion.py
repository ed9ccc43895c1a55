"""`python -m sweeps.completion bash | zsh`: what makes the Tab key complete commands, sweeps,
overrides and targets of the Makefile.

The script that is printed asks this module at each Tab. Hydra's own completion is for programs with
its decorator and composes the configuration each time; here the files of conf/ are read as they
stand, which takes a fraction of a second.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from fgrpo_bench.__main__ import COMMANDS
from fgrpo_bench.commandline import Parser
from fgrpo_bench.runs import default_root
from sweeps import REPOSITORY
from sweeps.arguments import KEYS, commands

CONF = REPOSITORY / "conf"
PLANNED = ("plan", "run")
"""Commands of a sweep that take a declaration; all others take a run that is there."""
OF_RUNS = ("report", "analysis")
"""Other commands that take a sweep by its name."""
MAKE = re.compile(r"^([a-z][a-z-]*):(?!=)", re.MULTILINE)
PATTERNS = ("sweep-", "plan-", "report-")
"""Targets that a sweep's name follows."""

SHELLS = ("bash", "zsh")
"""Each has its script beside this file."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print a shell's script, or what a line can go on with; exit code 0."""
    parser = Parser(
        prog="python -m fgrpo_bench completion",
        description="Print the script that makes the Tab key complete sweeps, overrides and "
        "targets of make, for a shell to read.",
        epilog="examples:\n"
        "  source <(python -m fgrpo_bench completion bash)     also as a line of ~/.bashrc\n"
        "  source <(python -m fgrpo_bench completion zsh)      likewise of ~/.zshrc\n",
    )
    parser.add_argument("shell", choices=SHELLS)
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == ["--"]:
        print("\n".join(completions(" ".join(arguments[1:]))))
        return 0
    shell = parser.parse_args(arguments).shell
    script = REPOSITORY.joinpath("sweeps", f"completion.{shell}").read_text(encoding="utf-8")
    script = script.replace("@ROOT@", shlex.quote(str(REPOSITORY)))
    print(script.replace("@PYTHON@", shlex.quote(sys.executable)), end="")
    return 0


def completions(line: str) -> list[str]:
    """What the last word of a line can become: first keys with their sign, then their values."""
    *words, last = re.split(r"\s+", line.lstrip())
    answers = {each for each in candidates(words) if each.startswith(last)}
    if "=" not in last:
        answers = {"".join(each.partition("=")[:2]) for each in answers}
    return sorted(answers)


def candidates(words: Sequence[str]) -> set[str]:
    """What the next word of a command line can be. words: those before it."""
    if not words:
        return set()
    program, *after = words
    program = program.rpartition("/")[2]
    if program == "make":
        return targets() | {
            f"{name}={value}"
            for name, group in (("EXPERIMENT", "experiment"), ("PROFILE", "profile"))
            for value in options(group)
        }
    if program.startswith("python"):
        if "-m" not in after:
            return set()
        after = after[after.index("-m") + 1 :]
        if not after:
            return {"fgrpo_bench", *(module for module, _ in COMMANDS.values())} - {
                "sweeps.completion"
            }
        if after[0] == "fgrpo_bench":
            after = after[1:]
        else:
            after[0] = next((name for name, (own, _) in COMMANDS.items() if own == after[0]), "")
    elif program != "fgrpo-bench":
        return set()
    if not after:
        return set(COMMANDS)
    command, *after = after
    if command == "sweeps":
        return _of_sweeps(after)
    if command == "completion":
        return set(SHELLS)
    return sweeps_with_runs() if command in OF_RUNS and not after else set()


def _of_sweeps(words: Sequence[str]) -> set[str]:
    if not words:
        return set(commands())
    command, *after = words
    flags = set(commands().get(command, ())) - set(after)
    given = [word for word in after if not word.startswith("-")]
    if not given:
        return flags | (set(options("sweep")) if command in PLANNED else sweeps_with_runs())
    if command in PLANNED:
        return flags | overrides(given[0], given[1:])
    runs = list(default_root().glob(f"{given[0]}/*/*/plan.json"))
    return flags | {
        *(f"experiment={path.parts[-3]}" for path in runs),
        *(f"version={path.parts[-2]}" for path in runs),
        *(f"{key}=" for key in KEYS),
    }


def targets() -> set[str]:
    """The Makefile's, with a sweep's name where one follows."""
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    return set(MAKE.findall(text)) | {f"{p}{name}" for p in PATTERNS for name in options("sweep")}


def options(group: str) -> list[str]:
    """Names of a config group."""
    return [path.stem for path in (CONF / group).glob("*.yaml")]


def sweeps_with_runs() -> set[str]:
    """Those that were begun under the run root."""
    return {path.parts[-4] for path in default_root().glob("*/*/*/plan.json")}


def overrides(sweep: str, given: Sequence[str]) -> set[str]:
    """key=value of every key that this sweep's configuration has, its value as it stands, and each
    file of a config group. given: overrides, of which experiment= and profile= choose files."""
    chosen = dict(each.split("=", 1) for each in given if "=" in each)
    answers: set[str] = set()
    tree: dict[str, Any] = {}
    for key, value in _tree("config", (), {"sweep": sweep} | chosen):
        tree.setdefault(key, value)  # a file's own values come before those that it builds on
    for key, value in tree.items():
        if value in (None, {}) and any(other.startswith(f"{key}.") for other in tree):
            continue  # another file fills it
        group = key.partition("@")[0].strip("/")
        if value is Ellipsis:
            answers |= {f"{key}={name}" for name in options(group)}
        elif isinstance(value, bool):
            answers |= {f"{key}=true", f"{key}=false"}
        else:
            answers.add(f"{key}={_literal(value)}")
    return {answer for answer in answers if answer.partition("=")[0] not in {"sweep", *chosen}}


Entry = tuple[str, Any]
"""A key of the configuration and its value; Ellipsis for one that takes a file of a group."""


def _tree(name: str, at: tuple[str, ...], chosen: dict[str, str]) -> Iterator[Entry]:
    """The entries of a file of conf/ and of those that it names. name: without its suffix. at: keys
    that lead to what it holds."""
    text, config = _read(name)
    if "@package _global_" in text.partition("\n")[0]:
        at = ()
    for key, value in _flat({k: v for k, v in config.items() if k != "defaults"}):
        yield ".".join((*at, key)), value
    later = _overridden(name, chosen) if name == "config" else {}
    for each in config.get("defaults") or ():
        if isinstance(each, str):
            if each != "_self_":  # beside this file, and its keys beside this file's
                own = each.removesuffix("@_here_")
                yield from _tree(f"{name.partition('/')[0]}/{own}", at, chosen)
            continue
        ((group, option),) = each.items()
        overrides_, group = group.startswith("override "), group.removeprefix("override ")
        group, _, package = group.lstrip("/").partition("@")
        inner = (*at, *package.split(".")) if package else (*at, group)
        key = group if not package else f"{group}@{'.'.join(inner)}"
        option = chosen.get(key, later.get(key, option))
        if not overrides_:
            yield key, Ellipsis
            yield from _tree(f"{group}/{option}", inner, chosen)


def _overridden(name: str, chosen: dict[str, str]) -> dict[str, str]:
    """What the sweep's own file chooses in place of the configuration's: `override /experiment`."""
    _, config = _read(f"sweep/{chosen['sweep']}")
    return {
        key.removeprefix("override ").lstrip("/"): value
        for each in config.get("defaults") or ()
        if isinstance(each, dict)
        for key, value in each.items()
    } | {"sweep": chosen["sweep"]}


@cache
def _read(name: str) -> tuple[str, dict[str, Any]]:
    """A file's text and what it holds; nothing of one that is not there or is no mapping."""
    import yaml

    path = CONF / f"{name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
        config = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return "", {}
    return text, config if isinstance(config, dict) else {}


def _flat(config: dict[str, Any]) -> Iterator[Entry]:
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from ((f"{key}.{inner}", own) for inner, own in _flat(value))
        else:
            yield str(key), value


def _literal(value: Any) -> str:
    """A value as it is typed; nothing for one with spaces or signs that a shell minds."""
    if value is None:
        return "null"
    text = "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else str(value)
    return text if re.fullmatch(r"[\w.,\[\]-]*", text) else ""


if __name__ == "__main__":
    sys.exit(main())
