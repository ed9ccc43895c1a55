"""The figures that the paper published (arXiv 2602.06717v2), in this report's formats.

python -m fgrpo_bench.report.published              every table as Markdown
python -m fgrpo_bench.report.published --table 1 --format latex
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from fgrpo_bench.core.commandline import Parser
from fgrpo_bench.documents.html import html
from fgrpo_bench.documents.latex import PREAMBLE, escape_latex, latex_table
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import Key, Rows, Table, Value, keyed_table, with_best
from fgrpo_bench.paper.published import published

PAPER = "arXiv 2602.06717v2"
HEADING = f"The published figures of F-GRPO, {PAPER}"
TITLES = {
    1: "base algorithms with and without focal weight, N = 8",
    4: "maze of 17 x 17, by group size",
    6: "sensitivity to gamma, averages",
    10: "group size (with Delta NLL of table 2)",
    11: "controls",
    12: "pass@k to 256",
    13: "pass@k to 256",
    14: "pass@k to 256",
}


def paper_tables(number: int | None = None) -> list[Table]:
    """The paper's tables; one of them, or all. Each figure of the csv stands in exactly one cell.

    Cells hold `pass@1 / pass@256` where a column is a benchmark. Raises ValueError for a number
    that is none of TITLES.
    """
    if number is not None and number not in TITLES:
        choices = ", ".join(map(str, TITLES))
        raise ValueError(f"table {number}: there are {choices} (table 2 stands with table 10)")
    return [table for n in ([number] if number else TITLES) for table in _tables(n)]


def _tables(number: int) -> Iterator[Table]:
    rows = published().filter(pl.col("table") == number)
    for model in rows["model"].unique(maintain_order=True):
        model_rows = rows.filter(pl.col("model") == model)
        title = f"Table {number}, {model}: {TITLES[number]}"
        if number in (12, 13, 14):
            yield _by_k(title, model_rows, ("benchmark", "method", "gamma"))
        elif number == 4:
            yield _by_k(title, model_rows, ("group_size", "method", "gamma"))
        else:
            yield _by_benchmark(title, model_rows, _delta_nll() if number == 10 else {})


LEGEND = ((Value(text="bold", best=True), "best in its column"),)


def _delta_nll() -> dict[Key, str]:
    rows = published().filter(pl.col("table") == 2)
    return {_key(r): r["value"] for r in rows.to_dicts()}


def _key(row: dict[str, Any]) -> Key:
    return row["method"], str(row["group_size"]), f"{row['gamma']:g}"


def _value(row: dict[str, Any]) -> Value:
    return Value(text=row["value"], number=float(row["value"]))


def _by_benchmark(title: str, rows: pl.DataFrame, nll: dict[Key, str]) -> Table:
    benchmarks = rows["benchmark"].unique(maintain_order=True).to_list()
    by_key: dict[Key, dict[str, tuple[Value, ...]]] = {_key(row): {} for row in rows.to_dicts()}
    for row in rows.sort("k", maintain_order=True).to_dicts():
        values = by_key[_key(row)]
        before = values.get(row["benchmark"], ())
        values[row["benchmark"]] = (*before, _value(row))
    table_rows = with_best(by_key, columns=benchmarks)
    for key, value in nll.items():
        table_rows[key]["Delta NLL"] = (Value(text=value),)
    return keyed_table(
        title=f"{title}; pass@1 / pass@256 in percent",
        names=("method", "N", "gamma"),
        columns=[*benchmarks, *(["Delta NLL"] if nll else [])],
        rows=table_rows,
        legend=LEGEND,
        breaks=("Avg. Math", "Avg. OOD"),
    )


def _by_k(title: str, rows: pl.DataFrame, names: tuple[str, ...]) -> Table:
    ks = [f"k={k}" for k in sorted(rows["k"].unique().to_list())]
    by_key: dict[Key, dict[str, tuple[Value, ...]]] = {}
    for row in rows.to_dicts():
        key = tuple(f"{row[n]:g}" if n == "gamma" else str(row[n]) for n in names)
        by_key.setdefault(key, {})[f"k={row['k']}"] = (_value(row),)
    within = names.index("benchmark") if "benchmark" in names else None
    table_rows: Rows = with_best(
        by_key, columns=ks, among=lambda key: "" if within is None else key[within]
    )
    return keyed_table(
        title=f"{title}; pass@k in percent",
        names=["N" if name == "group_size" else name for name in names],
        columns=ks,
        rows=table_rows,
        n_labels=2,
        legend=LEGEND if within is None else ((LEGEND[0][0], "best on its benchmark at this k"),),
    )


def _render(kind: str, number: int | None = None) -> str:
    """The paper's tables, or one of them, as md, latex, html or csv (the rows of published.csv).

    Raises ValueError for a number that is none of TITLES.
    """
    tables = paper_tables(number)
    if kind == "csv":
        numbers = list(TITLES) if number is None else [number]
        columns = [*numbers, *([2] if 10 in numbers else [])]
        return published().filter(pl.col("table").is_in(columns)).write_csv()
    if kind == "html":
        return html(HEADING, tables, {})
    if kind == "latex":
        parts = [f"{PREAMBLE} Figures of {PAPER}."]
        for table in tables:
            title = escape_latex(table.title)
            caption = f"The paper's t{title.removeprefix('T')}"
            parts.append(latex_table(table, caption=caption))
        return "\n".join(parts)
    return markdown(HEADING, tables)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; exit code 0, or 1 with a line on standard error."""
    parser = Parser(
        prog="python -m fgrpo_bench.report.published",
        description=(__doc__ or "").split("\n    python", 1)[0],
    )
    parser.add_argument("--table", type=int, help="its number in the paper; default: every one")
    parser.add_argument("--format", choices=("md", "latex", "csv", "html"), default="md")
    options = parser.parse_args(arguments)
    try:
        sys.stdout.write(_render(options.format, options.table))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
