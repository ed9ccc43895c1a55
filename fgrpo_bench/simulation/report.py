"""The simulation's report: what happened in words, tables and a figure, from the files alone."""

from __future__ import annotations

import numpy as np

from fgrpo_bench.documents.blocks import Report
from fgrpo_bench.documents.latex import latex_table
from fgrpo_bench.documents.markdown import markdown_table
from fgrpo_bench.documents.table import Table
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.simulation.plan import QUESTION
from fgrpo_bench.simulation.results import Cell, Simulation, load
from fgrpo_bench.simulation.settings import Rule
from fgrpo_bench.stages.files import write_text
from fgrpo_bench.stages.paths import RunPaths

FIGURE = "simulation"
CSV = "rule,group_size,focal_gamma,n_seeds,total_mean,total_sd,retained_mean,retained_sd"
RULES: dict[Rule, str] = {
    "adam": "Adam on the ratio surrogate",
    "literal": "the literal rule",
}


def write_report(paths: RunPaths) -> Report:
    """Write report.md, results.csv and the figure into the report folder; each file whole."""
    from fgrpo_bench.documents.style import save
    from fgrpo_bench.simulation.figure import panels

    simulation = load(paths)
    figures = []
    if simulation.cells:
        figures = save(lambda: panels(simulation), paths.report / FIGURE)
    texts = {"report.md": render(simulation, "md"), "results.csv": render(simulation, "csv")}
    for name, text in texts.items():
        write_text(paths.report / name, text)
    lines = [
        *words(simulation),
        *(line for t in tables(simulation) for line in ("", *plain_table(t))),
    ]
    return Report(
        text="\n".join(lines) + "\n", files=[*(paths.report / n for n in texts), *figures]
    )


def render(simulation: Simulation, kind: str) -> str:
    """One of md, latex and csv; ValueError for another."""
    if kind not in ("md", "latex", "csv"):
        raise ValueError(f"a simulation has no report in {kind}: take md, latex or csv")
    made = tables(simulation)
    if kind == "latex":
        return "\n".join(latex_table(table, caption=table.title) for table in made)
    if kind == "csv":
        rows = [
            f"{c.rule},{c.group_size},{c.focal_gamma:g},{len(c.seeds)},{_numbers(c)}"
            for c in simulation.cells
        ]
        return "\n".join([CSV, *rows]) + "\n"
    parts = ["# Categorical simulation", "\n\n".join(words(simulation))]
    if simulation.cells:
        parts.append(f"![Masses by step and at the end against N]({FIGURE}.svg)")
    parts += [part for table in made for part in (f"## {table.title}", markdown_table(table))]
    return "\n\n".join(parts) + "\n"


def words(simulation: Simulation) -> list[str]:
    """Paragraphs: what was simulated, the answer, and what the literal rule does."""
    s = simulation.settings
    said = [
        f"{QUESTION} {s.n_actions:,} actions, {s.n_correct:,} of them right (reward +1, others "
        f"-1), {s.steps:,} steps, learning rate {s.learning_rate:g}. Retained: 1 less the share of "
        "the first mass of right actions that single ones have lost."
    ]
    if simulation.n_done < simulation.n_planned:
        said.append(
            f"Only {simulation.n_done} of {simulation.n_planned} runs are done: `python -m "
            "fgrpo_bench.simulation` makes the others."
        )
    plain = simulation.of("adam", 0.0)
    if plain:
        low = min(plain, key=_retained)
        rises = sum(bool(cell.total[:, -1].mean() > cell.total[:, 0].mean()) for cell in plain)
        ends = " and ".join(
            f"{_retained(c):.3f} at N = {c.group_size:,}" for c in (plain[0], plain[-1])
        )
        said.append(
            f"{_title('adam')}, gamma = 0: the total mass of right actions rises at {rises} of "
            f"{len(plain)} group sizes. What is retained of it is {ends}, and least at N = "
            f"{low.group_size:,}: {_retained(low):.3f}."
        )
        said += [_focal(simulation, plain, gamma) for gamma in simulation.gammas("adam") if gamma]
    literally = [cell for cell in simulation.cells if cell.rule == "literal"]
    if literally:
        total = max(float(np.abs(cell.total - cell.total[:, :1]).max()) for cell in literally)
        kept = max(float(1 - cell.retained.min()) for cell in literally)
        said.append(
            "The literal rule, plain gradient ascent on (1/N) sum r_j p_j as the paper states it, "
            f"moves {'nothing to speak of' if max(total, kept) < 1e-3 else 'little'} at this "
            f"rate: over {len(literally)} cells the total mass changes by at most {total:.1e} and "
            f"the retained share falls by at most {kept:.1e}. The gradient of p_j carries a factor "
            "p_j, which is below 1e-3 for every action. The default rule, Adam on (1/N) sum r_j "
            "p_j / sg(p_j), has the published picture; that the paper meant it is our reading."
        )
    return said


def _focal(simulation: Simulation, plain: list[Cell], gamma: float) -> str:
    focal = {cell.group_size: cell for cell in simulation.of("adam", gamma)}
    both = [(cell, focal[cell.group_size]) for cell in plain if cell.group_size in focal]
    if not both:
        return f"gamma = {gamma:g}: no group size in common with gamma = 0."
    higher = sum(_retained(new) > _retained(old) for old, new in both)
    old, new = max(both, key=lambda pair: _retained(pair[1]) - _retained(pair[0]))
    return (
        f"gamma = {gamma:g} retains more at {higher} of {len(both)} group sizes, most at N = "
        f"{old.group_size:,}: {_retained(new):.3f} instead of {_retained(old):.3f}, for a total "
        f"mass of {new.total[:, -1].mean():.3f} instead of {old.total[:, -1].mean():.3f}."
    )


def tables(simulation: Simulation) -> list[Table]:
    """Final masses of each rule, a row a group size."""
    made = []
    for rule in RULES:
        gammas = simulation.gammas(rule)
        cells = {(c.group_size, c.focal_gamma): c for c in simulation.cells if c.rule == rule}
        sizes = sorted({size for size, _ in cells})
        if not sizes:
            continue
        header = [f"{name}, gamma={gamma:g}" for gamma in gammas for name in ("total", "retained")]
        rows = tuple(
            (
                f"{size:,}",
                *(text for gamma in gammas for text in _final(cells.get((size, gamma)))),
            )
            for size in sizes
        )
        seeds = max(len(cell.seeds) for cell in cells.values())
        spread = f"mean and standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
        made.append(
            Table(
                title=f"{_title(rule)}: masses after the last step, {spread}",
                header=("N", *header),
                rows=rows,
                n_words=0,
            )
        )
    return made


def _title(rule: Rule) -> str:
    return RULES[rule][0].upper() + RULES[rule][1:]


def _final(cell: Cell | None) -> tuple[str, str]:
    return ("-", "-") if cell is None else (_spread(cell.total), _spread(cell.retained))


def _spread(values: np.ndarray) -> str:
    ends = values[:, -1]
    spread = f" ± {ends.std(ddof=1):.4f}" if len(ends) > 1 else ""
    return f"{ends.mean():.4f}{spread}"


def _numbers(cell: Cell) -> str:
    shown = []
    for values in (cell.total[:, -1], cell.retained[:, -1]):
        shown += [f"{values.mean():.10g}", f"{values.std(ddof=1):.4g}" if len(values) > 1 else ""]
    return ",".join(shown)


def _retained(cell: Cell) -> float:
    return float(cell.retained[:, -1].mean())
