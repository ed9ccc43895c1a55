"""Command line: the frames of a sweep, as CSV for a spreadsheet or another language."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import polars as pl
import typer

from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.results import find_results
from fgrpo_bench.analysis.rows import FRAMES, ON_DEMAND, schema
from fgrpo_bench.analysis.stored import analysed, frames_folder
from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    WHICH_RUN,
    Application,
    Json,
    Root,
    Run,
    Select,
    check_choice,
    print_json,
    refusals,
)
from fgrpo_bench.command.runs import default_root

app = Application("Every number of a sweep as tables, or as CSV.", guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    return application.run(app, arguments, "python -m fgrpo_bench.analysis")


@app.add(
    "analysis",
    "compute every number of a sweep, or read them where its results have not changed since",
    "fgrpo-bench analysis groupsize",
    "fgrpo-bench analysis groupsize --frame comparisons > comparisons.csv",
    "fgrpo-bench analysis groupsize/countdown-prompts --frame estimates --select step=200",
    "fgrpo-bench analysis evals/base-1b+step-300 --frame comparisons",
    more=f"{WHICH_RUN}Lists the frames, or prints one as CSV: docs/reference/columns.md.\n",
)
def frames(
    sweep: Run,
    root: Root = None,
    select: Select = LAST,
    frame: Annotated[
        str | None,
        typer.Option(
            help=f"print this one as CSV: {', '.join(FRAMES)}",
            autocompletion=lambda: list(FRAMES),
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    if frame is not None:
        check_choice("--frame", frame, FRAMES)
    analysis = analysed(find_results(root or default_root(), sweep), select)
    if as_json:
        print_json(
            {
                name: {
                    "rows": None if name in ON_DEMAND else len(getattr(analysis, name)),
                    "columns": list(schema(row)),
                }
                for name, row in FRAMES.items()
            }
            if frame is None
            else getattr(analysis, frame).to_dicts()
        )
        return 0
    if frame is not None:
        sys.stdout.write(csv(getattr(analysis, frame)))
        return 0
    if (stored := analysis.results.sweep) is not None:  # frames of evaluations are stored nowhere
        print(frames_folder(stored.paths, analysis.rule))
    for name, row in FRAMES.items():
        # what is stored nowhere is computed where somebody asks for it, not to be counted
        size = "on demand" if name in ON_DEMAND else f"{len(getattr(analysis, name)):7,} rows"
        print(f"  {name:13} {size:>12}: {', '.join(schema(row))}")
    return 0


def csv(frame: pl.DataFrame) -> str:
    """A frame as CSV; what stands in a list has spaces between."""
    lists = pl.selectors.by_dtype(pl.List(pl.String), pl.List(pl.Int64), pl.List(pl.Float64))
    return frame.with_columns(lists.cast(pl.List(pl.String)).list.join(" ")).write_csv()


if __name__ == "__main__":
    sys.exit(main())
