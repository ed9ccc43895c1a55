"""Beside pass@k: by how much training raises the negative log-likelihood of rare correct answers.

In: an Analysis with likelihoods. Out: two columns of the main table, ours and the paper's, and the
note below it. Next: report.tables.main.
"""

from __future__ import annotations

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.documents.table import Value
from fgrpo_bench.paper.published import published_delta_nll

OURS, THEIRS = "Delta NLL", "paper's Delta NLL"
PAPERS_MODEL = "Qwen2.5-7B"
"""The one model of the paper's table 2."""


def delta_nll(analysis: Analysis, cell: CellRow) -> dict[str, tuple[Value, ...]]:
    """A cell's row, ours and the paper's, by column."""
    if cell.is_base:
        return {OURS: (Value(text="0"),)}
    likelihood = analysis.likelihoods.get(cell.cell)
    theirs = published_delta_nll(cell.setting)
    spread = (
        likelihood
        and f"{likelihood.mean:.2f} [{min(likelihood.by_seed):.2f}, {max(likelihood.by_seed):.2f}]"
    )
    return {name: (Value(text=text),) for name, text in ((OURS, spread), (THEIRS, theirs)) if text}


def nll_note(analysis: Analysis) -> str:
    """What the columns are, and of how many answers and seeds."""
    rows = analysis.likelihoods.values()
    sizes = sorted({n for row in rows for n in row.n_rare})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    seeds = max(len(row.seeds) for row in rows)
    return (
        f"{OURS}: mean rise of the negative log-likelihood, nats per token, of {size} rare correct "
        "answers of the base model to training prompts, a fixed set: those of its correct draws "
        f"that were least likely. Mean over {seeds} seeds and [lowest, highest]. The paper's "
        f"is its figure of the same algorithm, N and gamma, on {PAPERS_MODEL} and mathematics."
    )
