"""Draws of an identical evaluation that is finished are taken over, whatever happens to either."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluators.__main__ import main
from evaluators.records import SamplingEngine, SamplingTarget
from evaluators.takeover import identity
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds.evaluate import draws_identity
from fgrpo_bench.specs import DesignSpec
from fgrpo_bench.specs.config import load_benchmark
from fgrpo_bench.stages.tables import DRAWS, PASSK, read_table
from tests.evaluators.fake_engine import Answering
from tests.evaluators.test_run import warmed_up
from tests.support.plans import loaded
from tests.support.stages import start

N_PROBLEMS, N = 12, 16
ENGINE = {"engine": "embedded", "device": "cpu"}
OTHER_ENGINE = {"engine": "embedded", "device": "NVIDIA H100"}
STAGED = {"n_samples": 32, "design": {"stages": [16, 32], "enough": 16}}


class Evaluations:
    """Evaluations of one checkpoint under a run root, alike but for their names."""

    def __init__(self, stage: StagePaths, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._spec, self._beside = root, read_json(stage.spec), stage.folder
        self._monkeypatch = monkeypatch

    def stage(self, name: str) -> StagePaths:
        return StagePaths(self._beside.with_name(name))

    def files(self, name: str) -> BenchmarkPaths:
        return self.stage(name).benchmark("countdown")

    def freeze(self, name: str, **changes: Any) -> StagePaths:
        """changes: of n_samples and design."""
        spec = self._spec | {
            part: self._spec[part] | changes for part in ("evaluation", "target") if changes
        }
        write_json(self.stage(name).spec, spec)
        return self.stage(name)

    def run(
        self,
        name: str,
        *,
        engine: dict[str, Any] = ENGINE,
        fails_after: int | None = None,
        **changes: Any,
    ) -> int:
        """Run one with changes of n_samples and design; how many draws the engine made."""
        backend = Answering(
            lambda request: "6*4" if request.draw % 3 else f"1+{request.seed % 7}",
            most=64,
            fails_after=fails_after,
        )
        self._monkeypatch.setattr(
            "evaluators.evaluate.make_engine", lambda _: SamplingEngine(backend, engine)
        )
        code = main(["run", str(self.freeze(name, **changes).folder)])
        assert code == (0 if fails_after is None else 1)
        return len(backend.made)


@pytest.fixture(scope="module")
def warmed(tmp_path_factory):
    root = tmp_path_factory.mktemp("warmed") / "runs"
    return root, warmed_up(root).folder.relative_to(root)


@pytest.fixture
def evaluations(warmed, tmp_path, monkeypatch):
    root, stage = warmed
    shutil.copytree(root, tmp_path / "runs", symlinks=True)
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    return Evaluations(StagePaths(tmp_path / "runs" / stage), tmp_path / "runs", monkeypatch)


@pytest.mark.slow
def test_an_identical_evaluation_makes_no_draw_and_has_the_same_results(evaluations, capsys):
    assert evaluations.run("first") == N_PROBLEMS * N
    assert "taken over" not in capsys.readouterr().out
    assert evaluations.run("second", engine=OTHER_ENGINE) == 0
    first, second = evaluations.files("first"), evaluations.files("second")
    donor = evaluations.stage("first").folder
    assert f"countdown: the draws are taken over from {donor}" in capsys.readouterr().out
    assert first.draws.samefile(second.draws)
    assert read_json(second.manifest)["engines"] == [ENGINE]
    done = read_json(evaluations.stage("second").done)
    assert done["taken_from"] == {"countdown": str(donor.relative_to(evaluations.root))}
    assert (done["draws_made"], done["engines"]) == ({"countdown": 0}, {"countdown": [ENGINE]})
    assert read_json(evaluations.stage("first").done)["taken_from"] == {}
    for name in ("grades.countdown-1.parquet", "passk.parquet"):
        one, other = first.folder / name, second.folder / name
        assert one.read_bytes() == other.read_bytes() and not one.samefile(other)


def test_without_a_run_root_nothing_is_taken_over(evaluations, monkeypatch):
    evaluations.run("first")
    monkeypatch.delenv("FGRPO_RUN_ROOT")
    assert evaluations.run("second") == N_PROBLEMS * N


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"n_samples": 32}, STAGED])
def test_an_evaluation_of_other_draws_makes_all_of_its_own(evaluations, changes):
    evaluations.run("first")
    made = evaluations.run("second", **changes)
    assert made == len(read_table(evaluations.files("second").draws, DRAWS)) > N_PROBLEMS * N
    assert evaluations.run("third", **changes) == 0
    assert evaluations.run("fourth") == 0


def test_one_that_has_draws_goes_on_with_them(evaluations):
    evaluations.run("second", fails_after=40)
    shards = evaluations.files("second").shards.iterdir()
    kept = sum(len(path.read_text().splitlines()) for path in shards)
    evaluations.run("first")
    assert kept >= 40 and evaluations.run("second") == N_PROBLEMS * N - kept
    assert read_json(evaluations.stage("second").done)["taken_from"] == {}


def test_of_more_draws_than_an_evaluation_asks_for_the_first_count(evaluations):
    evaluations.run("first", n_samples=32)
    evaluations.stage("first").done.unlink()
    assert evaluations.run("first") == 0
    assert len(read_table(evaluations.files("first").draws, DRAWS)) == N_PROBLEMS * 32
    assert evaluations.run("second") == 0
    scored = read_table(evaluations.files("second").passk(), PASSK)
    assert set(scored["n_scored"]) == {N}


def more_draws(evaluations, name):
    assert evaluations.run(name, n_samples=32) == N_PROBLEMS * N


def graded_anew(evaluations, name):
    evaluations.files(name).grades("countdown-1").unlink()
    evaluations.run(name)


def drawn_anew(evaluations, name):
    evaluations.files(name).draws.unlink()
    evaluations.run(name)


def deleted(evaluations, name):
    shutil.rmtree(evaluations.stage(name).folder)


def content(evaluations, name):
    folder = evaluations.stage(name).folder
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("becomes", [more_draws, graded_anew, drawn_anew, deleted])
@pytest.mark.parametrize("name", ["first", pytest.param("second", marks=pytest.mark.rare)])
def test_what_becomes_of_one_later_changes_no_byte_of_the_other(evaluations, becomes, name):
    evaluations.run("first")
    evaluations.run("second")
    (other,) = {"first", "second"} - {name}
    before = content(evaluations, other)
    becomes(evaluations, name)
    assert content(evaluations, other) == before


@pytest.mark.slow
def test_on_another_file_system_the_draws_are_copied(evaluations, monkeypatch):
    def refused(*_):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    evaluations.run("first")
    monkeypatch.setattr(os, "link", refused)
    assert evaluations.run("second") == 0
    first, second = (evaluations.files(name).draws for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes() and not first.samefile(second)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def other_engine_written_in(evaluations):
    path = evaluations.files("first").manifest
    write_json(path, read_json(path) | {"engines": [OTHER_ENGINE]})


DAMAGED = "is not the file that"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (lambda of: flip(of.files("first").draws), DAMAGED),
        (other_engine_written_in, DAMAGED),
        (lambda of: of.stage("first").done.write_text("{"), "holds no valid JSON"),
        (lambda of: write_json(of.stage("first").done,
                               read_json(of.stage("first").done) | {"outputs": {}}), DAMAGED),
        (lambda of: of.run("first", n_samples=32), None),  # of other draws since
        (lambda of: of.stage("first").done.unlink(), None),  # is at work
        (lambda of: of.files("first").draws.unlink(), None),
        (lambda of: deleted(of, "first"), None),
        (lambda of: shutil.rmtree(of.root / "draws"), None),
    ],
)  # fmt: skip
def test_from_one_that_is_damaged_at_work_or_gone_nothing_is_taken_over(
    evaluations, capsys, happens, said
):
    evaluations.run("first")
    want = read_table(evaluations.files("first").draws, DRAWS)
    happens(evaluations)
    capsys.readouterr()
    assert evaluations.run("second") == N_PROBLEMS * N
    out = capsys.readouterr().out
    assert "taken over from" not in out
    assert ("its draws are not taken over, and made again" in out) == (said is not None)
    assert said is None or said in out
    assert read_table(evaluations.files("second").draws, DRAWS).equals(want)
    assert read_json(evaluations.files("second").manifest)["engines"] == [ENGINE]
    assert evaluations.run("third") == 0


def test_one_that_vanishes_while_it_is_taken_over_is_passed_over(evaluations, monkeypatch, capsys):
    link = os.link

    def gone(source, target):
        shutil.rmtree(Path(source).parent)
        link(source, target)

    evaluations.run("first")
    monkeypatch.setattr(os, "link", gone)
    assert evaluations.run("second", engine=OTHER_ENGINE) == N_PROBLEMS * N
    assert "taken over" not in capsys.readouterr().out
    made = read_json(evaluations.files("second").manifest)
    assert made["engines"] == [OTHER_ENGINE] and "taken_from" not in made


class Killed(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before the link", "before its name"])
@pytest.mark.parametrize("is_left", [True, False])
def test_a_kill_in_the_middle_leaves_an_evaluation_that_begins_again(
    evaluations, monkeypatch, moment, is_left
):
    def killed(*_):
        raise Killed

    evaluations.run("first")
    files = evaluations.files("second")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        if moment == "before the link":
            patched.setattr(os, "link", killed)
        else:
            patched.setattr("evaluators.takeover.sha256_file", killed)
        evaluations.run("second")
    assert not files.draws.exists()
    aside = files.folder / f".draws.parquet.{os.getpid()}.tmp"  # as a kill leaves it
    files.folder.mkdir(exist_ok=True)
    aside.write_bytes(b"half")
    if not is_left:
        deleted(evaluations, "first")
    made = evaluations.run("second", engine=OTHER_ENGINE)
    assert made == (0 if is_left else N_PROBLEMS * N)
    assert read_json(files.manifest)["engines"] == [ENGINE if is_left else OTHER_ENGINE]
    assert bool(read_json(evaluations.stage("second").done)["taken_from"]) == is_left
    assert len(read_table(files.draws, DRAWS)) == N_PROBLEMS * N


@pytest.mark.slow
def test_two_at_once_take_the_same_draws_over(evaluations):
    evaluations.run("first")
    shell = {"FGRPO_RUN_ROOT": str(evaluations.root)}
    names = ("second", "third")
    both = [start("evaluate", evaluations.freeze(name).folder, shell=shell) for name in names]
    for process in both:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0, out
    for name in names:
        assert read_json(evaluations.stage(name).done)["draws_made"] == {"countdown": 0}
        assert evaluations.files("first").draws.samefile(evaluations.files(name).draws)
    (link,) = (evaluations.root / "draws").iterdir()
    assert link.resolve().parent.name in names


def test_own_draws_that_were_lost_are_made_again_without_a_word(evaluations, capsys):
    evaluations.run("first")
    evaluations.files("first").draws.unlink()
    capsys.readouterr()
    assert evaluations.run("first") == N_PROBLEMS * N
    assert "taken over" not in capsys.readouterr().out


def test_draws_stay_where_no_link_to_them_can_be_made(evaluations, capsys):
    (evaluations.root / "draws").write_text("in the way")
    assert evaluations.run("first") == evaluations.run("second") == N_PROBLEMS * N
    assert "the draws are stored, but no other evaluation finds them" in capsys.readouterr().out


PROBLEMS = [
    Problem(benchmark="b", problem_id=name, prompt="?", target="64-24", grader="countdown")
    for name in ("easy", "even", "hard")
]


def test_what_changes_a_draw_is_in_the_digest_and_what_does_not_is_not(tmp_path):
    declared = loaded("smoke").experiment
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
        return identity(asked, "countdown", problems)

    first = digest()
    assert digest(name="other", ks=(1, 2)) == first
    assert digest([replace(problem, cluster="a") for problem in PROBLEMS]) == first
    dataset = replace(load_benchmark("math500").dataset, grader="countdown", cluster="passage")
    clustered = replace(declared.evaluation.benchmarks["countdown"], dataset=dataset)
    assert digest(benchmarks={"countdown": clustered}) == first
    n_samples = declared.evaluation.n_samples
    others = {
        digest(PROBLEMS[:2]),
        digest([replace(PROBLEMS[0], prompt="!"), *PROBLEMS[1:]]),
        digest(sha256="v"),
        digest(temperature=0.5),
        digest(seed=declared.evaluation.seed + 1),
        digest(stream=12),
        digest(n_samples=n_samples + 1),
        digest(design=DesignSpec(stages=(4, n_samples), enough=2)),
        digest(design=DesignSpec(stages=(4, n_samples), enough=3)),
    }
    (tmp_path / "tokenizer.json").write_text("[]")
    assert len({first, digest(), *others}) == 11
