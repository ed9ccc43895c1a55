"""pass@k by the values of a column of the problems, e.g. level or subject, and differences in each.

In: the short columns beside a benchmark's problems (fgrpo_bench.data) and `Scores`. Out: which
problems have which value (`Partition`), and the rows of `by_value` and `by_value_comparisons`. Each
value is a benchmark of its own problems: its numbers are those of comparisons.py, and the
differences of a pair at one k are corrected over the values together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fgrpo_bench.analysis.checkpoints import At, Scores
from fgrpo_bench.analysis.comparisons import SIGNIFICANT, SUGGESTIVE, Resamples
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import Comparison, Estimate, ValueComparison, ValueEstimate
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data import problem_columns
from fgrpo_bench.kinds.evaluate import EvaluationSpec
from fgrpo_bench.stats.intervals import LEVEL
from fgrpo_bench.stats.significance import holm

DEFAULT_COLUMNS = {"synlogic": "task"}
"""The column that is taken where nobody names one, by the dataset's layout."""
MOST_VALUES = 30
"""Of a column that somebody names: of more, most have too few problems to say anything."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """The problems of a benchmark by the values of a column."""

    benchmark: str
    by: str
    """The column."""
    problems: Mapping[str, tuple[str, ...]]
    """problem_ids, rising, by value: numbers by their size before texts. Problems without a value
    are in none."""

    @property
    def value_by_problem(self) -> dict[str, str]:
        """By problem_id."""
        return {problem: value for value, of in self.problems.items() for problem in of}


def partition(
    columns: pl.DataFrame, by: str, problems: Collection[str], benchmark: str
) -> Partition:
    """Of the problems that count. columns: of `problem_columns`, with this one."""
    kept = columns.filter(pl.col("problem_id").is_in(list(problems)))
    by_value: dict[str, list[str]] = {}
    for problem, value in kept.select("problem_id", by).drop_nulls().sort("problem_id").iter_rows():
        by_value.setdefault(value, []).append(problem)
    rising = sorted(by_value, key=_rising)
    return Partition(
        benchmark=benchmark, by=by, problems={value: tuple(by_value[value]) for value in rising}
    )


def _rising(value: str) -> tuple[float, str]:
    try:
        size = float(value)
    except ValueError:
        return math.inf, value
    return (size if math.isfinite(size) else math.inf), value


def named_partitions(
    by: str, columns: Mapping[str, pl.DataFrame | None], problems: Mapping[str, Collection[str]]
) -> list[Partition]:
    """Of the benchmarks whose problems have the column; ValueError, with the columns that would do,
    where none has, and where one has it with a single value, more than MOST_VALUES or as many as
    problems.

    columns: of `problem_columns`, by benchmark; None of generated problems, which have none.
    problems: the problem_ids that count, likewise.
    """
    out, offered = list[Partition](), dict[str, str]()
    for benchmark, table in columns.items():
        n_problems = len(problems[benchmark])
        sizes = {} if table is None else _sizes(table, problems[benchmark])
        fit = [name for name, n_values in sizes.items() if _is_fit(n_values, n_problems)]
        words = ", ".join(f"{name} ({sizes[name]} values)" for name in fit) or "none"
        offered[benchmark] = f"{benchmark} has {words}{suggestion(by, fit)}"
        if table is None or by not in sizes:
            continue
        if by not in fit:
            raise ValueError(
                f"--by {by}: {sizes[by]} different values over {n_problems} problems of "
                f"{benchmark}; name a column of 2 to {MOST_VALUES} values, and of fewer than there "
                f"are problems: {benchmark} has {words}"
            )
        out.append(partition(table, by, problems[benchmark], benchmark))
    if columns and not out:
        raise ValueError(
            f"--by {by}: no column of the problems is called so, of those that hold short texts or "
            f"numbers; {'; '.join(offered.values())}"
        )
    return out


def _sizes(columns: pl.DataFrame, problems: Collection[str]) -> dict[str, int]:
    """How many values each column has among these problems."""
    kept = columns.filter(pl.col("problem_id").is_in(list(problems))).drop("problem_id")
    return {name: kept[name].drop_nulls().n_unique() for name in kept.columns}


def _is_fit(n_values: int, n_problems: int) -> bool:
    return 2 <= n_values <= MOST_VALUES and n_values < n_problems


def partitions(
    results: Results, problems: Mapping[str, Collection[str]], by: str | None
) -> list[Partition]:
    """Of evaluated benchmarks; raises as `named_partitions` and `problem_columns`.

    problems: problem_ids by benchmark. by: None is the column of each benchmark's layout, and none
    of those whose layout has none.
    """
    specs = dict[str, EvaluationSpec]()
    for name in results.benchmarks:
        if (spec := _spec(results, name, by)) is not None:
            specs[name] = spec
    if by is not None:
        columns = {name: _columns(spec, name) for name, spec in specs.items()}
        return named_partitions(by, columns, problems)
    out = []
    for name, spec in specs.items():
        column = DEFAULT_COLUMNS.get(spec.layout(name) or "")
        table = None if column is None else _columns(spec, name)
        if column is not None and table is not None:
            out.append(partition(table, column, problems[name], name))
    return out


def _columns(spec: EvaluationSpec, benchmark: str) -> pl.DataFrame | None:
    folder = spec.data_folder(benchmark)
    return None if folder is None else problem_columns(folder)


def _spec(results: Results, benchmark: str, by: str | None) -> EvaluationSpec | None:
    """Of an evaluation, which says where the problems are: all are of the same. None where nothing
    is evaluated, and where the spec of each is lost and nobody needs it."""
    done = [item for item in results.checkpoints if item.results_on(benchmark) is not None]
    if not done:
        return None
    first = next((item for item in done if item.evaluate.spec.exists()), done[0])
    dataset = results.evaluation["benchmarks"][benchmark].get("dataset")
    layout = dataset.get("layout") if isinstance(dataset, dict) else None
    if by is None and layout not in DEFAULT_COLUMNS and not first.evaluate.spec.exists():
        return None
    return first.evaluation_spec()


def notes_on_values(
    by: str, sizes: Mapping[str, int], n_problems: int, lacking: Sequence[str] = ()
) -> tuple[str, ...]:
    """What a table by the values of a column leaves out or has no interval of, in sentences.

    sizes: problems by value; n_problems: of the benchmark; lacking: benchmarks without the column.
    """
    notes = []
    if n_without := n_problems - sum(sizes.values()):
        notes.append(f"{n_without} of {n_problems} problems have nothing in {by} and are left out.")
    if single := [value for value, n in sizes.items() if n < 2]:
        notes.append(f"Of one problem, and so without an interval: {', '.join(single)}.")
    if lacking:
        notes.append(f"Without a column {by} beside their problems: {', '.join(lacking)}.")
    return tuple(notes)


# What is computed of each value.


def rows_by_value(
    parts: Sequence[Partition],
    scores: Mapping[str, Mapping[At, Scores]],
    chosen: Collection[At],
    estimated: Callable[[Resamples, str], Iterable[Estimate]],
    differing: Callable[[Resamples, str], Iterable[Comparison]],
) -> tuple[list[ValueEstimate], list[ValueComparison]]:
    """Rows by benchmark, value, cell or pair, and k, of the chosen checkpoints that have results.

    estimated, differing: the rows of resamples, whose one column is the value.
    """
    of_cells, of_pairs = list[ValueEstimate](), list[ValueComparison]()
    for part in parts:
        differences = list[ValueComparison]()
        for value, problems in part.problems.items():
            cells = {
                at: _with_problems(scores[part.benchmark][at], problems)
                for at in chosen
                if scores[part.benchmark][at].seeds
            }
            # One value at a time: the resamples of all would be as many times as large.
            resamples = Resamples({value: cells}, {})
            named: dict[str, Any] = {"by": part.by, "value": value, "n_of_value": len(problems)}
            of_cells += (
                ValueEstimate(**_as(row, part.benchmark), **named, published=None)
                for row in estimated(resamples, value)
            )
            differences += (
                ValueComparison(**_as(row, part.benchmark), **named)
                for row in differing(resamples, value)
            )
        of_pairs += _corrected(differences, f"the values of {part.by} at one k")
    return of_cells, of_pairs


def _as(row: Estimate | Comparison, benchmark: str) -> dict[str, Any]:
    """The columns of a row, of a benchmark; the paper has no figure of a value."""
    columns = {name: value for name, value in vars(row).items() if name != "published"}
    return columns | {"column": benchmark}


def _with_problems(scores: Scores, problems: Collection[str]) -> Scores:
    names = set(problems)
    return scores.for_problems([i for i, name in enumerate(scores.problems) if name in names])


def _corrected(rows: Sequence[ValueComparison], family: str) -> Iterator[ValueComparison]:
    """The rows with the p-values of each pair and k corrected over the values; a value of one
    problem has none."""
    alike: dict[tuple[str, str, int], list[ValueComparison]] = {}
    for row in rows:
        alike.setdefault((row.new, row.old, row.k), []).append(row)
    holms: dict[tuple[str, str, int, str], float] = {}
    for key, of_pair in alike.items():
        tested = [(row.value, row.p) for row in of_pair if row.p is not None]
        adjusted = holm([p for _, p in tested])
        holms |= {(*key, value): p for (value, _), p in zip(tested, adjusted, strict=True)}
    for row in rows:
        p_holm = holms.get((row.new, row.old, row.k, row.value))
        if p_holm is None:
            yield row
            continue
        is_significant = row.verdict == SUGGESTIVE and p_holm < 1 - LEVEL
        verdict = SIGNIFICANT if is_significant else row.verdict
        yield replace(row, family=family, p_holm=p_holm, verdict=verdict)
