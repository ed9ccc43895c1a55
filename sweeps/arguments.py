"""The arguments of `python -m sweeps`: every command, its options and its help, and which run a
command means, found by its files."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from fgrpo_bench.commandline import Parser
from fgrpo_bench.registry import meant
from fgrpo_bench.runs import default_root, find_runs
from fgrpo_bench.stages.paths import RunPaths

OVERRIDES = """\
Overrides are key=value, as many as wanted, after the sweep's name:
  experiment=countdown            another file of conf/experiment
  profile.max_parallel=2          any key; `plan <sweep> --config` lists them all
  sweep.grid.seed=[1,2]           lists (quote them where the shell minds brackets)
  version=v2 run_root=/data/runs  where the results stand
"""
ADDRESS = """\
The run is found by its files. Where a sweep has several, name one:
  experiment=countdown  version=v1  run_root=/data/runs
"""
KEYS = ("experiment", "version", "run_root")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command and its arguments; exits with a message where they make no sense."""
    parser = _parser()
    arguments, others = parser.parse_known_args(argv)
    for other in others:  # argparse gives up on overrides that stand after an option
        if other.startswith("-") or "=" not in other:
            near = meant(other, commands()[arguments.command])
            parser.error(
                f"unknown argument {other!r}{near}: see "
                f"`python -m sweeps {arguments.command} --help`"
            )
    arguments.overrides += others
    if arguments.command == "retry" and arguments.point is None:
        first = next(iter(arguments.overrides), "=")
        if "=" not in first:  # a point, as `logs` takes it
            arguments.point = arguments.overrides.pop(0)
    return arguments


def commands() -> dict[str, list[str]]:
    """Every command and its options, e.g. `--json`."""
    ((_, of_name),) = (
        (action.dest, action.choices)
        for action in _parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {
        name: [word for word in parser._option_string_actions if word.startswith("--")]
        for name, parser in of_name.items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sweeps",
        description="Plan a sweep, run it, and follow it.",
        epilog="""\
examples:
  python -m sweeps plan groupsize        what would run, and what it would cost
  python -m sweeps run groupsize         run it, or go on with it
  python -m sweeps status groupsize      where it stands
  python -m sweeps logs groupsize grpo-n8-g0.5-s11
  python -m sweeps cancel groupsize      stop it where it can be continued
  python -m sweeps check groupsize       is every file as it was made?
""",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)

    def add(
        name: str, summary: str, *examples: str, more: str = ADDRESS, point: bool = False
    ) -> argparse.ArgumentParser:
        shown = "".join(f"  python -m sweeps {name} {example}\n" for example in examples)
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"{more}\nexamples:\n{shown}",
        )
        command.add_argument("sweep", help="name of a sweep: a file of conf/sweep")
        if point:
            command.add_argument("point_id", help="as `status` lists it, e.g. grpo-n8-g0.5-s11")
        command.add_argument("overrides", nargs="*", metavar="key=value", help="see below")
        return command

    plan = add(
        "plan",
        "show points, what of them exists, and what the rest would cost; starts and writes nothing",
        *("groupsize", "groupsize experiment=countdown-prompts version=v2"),
        *("gamma 'sweep.grid.seed=[21,22]' --json", "groupsize --config"),
        more=OVERRIDES,
    )
    plan.add_argument("--json", action="store_true", help="print JSON")
    plan.add_argument(
        "--config", action="store_true", help="print every key with its value, as overrides"
    )
    run = add(
        "run",
        "run a sweep, or go on with one, until all of it is done; with profile=slurm submit it",
        *("smoke", "groupsize profile.max_parallel=2", "groupsize 'sweep.grid.seed=[11,12,13,14]'"),
        *("groupsize --dry-run", "groupsize profile=slurm profile.partition=gpu"),
        more=f"{OVERRIDES}\n"
        "Ctrl-C lets the workers save and leaves everything to be continued by the same command.\n"
        "Exit codes: 0 all done, 1 a stage failed, 2 refused, 130 stopped by Ctrl-C.\n",
    )
    run.add_argument(
        "--dry-run",
        action="store_true",
        help="the same as `plan`, and with profile=slurm every sbatch file that would be sent",
    )
    status = add(
        "status",
        "show where a sweep stands, from its files alone",
        *("groupsize", "groupsize experiment=countdown version=v1 --json"),
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    check = add(
        "check",
        "compare every file of a sweep with its digest; --repair makes again what is damaged",
        *("groupsize", "groupsize experiment=countdown version=v1 --json", "groupsize --repair"),
        "groupsize-countdown-v1/",
        more=f"{ADDRESS}\n"
        "It lists what is damaged or missing and what rests on it. With --repair damaged files\n"
        "are moved into folders named `damaged`, and the sweep is run as it was declared, which\n"
        "makes again what is missing. In place of a sweep's name it takes the folder of an\n"
        "unpacked bundle (`python -m fgrpo_bench.report bundle`) and names added files, too.\n"
        "MLflow is a view of these files and is not compared: `python -m fgrpo_bench.tracking\n"
        "rebuild` makes it anew.\n"
        "Exit codes: 0 whole (with --repair: mended, or SLURM has it), 1 damaged, 2 refused.\n",
    )
    either = check.add_mutually_exclusive_group()
    either.add_argument("--json", action="store_true", help="print JSON")
    either.add_argument(
        "--repair", action="store_true", help="move what is damaged aside, and run the sweep again"
    )
    running = ("groupsize", "groupsize experiment=countdown")
    add("cancel", "ask a running sweep to save and stop", *running)
    add(
        "tick",
        "bring a sweep on SLURM up to date once: submit again what was lost, sync MLflow",
        "groupsize",
        more=f"{ADDRESS}\nIt keeps nothing in mind: run it by hand, from cron, or not at all.\n",
    )
    follow = add(
        "follow",
        "watch a sweep on SLURM and bring it up to date until it is done",
        *("groupsize", "groupsize --every 300"),
        more=f"{ADDRESS}\nCtrl-C stops the watching and no job.\n"
        "Exit codes: 0 all done, 1 something was given up.\n",
    )
    follow.add_argument("--every", type=float, default=30.0, help="seconds (default 30)")
    retry = add(
        "retry",
        "try again what was given up on SLURM",
        *("groupsize", "groupsize grpo-n8-g0.5-s11"),
    )
    retry.add_argument("--point", help="only this one, which may also stand after the sweep's name")
    add(
        "tune",
        "print a sweep with every method at the learning rate that had the highest pass@1",
        "methods version=rates > conf/sweep/methods-tuned.yaml",
        more=f"{ADDRESS}\nThe run has other seeds than the sweep declares and several factors:\n"
        "  python -m sweeps run methods version=rates 'sweep.grid.seed=[10]' \\\n"
        "    'sweep.grid.learning_rate_factor=[0.5,1,2]'\n",
    )
    point = "groupsize grpo-n8-g0.5-s11"
    logs = add(
        "logs",
        "print the log of the latest attempt at a point",
        *(point, f"{point} --stage evaluate -n 100", "groupsize base-s11 --follow"),
        point=True,
    )
    logs.add_argument(
        "--stage",
        help="which stage, as plan.json names its kind, e.g. evaluate; without it the one that was "
        "started last",
    )
    logs.add_argument("-n", dest="lines", type=int, default=40, help="last lines (default 40)")
    logs.add_argument("--follow", action="store_true", help="go on while the stage is at work")
    return parser


def find_run(sweep: str, overrides: Sequence[str]) -> RunPaths:
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
    runs = find_runs(root, sweep, **given)
    if len(runs) == 1:
        return runs[0]
    if runs:
        lines = [f"  experiment={paths.experiment} version={paths.version}" for paths in runs]
        raise ValueError(
            f"{sweep} has {len(runs)} runs under {root}; name one of them:\n" + "\n".join(lines)
        )
    from fgrpo_bench.runs import near_sweep

    known = sorted({plan.parts[-4] for plan in root.glob("*/*/*/plan.json")})
    asked = " ".join([sweep, *(f"{key}={value}" for key, value in given.items())])
    raise ValueError(
        f"no run of {asked}{near_sweep(sweep, known)} under {root}: "
        + (f"there are runs of {', '.join(known)}; " if known else "there are no runs at all; ")
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
