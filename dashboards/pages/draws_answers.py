"""Which answers two points gave to a problem: one row an answer, a bar for each point; and how many
of their draws count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from dashboards.form import Form
from dashboards.page import Links
from dashboards.queries.analysis import Counts
from dashboards.queries.draws import answers
from dashboards.text import shortened

ANSWERS = 10
"""Answers that are listed unless all are asked for."""
NO_ANSWER = "(no answer found)"


@dataclass(frozen=True, kw_only=True)
class Bars:
    """One answer with its outcome."""

    text: str
    outcome: str
    counts: tuple[int, int]
    """Draws of the left and the right point that gave it."""
    widths: tuple[float, float]
    """Percent of the longest bar."""
    href: str | None
    """The draws that gave it."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The answers of both points."""

    rows: tuple[Bars, ...]
    """Right ones first, each group by how often it was given."""
    distinct: tuple[int, int]
    n_more: int
    """Answers that are not listed."""


def word(extracted: str | None) -> str:
    """An answer in words."""
    return NO_ANSWER if extracted is None else extracted


def distribution(
    left: pl.DataFrame, right: pl.DataFrame, form: Form, links: Links, *, gated: bool, every: bool
) -> Distribution:
    """left, right: draws of a point. gated: whether answers may not be shown. every: not only
    ANSWERS, of which at most half are right."""
    counts: dict[tuple[str, str], list[int]] = {}
    for side, table in enumerate((left, right)):
        for row in answers(table).iter_rows(named=True):
            key = word(row["extracted"]), row["outcome"] or "not graded"
            counts.setdefault(key, [0, 0])[side] += row["count"]
    ordered = sorted(counts, key=lambda key: (key[1] != "correct", -sum(counts[key]), key))
    listed = ordered if every else list(_few(ordered))
    longest = max((max(counts[key]) for key in listed), default=1)
    return Distribution(
        rows=tuple(
            Bars(
                text="(not shown)" if gated else shortened(text, 40),
                outcome=outcome,
                counts=(counts[text, outcome][0], counts[text, outcome][1]),
                widths=(
                    round(100 * counts[text, outcome][0] / longest, 1),
                    round(100 * counts[text, outcome][1] / longest, 1),
                ),
                href=links.page(form.address("page", answer=text)),
            )
            for text, outcome in listed
        ),
        distinct=(sum(a > 0 for a, _ in counts.values()), sum(b > 0 for _, b in counts.values())),
        n_more=len(ordered) - len(listed),
    )


def _few(ordered: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    right = [key for key in ordered if key[1] == "correct"]
    others = [key for key in ordered if key[1] != "correct"]
    n_right = max(ANSWERS // 2, ANSWERS - len(others))
    yield from right[:n_right]
    yield from others[: ANSWERS - len(right[:n_right])]


def counted(counts: Counts | None, total: int, stop: int | None) -> str:
    """How many draws there are and count, in words. total: stored ones."""
    if counts is None or not total:
        return f"{total} draws"
    words = f"{counts.n_correct} of {counts.n_scored} judged draws correct"
    not_judged = (total if stop is None else stop) - counts.n_scored
    if counts.n_drawn is None:
        return f"{words}; the next run of the sweep makes more, which its judgements ask for"
    if not_judged > 0:
        words += f", {not_judged} not judged"
    return words if stop is None else f"{words}; stopped after {stop} of {total} stored draws"
