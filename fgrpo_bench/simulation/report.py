"""The simulation's report: what happened in words, tables and a figure, from the files alone."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from fgrpo_bench.documents.blocks import Report
from fgrpo_bench.documents.latex import latex_table
from fgrpo_bench.documents.markdown import markdown_table
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.simulation.runs import QUESTION, Simulation, load
from fgrpo_bench.simulation.settings import RULES
from fgrpo_bench.stages.files import write_text
from fgrpo_bench.stages.paths import RunPaths

FIGURE = "simulation"
COLUMNS = {"total_correct_mass": "total", "retained_mass": "retained"}
CSV = "rule,group_size,focal_gamma,n_seeds,total_mean,total_sd,retained_mean,retained_sd"
TITLES = {"adam": "Adam on the ratio surrogate", "literal": "The literal rule"}
CELL = ("rule", "group_size", "focal_gamma")
SHOWN = 1e-4
"""Last digit of the tables. A smaller gain is rounding: at N = 2 all groups that teach something
have the same focal weight, which Adam takes out again."""


def curves(masses: pl.DataFrame) -> pl.DataFrame:
    """A row a rule, N, gamma and step, in the order of the plan: n_seeds, and of `total` and
    `retained` the mean, sd, lowest and highest over seeds; sd is null for one seed."""
    over_seeds = [
        statistic(pl.col(column)).alias(f"{name}_{suffix}")
        for column, name in COLUMNS.items()
        for suffix, statistic in (
            ("mean", pl.Expr.mean),
            ("sd", pl.Expr.std),
            ("low", pl.Expr.min),
            ("high", pl.Expr.max),
        )
    ]
    groups = masses.group_by(*CELL, "step", maintain_order=True)
    return groups.agg(pl.len().alias("n_seeds"), *over_seeds)


def ends(masses: pl.DataFrame) -> pl.DataFrame:
    """The last row of `curves` of each cell, with `total_first`, the mean before the first step."""
    cells = curves(masses).with_columns(total_first=pl.col("total_mean").first().over(*CELL))
    return cells.group_by(*CELL, maintain_order=True).last()


def write_report(paths: RunPaths) -> Report:
    """Write report.md, results.csv and the figure into the report folder; each file whole."""
    from fgrpo_bench.documents.style import save
    from fgrpo_bench.simulation.figure import panels

    simulation = load(paths)
    masses = simulation.masses()
    figures = save(lambda: panels(masses), paths.report / FIGURE) if len(masses) else []
    texts = {"report.md": render(simulation, "md"), "results.csv": render(simulation, "csv")}
    for name, text in texts.items():
        write_text(paths.report / name, text)
    lines = words(simulation, masses)
    for table in tables(masses):
        lines += ["", *plain_table(table)]
    files = [*(paths.report / name for name in texts), *figures]
    return Report(text="\n".join(lines) + "\n", files=files)


def render(simulation: Simulation, kind: str) -> str:
    """One of md, latex and csv; ValueError for another."""
    if kind not in ("md", "latex", "csv"):
        raise ValueError(f"a simulation has no report in {kind}: take md, latex or csv")
    masses = simulation.masses()
    if kind == "latex":
        return "\n".join(latex_table(table, caption=table.title) for table in tables(masses))
    if kind == "csv":
        return "\n".join([CSV, *map(_csv_row, ends(masses).to_dicts())]) + "\n"
    parts = ["# Categorical simulation", "\n\n".join(words(simulation, masses))]
    if len(masses):
        parts.append(f"![Masses by step and at the end against N]({FIGURE}.svg)")
    parts += [
        part for each in tables(masses) for part in (f"## {each.title}", markdown_table(each))
    ]
    return "\n\n".join(parts) + "\n"


def _csv_row(cell: dict[str, float]) -> str:
    numbers = [f"{cell['rule']},{cell['group_size']},{cell['focal_gamma']:g},{cell['n_seeds']}"]
    for name in COLUMNS.values():
        sd = cell[f"{name}_sd"]
        numbers += [f"{cell[f'{name}_mean']:.10g}", "" if sd is None else f"{sd:.4g}"]
    return ",".join(numbers)


def words(simulation: Simulation, masses: pl.DataFrame) -> list[str]:
    """Paragraphs: what was simulated, the answer, and what the literal rule does."""
    s, n_done = simulation.settings, masses.filter(pl.col("step") == 0).height
    paragraphs = [
        f"{QUESTION} {s.n_actions:,} actions, {s.n_correct:,} of them right (reward +1, others "
        f"-1), {s.steps:,} steps, learning rate {s.learning_rate:g}. Retained: 1 less the share of "
        "the first mass of right actions that single ones have lost."
    ]
    if n_done < len(simulation.runs):
        paragraphs.append(
            f"Only {n_done} of {len(simulation.runs)} runs are done: `python -m "
            "fgrpo_bench.simulation` makes the others."
        )
    adam = ends(masses).filter(rule="adam").sort("focal_gamma", "group_size")
    plain = adam.filter(focal_gamma=0.0)
    if len(plain):
        first, last, low = (
            (cell["retained_mean"], cell["group_size"])
            for cell in (*plain[[0, -1]].to_dicts(), plain.sort("retained_mean").row(0, named=True))
        )
        rises = (plain["total_mean"] > plain["total_first"]).sum()
        at_ends = " and ".join(f"{kept:.3f} at N = {size:,}" for kept, size in (first, last))
        paragraphs.append(
            f"{TITLES['adam']}, gamma = 0: the total mass of right actions rises at {rises} of "
            f"{len(plain)} group sizes. What is retained of it is {at_ends}, and least at N = "
            f"{low[1]:,}: {low[0]:.3f}."
        )
        gammas = adam["focal_gamma"].unique().sort()
        paragraphs += [_focal(plain, adam.filter(focal_gamma=g), g) for g in gammas if g]
    literal = masses.filter(rule="literal")
    if len(literal):
        total = pl.col("total_correct_mass")
        change = (total - total.first().over(*CELL, "seed")).abs().max()
        most, kept = literal.select(change, 1 - pl.col("retained_mass").min()).row(0)
        paragraphs.append(
            "The literal rule, plain gradient ascent on (1/N) sum r_j p_j as the paper states it, "
            f"moves {'nothing to speak of' if max(most, kept) < 1e-3 else 'little'} at this "
            f"rate: over {len(ends(literal))} cells the total mass changes by at most {most:.1e} "
            f"and the retained share falls by at most {kept:.1e}. The gradient of p_j carries a "
            "factor p_j, which is below 1e-3 for every action. The default rule, Adam on (1/N) sum "
            "r_j p_j / sg(p_j), has the published picture; that the paper meant it is our reading."
        )
    return paragraphs


def _focal(plain: pl.DataFrame, focal: pl.DataFrame, gamma: float) -> str:
    both = plain.join(focal, on="group_size", suffix="_new", maintain_order="left")
    if not len(both):
        return f"gamma = {gamma:g}: no group size in common with gamma = 0."
    gain = pl.col("retained_mean_new") - pl.col("retained_mean")
    best = both.sort(gain, descending=True).row(0, named=True)
    is_more = gain >= SHOWN
    within = is_more & (gain < pl.max_horizontal("retained_sd", "retained_sd_new"))
    unsure = " and ".join(f"{size:,}" for size in both.filter(within)["group_size"])
    unless = f" (at N = {unsure} by less than the standard deviation over seeds)" if unsure else ""
    return (
        f"gamma = {gamma:g} retains more at {both.filter(is_more).height} of {len(both)} group "
        f"sizes{unless}, most at N = {best['group_size']:,}: {best['retained_mean_new']:.3f} "
        f"instead of {best['retained_mean']:.3f}, for a total mass of {best['total_mean_new']:.3f} "
        f"instead of {best['total_mean']:.3f}."
    )


def tables(masses: pl.DataFrame) -> list[Table]:
    """Final masses of each rule, a row a group size."""
    return [_table(rule, own) for rule in RULES if len(own := ends(masses.filter(rule=rule)))]


def _table(rule: str, cells: pl.DataFrame) -> Table:
    gammas = cells["focal_gamma"].unique().sort()
    final = {(cell["group_size"], cell["focal_gamma"]): _final(cell) for cell in cells.to_dicts()}
    seeds = max(cells["n_seeds"])
    spread = "one seed" if seeds == 1 else f"mean and standard deviation over {seeds} seeds"
    names = [f"{name}, gamma={gamma:g}" for gamma in gammas for name in COLUMNS.values()]
    return Table(
        title=f"{TITLES[rule]}: masses after the last step, {spread}",
        header=("N", *names),
        rows=tuple(
            (f"{size:,}", *(text for g in gammas for text in final.get((size, g), (NONE, NONE))))
            for size in cells["group_size"].unique().sort()
        ),
        n_words=0,
    )


def _final(cell: dict[str, float]) -> Sequence[str]:
    pairs = [(cell[f"{name}_mean"], cell[f"{name}_sd"]) for name in COLUMNS.values()]
    return [f"{mean:.4f}" + ("" if sd is None else f" ± {sd:.4f}") for mean, sd in pairs]
