"""The arguments of `python -m sweeps`: every command, its options and its help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

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


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command and its arguments; exits with a message where they make no sense."""
    parser = _parser()
    arguments, others = parser.parse_known_args(argv)
    for other in others:  # argparse gives up on overrides that stand after an option
        if other.startswith("-") or "=" not in other:
            parser.error(f"unknown argument {other!r}: see `python -m sweeps --help`")
    arguments.overrides += others
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)

    def add(name: str, summary: str, epilog: str, *further: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("sweep", help="name of a sweep: a file of conf/sweep")
        for argument in further:
            command.add_argument(argument, help="as `status` lists it, e.g. grpo-n8-g0.5-s11")
        command.add_argument("overrides", nargs="*", metavar="key=value", help="see below")
        return command

    plan = add(
        "plan",
        "show points, what of them exists, and what the rest would cost; starts and writes nothing",
        f"{OVERRIDES}\nexamples:\n"
        "  python -m sweeps plan groupsize\n"
        "  python -m sweeps plan groupsize experiment=countdown-prompts version=v2\n"
        "  python -m sweeps plan gamma 'sweep.grid.seed=[21,22]' --json\n"
        "  python -m sweeps plan groupsize --config\n",
    )
    plan.add_argument("--json", action="store_true", help="print JSON")
    plan.add_argument(
        "--config", action="store_true", help="print every key with its value, as overrides"
    )
    run = add(
        "run",
        "run a sweep, or go on with one, until all of it is done; with profile=slurm submit it",
        f"{OVERRIDES}\n"
        "Ctrl-C lets the workers save and leaves everything to be continued by the same command.\n"
        "Exit codes: 0 all done, 1 a stage failed, 2 refused, 130 stopped by Ctrl-C.\n\n"
        "examples:\n"
        "  python -m sweeps run smoke\n"
        "  python -m sweeps run groupsize profile.max_parallel=2\n"
        "  python -m sweeps run groupsize 'sweep.grid.seed=[11,12,13,14]'\n"
        "  python -m sweeps run groupsize --dry-run\n"
        "  python -m sweeps run groupsize profile=slurm profile.partition=gpu\n",
    )
    run.add_argument(
        "--dry-run",
        action="store_true",
        help="the same as `plan`, and with profile=slurm every sbatch file that would be sent",
    )
    status = add(
        "status",
        "show where a sweep stands, from its files alone",
        f"{ADDRESS}\nexamples:\n"
        "  python -m sweeps status groupsize\n"
        "  python -m sweeps status groupsize experiment=countdown version=v1 --json\n"
        "  watch python -m sweeps status groupsize\n",
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    check = add(
        "check",
        "compare every file of a sweep with its digest; --repair makes again what is damaged",
        f"{ADDRESS}\n"
        "It lists what is damaged or missing, what rests on it and what it took to make. With\n"
        "--repair damaged files are moved into folders named `damaged`, and exactly what is then\n"
        "missing is made again, by the workers of `run` or on SLURM; nothing else is computed.\n"
        "MLflow is a view of these files and is not compared: `python -m fgrpo_bench.tracking\n"
        "rebuild` makes it anew.\n"
        "Exit codes: 0 whole (with --repair: mended, or SLURM has it), 1 damaged, 2 refused.\n\n"
        "examples:\n"
        "  python -m sweeps check groupsize\n"
        "  python -m sweeps check groupsize experiment=countdown version=v1 --json\n"
        "  python -m sweeps check groupsize --repair\n",
    )
    either = check.add_mutually_exclusive_group()
    either.add_argument("--json", action="store_true", help="print JSON")
    either.add_argument(
        "--repair", action="store_true", help="make again what is damaged, and nothing else"
    )
    add(
        "cancel",
        "ask a running sweep to save and stop",
        f"{ADDRESS}\nexamples:\n"
        "  python -m sweeps cancel groupsize\n"
        "  python -m sweeps cancel groupsize experiment=countdown\n",
    )
    add(
        "tick",
        "bring a sweep on SLURM up to date once: submit again what was lost, sync MLflow",
        f"{ADDRESS}\nIt keeps nothing in mind: run it by hand, from cron, or not at all.\n\n"
        "examples:\n"
        "  python -m sweeps tick groupsize\n",
    )
    follow = add(
        "follow",
        "watch a sweep on SLURM and bring it up to date until it is done",
        f"{ADDRESS}\nCtrl-C stops the watching and no job.\n"
        "Exit codes: 0 all done, 1 something was given up.\n\n"
        "examples:\n"
        "  python -m sweeps follow groupsize\n"
        "  python -m sweeps follow groupsize --every 300\n",
    )
    follow.add_argument("--every", type=float, default=30.0, help="seconds (default 30)")
    retry = add(
        "retry",
        "try again what was given up on SLURM",
        f"{ADDRESS}\nexamples:\n"
        "  python -m sweeps retry groupsize\n"
        "  python -m sweeps retry groupsize --point grpo-n8-g0.5-s11\n",
    )
    retry.add_argument("--point", help="only this one, as `status` lists it")
    logs = add(
        "logs",
        "print the log of the latest attempt at a point",
        f"{ADDRESS}\nexamples:\n"
        "  python -m sweeps logs groupsize grpo-n8-g0.5-s11\n"
        "  python -m sweeps logs groupsize grpo-n8-g0.5-s11 --stage evaluate -n 100\n"
        "  python -m sweeps logs groupsize base-s11 --follow\n",
        "point_id",
    )
    logs.add_argument(
        "--stage",
        help="which stage, as plan.json names its kind, e.g. evaluate; without it the one that was "
        "started last",
    )
    logs.add_argument("-n", dest="lines", type=int, default=40, help="last lines (default 40)")
    logs.add_argument("--follow", action="store_true", help="go on while the stage is at work")
    return parser
