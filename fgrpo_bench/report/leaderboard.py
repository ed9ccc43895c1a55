"""`fgrpo-bench leaderboard [<sweep>]`: a table of methods at equal pass@1, from stored results.

In: a finished sweep whose question was declared at equal pass@1 before its first training, and the
rows that earlier sweeps have put there. Out: the rows beside the page (a JSON file, so that a row
of somebody else's run needs no more than its values), and the page's tables, which are made of
these rows alone. The verdicts are those of the sweep's report; nothing is computed here but hours.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from fgrpo_bench.analysis import INCONCLUSIVE, Analysis, analysed
from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.analysis.rows import EqualPassAt1, PathRange
from fgrpo_bench.command import application
from fgrpo_bench.command.application import WHICH_RUN, Application, Root, refusals
from fgrpo_bench.command.runs import RUN_HELP, choose_run, complete_run, default_root
from fgrpo_bench.core.commandline import CHECKOUT, INSTALLED
from fgrpo_bench.documents.markdown import markdown_blocks
from fgrpo_bench.documents.table import NONE, Block, Paragraph, Table, difference, percent
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record, write_json, write_text
from fgrpo_bench.report.footnotes import redeclared
from fgrpo_bench.report.provenance import evaluated

PAGE = CHECKOUT / "docs/results/leaderboard.md"
"""The rows stand beside it, in a file of the same name that ends in .json."""
MARK = "<!-- rows: `fgrpo-bench leaderboard` writes what follows -->"
NEW_PAGE = "# Leaderboard of methods\n\n"
"""Above the mark, where there was no page."""
WIDTH = 100
"""Most characters of a line of prose."""
NO_ROWS = "No sweep has put a row here yet."
COLUMNS = (
    "At the highest pass@1 that both reach: pass@k of the method there, and how much more that is "
    "than the other's, in percentage points with the 95% interval over problems and seeds. "
    "Verdicts are after Holm's correction over the sweep's declared comparisons. Cost: training, "
    "mean of a run. Commit: of the code that made the runs; * with uncommitted changes."
)


@dataclass(frozen=True, kw_only=True)
class Entry(Record):
    """A row: a method of one sweep against what the sweep declares that it is compared with."""

    sweep: str
    experiment: str
    version: str
    model: str
    """Which was trained."""
    benchmark: str
    """Or the name of an average of several."""
    n_problems: int
    n_samples: int | None
    """Draws for each problem, the most; None where that is not known."""
    steps: int
    """Of a run of what it is compared with."""
    k: int
    method: str
    """Label of its cell, likewise `against`."""
    cell: str
    """Its name in the sweep."""
    against: str
    seeds: tuple[int, ...]
    pass_at_1: float | None = None
    """The highest that both reach, a fraction as the next four; None where their ranges of pass@1
    do not meet, like these."""
    pass_at_k: float | None = None
    """Of the method there."""
    difference: float | None = None
    """Less that of what it is compared with."""
    low: float | None = None
    """Of the 95% interval of the difference, like `high`."""
    high: float | None = None
    p_holm: float | None = None
    """After correction over the comparisons that the sweep declared."""
    verdict: str
    reason: str | None = None
    """Why the ranges do not meet."""
    train_cpu_seconds: float | None = None
    """Of training, mean over the runs; None where that is not recorded, likewise the next."""
    train_gpu_seconds: float | None = None
    """Times the GPUs that were held; 0 on processors."""
    finished: str
    """When the last evaluation of its runs was done, in ISO 8601."""
    git_commit: str | None = None
    """Of the code that made the runs; None outside a checkout, like `git_dirty`."""
    git_dirty: bool | None = None
    """Whether that code had uncommitted changes."""

    @property
    def run(self) -> str:
        """The words that name it for a command."""
        return f"{self.sweep}/{self.experiment}/{self.version}"


@dataclass(frozen=True, kw_only=True)
class Leaderboard(Record):
    """The file beside the page."""

    rows: tuple[Entry, ...]


app = Application("A table of methods at equal pass@1.", guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    return application.run(app, arguments, "python -m fgrpo_bench.report leaderboard")


@app.add(
    "leaderboard",
    "put the methods of a finished sweep into a table of methods at equal pass@1; without a sweep "
    "write its page anew",
    "fgrpo-bench leaderboard frontier-tuned",
    "fgrpo-bench leaderboard frontier-tuned/countdown/v1 --page our-methods.md",
    "fgrpo-bench leaderboard   the page, after its rows were merged or taken out by hand",
    more=f"{WHICH_RUN}\nThe sweep declares its question with `at: equal_pass_at_1` before its "
    "first training. Its rows\ngo into a JSON file beside the page, in place of those that it had "
    "there.\n",
)
def leaderboard(
    context: typer.Context,
    sweep: Annotated[
        str | None,
        typer.Argument(metavar="SWEEP", help=RUN_HELP, autocompletion=complete_run),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Markdown whose tables are written (default: docs/results/leaderboard.md of a "
            "checkout)",
        ),
    ] = None,
    root: Root = None,
) -> int:
    if page is None and INSTALLED:
        context.fail("name the page with --page FILE: there is no checkout whose docs have one")
    if sweep is None and root is not None:
        context.fail("--root is of a sweep: name one")
    rows: list[Entry] = []
    if sweep is not None:
        results = load_results(choose_run(root or default_root(), sweep))
        rows = entries(analysed(results), results)
    for line in put(page or PAGE, rows):
        print(line)
    return 0


def put(page: Path, rows: Sequence[Entry]) -> list[str]:
    """Store rows beside a page, in place of those of the same runs, and write the page's tables;
    returns lines that say so.

    ValueError where the page has no mark, or the file beside it holds something else.
    """
    words, store = _head_of_page(page), page.with_suffix(".json")
    before = stored_rows(store)
    runs = list(dict.fromkeys(row.run for row in rows))
    kept = [row for row in before if row.run not in runs]
    every = (*kept, *rows)
    if rows:
        write_json(store, Leaderboard(rows=every).as_json())
    write_text(page, words + rendered(every))
    stored_lines = [f"{', '.join(runs)}: {len(rows)} rows, {len(before) - len(kept)} replaced"]
    return [*(stored_lines if rows else []), f"{page}: {len(every)} rows"]


def stored_rows(store: Path) -> tuple[Entry, ...]:
    """The rows of the file beside a page, none where there is no file; ValueError where it holds
    something else."""
    if not store.exists():
        return ()
    return read_record(store, Leaderboard, "put back what was committed").rows


def _head_of_page(page: Path) -> str:
    """What of a page stays: all to the end of the line of the mark."""
    if not page.exists():
        return f"{NEW_PAGE}{MARK}\n"
    words, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(
            f"{page} has no line {MARK!r}, below which the tables are written: add it, or name "
            "another page"
        )
    return f"{words}{MARK}\n"


def entries(analysis: Analysis, results: SweepResults) -> list[Entry]:
    """A row a comparison that the sweep declares, in the order of the declaration, those whose
    ranges of pass@1 do not meet last.

    ValueError for a sweep whose question is not declared at equal pass@1, or was declared or
    changed after a first training, and for one that lacks results.
    """
    name = results.paths.sweep
    if not analysis.at_equal_pass_at_1:
        raise ValueError(
            f"the question of {name} is not declared at equal pass@1, and methods that learn at "
            "different speeds do not compare at their last checkpoints: declare another sweep, "
            "with `at: equal_pass_at_1` in its family (docs/reference/equal-pass-at-1.md)"
        )
    if late := redeclared(analysis):
        raise ValueError(
            f"{late[0]} A row answers a question that was put before: declare {name} anew with "
            "other seeds, and run that"
        )
    if analysis.missing:
        first, lacks = analysis.missing[0]
        raise ValueError(
            f"{analysis.with_results} in {name} ({first}: {lacks}): `fgrpo-bench sweep run {name}` "
            "makes what is missing"
        )
    ks = {row.column: row.k for row in analysis.on_paths}
    compared = [_compared(analysis, results, row, row.k) for row in analysis.on_paths]
    apart = [
        _compared(analysis, results, row, ks.get(row.column, analysis.ks[-1]))
        for row in analysis.off_paths
    ]
    return [*compared, *apart]


def _compared(
    analysis: Analysis, results: SweepResults, row: EqualPassAt1 | PathRange, k: int
) -> Entry:
    estimate, cost = analysis.estimate(row.column, row.new, k), analysis.costs[row.new]
    new, old = analysis.by_cell[row.new], analysis.by_cell[row.old]
    cell_points = (point for point in evaluated(results) if point.label == row.new)
    entry = Entry(
        sweep=results.paths.sweep,
        experiment=results.paths.experiment,
        version=results.paths.version,
        model=results.model,
        benchmark=row.column,
        n_problems=estimate.n_problems,
        n_samples=estimate.n_samples,
        steps=old.step,
        k=k,
        method=new.label,
        cell=new.cell,
        against=old.label,
        seeds=tuple(seed for seed in row.seeds if seed is not None),
        verdict=INCONCLUSIVE,
        train_cpu_seconds=cost.train_cpu_seconds,
        train_gpu_seconds=cost.train_gpu_seconds,
        finished=max(point.evaluated().finished for point in cell_points),
        git_commit=results.record.git_commit,
        git_dirty=results.record.git_dirty,
    )
    if isinstance(row, PathRange):
        return replace(entry, reason=row.reason)
    return replace(
        entry,
        pass_at_1=row.pass_at_1,
        pass_at_k=row.pass_at_k,
        difference=row.difference,
        low=row.low,
        high=row.high,
        p_holm=row.p_holm,
        verdict=row.verdict,
    )


def rendered(rows: Sequence[Entry]) -> str:
    """The page below its mark: a table for all that were compared alike, the largest difference
    first."""
    if not rows:
        return f"\n{NO_ROWS}\n"
    alike: dict[tuple[object, ...], list[Entry]] = {}
    for row in rows:
        compared_alike = (row.experiment, row.model, row.benchmark, row.k, row.steps, row.against)
        alike.setdefault(compared_alike, []).append(row)
    blocks: list[Block] = [Paragraph(text=COLUMNS), *map(_table, alike.values())]
    lines = markdown_blocks(blocks).split("\n")
    return "\n".join(["", *map(_wrapped, lines), ""])


def _wrapped(line: str) -> str:
    """A line of prose in lines of WIDTH characters; a table's row and a heading as they are."""
    if line.startswith(("|", "#")):
        return line
    return textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(rows: Sequence[Entry]) -> Table:
    first = rows[0]
    model = f" ({first.model})" if first.model != first.experiment else ""
    reasons = dict.fromkeys(f"{row.method}: {row.reason}." for row in rows if row.reason)
    return Table(
        title=f"{first.benchmark}: pass@{first.k} against {first.against}, {first.experiment}"
        f"{model}, {first.steps} steps",
        header=(
            *("method", "seeds", "verdict", "at pass@1", f"pass@{first.k}", "more than the other"),
            *("cost", "date", "commit", "run"),
        ),
        rows=tuple(map(_cells, sorted(rows, key=_by_difference))),
        n_labels=3,
        notes=tuple(reasons),
    )


def _by_difference(row: Entry) -> tuple[bool, float]:
    return row.difference is None, -(row.difference or 0.0)


def _cells(row: Entry) -> tuple[str, ...]:
    commit = NONE if row.git_commit is None else row.git_commit[:8]
    return (
        row.method,
        seeds_text(row.seeds),
        row.verdict,
        percent(row.pass_at_1),
        percent(row.pass_at_k),
        difference(row.difference, row.low, row.high),
        _cost(row),
        row.finished[:10],
        f"{commit}{'*' if row.git_dirty else ''}",
        row.run,
    )


def seeds_text(seeds: Sequence[int]) -> str:
    """e.g. `31 to 35, 41`: runs of three or more in a row by their ends."""
    return ", ".join(_spans(sorted(seeds)))


def _spans(seeds: Sequence[int]) -> Iterator[str]:
    begin = 0
    for i, seed in enumerate(seeds, start=1):
        if i < len(seeds) and seeds[i] == seed + 1:
            continue
        if i - begin > 2:
            yield f"{seeds[begin]} to {seed}"
        else:
            yield from map(str, seeds[begin:i])
        begin = i


def _cost(row: Entry) -> str:
    """Hours of the GPUs, or of processors where none was held, two digits of them that count."""
    seconds, unit = row.train_gpu_seconds, "GPU-h"
    if not seconds:
        seconds, unit = row.train_cpu_seconds, "CPU-h"
    if seconds is None:
        return NONE
    hours = seconds / 3600
    return f"{hours:,.0f} {unit}" if hours >= 10 else f"{hours:.2g} {unit}"
