"""Draws of one model are made once under a run root, whatever happens to those who made them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from threading import Barrier

import polars as pl
import pytest

from evaluators.grading import GradeWorkers, Grading
from evaluators.records import SamplingTarget
from evaluators.sample import complete_draws
from evaluators.shared import SharedDraws, identity
from fgrpo_bench.analysis.checkpoints import in_words
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths, SharedPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds.evaluate import draws_identity
from fgrpo_bench.specs import config
from fgrpo_bench.specs.config import load_benchmark
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import SEAL, sha256_file, with_checksum
from fgrpo_bench.stages.draws import DrawsRecord, SharedOrigin
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.stage import Stopped
from fgrpo_bench.stages.tables import DRAWS, read_table, write_table
from fgrpo_bench.stats.staged import StagedDesign
from tests.evaluators.fake_engine import Answering

PROBLEMS = [
    Problem(benchmark="b", problem_id=name, prompt="?", target="64-24", grader="countdown")
    for name in ("easy", "even", "hard")
]
DESIGN = StagedDesign(stages=(4, 8, 16), enough=3)
ENGINE = {"engine": "embedded", "device": "cpu"}
NOTHING = DrawsRecord(fingerprint="f", weights_sha256="w", prompts_sha256="p")
MADE_WITH = replace(NOTHING, engines=(ENGINE,))


def is_right(wanted) -> bool:
    """Of `easy` all draws, of `even` every third, of `hard` none."""
    name = wanted.problem.problem_id
    return name == "easy" or (name == "even" and wanted.draw % 3 == 0)


class Model(Answering):
    def __init__(self, fails_after=None):
        super().__init__(
            lambda w: "6*4" if is_right(w) else f"1+{w.seed % 7}",
            most=5,
            part=5,
            fails_after=fails_after,
        )


class Evaluations:
    """Evaluations of one model in sweeps of one run root."""

    def __init__(self, root):
        self.root, self.said, self.fetched_seconds = root, None, None

    def run(
        self,
        name,
        n=8,
        *,
        design=None,
        made_of=None,
        model=None,
        stopped=lambda: False,
        made_with=MADE_WITH,
        draw_seconds=None,
    ):
        """Draw; returns the table and how many draws the model made. self.said: for draws.json."""
        model = Model() if model is None else model
        paths = BenchmarkPaths(self.root / name / "b")
        with (
            GradeWorkers(PROBLEMS, workers=1) as workers,
            SharedDraws(
                self.root / "draws",
                made_of or {"weights_sha256": "w", "temperature": 1.0},
                stage=self.root / name,
                stopped=stopped,
            ) as shared,
        ):
            grading = design and Grading(paths, PROBLEMS, "countdown", workers=workers)
            table, made = complete_draws(
                paths,
                PROBLEMS,
                n_samples=n if design is None else design.stages[-1],
                seed=3,
                sampler=lambda: model,
                on_draws=lambda done, of, draws: grading and grading.add(draws),
                stopping=design,
                grading=grading,
                shared=shared,
            )
            manifest = made_with if made else NOTHING
            self.said = shared.publish(paths.draws, table, manifest, draw_seconds)
            self.fetched_seconds = shared.fetched_seconds
        assert made == len(model.made)
        return table, made

    def file(self, name):
        return BenchmarkPaths(self.root / name / "b").draws

    @property
    def entry(self) -> SharedPaths:
        """The only one there is."""
        (folder,) = (self.root / "draws").iterdir()
        return SharedPaths(folder)

    @property
    def shared_file(self):
        (file,) = self.entry.folder.glob("*.parquet")
        return file


@pytest.fixture
def evaluations(tmp_path):
    return Evaluations(tmp_path)


def alone(tmp_path, **settings):
    """The draws where nobody has made any."""
    return Evaluations(tmp_path / "alone").run("s", **settings)[0]


def test_a_second_evaluation_makes_none_and_one_of_another_model_all(evaluations, capsys):
    first, made = evaluations.run("first")
    assert made == 24 and evaluations.said.shared.adopted == 0
    second, made = evaluations.run("second")
    assert made == 0 and second.equals(first)
    assert evaluations.file("first").samefile(evaluations.file("second"))
    origin = SharedOrigin(digest=evaluations.entry.folder.name, adopted=24, made_by=("first",))
    assert evaluations.said == replace(MADE_WITH, shared=origin)
    assert "b: 24 of 24 draws were made by first (" in capsys.readouterr().out
    for other in ({"weights_sha256": "v", "temperature": 1.0}, {"weights_sha256": "w"}):
        assert evaluations.run(other["weights_sha256"], made_of=other)[1] == 24


def test_what_draws_took_is_told_to_whoever_takes_them(evaluations):
    evaluations.run("unmeasured", 1)
    assert evaluations.run("first", 2)[1] == 3 and evaluations.fetched_seconds is None
    evaluations.run("measured", 4, draw_seconds=0.5)
    evaluations.run("more", 8, draw_seconds=2.0)
    evaluations.run("all")
    assert evaluations.fetched_seconds == 24 * (6 * 0.5 + 12 * 2.0) / 18


def test_deleting_an_evaluation_or_the_entry_takes_no_draws_of_another(evaluations):
    first, _ = evaluations.run("first")
    evaluations.run("second")
    shutil.rmtree(evaluations.root / "first")
    assert evaluations.run("third")[1] == 0
    shutil.rmtree(evaluations.root / "draws")
    assert read_table(evaluations.file("second"), DRAWS).equals(first)
    assert evaluations.run("second")[1] == 0
    assert evaluations.run("fourth")[1] == 24


def test_more_draws_add_to_those_that_are_there_and_fewer_take_only_theirs(evaluations, tmp_path):
    evaluations.run("first", 8)
    more, made = evaluations.run("second", 12)
    assert made == 12 and more.equals(alone(tmp_path, n=12))
    assert read_json(evaluations.entry.facts)["n_draws"] == 36
    makers = read_json(evaluations.entry.facts)["made_by"]
    assert [(each["stage"], each["draws"]) for each in makers] == [("first", 24), ("second", 12)]
    few, made = evaluations.run("third", 5)
    assert made == 0 and few.equals(more.filter(pl.col("draw") < 5))
    grown, made = evaluations.run("third", 12)
    assert made == 0 and grown.equals(more) and evaluations.said.shared.adopted == 21
    assert read_json(evaluations.entry.facts)["n_draws"] == 36


def test_a_design_takes_exactly_the_draws_that_it_would_make(evaluations, tmp_path):
    evaluations.run("fixed", 10)
    staged, made = evaluations.run("staged", design=DESIGN)
    want = alone(tmp_path, design=DESIGN)
    assert staged.equals(want)
    lengths = dict(want.group_by("problem_id").len().iter_rows())
    assert lengths == {"easy": 4, "even": 8, "hard": 16}
    assert made == 6  # what the fixed one lacks of `hard`
    assert read_json(evaluations.entry.facts)["n_draws"] == 36
    assert evaluations.run("again", design=DESIGN)[1] == 0
    fixed, made = evaluations.run("larger", 16)
    assert made == 12 and fixed.equals(alone(tmp_path / "larger", n=16))


def test_without_hard_links_the_draws_are_copied(evaluations, monkeypatch):
    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refused)
    first, _ = evaluations.run("first")
    second, made = evaluations.run("second")
    assert made == 0 and second.equals(first)
    files = [evaluations.file("first"), evaluations.file("second"), evaluations.shared_file]
    assert len({file.stat().st_ino for file in files}) == 3
    assert len({sha256_file(file) for file in files}) == 1


def flip(path):
    """Damage another file of this content, so that those linked to it stay whole."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)


def of_other_seeds(evaluations):
    """An entry that is whole by its digests and has draws of other seeds."""
    facts, file = read_json(evaluations.entry.facts), evaluations.shared_file
    table = read_table(file, DRAWS).with_columns(pl.col("seed") + 1)
    file.unlink()
    write_table(file, table, DRAWS)
    sha256 = sha256_file(file)
    file.rename(evaluations.entry.draws(sha256))
    del facts[SEAL]
    write_json(evaluations.entry.facts, with_checksum(facts | {"sha256": sha256}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda of: flip(of.shared_file), "has other content than facts.json says"),
        (lambda of: of.shared_file.unlink(), "No such file"),
        (lambda of: of.entry.facts.write_text("{"), "holds no valid JSON"),
        (
            lambda of: write_json(
                of.entry.facts, read_json(of.entry.facts) | {"identity": {"weights_sha256": "v"}}
            ),
            "was changed, or is of other draws",
        ),
        (of_other_seeds, "has draws with other seeds"),
    ],
)
def test_a_damaged_or_foreign_entry_is_kept_aside_and_its_draws_are_made_again(
    evaluations, capsys, damage, said
):
    first, _ = evaluations.run("first")
    damage(evaluations)
    again, made = evaluations.run("second")
    assert made == 24 and again.equals(first)
    out = capsys.readouterr().out
    assert said in out and "these shared draws are not used, and made again" in out
    assert list(evaluations.entry.damaged.iterdir())
    assert evaluations.run("third")[1] == 0
    assert evaluations.run("first")[1] == 0


def test_an_evaluation_that_lacks_nothing_asks_nobody(evaluations):
    evaluations.run("first")
    with locked(evaluations.entry.lock, wait=False, what="x"):
        assert evaluations.run("first", 4, stopped=lambda: True)[1] == 0
    assert evaluations.said == NOTHING


def test_a_failed_evaluation_gives_the_lock_back_and_goes_on_with_its_own_draws(evaluations):
    with pytest.raises(RuntimeError, match="the node is gone"):
        evaluations.run("first", model=Model(fails_after=10))
    assert evaluations.run("second")[1] == 24
    _, made = evaluations.run("first")
    assert made == 0 and evaluations.said.shared.adopted == 14


class Slow(Model):
    def __call__(self, wanted):
        for draws in super().__call__(wanted):
            time.sleep(0.02)
            yield draws


def test_two_at_once_make_each_draw_once(evaluations):
    with ThreadPoolExecutor() as pool:  # a lock is held by a file that was opened, as by a process
        both = [pool.submit(evaluations.run, name, model=Slow()) for name in ("first", "second")]
    (first, made), (second, more) = (one.result() for one in both)
    assert sorted([made, more]) == [0, 24] and first.equals(second)


HOLD = """import sys, time; from pathlib import Path
from fgrpo_bench.stages.locks import locked
with locked(Path(sys.argv[1]), wait=False, what="x"):
    print("held", flush=True); time.sleep(60)
"""


def test_a_killed_holder_lets_the_next_one_draw(evaluations, capfd):
    evaluations.run("first", 4)
    command = [sys.executable, "-c", HOLD, str(evaluations.entry.lock)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    looks = count()

    def stopped():
        if next(looks) == 1:
            holder.kill()
        return False

    assert evaluations.run("second", 8, stopped=stopped)[1] == 12
    holder.communicate()
    assert f"waiting for process {holder.pid} on {os.uname().nodename}" in capfd.readouterr().out


def test_one_that_is_told_to_stop_while_it_waits_stops(evaluations):
    evaluations.run("first", 4)
    with (
        locked(evaluations.entry.lock, wait=False, what="x"),
        pytest.raises(Stopped, match="another evaluation makes the same draws"),
    ):
        evaluations.run("second", 8, stopped=lambda: True)
    assert evaluations.run("second", 8)[1] == 12


def in_the_way(evaluations, monkeypatch):
    (evaluations.root / "draws").write_text("in the way")
    return ""


def without_locks(number):
    def refuses(*_):
        raise OSError(number, os.strerror(number))

    def prepare(evaluations, monkeypatch):
        monkeypatch.setattr(fcntl, "flock", refuses)
        return f"draws.lock cannot be locked ({os.strerror(number)}: "

    return prepare


@pytest.mark.parametrize(
    "prepare",
    [in_the_way, without_locks(errno.ENOLCK), without_locks(errno.EOPNOTSUPP)],
    ids=["a file in the way", "ENOLCK", "EOPNOTSUPP"],
)
def test_where_nothing_can_be_locked_draws_are_made_and_not_shared(
    evaluations, monkeypatch, capsys, prepare
):
    said = prepare(evaluations, monkeypatch)
    assert evaluations.run("first")[1] == evaluations.run("second")[1] == 24
    out = capsys.readouterr().out
    assert said in out and "draws are made here and not shared" in out
    assert not said or "take a run root on another one): draws are made here" in out


@pytest.mark.parametrize("settings", [{}, {"design": DESIGN}])
def test_where_a_lock_keeps_nobody_out_both_make_the_same_draws(
    evaluations, tmp_path, monkeypatch, settings
):
    """As on a mount whose locks hold on its own machine alone."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    together = Barrier(2, timeout=300)

    class Both(Model):
        def __call__(self, wanted):
            together.wait()
            yield from super().__call__(wanted)

    with ThreadPoolExecutor() as pool:
        both = [
            pool.submit(evaluations.run, name, model=Both(), **settings)
            for name in ("first", "second")
        ]
    want = alone(tmp_path, **settings)
    for each in both:
        table, made = each.result()
        assert made == len(want) and table.equals(want)
    third, made = evaluations.run("third", **settings)
    assert third.equals(want) and made in (0, len(want))
    assert evaluations.run("fourth", **settings)[1] == 0


def test_of_two_that_store_different_draws_at_once_neither_loses_its_own(
    evaluations, tmp_path, monkeypatch, capsys
):
    """The second stores all of its own between the first one's file and facts, which then name a
    file that the second has taken away."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)

    def meanwhile(path, value):
        monkeypatch.setattr("evaluators.shared.write_json", write_json)
        evaluations.run("second", 12)
        write_json(path, value)

    monkeypatch.setattr("evaluators.shared.write_json", meanwhile)
    assert evaluations.run("first", 8)[0].equals(alone(tmp_path, n=8))
    assert [evaluations.run(*own)[1] for own in (("first", 8), ("second", 12))] == [0, 0]
    third, made = evaluations.run("third", 12)
    assert made == 36 and third.equals(read_table(evaluations.file("second"), DRAWS))
    assert "these shared draws are not used, and made again" in capsys.readouterr().out
    assert evaluations.run("fourth", 12)[1] == 0


def test_draws_of_two_engines_name_both(evaluations):
    engines = tuple({"engine": "vllm", "vllm": number} for number in ("0.29.0", "0.30.0"))
    for name, n, engine in zip(("first", "second"), (8, 12), engines, strict=True):
        evaluations.run(name, n, made_with=replace(NOTHING, engines=(engine,)))
    assert evaluations.said.engines == engines
    assert evaluations.run("third", 12)[1] == 0
    assert evaluations.said.engines == engines
    assert (
        in_words(evaluations.said.engines)
        == "engine vllm, vllm 0.29.0, then engine vllm, vllm 0.30.0"
    )


def test_what_changes_a_draw_is_in_the_digest_and_what_does_not_is_not(tmp_path):
    declared = config.load("smoke").experiment
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("known by its digest")

    def digest(problems=PROBLEMS, sha256="w", stream=11, **changed):
        evaluation = replace(declared.evaluation, **changed)
        asked = SamplingTarget(
            folder=tmp_path,
            sha256=sha256,
            evaluation=evaluation,
            settings=draws_identity(evaluation, declared.train, stream=stream),
            device="cpu",
            placement=None,
        )
        return fingerprint(identity(asked, "countdown", problems))

    first = digest()
    assert digest(name="other", n_samples=4, ks=(1, 2)) == first
    assert digest([replace(problem, cluster="a") for problem in PROBLEMS]) == first
    dataset = replace(load_benchmark("math500").dataset, grader="countdown", cluster="passage")
    clustered = replace(declared.evaluation.benchmarks["countdown"], dataset=dataset)
    assert digest(benchmarks={"countdown": clustered}) == first
    others = {
        digest(PROBLEMS[:2]),
        digest([replace(PROBLEMS[0], prompt="!"), *PROBLEMS[1:]]),
        digest(sha256="v"),
        digest(temperature=0.5),
        digest(seed=declared.evaluation.seed + 1),
        digest(stream=12),
    }
    (tmp_path / "tokenizer.json").write_text("[]")
    assert len({first, digest(), *others}) == 8
