"""Command line: rebuild a sweep's report from its stored files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.commandline import Parser
from fgrpo_bench.documents.terminal import escaped
from fgrpo_bench.report.build import FILES, render, write_report
from fgrpo_bench.results import load_results
from fgrpo_bench.runs import add_run_options, choose_run

EXAMPLES = """\
Which run: where a sweep was run with several experiments or versions, what you do not name is what
`python -m sweeps run <sweep>` would take; where that was never run, you get the list of runs.

examples:
  python -m fgrpo_bench.report groupsize
  python -m fgrpo_bench.report groupsize --experiment countdown-prompts --version v2
  python -m fgrpo_bench.report groupsize --format md,html
  python -m fgrpo_bench.report groupsize --format csv > groupsize.csv
  python -m fgrpo_bench.report groupsize --experiment qwen2.5-7b --compare-paper
  python -m fgrpo_bench.report transfer --select paper
  python -m fgrpo_bench.report --verify runs/groupsize/countdown/v1/report
  python -m fgrpo_bench.report --verify runs/groupsize/countdown/v1/report/table.tex --regrade

for others (each has a --help):
  python -m fgrpo_bench.report export groupsize --to every-eval-ever
  python -m fgrpo_bench.report bundle groupsize
"""
FOR_OTHERS = {
    "export": "fgrpo_bench.report.exports.command",
    "bundle": "fgrpo_bench.report.exports.bundle",
}
"""Modules with a `main` of their own, by the first word."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given and given[0] in FOR_OTHERS:
        return int(import_module(FOR_OTHERS[given[0]]).main(given[1:]))
    parser = Parser(
        prog="python -m fgrpo_bench.report",
        description="Rebuild table, words and figures of a sweep into its report folder, from the "
        "stored files alone. A sweep in progress gives a report on what is done.",
        epilog=EXAMPLES,
    )
    parser.add_argument("sweep", nargs="?", help="name of the sweep, e.g. groupsize")
    add_run_options(parser)
    parser.add_argument(
        "--format",
        type=_formats,
        default=tuple(FILES),
        metavar="LIST",
        help="of md, latex, csv, html with commas between: what is written (all); one alone is "
        "printed to standard output, and nothing is written",
    )
    parser.add_argument(
        "--compare-paper",
        action="store_true",
        help="set the published figures beside ours (see fgrpo_bench.report.published)",
    )
    parser.add_argument(
        "--select",
        default=LAST,
        metavar="RULE",
        help="which checkpoint stands for a run: last (the default), step=<step>, paper (the best "
        "of the base algorithm, then the best focal one of no more compute) or held-out (the same, "
        "chosen on one half of the problems, reported on the other)",
    )
    parser.add_argument(
        "--verify",
        type=Path,
        metavar="PATH",
        help="compute every number of a report again: its folder, or one file of it",
    )
    parser.add_argument(
        "--regrade", action="store_true", help="with --verify: judge the stored responses again"
    )
    options = parser.parse_args(given)
    if (options.sweep is None) == (options.verify is None):
        parser.error("name a sweep, or a report's folder or file with --verify")
    try:
        if options.verify is not None:
            return _verify(options.verify, root=options.root, regrade=options.regrade)
        paths = choose_run(
            options.root, options.sweep, experiment=options.experiment, version=options.version
        )
        results, compare_paper = load_results(paths), options.compare_paper
        if len(options.format) == 1:
            analysis = analysed(results, options.select)
            sys.stdout.write(render(analysis, *options.format, compare_paper=compare_paper))
            return 0
        report = write_report(
            results, options.select, formats=options.format, compare_paper=compare_paper
        )
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(report.text)
    for file in report.files:
        print(file)
    return 0


def _formats(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    unknown = [name for name in names if name not in FILES]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r} is no format: take some of {', '.join(FILES)}, with commas between"
        )
    return names


def _verify(path: Path, *, root: Path, regrade: bool) -> int:
    from fgrpo_bench.report.verify import verify

    verified = verify(path, root=root, regrade=regrade)
    for line in verified.differences:
        print(escaped(line))
    for line in verified.unseen:
        print(escaped(f"not looked at: {line}"))
    judged = " and judged" if regrade else ""
    print(
        f"{path}: {len(verified.differences)} differences"
        if verified.differences
        else f"{path}: every number computed{judged} again, none differs"
    )
    return 1 if verified.differences else 0


if __name__ == "__main__":
    sys.exit(main())
