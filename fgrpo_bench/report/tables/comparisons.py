"""The tables of differences between cells, and those that only some sweeps have.

In: an Analysis. Out: every difference, those of the question, and over all k; the front, further
graders, chosen checkpoints, equal rollouts and the values of a column where there are such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fgrpo_bench.analysis import INCONCLUSIVE, LEVEL, Analysis
from fgrpo_bench.analysis.checkpoints import HELD_OUT, PAPER
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.rows import (
    CellRow,
    CheckpointRow,
    Comparison,
    EffectRow,
    EqualPassAt1,
    Estimate,
    OtherGrader,
    PathRange,
    ValueComparison,
    ValueEstimate,
)
from fgrpo_bench.documents.table import (
    NONE,
    Table,
    conjoined,
    difference,
    grouped_number,
    p_value,
    percent,
    points,
    raised,
    unscored_note,
)
from fgrpo_bench.report.captions import caption, ends_text, ks_text, means
from fgrpo_bench.report.footnotes import RULE, family_note, footnotes, most_unscored, rule_note
from fgrpo_bench.report.narrative import band_legend
from fgrpo_bench.report.tables.main import NAMES, names, pass_at_k_value
from fgrpo_bench.specs import method_name

DOUBLED = {"group_size": "N", "prompts_per_step": "prompts", "product": "both (product)"}
"""Effects in words."""
ROWS = 40
"""Most differences of a table on paper."""


PATHS = (
    "Pass@1 of both: the range that the paths of both cells reach, from the base model on, mean "
    "over seeds. A checkpoint is on its run's path where its pass@1 is above that of every earlier "
    "one by more than the luck of the draws explains; between checkpoints a path is a monotone "
    "cubic."
)


def comparison_table(analysis: Analysis, column: str) -> Table:
    """Every difference that is asked for on a benchmark or average, with its interval, the single
    seeds and the verdict."""
    rows = []
    for row in analysis.question_rows:
        if row.column != column:
            continue
        rows.append((
            str(row.group),
            str(row.name),
            str(row.k),
            points(row.difference),
            NONE if row.low is None else f"[{points(row.low)}, {points(row.high)}]",
            ", ".join(map(points, row.by_seed)),
            f"{row.agreeing} of {len(row.seeds)}",
            *map(p_value, (row.p, row.p_holm, row.p_bh, row.p_draws)),
            row.verdict,
        ))  # fmt: skip
    return Table(
        title=f"{column}: differences in percentage points",
        caption=_differences_caption(analysis, column),
        header=(
            *("comparison", "", "k", "difference", "95% interval"),
            *("by seed", "same sign", "p", "p Holm", "p BH", "p draws", "verdict"),
        ),
        rows=tuple(rows),
        n_labels=2,
        is_folded=True,
        notes=(
            family_note(analysis),
            *footnotes(analysis, list(analysis.by_cell.values()), column),
        ),
    )


def comparison_tables(analysis: Analysis, column: str) -> Iterator[Table]:
    """The same for paper, a table each for what is asked, so that letters keep their size: without
    the columns that say nothing there, and with ROWS at most."""
    full = comparison_table(analysis, column)
    groups = dict.fromkeys(row[0] for row in full.rows)
    pages = []
    for group in groups:
        group_rows = [row for row in full.rows if row[0] == group]
        pages += [(group, group_rows[i : i + ROWS]) for i in range(0, len(group_rows), ROWS)]
    for page, (group, rows) in enumerate(pages, start=1):
        kept = [i for i in range(1, len(full.header)) if any(row[i] != NONE for row in rows)]
        page_number = f" {page} of {len(pages)}" if len(pages) > 1 else ""
        yield replace(
            full,
            title=f"{column}: differences{page_number} in percentage points, {group}",
            caption=_differences_caption(analysis, column, f" ({group})"),
            header=tuple(full.header[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in rows),
            n_labels=1,
        )


def _differences_caption(
    analysis: Analysis, column: str, which: str = "", *, ks: Sequence[int] = ()
) -> str:
    """The caption of a table of differences. ks: that it has; none are both ends."""
    at = ks_text(ks or analysis.ends)
    shown = f"Differences on {column}{which}, in percentage points at {at}"
    return caption(analysis, shown, column, intervals=True)


def question_table(analysis: Analysis, column: str) -> Table | None:
    """The differences that the question is about, for a paper; None where it has none on this
    column, and where it asks at equal pass@1, which has a table of its own."""
    in_question = () if analysis.at_equal_pass_at_1 else analysis.in_question
    compared = [row for row in in_question if row.column == column]
    rows = []
    for row in compared:
        interval = NONE if row.low is None else f"[{points(row.low)}, {points(row.high)}]"
        rows.append((
            f"{row.group}: {row.name}",
            str(row.k),
            f"{points(row.difference)} {interval}",
            p_value(row.p_holm),
            row.verdict,
        ))  # fmt: skip
    if not rows:
        return None
    is_question = analysis.results.sweep is not None
    return Table(
        title=f"{column}: differences{' that the question is about' * is_question}, in percentage "
        "points",
        caption=_differences_caption(
            analysis,
            column,
            " that the question asks about" * is_question,
            ks=sorted({row.k for row in compared}),
        ),
        header=("comparison", "k", "difference [95% interval]", "p Holm", "verdict"),
        rows=tuple(rows),
        notes=(
            family_note(analysis),
            *footnotes(analysis, list(analysis.by_cell.values()), column),
        ),
    )


def first_loss_table(analysis: Analysis, column: str) -> Table | None:
    """From which k on each pair's difference is a loss; None where no pair has a band."""
    pairs = {(row.new, row.old): row for row in analysis.question_rows if row.column == column}
    rows = []
    for (new, old), row in pairs.items():
        loss = analysis.first_loss_of(column, new, old)
        if loss is not None:
            ends = [NONE if k is None else str(k) for k in (loss.low, loss.high)]
            rows.append((str(row.group), str(row.name), loss.words, *ends))
    if not rows:
        return None
    return Table(
        title=f"{column}: over all k at once",
        caption=f"From which k on a setting loses to another on {column}, by the {LEVEL:.0%} band "
        f"of the whole curve of their difference. {raised(means(analysis, column))}.",
        header=("comparison", "", "by the band", "first loss from", "to"),
        rows=tuple(rows),
        n_labels=3,
        notes=(band_legend(), "A dash: there is no such k.", rule_note(analysis)),
    )


ABREAST = 4
"""Cells beside each other in a table of tasks."""
FRONT = (
    "a cell is dominated where another is significantly better at one of the two k and, by the "
    "point estimate, not worse at the other"
)


def front_table(analysis: Analysis, column: str) -> Table | None:
    """Which of the cells that the question compares are on the front of the plane, and what
    dominates the others; None where it compares none on this column."""
    cells, rows = list[CellRow](), []
    for cell in analysis.by_cell.values():
        place = analysis.on_front(column, cell)
        if place is None:
            continue
        cells.append(cell)
        verdict = "not dominated" if place.is_on_front else "dominated"
        better = [analysis.by_cell[name].label for name in place.dominated_by]
        rows.append((*names(cell), verdict, ", ".join(better) or NONE))
    if not rows:
        return None
    ends = " and ".join(f"pass@{k}" for k in analysis.ends)
    return Table(
        title=f"{column}: the front of {ends}",
        caption=f"Which compared settings another dominates in {ends} on {column}. "
        f"{raised(means(analysis, column))}.",
        header=(*NAMES, "in the plane", "dominated by"),
        rows=tuple(rows),
        n_labels=5,
        notes=(
            f"{FRONT.capitalize()}. No cell dominates another that it is not compared with.",
            family_note(analysis),
            *footnotes(analysis, cells, column),
        ),
    )


SLOPES = (
    "Slopes over all cells of the grid, on log2 N and log2 prompts per step less their means, and "
    "on the product of both: how much more a doubling of the one does at a doubling of the other. "
    "Over problems and the seeds that all cells have, with 95% intervals; p is corrected over "
    "nothing."
)


def effect_tables(analysis: Analysis) -> Iterator[Table]:
    """A table an average and a benchmark with a row an effect, and one at equal pass@1 where there
    are paths; none without a full grid of N and prompts per step."""
    rows = [row for row in analysis.rows("effects") if row.k in analysis.ends]
    for column, is_equal in dict.fromkeys((row.column, row.pass_at_1 is not None) for row in rows):
        by_effect: dict[tuple[str, ...], dict[int, EffectRow]] = {}
        for row in rows:
            if (row.column, row.pass_at_1 is not None) == (column, is_equal):
                method = method_name(row.algorithm, row.focal_gamma, row.learning_rate_factor)
                level = () if row.pass_at_1 is None else (percent(row.pass_at_1),)
                key = (method, f"{row.focal_gamma:g}", DOUBLED[row.effect], *level)
                by_effect.setdefault(key, {})[row.k] = row
        ks = [k for k in analysis.ends if any(k in by_k for by_k in by_effect.values())]
        ends = [f"pass@{k}" for k in ks]
        header, notes = ["method", "gamma", "a doubling of"], [SLOPES]
        if is_equal:
            header.append("pass@1 of all")
            notes.append("Pass@1 of all: the highest that all cells reach on their paths.")
        for end in ends:
            header += [end, "p"]
        table_rows = []
        for key, by_k in by_effect.items():
            cells = [*key]
            for k in ks:
                cells += _change(by_k.get(k))
            table_rows.append(tuple(cells))
        yield Table(
            title=f"{column}: effects of N and of prompts per step"
            f"{' at equal pass@1' if is_equal else ''}, in percentage points",
            caption=caption(
                analysis,
                f"Effects of doubling N or the prompts per step on {conjoined(ends)} on {column}"
                f"{' at equal pass@1' if is_equal else ''}, in percentage points",
                column,
                intervals=True,
            ),
            header=tuple(header),
            rows=tuple(table_rows),
            n_labels=3,
            notes=tuple(notes),
        )


def _change(row: EffectRow | None) -> tuple[str, str]:
    if row is None:
        return NONE, NONE
    return difference(row.change, row.low, row.high), p_value(row.p)


def grader_tables(analysis: Analysis) -> Iterator[Table]:
    """A benchmark's pass@k at the smallest and the largest k by each of its graders; none for a
    benchmark with one."""
    cells = list(analysis.by_cell.values())
    by_benchmark: dict[str, list[OtherGrader]] = {}
    for row in analysis.rows("other_graders"):
        by_benchmark.setdefault(row.benchmark, []).append(row)
    for benchmark, rows in by_benchmark.items():
        graders = list(dict.fromkeys(row.grader for row in rows))
        others = {
            (row.grader, row.cell, row.k): percent(row.pass_at_k) + unscored_note(*row.open_part)
            for row in rows
        }
        main_grader = analysis.results.evaluation["benchmarks"][benchmark]["grader"]
        versions = {version for row in rows for version in row.versions}
        lines = []
        for cell in cells:
            line = [*names(cell)]
            for k in analysis.ends:
                line.append(pass_at_k_value(analysis.estimate(benchmark, cell, k)).text)
                line += [others.get((name, cell.cell, k), NONE) for name in graders]
            lines.append(tuple(line))
        header = [*NAMES]
        for k in analysis.ends:
            header += [f"pass@{k} by {name}" for name in (main_grader, *graders)]
        yield Table(
            title=f"{benchmark}: pass@k in percent by each grader",
            caption=caption(
                analysis,
                f"{ends_text(analysis)} on {benchmark} in percent by each grader",
                benchmark,
            ),
            header=tuple(header),
            rows=tuple(lines),
            notes=(
                f"All other tables and figures of {benchmark} go by the grader {main_grader}; this "
                f"one has {', '.join(sorted(versions))} beside it, over the same draws.",
                *footnotes(analysis, cells, benchmark),
            ),
        )


def selection_table(analysis: Analysis) -> Iterator[Table]:
    """The checkpoint of every cell and what it was chosen from; none where nothing was chosen."""
    if analysis.rule not in (PAPER, HELD_OUT):
        return
    candidates: dict[str, list[CheckpointRow]] = {}
    for row in analysis.rows("checkpoints"):
        candidates.setdefault(row.cell, []).append(row)
    rows = []
    for cell, options in candidates.items():
        # Every chosen row names all that it was chosen from.
        by_step = []
        for option in options:
            unscored = most_unscored(_at_step(analysis, option))
            by_step.append(f"{option.step}: {percent(option.pass_at_1)}{unscored}")
        for row in options:
            if row.is_chosen:
                costs = (grouped_number(row.rollouts), grouped_number(row.budget))
                cell_names = names(analysis.by_cell[cell])
                rows.append((*cell_names, str(row.step), *costs, ", ".join(by_step)))
    yield Table(
        title="Checkpoints",
        header=(*NAMES, "step", "rollouts", "at most", "pass@1 by step, percent"),
        rows=tuple(rows),
        notes=(rule_note(analysis),),
    )


def _at_step(analysis: Analysis, item: CheckpointRow) -> list[Estimate]:
    return [row for row in analysis.at_every_checkpoint(item.cell) if row.step == item.step]


def equal_budget_tables(analysis: Analysis) -> Iterator[Table]:
    """A table an average and a benchmark with a row a pair; none where all runs cost the same or
    the dear ones have one checkpoint."""
    rows = analysis.rows("equal_budget")
    cost = {(row.cell, row.step): row.rollouts for row in analysis.rows("checkpoints")}
    for column in dict.fromkeys(row.column for row in rows):
        pairs: dict[str, dict[int, Comparison]] = {}
        for row in rows:
            if row.column == column:
                pairs.setdefault(str(row.name), {})[row.k] = row
        header = ["comparison", "rollouts", "of the other", "step", "of the other"]
        for k in analysis.ends:
            header += [f"pass@{k}", "p Holm"]
        table_rows = []
        for name, by_k in pairs.items():
            cells = [name, *_rollouts_and_steps(next(iter(by_k.values())), cost)]
            for k in analysis.ends:
                cells += _effect(by_k.get(k))
            table_rows.append(tuple(cells))
        if analysis.has_family:
            corrected = (
                f"p Holm is corrected over a family of its own: {rows[0].family}, of all "
                "benchmarks and averages."
            )
        else:
            corrected = NOTHING_CORRECTED
        yield Table(
            title=f"{column}: at equal rollouts, differences in percentage points",
            caption=_differences_caption(analysis, column, " of checkpoints at equal rollouts"),
            header=tuple(header),
            rows=tuple(table_rows),
            notes=(
                f"{RULE}of each run the latest evaluated one within the rollouts of the cheaper of "
                "the two; `experiment.checkpoints=every` gives more to choose from.",
                "Over problems and the seeds that both have, with 95% intervals. " + corrected,
            ),
        )


def _on_path(analysis: Analysis, compared: EqualPassAt1) -> list[Estimate]:
    """Of the new cell, at the checkpoints that its path goes through."""
    rows = analysis.at_every_checkpoint(compared.new)
    return [row for row in rows if row.column == compared.column]


def equal_pass_at_1_tables(
    analysis: Analysis, *, in_question_only: bool = False
) -> Iterator[Table]:
    """A table an average and a benchmark with a row a pair and k; none where runs have one
    evaluated checkpoint.

    in_question_only: the comparisons of the question alone, where it is declared at equal pass@1.
    """
    compared: Sequence[EqualPassAt1] = analysis.rows("equal_pass_at_1")
    ranges: Sequence[PathRange] = analysis.rows("path_ranges")
    question = "the question " if in_question_only else ""
    if in_question_only:
        is_declared = analysis.at_equal_pass_at_1
        compared = analysis.on_paths if is_declared else ()
        pairs = {(row.column, row.new, row.old) for row in compared}
        if is_declared:
            pairs |= {(row.column, row.new, row.old) for row in analysis.off_paths}
        ranges = [row for row in ranges if (row.column, row.new, row.old) in pairs]
    for column in dict.fromkeys(row.column for row in ranges):
        ks = sorted({row.k for row in compared if row.column == column})
        rows: list[tuple[str, ...]] = []
        apart: dict[str, list[str]] = {}
        for reach in (row for row in ranges if row.column == column):
            if reach.reason is not None:
                rows.append((reach.group, reach.name, *[NONE] * 7, INCONCLUSIVE))
                apart.setdefault(reach.reason, []).append(f"{reach.group}, {reach.name}")
            for row in compared:
                if (row.column, row.new, row.old) != (column, reach.new, reach.old):
                    continue
                rows.append((
                    reach.group,
                    reach.name,
                    str(row.k),
                    f"{percent(reach.low)} to {percent(row.pass_at_1)}",
                    percent(row.pass_at_k) + most_unscored(_on_path(analysis, row)),
                    difference(row.difference, row.low, row.high),
                    difference(row.mean_difference, row.mean_low, row.mean_high),
                    p_value(row.p),
                    p_value(row.p_holm),
                    row.verdict,
                ))  # fmt: skip
        notes = [
            PATHS,
            "At its end: at the highest pass@1 that both reach, with pass@k of the new cell, p "
            "and the verdict. Differences with 95% intervals over problems and the seeds that "
            "both have.",
        ]
        for reason, pair_names in apart.items():
            notes.append(f"No range in common: {reason} ({'; '.join(pair_names)}).")
        if analysis.at_equal_pass_at_1 or not analysis.has_family:
            notes.append(family_note(analysis))
        else:
            notes.append(
                "The family of the sweep is of other comparisons: nothing is corrected here."
            )
        yield Table(
            title=f"{column}: {question}at equal pass@1, in percentage points",
            caption=_differences_caption(
                analysis, column, " at the pass@1 that both settings reach", ks=ks
            ),
            header=(
                *("comparison", "", "k", "pass@1 of both", "pass@k", "at its end"),
                *("mean over it", "p", "p Holm", "verdict"),
            ),
            rows=tuple(rows),
            n_labels=2,
            notes=tuple(notes),
        )


def _rollouts_and_steps(row: Comparison, cost: dict[tuple[str, int], float]) -> Iterator[str]:
    both = (row.new, row.new_step), (row.old, row.old_step)
    yield from (grouped_number(cost[at]) for at in both)
    yield from (str(step) for _, step in both)


def _effect(row: Comparison | None) -> tuple[str, str]:
    if row is None:
        return difference(None, None, None), p_value(None)
    return difference(row.difference, row.low, row.high), p_value(row.p_holm)


def value_tables(analysis: Analysis) -> Iterator[Table]:
    """pass@k at the smallest and the largest k by the values of a column of the problems, some
    cells a table, with the share of the draws that could not be judged; then the differences of the
    question. None for a sweep without such a column."""
    cells = list(analysis.by_cell.values())
    parts = [cells[i : i + ABREAST] for i in range(0, len(cells), ABREAST)]
    every: Sequence[ValueEstimate] = analysis.rows("by_value")
    for benchmark, by in dict.fromkeys((row.column, row.by) for row in every):
        for k in analysis.ends:
            rows = [row for row in every if (row.column, row.k) == (benchmark, k)]
            for number_, part in enumerate(parts, start=1):
                part_number = f", {number_} of {len(parts)}" if len(parts) > 1 else ""
                labels = {cell.cell: cell.label for cell in part}
                yield Table(
                    title=f"{benchmark}: pass@{k} in percent by {by}{part_number}",
                    header=(by, "problems", *labels.values(), "unscored"),
                    rows=tuple(_by_value(rows, list(labels))),
                    notes=(
                        "Unscored: share of the draws, over all cells, that could not be judged.",
                        *analysis.notes_on_values(benchmark),
                        rule_note(analysis),
                    ),
                )
        yield from _differences_by_value(analysis, benchmark, by)


def _by_value(rows: Sequence[ValueEstimate], cells: list[str]) -> Iterator[tuple[str, ...]]:
    by_value: dict[str, list[ValueEstimate]] = {}
    for row in rows:
        by_value.setdefault(row.value, []).append(row)
    for value, value_rows in by_value.items():
        values = {row.cell: percent(row.mean) + unscored_note(*row.open_part) for row in value_rows}
        # a cell's draws are its problems' mean times seeds; problems are the same for all
        n_draws = [(row.n_draws or 0.0) * row.n_seeds for row in value_rows]
        unscored = sum(n * row.unscored for n, row in zip(n_draws, value_rows, strict=True))
        yield (
            value,
            str(value_rows[0].n_of_value),
            *(values.get(cell, NONE) for cell in cells),
            f"{unscored / sum(n_draws):.2%}" if any(n_draws) else NONE,
        )


def _differences_by_value(analysis: Analysis, benchmark: str, by: str) -> Iterator[Table]:
    """The pairs of the question; none where it compares none there."""
    pairs = {(row.new, row.old) for row in analysis.in_question}
    every: Sequence[ValueComparison] = analysis.rows("by_value_comparisons")
    rows = [
        row
        for row in every
        if (row.column, row.by) == (benchmark, by) and (row.new, row.old) in pairs
    ]
    ends: dict[tuple[str, str, str], dict[int, ValueComparison]] = {}
    for row in rows:
        ends.setdefault((str(row.group), str(row.name), row.value), {})[row.k] = row
    if not ends:
        return
    header = ["comparison", "", by, "problems"]
    for k in analysis.ends:
        header += [f"pass@{k}", "p Holm"]
    table_rows = []
    for key, by_k in ends.items():
        cells = [*key, str(next(iter(by_k.values())).n_of_value)]
        for k in analysis.ends:
            cells += _effect(by_k.get(k))
        table_rows.append(tuple(cells))
    yield Table(
        title=f"{benchmark}: differences by {by}, in percentage points",
        caption=_differences_caption(analysis, benchmark, f" by {by}"),
        header=tuple(header),
        rows=tuple(table_rows),
        n_labels=3,
        notes=(
            "Over the problems of each value and the seeds that both have, with 95% intervals. "
            f"p Holm is corrected over the values of {by}, for each comparison and k alone.",
            *analysis.notes_on_values(benchmark),
            rule_note(analysis),
        ),
    )
