"""What training was: what its runs learned from, and what they cost.

In: an Analysis. Out: a table each, a row a cell.
"""

from __future__ import annotations

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.table import NONE, Table, grouped_number, percent
from fgrpo_bench.report.footnotes import rule_note
from fgrpo_bench.report.tables.main import NAMES, names
from fgrpo_bench.stages.watch import METRICS


def training_table(analysis: Analysis) -> Table:
    """What a run of each cell learned from, and how much choice its policy was left with."""
    rows = []
    for cell in analysis.by_cell.values():
        cost = analysis.costs.get(cell.cell)
        if cell.is_base or cost is None:
            continue
        active = NONE if cost.active_fraction is None else percent(cost.active_fraction)
        rows.append(
            (*names(cell), str(cost.n_runs), active, grouped_number(cost.entropy, digits=3))
        )
    return Table(
        title="Training, mean over the runs of a cell",
        header=(*NAMES, "runs", "active groups, %", METRICS["entropy"].label),
        rows=tuple(rows),
        notes=(
            "Active: with an advantage that is not 0, mean over all steps. Entropy: over the last "
            "tenth of the steps.",
            rule_note(analysis),
        ),
    )


def compute_table(analysis: Analysis) -> Table:
    """What a run of each cell cost."""
    rows = []
    for cell in analysis.by_cell.values():
        cost = analysis.costs.get(cell.cell)
        if cost is None:
            continue
        counts = (cost.rollouts, cost.tokens, cost.optimizer_steps)
        seconds = (cost.train_cpu_seconds, cost.train_gpu_seconds, cost.evaluate_cpu_seconds)
        rows.append((
            *names(cell),
            str(cost.n_runs),
            *map(grouped_number, counts),
            *(grouped_number(value, digits=1) for value in seconds),
        ))  # fmt: skip
    return Table(
        title="Compute, mean over the runs of a cell",
        header=(
            *(*NAMES, "runs", "rollouts", "tokens", "optimizer steps"),
            *("training CPU-s", "training GPU-s", "evaluation CPU-s"),
        ),
        rows=tuple(rows),
        notes=(rule_note(analysis),),
    )
