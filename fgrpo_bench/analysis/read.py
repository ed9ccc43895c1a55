"""Counts and pass@k of every evaluated checkpoint, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.evaluated import Asked, EvaluatedCheckpoint
from fgrpo_bench.results import Results
from fgrpo_bench.stats.passk import pass_at_ks
from fgrpo_bench.stats.selection import is_for_selection
from fgrpo_bench.stats.staged import StagedDesign
from fgrpo_bench.stats.variance import draw_variance
from fgrpo_bench.tables import BOUNDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Of one cell at one checkpoint on one benchmark; problems in the order of their names."""

    seeds: tuple[int | None, ...]
    """Training seeds that have results, rising; one None where it was not told."""
    problems: tuple[str, ...] = field(repr=False)
    """Those that any checkpoint has."""
    cluster_names: tuple[str | None, ...] = field(repr=False)
    """[problems], what a problem shares with others; None: nothing."""
    present: NDArray[np.bool_] = field(repr=False)
    """[seeds, problems], whether a seed has the problem."""
    values: Floats = field(repr=False)
    """[seeds, problems, ks], pass@k; nan where a problem has no estimate."""
    bounds: Floats = field(repr=False)
    """[2, seeds, problems, ks], the same were all unscored draws wrong, and were they right."""
    n_scored: Ints = field(repr=False)
    """[seeds, problems], judged draws; 0 where a problem has none."""
    n_correct: Ints = field(repr=False)
    """[seeds, problems], correct draws."""
    n_drawn: Ints = field(repr=False)
    """[seeds, problems], draws up to where a problem stopped, judged or not; 0 where a seed lacks
    the problem, and where its judgements ask for draws that are missing."""
    n_unscored: tuple[Ints | None, ...] = field(repr=False)
    """[seeds] of [problems, stages], of a design draws that were not judged, by the stage that made
    them; None of a fixed number of draws."""
    asked: tuple[Asked, ...]
    """[seeds], the draws that were asked for; seeds may have other designs for a while."""
    is_drawn_once: bool
    """Whether one evaluation stands for several seeds: that of a base model that they share."""
    is_redesigned: tuple[bool, ...]
    """[seeds], of fgrpo_bench.evaluated.EvaluatedCheckpoint.has_new_design."""

    def pass_at_ks(self, ks: tuple[int, ...]) -> Floats:
        """pass@k at any k, [seeds, problems, ks]; nan where a problem has no estimate."""
        out, fixed = np.empty((*self.present.shape, len(ks))), self._fixed
        out[fixed] = pass_at_ks(self.n_scored[fixed], self.n_correct[fixed], ks)
        for row, design in self._staged():
            out[row] = self._of_design(row, design.pass_at_k, ks)
        return out

    def success_rates(self) -> Floats:
        """pass@1, of a fixed number of draws the share of correct ones, [seeds, problems]; nan
        likewise."""
        out = np.full(self.present.shape, np.nan)
        np.divide(self.n_correct, self.n_scored, out=out, where=self.n_scored > 0)
        for row, design in self._staged():  # where correct draws stop a problem their share is high
            out[row] = self._of_design(row, design.pass_at_k, (1,))[:, 0]
        return out

    def draw_variance(self, k: int) -> Floats:
        """Unbiased estimate of the variance of pass@k over the draws, [seeds, problems]; nan where
        a problem has fewer than 2k judged draws, or a design's last stage has."""
        enough = self._fixed[:, None] & (self.n_scored >= 2 * k)
        out = np.full(self.present.shape, np.nan)
        if enough.any():
            n, c = self.n_scored[enough], self.n_correct[enough]
            out[enough] = draw_variance(n_samples=n, n_correct=c, k=k)
        for row, design in self._staged():
            out[row] = self._of_design(row, design.draw_variance, (k,))[:, 0]
        return out

    @cached_property
    def clusters(self) -> Ints | None:
        """As `cluster_numbers`."""
        return cluster_numbers(self.cluster_names)

    @property
    def _fixed(self) -> NDArray[np.bool_]:
        return np.array([each.design is None for each in self.asked], bool)

    def _staged(self) -> Iterator[tuple[int, StagedDesign]]:
        for row, each in enumerate(self.asked):
            if each.design is not None:
                yield row, each.design

    def _of_design(self, row: int, estimate: Callable[..., Any], ks: tuple[int, ...]) -> Floats:
        """A method of the seed's design at where its problems stopped, [problems, ks]."""
        out = np.full((len(self.problems), len(ks)), np.nan)
        unscored, stopped = self.n_unscored[row], self.n_drawn[row] > 0
        assert unscored is not None
        out[stopped] = estimate(
            n_drawn=self.n_drawn[row, stopped, None],
            n_correct=self.n_correct[row, stopped, None],
            n_unscored=unscored[stopped, None],
            k=np.array(ks),
        )
        return out

    def of_seeds(self, seeds: Sequence[int | None]) -> Scores:
        """The same of these seeds alone, in this order."""
        if tuple(seeds) == self.seeds:
            return self
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            present=self.present[rows],
            values=self.values[rows],
            bounds=self.bounds[:, rows],
            n_scored=self.n_scored[rows],
            n_correct=self.n_correct[rows],
            n_drawn=self.n_drawn[rows],
            n_unscored=tuple(self.n_unscored[row] for row in rows),
            asked=tuple(self.asked[row] for row in rows),
            is_redesigned=tuple(self.is_redesigned[row] for row in rows),
        )

    def half(self, *, for_selection: bool) -> Scores:
        """The half of the problems that selects checkpoints, or the other one."""
        kept = [i for i, p in enumerate(self.problems) if is_for_selection(p) == for_selection]
        return replace(
            self,
            problems=tuple(self.problems[i] for i in kept),
            cluster_names=tuple(self.cluster_names[i] for i in kept),
            present=self.present[:, kept],
            values=self.values[:, kept],
            bounds=self.bounds[:, :, kept],
            n_scored=self.n_scored[:, kept],
            n_correct=self.n_correct[:, kept],
            n_drawn=self.n_drawn[:, kept],
            n_unscored=tuple(own if own is None else own[kept] for own in self.n_unscored),
        )


def cluster_numbers(names: Sequence[str | None]) -> Ints | None:
    """[problems], the number of each problem's cluster, from 0 in order of first appearance;
    problems without one have a number of their own. None where no two problems share one."""
    numbers: dict[object, int] = {}
    keys = [(i,) if name is None else name for i, name in enumerate(names)]
    of = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(of) if len(numbers) < len(of) else None


At = tuple[str, int]
"""A cell by its name, at the checkpoint of a step."""


def read_scores(results: Results) -> dict[str, dict[At, Scores]]:
    """By benchmark, then cell and step: all are there, with no seeds where nothing is done."""
    every = results.every
    asked = [each.asked() if each.is_evaluated else None for each in every]
    return {name: _of_benchmark(every, asked, name, results.evaluation["ks"])
            for name in results.benchmarks}  # fmt: skip


def key_of(checkpoint: EvaluatedCheckpoint) -> At:
    """What it is called in frames, with its step."""
    return checkpoint.label, checkpoint.step


def _of_benchmark(
    checkpoints: Sequence[EvaluatedCheckpoint],
    asked: Sequence[Asked | None],
    benchmark: str,
    ks: Sequence[int],
) -> dict[At, Scores]:
    tables = [each.passk(benchmark) for each in checkpoints]
    table = pl.concat(tables)
    problems = table["problem_id"].unique().sort()
    clusters = _cluster_names(benchmark, table)
    row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    place = problems.search_sorted(table["problem_id"]).to_numpy()
    shape = len(tables), len(problems)
    present, n_scored, n_correct = np.zeros(shape, bool), np.zeros(shape, int), np.zeros(shape, int)
    present[row, place] = True
    n_scored[row, place] = table["n_scored"].to_numpy()
    n_correct[row, place] = table["n_correct"].to_numpy()
    values = np.full((3, *shape, len(ks)), np.nan)
    wanted = np.isin(table["k"].to_numpy(), ks)
    at = row[wanted], place[wanted], np.searchsorted(ks, table["k"].to_numpy()[wanted])
    for i, name in enumerate(("pass_at_k", *BOUNDS)):
        values[i][at] = table[name].to_numpy()[wanted]
    names, out = tuple(problems), {}
    for key, rows in _rows(checkpoints).items():
        done = sorted((r for r in rows if present[r].any()), key=lambda r: _place(checkpoints[r]))
        asked_by_row = {r: each for r in done if (each := asked[r]) is not None}
        unscored = [
            _unscored(checkpoints[r].evaluate.benchmark(benchmark).passk, each, tables[r], problems)
            for r, each in asked_by_row.items()
        ]
        drawn = [
            np.where(present[r], each.n_samples, 0) if own is None else _stopped(n_scored[r], own)
            for (r, each), own in zip(asked_by_row.items(), unscored, strict=True)
        ]
        out[key] = Scores(
            seeds=tuple(checkpoints[r].seed for r in done),
            problems=names,
            cluster_names=clusters,
            present=present[done],
            values=values[0, done],
            bounds=values[1:, done],
            n_scored=n_scored[done],
            n_correct=n_correct[done],
            n_drawn=np.array(drawn, int).reshape(len(done), len(problems)),
            n_unscored=tuple(unscored),
            asked=tuple(asked_by_row.values()),
            is_drawn_once=len({checkpoints[r].evaluate.folder for r in done}) < len(done),
            is_redesigned=tuple(checkpoints[r].has_new_design(benchmark) for r in done),
        )
    return out


def _cluster_names(benchmark: str, table: pl.DataFrame) -> tuple[str | None, ...]:
    """Of the problems of a benchmark, in the order of their names; ValueError where evaluations
    disagree. table: of all of them (tables.PASSK)."""
    pairs = table.select("problem_id", "cluster").unique().sort("problem_id", "cluster")
    twice = pairs.filter(pl.col("problem_id").is_duplicated())
    if len(twice):
        (problem, first), (_, second) = twice.rows()[:2]
        raise ValueError(
            f"problem {problem} of {benchmark} is of cluster {first!r:.60} in one evaluation of "
            f"those and of {second!r:.60} in another: a problem has one cluster; `python -m "
            "evaluators grade <folder>` scores an evaluation again with those that its problems "
            "have now"
        )
    return tuple(pairs["cluster"])


def _unscored(path: Path, asked: Asked, table: pl.DataFrame, problems: pl.Series) -> Ints | None:
    """[problems, stages], of problems that have not stopped or are not there -1; None of a fixed
    number of draws. table: stored at path."""
    if asked.design is None:
        return None
    known = table.drop_nulls("n_unscored").unique("problem_id")
    out = np.full((len(problems), len(asked.design.stages)), -1)
    if len(known):
        if known["n_unscored"].list.len().unique().to_list() != [out.shape[1]]:
            raise ValueError(
                f"{path}: n_unscored is not by the stages {asked.design.stages} that its "
                "evaluation was marked done with: it is being scored under another design, or was "
                "stopped in between; run the sweep again, which makes only what is missing"
            )
        place = problems.search_sorted(known["problem_id"]).to_numpy()
        out[place] = np.array(known["n_unscored"].to_list())
    return out


def _stopped(n_scored: Ints, n_unscored: Ints) -> Ints:
    """Draws up to where problems stopped, [problems]; 0 where they have not."""
    return np.where(n_unscored[:, 0] < 0, 0, n_scored + n_unscored.sum(axis=1))


def _rows(checkpoints: Iterable[EvaluatedCheckpoint]) -> dict[At, list[int]]:
    rows: dict[At, list[int]] = {}
    for i, checkpoint in enumerate(checkpoints):
        rows.setdefault(key_of(checkpoint), []).append(i)
    return rows


def _place(checkpoint: EvaluatedCheckpoint) -> int:
    """By rising seed; one without a seed is alone under its label."""
    return 0 if checkpoint.seed is None else checkpoint.seed
