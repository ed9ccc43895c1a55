"""The command fgrpo-bench, also `python -m fgrpo_bench`: what there is, and the way to it.

In: a command's name and its words. Out: its exit code. It needs Python alone until a command is
called, so that it can say what is missing where the packages are. Next: the module of the command
in COMMANDS, and fgrpo_bench.command.application for what all of them share.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from fgrpo_bench import __version__
from fgrpo_bench.core.commandline import CHECKOUT, INSTALLED, check_packages, entered, fitted

COMMANDS = {
    "sweep": ("sweeps.cli", "plan a sweep, run it, and follow it, here or on SLURM"),
    "new": ("sweeps.new.__main__", "begin an experiment, a reward or a part of your own"),
    "evaluate": ("evaluators.cli", "a checkpoint in; draws, grades and pass@k out"),
    "compare": ("evaluators.cli:compare", "checkpoints with each other, problem by problem"),
    "groups": ("evaluators.cli:groups", "which groups of a training run taught, by each method"),
    "report": ("fgrpo_bench.report.__main__", "answer, tables and figures of a sweep"),
    "dashboard": ("dashboards.cli", "look at the results in a browser"),
    "mlflow": ("dashboards.cli:mlflow", "sync every sweep into MLflow and serve its UI"),
    "check": ("sweeps.cli:check", "is every file of a sweep as it was made?"),
    "export": ("fgrpo_bench.report.exports.command", "evaluations in other programs' formats"),
    "bundle": ("fgrpo_bench.report.exports.bundle", "a sweep's results as one archive"),
    "leaderboard": ("fgrpo_bench.report.leaderboard", "methods at equal pass@1, a row each"),
    "power": ("fgrpo_bench.analysis.power", "how many seeds and draws are enough, before a run"),
    "theory": ("fgrpo_bench.paper.theory.__main__", "which group size is dangerous, by formulas"),
    "conform": ("fgrpo_bench.conformance.__main__", "are advantages what the paper says?"),
    "data": ("evaluators.cli:data", "fetch benchmarks, once, and list what is fetched"),
    "analysis": ("fgrpo_bench.analysis.__main__", "every number of a sweep as tables, or as CSV"),
    "simulation": ("fgrpo_bench.paper.simulation.__main__", "the paper's categorical simulation"),
    "tracking": ("fgrpo_bench.tracking.__main__", "bring MLflow up to date without its UI"),
    "skill": ("fgrpo_bench.command.skill", "what a coding agent reads to use this program"),
}
"""By name: the place of its application (fgrpo_bench.command.application.program), and what it
does."""
EXAMPLES = {
    "sweep plan groupsize": "what would run, and what it would cost",
    "sweep run groupsize": "run it, or resume it",
    "evaluate out/my-model --data mine.jsonl": "pass@k of a checkpoint of your own",
    "compare base tuned": "two evaluations, problem by problem",
    "report groupsize/countdown/v1": "a run is sweep[/experiment[/version]]",
    "dashboard": "the results in a browser",
}
"""Words of a command, and what it does."""
ALONE = ("conform", "skill")
"""Commands that need no more than what the wheel always asks for."""
TAB = """\
The Tab key: `fgrpo-bench --install-completion` sets it up for your shell; or, for one session,
  source <(fgrpo-bench --show-completion)"""
COMPLETION = "_FGRPO_BENCH_COMPLETE"
"""Set where a shell asks what a line can go on with."""


def main(argv: Sequence[str] | None = None) -> int:
    """List the commands, or run one to its exit code; 2 where there is no such command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if COMPLETION not in os.environ and (not arguments or arguments[0] in ("-h", "--help")):
        print(listing())
        return 0
    if arguments == ["--version"]:
        print(f"fgrpo-bench {__version__}")
        return 0
    if not INSTALLED and str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))  # a script of the environment does not look there
    is_alone = bool(arguments) and arguments[0] in ALONE  # while Tab completes there are none
    check_packages(None if is_alone else "analysis")
    from fgrpo_bench.command import application

    places = {name: _located(place) for name, (place, _) in COMMANDS.items()}
    with entered():
        return application.run(application.program(places), arguments, "fgrpo-bench")


def _located(place: str) -> str | None:
    """Where a command is, whose place in a checkout COMMANDS has: in the wheel below the library,
    or None, as it holds not all of them."""
    if not INSTALLED or place.startswith("fgrpo_bench."):
        return place
    application = f"fgrpo_bench.{place.partition('.')[0]}"
    return None if find_spec(application) is None else f"fgrpo_bench.{place}"


def listing() -> str:
    """A line a command, and examples of those that are there."""
    width = max(map(len, COMMANDS))
    lines = [
        f"  {name.ljust(width)}  {does}" + ("" if _located(place) else " (in a checkout)")
        for name, (place, does) in COMMANDS.items()
    ]
    usage = "usage: fgrpo-bench <command> [arguments]   (<command> --help says which), or --version"
    examples = [
        f"  fgrpo-bench {example.ljust(max(map(len, EXAMPLES)))}  {does}"
        for example, does in EXAMPLES.items()
        if _located(COMMANDS[example.partition(" ")[0]][0])
    ]
    text = "\n".join([usage, "", *lines, "", "examples:", *examples, "", TAB])
    # the lines of a terminal do not matter here, and without one 100 columns are usual
    return fitted(text, shutil.get_terminal_size((100, 24)).columns)


if __name__ == "__main__":
    sys.exit(main())
