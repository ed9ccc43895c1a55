"""The figures that the paper published (arXiv 2602.06717v2), and the one of a cell of ours.

`published.csv` holds 2,278 of them, one a row, in percent: tables 1, 4, 6 and 10 to 14, and of
table 2 the column Delta NLL, its pass@k columns being averages of table 10. k = 0 marks a figure
that is no pass@k.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import polars as pl

from fgrpo_bench.specs import Cell

SOURCE = Path(__file__).with_name("published.csv")
SCHEMA = pl.Schema(
    {
        "table": pl.Int64,
        "model": pl.String,
        "method": pl.String,
        "gamma": pl.Float64,
        "group_size": pl.Int64,
        "benchmark": pl.String,
        "k": pl.Int64,
        "value": pl.String,  # as printed, in percent where it is a pass@k
    }
)
MODELS = {
    "qwen2.5-7b": "Qwen2.5-7B",
    "qwen3-4b-base": "Qwen3-4B-Base",
    "llama3.2-3b": "Llama-3.2-3B-Instruct",
    "qwen2-4m": "maze-3M",
}
"""Published name by ours."""
BENCHMARKS = {
    "aime24": "AIME24",
    "aime25": "AIME25",
    "amc23": "AMC23",
    "math500": "MATH500",
    "minerva": "Minerva",
    "olympiadbench": "Olympiad",
    "ifeval": "IFEval",
    "synlogic": "SynLogic",
    "gpqa": "GPQA",
    "maze": "Maze17",
}
"""Published name by ours, in the paper's order; the first six are the in-domain
ones of its language models, the next three those out of domain."""
AVERAGES = {
    "Avg. Math": frozenset(list(BENCHMARKS)[:6]),
    "Avg. OOD": frozenset(list(BENCHMARKS)[6:9]),
}
"""Our names of the benchmarks by the published name of their average."""
MAIN_TABLES = (1, 4)
"""One for every model: of language models, of mazes."""
MAZE_SIZE = 17
"""Cells on a side of the paper's mazes."""


@lru_cache(maxsize=1)
def published() -> pl.DataFrame:
    """Every published figure (SCHEMA), in the paper's order within a table."""
    return pl.read_csv(SOURCE, schema=SCHEMA, glob=False)


@lru_cache(maxsize=1)
def _index() -> dict[tuple[str, str, float, int, str, int], float]:
    keys = ("model", "method", "gamma", "group_size", "benchmark", "k")
    rows = published().filter(pl.col("k") > 0).iter_rows(named=True)
    return {tuple(row[key] for key in keys): float(row["value"]) / 100 for row in rows}


def lookup(cell: Cell | None, *, model: str, benchmark: str, k: int) -> float | None:
    """The published pass@k of a cell as a fraction; None where there is none.

    Names are this project's (`qwen2.5-7b`, `grpo`, `math500`), but for averages, which have those
    of AVERAGES. Base models were not published, nor other learning rates: the method of a cell at
    one names it, and no published method has such a name.
    """
    if cell is None:
        return None
    return _index().get(
        (
            MODELS.get(model, ""),
            cell.method,
            cell.focal_gamma,
            cell.group_size,
            benchmark if benchmark in AVERAGES else BENCHMARKS.get(benchmark, ""),
            k,
        )
    )


def main_ks(model: str) -> list[int]:
    """The k of the main table of a model of ours, ascending; empty where the paper has none."""
    rows = published().filter(pl.col("table").is_in(MAIN_TABLES), model=MODELS.get(model, ""))
    return sorted(set(rows["k"]))


def published_delta_nll(cell: Cell | None) -> str | None:
    """The published Delta NLL of a cell, as printed; None where there is none (`lookup`)."""
    if cell is None:
        return None
    return _delta_nll().get((cell.method, cell.focal_gamma, cell.group_size))


@lru_cache(maxsize=1)
def _delta_nll() -> dict[tuple[str, float, int], str]:
    rows = published().filter(pl.col("benchmark") == "delta_nll_rare").to_dicts()
    return {(row["method"], row["gamma"], row["group_size"]): row["value"] for row in rows}
