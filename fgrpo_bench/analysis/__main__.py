"""Command line: the frames of a sweep, as CSV for a spreadsheet or another language."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import polars as pl

from fgrpo_bench.analysis.checkpoints import LAST, RULES
from fgrpo_bench.analysis.frames import analysed, folder_of
from fgrpo_bench.analysis.rows import FRAMES
from fgrpo_bench.commandline import Parser
from fgrpo_bench.results import load_results
from fgrpo_bench.runs import add_run_options, choose_run

EXAMPLES = """\
examples:
  python -m fgrpo_bench.analysis groupsize
  python -m fgrpo_bench.analysis groupsize --frame comparisons > comparisons.csv
  python -m fgrpo_bench.analysis groupsize --frame estimates --select step=200
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    parser = Parser(
        prog="python -m fgrpo_bench.analysis",
        description="Compute every number of a sweep, or read them where its results have not "
        "changed since, and list the frames or print one as CSV. Columns: docs/analysis.md.",
        epilog=EXAMPLES,
    )
    parser.add_argument("sweep", help="name of the sweep, e.g. groupsize")
    add_run_options(parser)
    parser.add_argument(
        "--select",
        default=LAST,
        metavar="RULE",
        help=f"which checkpoint stands for a run: {', '.join(RULES)} (default: %(default)s)",
    )
    parser.add_argument("--frame", choices=list(FRAMES), help="print this one as CSV")
    options = parser.parse_args(arguments)
    try:
        paths = choose_run(
            options.root, options.sweep, experiment=options.experiment, version=options.version
        )
        analysis = analysed(load_results(paths), options.select)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.frame:
        sys.stdout.write(csv(getattr(analysis, options.frame)))
        return 0
    print(folder_of(paths, analysis.rule))
    for name in FRAMES:
        frame = getattr(analysis, name)
        print(f"  {name:13} {len(frame):7,} rows: {', '.join(frame.columns)}")
    return 0


def csv(frame: pl.DataFrame) -> str:
    """A frame as CSV; what stands in a list has spaces between."""
    lists = pl.selectors.by_dtype(pl.List(pl.String), pl.List(pl.Int64), pl.List(pl.Float64))
    return frame.with_columns(lists.cast(pl.List(pl.String)).list.join(" ")).write_csv()


if __name__ == "__main__":
    sys.exit(main())
