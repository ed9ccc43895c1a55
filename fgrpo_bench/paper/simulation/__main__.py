"""`python -m fgrpo_bench.simulation`: make the simulation's runs, and their report from the files:
what happened in words, tables and a figure."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    Application,
    Json,
    aside,
    print_json,
    refusals,
    refuse,
)
from fgrpo_bench.command.runs import default_root
from fgrpo_bench.documents.colors import ALGORITHMS, BASE
from fgrpo_bench.documents.latex import latex_table
from fgrpo_bench.documents.markdown import markdown_table
from fgrpo_bench.documents.style import PAGE, in_math, save
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.files.whole import write_text
from fgrpo_bench.paper.simulation import (
    FOLDER,
    GAMMAS,
    GROUP_SIZES,
    RULES,
    SEEDS,
    Masses,
    Rule,
    Run,
    Settings,
    make,
    planned_runs,
    stored,
)

PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
MORE = """\
Killed at any moment, it loses the runs in flight; the same command makes what is missing. The
report is of every run in the folder. Without --rule: Adam's whole grid, and the literal rule at the
first gamma and seed.
"""


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        with refusals():
            yield
    except RuntimeError as error:
        if isinstance(error, typer.Exit):
            raise
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        print("\nstopped; the same command makes what is missing", file=sys.stderr)
        raise typer.Exit(130) from None


app = Application("The paper's categorical simulation.", guard=_refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 with a line on standard error; 130 where it was stopped by Ctrl-C."""
    return application.run(app, arguments, "python -m fgrpo_bench.simulation")


@app.add(
    "simulation",
    "the paper's categorical simulation: what the group size does to the mass of right actions",
    "fgrpo-bench simulation                    153 runs, a minute or two on two processors",
    "fgrpo-bench simulation --seed 0 --group-size 2 64 1024 --folder runs/simulation-quick",
    "fgrpo-bench simulation --rule literal     the paper's words taken literally, whole grid",
    "fgrpo-bench simulation --dry-run",
    more=MORE,
)
def simulate(
    context: typer.Context,
    rule: Annotated[Rule | None, typer.Option(help="one rule alone, over the whole grid")] = None,
    group_size: Annotated[
        list[int] | None, typer.Option(metavar="N", help="default: 2, 4, 8, ..., 131072")
    ] = None,
    gamma: Annotated[list[float] | None, typer.Option(help="default: 0 1")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="default: 0 1 2 3")] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help=f"of the runs and the report (default: {FOLDER} under the run root)"),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="processes at once; default: one a processor")
    ] = PROCESSORS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be made")] = False,
    as_json: Json = False,
) -> int:
    folder, settings = folder or default_root() / FOLDER, Settings()
    runs = planned_runs(
        rule,
        group_sizes=group_size or GROUP_SIZES,
        gammas=gamma or GAMMAS,
        seeds=seed or SEEDS,
    )
    if workers < 1:
        raise ValueError(f"--workers {workers}: at least one")
    done = stored(folder, settings)
    missing = [run for run in runs if run not in done]
    if dry_run:
        refuse(context, "is not asked with --dry-run", "as_json")
        print(f"{folder}\n{outlook(settings, runs, missing, workers=workers)}")
        return 0
    with aside(as_json):
        print(f"{folder}\n{len(runs)} runs, {len(missing)} to make", flush=True)
    make(folder, settings, missing, workers=workers, tell=_progress(len(missing)))
    masses = frame(stored(folder, settings))
    files = write_report(folder, settings, masses)
    if as_json:
        print_json({"ends": ends(masses).to_dicts(), "files": files})
        return 0
    print()
    print("\n".join(summary_paragraphs(settings, masses)))
    for table in tables(masses):
        print("\n".join(["", *plain_table(table)]))
    print()
    for file in files:
        print(file)
    return 0


def _progress(n: int) -> Callable[[], None]:
    """What tells after each of n runs how many are made, and how long the rest takes at most,
    since the longest are made first; on a terminal in one line, elsewhere in a line every tenth."""
    begun, n_done = time.monotonic(), 0
    on_terminal = sys.stderr.isatty()

    def tell() -> None:
        nonlocal n_done
        n_done += 1
        if on_terminal or n_done % 10 == 0 or n_done == n:
            seconds = (time.monotonic() - begun) / n_done * (n - n_done)
            end = "\r" if on_terminal and n_done < n else "\n"
            line = f"{n_done} of {n} runs made, at most {seconds:.0f} s left"
            print(f"{line:<60}", end=end, file=sys.stderr, flush=True)

    return tell


def outlook(
    settings: Settings, runs: Sequence[Run], missing: Sequence[Run], *, workers: int
) -> str:
    """What a call would do. missing: the runs that are not stored yet."""
    seconds = sum(run.cost(settings) for run in missing)
    sizes = sorted({run.group_size for run in runs})
    return (
        f"{len(runs)} runs of {settings.steps:,} steps over {settings.n_actions:,} actions, N from "
        f"{sizes[0]:,} to {sizes[-1]:,}: {len(runs) - len(missing)} done, {len(missing)} to make\n"
        f"about {seconds:.0f} processor seconds, {seconds / workers:.0f} s with {workers} processes"
    )


QUESTION = (
    "What does the group size N do to the mass of right actions that a policy had before training?"
)
MEASURED = ("total", "retained")
CSV = "rule,group_size,focal_gamma,n_seeds,total_mean,total_sd,retained_mean,retained_sd"
TITLES = {"adam": "Adam on the ratio surrogate", "literal": "The literal rule"}
CELL = ("rule", "group_size", "focal_gamma")
LAST_DIGIT = 1e-4
"""Of the tables. A smaller gain is rounding: at N = 2 all groups that teach something have the
same focal weight, which Adam takes out again."""


def frame(results: Mapping[Run, Masses]) -> pl.DataFrame:
    """Results as a table: a row a run and step, in the order of the runs."""
    schema = {
        "rule": pl.String,
        "group_size": pl.Int64,
        "focal_gamma": pl.Float64,
        "seed": pl.Int64,
        "step": pl.Int64,
        "total": pl.Float64,
        "retained": pl.Float64,
    }
    rows = [(*astuple(run), *row) for run, masses in results.items() for row in masses]
    return pl.DataFrame(rows, schema=schema, orient="row")


def curves(masses: pl.DataFrame) -> pl.DataFrame:
    """A row a rule, N, gamma and step, in the order of `masses`: n_seeds, and of `total` and
    `retained` the mean, sd, lowest and highest over seeds; sd is null for one seed.

    masses: as of `frame`.
    """
    over_seeds = []
    for name in MEASURED:
        column = pl.col(name)
        over_seeds += [
            column.mean().alias(f"{name}_mean"),
            column.std().alias(f"{name}_sd"),
            column.min().alias(f"{name}_low"),
            column.max().alias(f"{name}_high"),
        ]
    groups = masses.group_by(*CELL, "step", maintain_order=True)
    return groups.agg(pl.len().alias("n_seeds"), *over_seeds)


def ends(masses: pl.DataFrame) -> pl.DataFrame:
    """The last row of `curves` of each cell, with `total_first`, the mean before the first step."""
    cells = curves(masses).with_columns(total_first=pl.col("total_mean").first().over(*CELL))
    return cells.group_by(*CELL, maintain_order=True).last()


def write_report(folder: Path, settings: Settings, masses: pl.DataFrame) -> list[Path]:
    """Write the report as Markdown, its tables as LaTeX and CSV, and the figure; each file whole.
    The same masses give the same bytes."""
    parts = [
        "# Categorical simulation",
        *summary_paragraphs(settings, masses),
        "![Masses by step and at the end against N](simulation.svg)",
    ]
    for table in tables(masses):
        parts += [f"## {table.title}", markdown_table(table)]
    texts = {
        "report.md": "\n\n".join(parts) + "\n",
        "table.tex": "\n".join(latex_table(table, caption=table.title) for table in tables(masses)),
        "results.csv": "\n".join([CSV, *map(_csv_row, ends(masses).to_dicts())]) + "\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [
        *(folder / name for name in texts),
        *save(lambda: panels(masses), folder / "simulation"),
    ]


def _csv_row(cell: dict[str, float]) -> str:
    numbers = [f"{cell['rule']},{cell['group_size']},{cell['focal_gamma']:g},{cell['n_seeds']}"]
    for name in MEASURED:
        sd = cell[f"{name}_sd"]
        numbers += [f"{cell[f'{name}_mean']:.10g}", "" if sd is None else f"{sd:.4g}"]
    return ",".join(numbers)


def summary_paragraphs(s: Settings, masses: pl.DataFrame) -> list[str]:
    """Paragraphs: what was simulated, the answer, and what the literal rule does."""
    paragraphs = [
        f"{QUESTION} {s.n_actions:,} actions, {s.n_correct:,} of them right (reward +1, others "
        f"-1), {s.steps:,} steps, learning rate {s.learning_rate:g}. Retained: 1 less the share of "
        "the first mass of right actions that single ones have lost."
    ]
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
        total = pl.col("total")
        change = (total - total.first().over(*CELL, "seed")).abs().max()
        most, kept = literal.select(change, 1 - pl.col("retained").min()).row(0)
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
    is_more = gain >= LAST_DIGIT
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
    return [_table(rule, final) for rule in RULES if len(final := ends(masses.filter(rule=rule)))]


def _table(rule: str, cells: pl.DataFrame) -> Table:
    gammas = cells["focal_gamma"].unique().sort()
    final = {(cell["group_size"], cell["focal_gamma"]): _final(cell) for cell in cells.to_dicts()}
    seeds = max(cells["n_seeds"])
    spread = "one seed" if seeds == 1 else f"mean and standard deviation over {seeds} seeds"
    names = [f"{name}, gamma={gamma:g}" for gamma in gammas for name in MEASURED]
    return Table(
        title=f"{TITLES[rule]}: masses after the last step, {spread}",
        header=("N", *names),
        rows=tuple(
            (f"{size:,}", *(text for g in gammas for text in final.get((size, g), (NONE, NONE))))
            for size in cells["group_size"].unique().sort()
        ),
        n_labels=0,
    )


def _final(cell: dict[str, float]) -> Sequence[str]:
    pairs = [(cell[f"{name}_mean"], cell[f"{name}_sd"]) for name in MEASURED]
    return [f"{mean:.4f}" + ("" if sd is None else f" ± {sd:.4f}") for mean, sd in pairs]


DASHES = ("-", "--", ":", "-.")
"""By rank of gamma."""
SIZES_BY_STEP = 6
"""Group sizes in the panels by step."""
PANELS = {"total": "total mass of right actions", "retained": "retained share of their first mass"}


def panels(masses: pl.DataFrame) -> Figure:
    """Total mass by step, retained mass by step, and both at the end against N: of Adam's runs, or
    of the literal rule's where there are none else."""
    rule = "adam" if "adam" in masses["rule"] else "literal"
    rule_masses = masses.filter(rule=rule).sort(
        "focal_gamma", "group_size", "step", maintain_order=True
    )
    figure = Figure(figsize=(PAGE, 5.2), layout="constrained")
    places = figure.add_gridspec(2, 2)
    _by_step([figure.add_subplot(places[0, i]) for i in range(2)], curves(rule_masses))
    at_end = figure.add_subplot(places[1, :])
    _at_end(at_end, ends(rule_masses))
    if rule == "adam":
        literal = ends(masses.filter(rule="literal")).sort("focal_gamma", "group_size")
        for _, cells in _by_gamma(literal)[:1]:
            at_end.plot(cells["group_size"], cells["retained_mean"], color=BASE, ls="none",
                        marker="x", ms=4, label="retained, literal rule")  # fmt: skip
    at_end.legend(loc="upper center", bbox_to_anchor=(0.5, -0.42), ncols=3)
    return figure


def _by_gamma(cells: pl.DataFrame) -> list[tuple[float, pl.DataFrame]]:
    groups = cells.partition_by("focal_gamma", as_dict=True, maintain_order=True)
    return [(float(gamma), group) for (gamma,), group in groups.items()]


def _by_step(axes: Sequence[Axes], cells: pl.DataFrame) -> None:
    sizes = cells["group_size"].unique().sort().to_list()
    chosen = [
        sizes[i]
        for i in np.unique(np.linspace(0, len(sizes) - 1, SIZES_BY_STEP).round().astype(int))
    ]
    shades = colormaps["viridis"](np.linspace(0.0, 0.88, len(chosen)))
    color = dict(zip(chosen, shades, strict=True))
    for rank, (gamma, gamma_cells) in enumerate(_by_gamma(cells)):
        dash = DASHES[rank % len(DASHES)]
        shown = gamma_cells.filter(pl.col("group_size").is_in(chosen))
        for (size,), line in shown.group_by("group_size", maintain_order=True):
            for panel, name in zip(axes, PANELS, strict=True):
                label = in_math(f"N={size:,}") if rank == 0 else None
                panel.plot(line["step"], line[f"{name}_mean"], color=color[size], ls=dash, lw=1.1,
                           label=label)  # fmt: skip
        if rank:
            axes[0].plot([], [], color=BASE, ls=dash, label=in_math(f"gamma={gamma:g}"))
    for panel, title in zip(axes, PANELS.values(), strict=True):
        panel.set_title(title)
        panel.set_xlabel("step")
        panel.set_ylim(0, 1.02)
        panel.margins(x=0)
    axes[0].legend(loc="upper left", bbox_to_anchor=(0, -0.24), ncols=3)


def _at_end(axes: Axes, cells: pl.DataFrame) -> None:
    for rank, (gamma, gamma_cells) in enumerate(_by_gamma(cells)):
        color = ALGORITHMS[rank % len(ALGORITHMS)]
        for name, marker, dash in (("retained", "o", "-"), ("total", "s", ":")):
            low, high = gamma_cells[f"{name}_low"], gamma_cells[f"{name}_high"]
            axes.fill_between(gamma_cells["group_size"], low, high, color=color, alpha=0.13, lw=0)
            axes.plot(
                gamma_cells["group_size"],
                gamma_cells[f"{name}_mean"],
                color=color,
                ls=dash,
                marker=marker,
                ms=3.5,
                label=in_math(f"{name}, gamma={gamma:g}"),
            )
    sizes = cells["group_size"].unique().sort().to_list()
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=40, ha="right")
    axes.minorticks_off()
    axes.set_xlabel(in_math("group size N"))
    axes.set_title("after the last step: mean over seeds, band from the lowest to the highest")
    axes.set_ylim(0, 1.04)


if __name__ == "__main__":
    sys.exit(main())
