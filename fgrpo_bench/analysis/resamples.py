"""The resamples of every cell, shared by estimates, comparisons and bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fgrpo_bench.analysis.read import At, Ints, Scores
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    FRACTIONS,
    Resampled,
    average,
    by_cluster,
    difference,
    resample,
    resample_together,
    room_of_difference,
)


class Resamples:
    """Means of resampled data by column, cell and seeds, made once."""

    def __init__(
        self,
        scores: Mapping[str, Mapping[At, Scores]],
        averages: Mapping[str, Sequence[str]],
    ) -> None:
        self.scores, self.averages = scores, averages
        self.streams = {benchmark: stream for stream, benchmark in enumerate(scores)}
        self._cache: dict[tuple[str, At, tuple[int | None, ...]], Resampled] = {}
        for benchmark, cells in scores.items():
            done = {at: own for at, own in cells.items() if own.seeds}
            in_order = resample_together(
                [own.values for own in done.values()],
                limits=FRACTIONS,
                stream=self.streams[benchmark],
                clusters=self.clusters(benchmark),
            )
            for (at, own), resampled in zip(done.items(), in_order, strict=True):
                self._cache[benchmark, at, own.seeds] = resampled

    def clusters(self, benchmark: str) -> Ints | None:
        """Of the benchmark's problems, which are those of every cell (Scores.clusters)."""
        return next(iter(self.scores[benchmark].values())).clusters

    def seeds(self, column: str, *cells: At) -> tuple[int | None, ...]:
        """Seeds that all these cells have on a benchmark, or on all benchmarks of an average."""
        own = [self.scores[name][at].seeds for name in self._benchmarks(column) for at in cells]
        return tuple(seed for seed in own[0] if all(seed in other for other in own))

    def of(self, column: str, at: At) -> Resampled | None:
        """Of a cell; None without results. An average is of the seeds that each of its benchmarks
        has, and None where these differ, so that none is left out."""
        names = self._benchmarks(column)
        seeds = self.seeds(column, at)
        if not seeds or any(self.scores[name][at].seeds != seeds for name in names):
            return None
        return _mean([self._of_seeds(name, at, seeds) for name in names])

    def difference(
        self, column: str, new: At, old: At
    ) -> tuple[tuple[int | None, ...], Resampled] | None:
        """Seeds and resamples of new minus old, paired over problems and seeds; None without a seed
        in common. Of an average only where all its benchmarks have these seeds in common."""
        parts = []
        for name in self._benchmarks(column):
            seeds = self.seeds(name, new, old)
            if not seeds or seeds != self.seeds(column, new, old):
                return None
            parts.append(self._difference(name, new, old, seeds))
        return seeds, _mean(parts)

    def paired(self, benchmark: str, new: At, old: At) -> tuple[Scores, Scores]:
        """Both cells on the seeds that they have in common."""
        seeds = self.seeds(benchmark, new, old)
        return self.scores[benchmark][new].of_seeds(seeds), self.scores[benchmark][old].of_seeds(
            seeds
        )

    def _benchmarks(self, column: str) -> Sequence[str]:
        return self.averages.get(column, (column,))

    def _of_seeds(self, benchmark: str, at: At, seeds: tuple[int | None, ...]) -> Resampled:
        key = benchmark, at, seeds
        if key not in self._cache:
            self._cache[key] = resample(
                self.scores[benchmark][at].of_seeds(seeds).values,
                limits=FRACTIONS,
                stream=self.streams[benchmark],
                clusters=self.clusters(benchmark),
            )
        return self._cache[key]

    def _difference(
        self, benchmark: str, new: At, old: At, seeds: tuple[int | None, ...]
    ) -> Resampled:
        after, before = self.paired(benchmark, new, old)
        values, clusters = after.values - before.values, self.clusters(benchmark)
        room = room_of_difference(after.values, before.values, clusters=clusters)
        if np.isnan(values).any() or values.shape[1] < 2:  # columns of other problems, or of one
            stream = self.streams[benchmark]
            return resample(values, limits=DIFFERENCES, stream=stream, clusters=clusters, room=room)
        own = [self._of_seeds(benchmark, at, seeds) for at in (new, old)]
        units = values if clusters is None else by_cluster(values, clusters)
        return difference(own[0], own[1], units, room)


def _mean(parts: Sequence[Resampled]) -> Resampled:
    return parts[0] if len(parts) == 1 else average(parts)
