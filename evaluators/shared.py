"""Draws of one model that all evaluations under a run root share, so that none makes them again.

In: what draws follow from. Out: those that others have made (`fetch`), and a place for one's own
(`publish`); `sample` and `evaluate` use both.

What a draw follows from has a digest, and under it stand the draws that were made so far. An
evaluation that lacks some takes the entry's lock, takes what is there, makes the rest and gives the
whole back. Its own table is then another name of the shared file, or a copy: what becomes of other
evaluations, or of the entry itself, takes nothing from it.

No result rests on the lock: where it does not hold, or its holder dies, draws are made twice. An
entry that cannot be read is moved aside, and what it held is made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.fetch import PATTERNS
from fgrpo_bench.files.paths import SharedPaths, StagePaths
from fgrpo_bench.files.whole import link_whole, now, quarantine, read_record, write_json
from fgrpo_bench.specs.fingerprint import defining, fingerprint
from fgrpo_bench.stages.digests import checksum_mismatch, sha256_file, with_checksum
from fgrpo_bench.stages.draws import (
    DrawsRecord,
    MadeBy,
    SharedOrigin,
    SharedRecord,
)
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.stage import Stopped
from fgrpo_bench.stages.tables import DRAWS, read_table, write_table

from .records import SamplingTarget, Seeds

VARIABLE = "FGRPO_DRAWS"
"""Names the folder of all entries; without it nothing is shared."""
KEY = ["problem_id", "draw"]


def identity(asked: SamplingTarget, benchmark: str, problems: Sequence[Problem]) -> dict[str, Any]:
    """What draws on a benchmark follow from: the checkpoint's files, how it is sampled, and the ids
    and prompts of the problems. Where it ran is not in it, nor who asked."""
    of_benchmark = asked.evaluation.prompt_of(benchmark)  # else it has the one of all
    settings = {name: value for name, value in asked.settings.items() if name != "benchmarks"}
    files = {file for pattern in PATTERNS[1:] for file in asked.folder.glob(pattern)}
    return {
        "sampling": settings | ({} if of_benchmark is None else {"prompt": defining(of_benchmark)}),
        "weights_sha256": asked.sha256,
        "checkpoint": {file.name: sha256_file(file) for file in sorted(files)},
        "problems": fingerprint([[problem.problem_id, problem.prompt] for problem in problems]),
    }


class SharedDraws:
    """The shared draws that one evaluation asks for, held from `fetch` to the end of the context.

    root: folder of all entries; None shares nothing. made_of: as `identity`. stage: folder of the
    evaluation, by which others know it. stopped: whether to give up waiting, with Stopped.
    """

    def __init__(
        self,
        root: Path | None,
        made_of: dict[str, Any],
        *,
        stage: Path,
        stopped: Callable[[], bool],
    ) -> None:
        self.digest = fingerprint(made_of)
        self.n_fetched = 0
        """Draws that the evaluation has from here and did not make."""
        self.is_open = False
        """Whether the entry was locked, and the draws can be given back."""
        self._paths = None if root is None else SharedPaths(root / self.digest)
        self._made_of, self._stopped = made_of, stopped
        self._stage = os.path.relpath(stage, root.parent) if root is not None else str(stage)
        self._facts: SharedRecord | None = None
        self._draws = DRAWS.to_frame()
        self._stack = ExitStack()

    @classmethod
    def of(
        cls,
        asked: SamplingTarget,
        benchmark: str,
        problems: Sequence[Problem],
        stage: StagePaths,
        *,
        stopped: Callable[[], bool],
    ) -> SharedDraws:
        """Those of the run root that the environment names."""
        root = os.environ.get(VARIABLE)
        made_of = identity(asked, benchmark, problems) if root else {}
        folder = stage.folder.resolve()
        return cls(Path(root).resolve() if root else None, made_of, stage=folder, stopped=stopped)

    def __enter__(self) -> SharedDraws:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fetch(self, seeds: Seeds) -> pl.DataFrame:
        """Draws (tables.DRAWS) that others have made, once nobody else is making any; Stopped where
        that is asked for meanwhile."""
        if self._paths is None:
            return self._draws
        what = f"the same draws ({self._paths.folder})"
        # held until the draws are published: who waits here finds them there and makes none again
        try:
            self._stack.enter_context(
                locked(self._paths.lock, wait=True, what=what, waiting=self._check_stopping)
            )
        except OSError as error:
            print(
                f"{self._paths.lock} cannot be locked ({error.strerror or error}): draws are made "
                "here and not shared",
                flush=True,
            )
            return self._draws
        self.is_open = True
        try:
            if self._paths.facts.exists():
                self._facts, self._draws = self._read(self._paths, seeds)
        except (OSError, ValueError) as error:
            print(f"{error}\nthese shared draws are not used, and made again", flush=True)
            for file in (self._paths.facts, *self._paths.folder.glob("draws-*.parquet")):
                if file.exists():
                    print(f"kept as {quarantine(file, self._paths.damaged)}", flush=True)
        return self._draws

    @property
    def fetched_seconds(self) -> float | None:
        """Wall time that the draws from here took where they were made; None where nobody recorded
        it."""
        recorded = [
            (maker.draws, maker.draw_seconds)
            for maker in self._makers
            if maker.draw_seconds is not None
        ]
        if not recorded:
            return None
        seconds = sum(draws * draw_seconds for draws, draw_seconds in recorded)
        return float(self.n_fetched * seconds / sum(draws for draws, _ in recorded))

    @property
    def _makers(self) -> tuple[MadeBy, ...]:
        return () if self._facts is None else self._facts.made_by

    def publish(
        self,
        path: Path,
        table: pl.DataFrame,
        manifest: DrawsRecord,
        draw_seconds: float | None = None,
    ) -> DrawsRecord:
        """Let others have the draws of an evaluation, all of them; returns its manifest with what
        there is to say of them, the same where `fetch` was not called.

        path: of the table, which becomes another name of the shared file where they are the same.
        manifest: with the engine that made the evaluation's own draws, if it made any.
        draw_seconds: wall time of one of these; None where nobody measured it.
        """
        if self._paths is None or not self.is_open:
            return manifest
        others = self._makers
        new = table.join(self._draws, on=KEY, how="anti")
        before = manifest.shared or SharedOrigin(digest=self.digest, adopted=0, made_by=())
        shared = SharedOrigin(
            digest=self.digest,
            adopted=min(before.adopted + self.n_fetched, len(table)),
            made_by=before.made_by,
        )
        described = replace(manifest, shared=shared)
        if self.n_fetched:
            makers = tuple(dict.fromkeys(maker.stage for maker in others))
            print(
                f"{path.parent.name}: {self.n_fetched:,} of {len(table):,} draws were made by "
                f"{', '.join(makers)} ({self._paths.folder})",
                flush=True,
            )
            described = replace(
                described,
                shared=replace(shared, made_by=makers),
                engines=_each_once(
                    [*(e for maker in others for e in maker.engines), *manifest.engines]
                ),
            )
        try:
            if len(new):
                ours = MadeBy(
                    stage=self._stage,
                    draws=len(new),
                    time=now(),
                    draw_seconds=draw_seconds,
                    engines=manifest.engines,
                )
                self._store(self._paths, path, table, (*others, ours))
            elif self._facts is not None and table.equals(self._draws):
                link_whole(path, self._paths.draws(self._facts.sha256))
        except OSError as error:
            print(f"the draws are stored, but not shared: {error}", flush=True)
        return described

    def _read(self, paths: SharedPaths, seeds: Seeds) -> tuple[SharedRecord, pl.DataFrame]:
        """OSError or ValueError where the entry is not what it says that it is."""
        facts = read_record(paths.facts, SharedRecord)
        if checksum_mismatch(facts.as_json()) or fingerprint(facts.identity) != paths.folder.name:
            raise ValueError(f"{paths.facts} was changed, or is of other draws")
        file = paths.draws(facts.sha256)
        if sha256_file(file) != facts.sha256:
            raise ValueError(f"{file} has other content than {paths.facts.name} says")
        draws = read_table(file, DRAWS)
        expected = pl.DataFrame(
            {"problem_id": list(seeds), "expected_seed": list(seeds.values())},
            schema={"problem_id": pl.String, "expected_seed": pl.List(pl.Int64)},
        ).with_columns(draw=pl.int_ranges(pl.col("expected_seed").list.len()))
        both = draws.join(expected.explode("expected_seed", "draw"), on=KEY)
        if both.filter(pl.col("seed").ne_missing(pl.col("expected_seed"))).height:
            raise ValueError(f"{file} has draws with other seeds than its settings give")
        return facts, draws

    def _store(
        self, paths: SharedPaths, path: Path, table: pl.DataFrame, made_by: tuple[MadeBy, ...]
    ) -> None:
        """Store the draws that are there and those of a table, which is the file `path`."""
        both = pl.concat([self._draws, table]).unique(KEY, keep="first").sort(KEY)
        if both.equals(table):
            sha256 = sha256_file(path)
            link_whole(paths.draws(sha256), path)
        else:
            whole = paths.folder / "whole.parquet"
            write_table(whole, both, DRAWS)
            sha256 = sha256_file(whole)
            whole.replace(paths.draws(sha256))
        facts = SharedRecord(
            identity=self._made_of,
            n_draws=len(both),
            bytes=paths.draws(sha256).stat().st_size,
            sha256=sha256,
            made_by=made_by,
        )
        # the facts name a file by its digest and come after it, and what they named before goes
        # last: a kill at any line leaves facts and their file
        write_json(paths.facts, with_checksum(facts.as_json()))
        for file in paths.folder.glob("*.parquet"):
            if file != paths.draws(sha256):
                file.unlink()

    def _check_stopping(self) -> None:
        if self._stopped():
            raise Stopped("another evaluation makes the same draws; what was drawn is saved")


def _each_once(engines: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(engine for number, engine in enumerate(engines) if engine not in engines[:number])
