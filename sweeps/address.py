"""Which run a command means, found by its files: sweep, and where needed experiment and version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fgrpo_bench.stages.paths import RunPaths, default_root, find_runs

KEYS = ("experiment", "version", "run_root")


def find(sweep: str, overrides: Sequence[str]) -> RunPaths:
    """The one run of a sweep that fits.

    overrides: any of experiment=, version= and run_root=.
    Raises ValueError where a key means nothing here, where none fits, or where several do.
    """
    given: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if key not in KEYS or not equals:
            raise ValueError(
                f"{override!r} says nothing here: this command reads files and takes only "
                f"{', '.join(f'{key}=<value>' for key in KEYS)}"
            )
        given[key] = plain_value(key, value)
    root = Path(given.pop("run_root", default_root())).absolute()
    found = find_runs(root, sweep, **given)
    if len(found) == 1:
        return found[0]
    if found:
        lines = [f"  experiment={paths.experiment} version={paths.version}" for paths in found]
        raise ValueError(
            f"{sweep} has {len(found)} runs under {root}; name one of them:\n" + "\n".join(lines)
        )
    there = sorted({plan.parts[-4] for plan in root.glob("*/*/*/plan.json")})
    asked = " ".join([sweep, *(f"{key}={value}" for key, value in given.items())])
    raise ValueError(
        f"no run of {asked} under {root}: "
        + (f"there are runs of {', '.join(there)}; " if there else "there are no runs at all; ")
        + "start one with `python -m sweeps run <sweep>`, or name another folder with "
        "run_root=<folder>"
    )


def plain_value(key: str, value: str) -> str:
    """The value that `run` reads in key=value: quotes around it are none of it.

    Hydra is loaded only where it could tell a difference. Raises ValueError where it refuses one.
    """
    if key == "experiment" or not re.search(r"^\s*['\"]|[\\$]", value):
        return value.strip()
    from fgrpo_bench.specs import config

    return str(config.compose([f"{key}={value}"])[key])
