"""`python -m fgrpo_bench`, and the command fgrpo-bench: what there is, and the way to it.

It needs Python alone, so that it can say what is missing where the packages are.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from fgrpo_bench.commandline import CHECKOUT, check_packages

COMMANDS = {
    "sweeps": ("sweeps", "plan a sweep, run it, and follow it, here or on SLURM"),
    "evaluators": ("evaluators", "a checkpoint in; draws, grades and pass@k out"),
    "report": ("fgrpo_bench.report", "answer, tables and figures of a sweep, from stored files"),
    "analysis": ("fgrpo_bench.analysis", "every number of a sweep as tables, or as CSV"),
    "dashboards": ("dashboards", "look at the results in a browser; the MLflow UI"),
    "tracking": ("fgrpo_bench.tracking", "bring MLflow up to date with the stored files"),
    "theory": ("fgrpo_bench.theory", "which group size is dangerous: tail-miss probability"),
    "simulation": ("fgrpo_bench.simulation", "the paper's categorical simulation"),
    "power": ("fgrpo_bench.analysis.power", "how many seeds and draws are enough, before a run"),
    "data": ("fgrpo_bench.data", "fetch a dataset or a model that a spec names"),
    "completion": ("sweeps.completion", "print what makes the Tab key complete, for bash or zsh"),
}
"""By name: the module that is run, and what it does in a line."""


def main(argv: Sequence[str] | None = None) -> int:
    """List the commands, or become one of them; its exit code, 2 where there is no such command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(listing())
        return 0
    name, *command_arguments = arguments
    if name not in COMMANDS:
        from fgrpo_bench.registry import meant

        near = meant(name, COMMANDS)
        print(f"unknown command {name!r}{near}: there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    if CHECKOUT.joinpath("sweeps").is_dir() and str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))  # a script of the environment does not look there
    module, _ = COMMANDS[name]
    check_packages()
    if find_spec(module.partition(".")[0]) is None:
        print(
            f"{name} is not part of the installed package: run it in a checkout of the repository",
            file=sys.stderr,
        )
        return 2
    sys.argv = [f"python -m {module}", *command_arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)  # ends by SystemExit, or with 0
    return 0


def listing() -> str:
    """A line a command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {does}" for name, (_, does) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m fgrpo_bench <command> [arguments]   (<command> --help says which)",
            "",
            *lines,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
