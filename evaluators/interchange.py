"""Draws and problems exchanged with other programs: their draws imported, our prompts exported.

In: files of draws (evaluators.dumps), and what problems they are of: a benchmark, somebody's own
file, or the problems and golds of the files themselves. Out: an evaluation under evals/ whose draws
are stored, graded (`stored.regrade`) and scored like our own, with the program's own verdicts as a
layer of grades beside, and marked done only then; or a folder of tasks for lm-evaluation-harness.

A problem is known by its id, by its text, or by its text within the prompt. Whatever is wrong with
a file is a ValueError that names file and line; what is left out is counted and said.

An exported task is judged there by this package's graders, so fgrpo_bench has to be installed
beside lm-eval. With --log_samples its log holds every draw, which can be imported again.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.columns import Columns, file_dataset
from fgrpo_bench.data.layouts import DUMP, content_id, without_options
from fgrpo_bench.data.rows import counter_of_rows
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import now, write_json, write_many, write_text
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.recorded import layer_of
from fgrpo_bench.kinds.benchmarks import graders_of, load_problems, passk_path
from fgrpo_bench.kinds.evaluate import EvaluationSpec, versions
from fgrpo_bench.specs import BenchmarkSpec, DatasetSpec, check_name, config, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.markers import Marker, described, write_marker
from fgrpo_bench.stages.tables import DRAWS, write_table

from .asked import with_strict
from .dumps import DumpedDraw, Named, open_dump, short
from .fetch import prepare_file
from .standalone import data_folder, slug
from .stored import StoredDraws, benchmark_spec, regrade
from .verdicts import are_usable, disagreements, write_verdicts

CHUNK = 8_192
"""Draws that are held as Python's objects at once."""
SHOWN = 160
"""Characters of a prompt in a message."""
NO_GOLD = "(none in the file)"
"""Stands for the answer to a problem where only the file's verdicts count."""


@dataclass(frozen=True, kw_only=True)
class Import:
    """Files of draws of the same problems by one model, and how they are taken."""

    files: tuple[Path, ...]
    spec: BenchmarkSpec | None
    """What the draws are of; None: the problems and golds in the files."""
    named: Named = field(default_factory=Named)
    grader: str = "math"
    """Of problems from the files."""
    theirs: bool = False
    """Whether the verdicts in the files count alone, and nothing is graded."""
    threshold: float | None = None
    """The least score of a correct draw; None: 1, where no score lies between."""
    step: int | None = None
    """Only draws of this step are taken; None: all, which are of one step."""
    strict: bool = False
    """Whether the strict form of the grader judges too."""
    subset: bool = False
    """Whether problems may be missing, and others be among the draws."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the import follows from, wherever its files are."""
        settings = {k: v for k, v in asdict(self).items() if k not in ("files", "spec")}
        drawn_of = None if self.spec is None else to_dict(self.spec)
        return {
            "import": [sha256_file(file) for file in self.files],
            "benchmark": drawn_of,
        } | settings


def take_in(wanted: Import, *, name: str, root: Path) -> tuple[StoredDraws, str]:
    """Import files, grade and score them, and mark them as done; what was stored, and what there is
    to say.

    ValueError for a name that is none, for files of several formats or steps, for unknown problems
    and doubled draws, and for what only --data, --subset, --step or --threshold makes clear.
    """
    check_name("--name", name)
    said: list[str] = []
    dump = open_dump(wanted.files[0], wanted.named)
    theirs = layer_of(dump.format.program, wanted.threshold)
    folder = root / "evals" / name
    if wanted.spec is None:
        own = OwnProblems(wanted, theirs if wanted.theirs else wanted.grader)
        drawn = read_draws(wanted, own.place, said)
        spec = own.benchmark(folder, root)
        data = data_folder(root, spec.name, dataset_of(spec))
        problems = load_problems(spec, None, data)
    else:
        spec = wanted.spec
        data = data_folder(root, spec.name, dataset_of(spec))
        problems = load_problems(spec, None, data)
        drawn = read_draws(wanted, KnownProblems(problems, subset=wanted.subset).place, said)
    draws = checked(wanted, drawn, problems, said)
    has_verdicts = are_usable(draws["score"], wanted.threshold, said, alone=wanted.theirs)
    if wanted.theirs:
        judged = replace(dataset_of(spec), grader=theirs)
        spec = replace(spec, grader=theirs, extra_graders=(), dataset=judged)
    else:
        spec = with_strict(spec) if wanted.strict else spec
        beside = (*spec.extra_graders, theirs) if has_verdicts else spec.extra_graders
        spec = replace(spec, extra_graders=beside)
    stored = _stored(wanted, spec, draws, problems, folder, data)
    if has_verdicts:
        write_verdicts(stored, theirs, draws, wanted.threshold)
    said.append(regrade(stored, None))
    _conclude(stored)
    if has_verdicts and not wanted.theirs:
        said.append(disagreements(stored, theirs))
    return stored, "\n".join(said)


def dataset_of(spec: BenchmarkSpec) -> DatasetSpec:
    """ValueError where a benchmark has none."""
    if spec.dataset is None:
        raise ValueError(f"{spec.name} has no dataset, whose problems a file could be of")
    return spec.dataset


def _stored(
    wanted: Import,
    spec: BenchmarkSpec,
    draws: pl.DataFrame,
    problems: Sequence[Problem],
    folder: Path,
    data: Path,
) -> StoredDraws:
    """The draws under evals/<name>, to be graded and then marked as done."""
    identity = wanted.identity
    mark = fingerprint(identity)
    stage = StagePaths(folder / "eval" / f"imported-{mark[:8]}" / "step-00000")
    n_samples = int(draws["draw"].max()) + 1  # type: ignore[arg-type]
    target = {
        "n_samples": n_samples,
        "ks": [2**i for i in range(n_samples.bit_length())],
        "graders": versions({spec.name: spec}),
    }
    stored = StoredDraws(
        stage=stage,
        paths=stage.benchmark(spec.name),
        benchmark=spec,
        spec=EvaluationSpec(
            stage=stage,
            kind="import",
            fingerprint=mark,
            target=target,
            identity=identity,
            evaluation={
                "name": "imported",
                "sampler": "imported",
                "benchmarks": {spec.name: to_dict(spec)},
                "n_samples": n_samples,
                "ks": target["ks"],
            },
            data={spec.name: str(data.absolute())},
        ),
    )
    write_json(stage.spec, stored.spec.as_json())
    write_table(stored.paths.draws, draws.select(DRAWS.names()), DRAWS)
    engine = {
        "engine": "imported",
        "file": ", ".join(file.name for file in wanted.files),
        "sha256": ", ".join(identity["import"]),
    }
    prompts = fingerprint([[p.problem_id, p.prompt] for p in problems])
    manifest = DrawsRecord(
        fingerprint=mark, weights_sha256=None, prompts_sha256=prompts, engines=(engine,)
    )
    write_json(stored.paths.manifest, manifest.as_json())
    return stored


def _conclude(stored: StoredDraws) -> None:
    """Mark imported draws as done, once they are graded and scored."""
    paths, benchmark = stored.paths, stored.benchmark
    files = [paths.draws, paths.manifest]
    for grader in graders_of(benchmark):
        files += [paths.grades(grader_version(grader)), passk_path(paths, benchmark, grader)]
    marker = Marker(
        fingerprint=stored.spec.fingerprint,
        target=stored.spec.target,
        finished=now(),
        finished_ms=int(time.time() * 1000),
        outputs=described(stored.stage, files),
    )
    write_marker(stored.stage, marker)


# Draws of the files, each at its problem.

DRAWN = pl.Schema([*DRAWS.items(), ("score", pl.Float64), ("line", pl.Int64), ("file", pl.Int64)])
"""DRAWS with the file's own score and where it stands; the response of a draw that failed is
null."""
Place = Callable[[DumpedDraw, str], str | None]
"""The problem_id of a draw at some file and line; None where it is to be left out."""


def read_draws(wanted: Import, place: Place, said: list[str]) -> pl.DataFrame:
    """The draws of all files (DRAWN), in their order. said: gets what is read and left out."""
    frames: list[pl.DataFrame] = []
    rows: list[tuple[Any, ...]] = []
    numbers: defaultdict[str, int] = defaultdict(int)  # of the next draw of a problem
    formats: dict[str, Path] = {}
    steps: dict[int | None, str] = {}
    n_other_steps, unplaced, failed = 0, list[str](), list[str]()
    for i, file in enumerate(wanted.files):
        dump = open_dump(file, wanted.named)
        formats.setdefault(dump.format.name, file)
        if len(formats) > 1:
            listed = ", ".join(f"{of} is {name}" for name, of in formats.items())
            raise ValueError(f"{listed}: import files of each format by a --name of their own")
        said.append(f"read: {file}, {dump.described}")
        before = dict(numbers)
        with counter_of_rows(file.name) as count_rows:
            for draw in dump.draws:
                where = f"{file}, line {draw.line}"
                if wanted.step is not None and draw.step not in (None, wanted.step):
                    n_other_steps += 1
                    continue
                steps.setdefault(draw.step, where)
                _check_fixed(draw, where)
                if (problem_id := place(draw, where)) is None:
                    unplaced.append(where)
                    continue
                number = numbers[problem_id]
                if draw.draw is not None:
                    number = before.get(problem_id, 0) + draw.draw
                numbers[problem_id] = max(numbers[problem_id], number + 1)
                if draw.response is None:
                    failed.append(where if draw.fault is None else f"{where}: {draw.fault}")
                is_scored = draw.response is None and draw.score is not None
                response = "" if is_scored else draw.response
                rows.append(
                    (
                        *(problem_id, number, draw.seed, response and _clean(response)),
                        *(draw.n_tokens, draw.finish_reason, None),
                        *(draw.score, draw.line, i),
                    )
                )
                if len(rows) == CHUNK:
                    frames.append(pl.DataFrame(rows, DRAWN, orient="row"))
                    rows.clear()
                    count_rows(draw.line)
        said += dump.said
    frames.append(pl.DataFrame(rows, DRAWN, orient="row"))
    drawn = pl.concat(frames)
    _check_read(wanted, drawn, steps)
    if n_other_steps:
        said.append(f"left out: {n_other_steps:,} draws of other steps than {wanted.step}")
    if unplaced:
        said.append(
            f"left out: {len(unplaced):,} draws of other problems, the first at {unplaced[0]}"
        )
    if failed:
        missing = drawn["response"].null_count()
        said.append(
            f"no response: {len(failed):,} draws, of which {missing:,} count as missing and "
            f"{len(failed) - missing:,} are scored by {next(iter(formats))}; the first at "
            f"{failed[0]}"
        )
    return drawn


def _clean(text: str) -> str:
    """Without half of a surrogate pair, which no table holds."""
    return text.encode("utf-8", "replace").decode()


def _check_read(wanted: Import, drawn: pl.DataFrame, steps: Mapping[int | None, str]) -> None:
    """ValueError for draws of several steps, and for none."""
    named = ", ".join(map(str, wanted.files))
    if len(steps) > 1:
        listed = "; ".join(f"{step} at {where}" for step, where in steps.items())
        raise ValueError(
            f"{named}: draws of several steps ({listed[:400]}), which are of several models: take "
            "one step with --step, or import a file of each"
        )
    if not steps:
        raise ValueError(f"{named}: no draws of step {wanted.step}: name a step that is there")
    if drawn.is_empty():
        raise ValueError(
            f"{named}: none of the draws is of a problem of the data: name the problems that they "
            "are of with --data, or leave it out where the answers stand in the file"
        )


def _check_fixed(draw: DumpedDraw, where: str) -> None:
    """ValueError for draws of a design that stops, which their metadata name."""
    metadata = draw.row.get("metadata")
    design = draw.row.get("design") or (isinstance(metadata, dict) and metadata.get("design"))
    if design:
        raise ValueError(
            f"{where}: design is {short(design)}, by which draws stop, and an import is scored as "
            "a fixed number of draws, so that its pass@k would be too high; draw under that design "
            "here (`fgrpo-bench evaluate run checkpoint=... design=...`), or import draws of a "
            "fixed number"
        )


def checked(
    wanted: Import, drawn: pl.DataFrame, problems: Sequence[Problem], said: list[str]
) -> pl.DataFrame:
    """The draws that are scored (DRAWN, sorted), as many of every problem, numbered 0, 1, 2, ...:
    the first of each, as many as the problem with the fewest has.

    ValueError for a number that two draws of a problem have, for one that is left out, and, unless
    a subset is meant, for missing problems. drawn: DRAWN.
    """
    ordered = drawn.sort("problem_id", "draw", maintain_order=True)
    place = pl.int_range(pl.len()).over("problem_id")
    if len(wrong := ordered.filter(pl.col("draw") != place)):
        row = wrong.sort("file", "line").row(0, named=True)
        raise ValueError(
            f"{wanted.files[row['file']]}, line {row['line']}: draw {row['draw']} of problem "
            f"{row['problem_id']} came before, or one before it is not there: number the draws of "
            "a problem 0, 1, 2, ... without gaps, or leave `draw` out"
        )
    there = ordered.drop_nulls("response").with_columns(draw=place)
    counts = there.group_by("problem_id").len().sort("len", "problem_id")
    lacking = len(problems) - len(counts)
    if lacking and not wanted.subset:
        raise ValueError(
            f"{', '.join(map(str, wanted.files))}: {len(counts)} of the benchmark's "
            f"{len(problems)} problems have draws: add the others, or score these alone with "
            "--subset"
        )
    if lacking:
        said.append(f"left out: {lacking:,} of {len(problems):,} problems, which have no draws")
    fewest, n = counts.row(0)
    kept = there.filter(pl.col("draw") < n)
    if len(kept) < len(there):
        said.append(
            f"left out: {len(there) - len(kept):,} of {len(there):,} draws: problem {fewest} has "
            f"{n}, and the first {n} of every problem are scored. Where a problem was drawn until "
            "it was solved, pass@k is too high"
        )
    return kept


# Problems: those of a benchmark or of somebody's file, found in what was read; or the file's own.


class KnownProblems:
    """Finds the problem of a draw among those of a benchmark."""

    def __init__(self, problems: Sequence[Problem], *, subset: bool) -> None:
        self._ids = {problem.problem_id for problem in problems}
        self._subset = subset
        self._whole: defaultdict[str, list[str]] = defaultdict(list)  # ids by folded text
        for problem in problems:
            self._whole[_folded(problem.prompt)].append(problem.problem_id)
        for problem in problems:  # where a file's options were put behind its questions
            question = _folded(without_options(problem.prompt))
            if question != _folded(problem.prompt):
                self._whole[question].append(problem.problem_id)
        self._longest = max(map(len, self._whole))
        self._by_start: defaultdict[str, list[str]] = defaultdict(list)  # texts by their first part
        for text in self._whole:
            self._by_start[text[:START]].append(text)
        self._sizes = sorted({len(start) for start in self._by_start})
        self._cached: dict[tuple[str | None, str | None], str | None] = {}

    def place(self, draw: DumpedDraw, where: str) -> str | None:
        """Its problem_id; None where it is of another problem and a subset is meant."""
        key = draw.problem_id, draw.problem
        if key not in self._cached or key == (None, None):
            self._cached[key] = self._place(draw, where)
        return self._cached[key]

    def _place(self, draw: DumpedDraw, where: str) -> str | None:
        if draw.problem_id in self._ids:
            return draw.problem_id
        for text in self._texts(draw):
            if text in self._whole:
                return self._only(self._whole[text], where)
        if draw.problem is not None and (inside := self._inside(_folded(draw.problem))):
            longest = max(inside, key=len)
            if any(text not in longest for text in inside):
                ids = [self._whole[text][0] for text in inside]
                raise ValueError(
                    f"{where}: problems {' and '.join(ids)} both stand in its prompt "
                    f"({_beginning(draw.problem)}): name the one meant as `problem_id`, or drop "
                    "one from the problems"
                )
            return self._only(self._whole[longest], where)
        if self._subset and draw.problem is not None:
            return None
        raise ValueError(self._unknown(draw, where))

    def _texts(self, draw: DumpedDraw) -> Iterator[str]:
        """What in a row may be a problem as it stands, folded."""
        if draw.problem is not None:
            yield _folded(draw.problem)
        doc = draw.row.get("doc")
        for value in (doc if isinstance(doc, dict) else draw.row).values():
            if isinstance(value, str) and len(value) < 2 * self._longest + START:
                yield _folded(value)

    def _inside(self, prompt: str) -> list[str]:
        """The texts of problems that stand in a prompt, at borders of words."""
        there = set()
        for size in self._sizes:
            for at in range(len(prompt) - size + 1):
                for text in self._by_start.get(prompt[at : at + size], ()):
                    if prompt.startswith(text, at) and _at_borders(prompt, at, at + len(text)):
                        there.add(text)
        return sorted(there)

    def _only(self, ids: Sequence[str], where: str) -> str:
        if len(ids) > 1:
            raise ValueError(
                f"{where}: problems {' and '.join(ids)} have this text: name the one meant as "
                "`problem_id`, or drop the copies from the problems"
            )
        return ids[0]

    def _unknown(self, draw: DumpedDraw, where: str) -> str:
        of_ours = f"one of the ids, e.g. {min(self._ids)!r}, or the problem's text as `problem`"
        if draw.problem is None:
            return f"{where}: unknown problem_id {draw.problem_id!r}: give {of_ours}"
        return (
            f"{where}: no text that is a problem of this benchmark, nor one that a problem stands "
            f"in: {_beginning(draw.problem)}; give {of_ours}, or leave draws of other problems out "
            "with --subset"
        )


START = 24
"""Characters of a problem by which it is looked for."""


def _at_borders(text: str, start: int, end: int) -> bool:
    """Whether no word and no number goes on beyond either end."""
    before = text[start - 1 : start + 1] if start else ""
    return not (len(before) == 2 and before.isalnum()) and not (
        end < len(text) and text[end - 1 : end + 1].isalnum()
    )


def _folded(text: str) -> str:
    return " ".join(text.split())


def _beginning(text: str) -> str:
    return repr(text[:SHOWN]) + ("..." if len(text) > SHOWN else "")


class OwnProblems:
    """The problems and golds of the files themselves, which are known by both: equal ones of other
    files are the same problems."""

    def __init__(self, wanted: Import, grader: str) -> None:
        self._wanted, self._grader = wanted, grader
        self._name = "dump" if grader == "math" else f"dump-{slug(grader, 26)}"
        self._ids: dict[tuple[str, str], str] = {}
        self._rows: dict[str, tuple[str, str]] = {}

    def place(self, draw: DumpedDraw, where: str) -> str:
        """Its problem_id."""
        answer = NO_GOLD if self._wanted.theirs else draw.gold
        if draw.problem is None or not draw.problem.strip():
            raise ValueError(
                f"{where}: no problem: name the column of the problems with --prompt, or the "
                "problems that draws are of with --data"
            )
        if answer is None or not answer.strip():
            raise ValueError(
                f"{where}: no answer to the problem: name the column of the answers with --answer, "
                "give the problems with answers by --data, or take the verdicts that stand in the "
                "file with --verdicts theirs"
            )
        key = draw.problem, answer
        if key not in self._ids:
            cleaned = _clean(draw.problem), _clean(answer)
            self._ids[key] = f"{self._name}-{content_id(*cleaned)}"
            self._rows.setdefault(self._ids[key], cleaned)
        return self._ids[key]

    def benchmark(self, folder: Path, root: Path) -> BenchmarkSpec:
        """Them as a benchmark, prepared below the folder of all runs. folder: keeps them."""
        lines = (
            json.dumps({"problem": problem, "answer": answer}) + "\n"
            for problem, answer in self._rows.values()
        )
        path = folder / "problems.jsonl"
        write_text(path, "".join(lines))
        columns = Columns(prompt="problem", answer="answer", options=None, said=())
        dataset = file_dataset(
            path,
            columns,
            name=self._name,
            grader=self._grader,
            sha256=sha256_file(path),
            layout=DUMP,
        )
        try:
            prepare_file(root, dataset)
        except ValueError as error:
            raise ValueError(
                f"{error}; the answers are those of {', '.join(map(str, self._wanted.files))}: "
                "mend it there, give the problems by --data, or take the verdicts that stand in "
                "the file with --verdicts theirs"
            ) from error
        return BenchmarkSpec(
            name=self._name,
            dataset=dataset,
            n_problems=None,
            grader=self._grader,
            extra_graders=(),
            prompt=None,
        )


# Tasks for lm-evaluation-harness: a folder with YAML, problems and one Python file.

UTILS = '''"""Judges what lm-eval has drawn by the graders of fgrpo_bench."""

from fgrpo_bench.graders import get_grader
from fgrpo_bench.core.problems import Problem


def process_results(doc, results):
    """Share of correct and of unscored draws of a problem."""
    drawn = results[0] if isinstance(results[0], list) else results
    problem = Problem(
        benchmark=doc["benchmark"],
        problem_id=doc["problem_id"],
        prompt=doc["prompt"],
        target=doc["target"],
        grader=doc["grader"],
    )
    outcomes = [get_grader(doc["grader"])(problem, text).outcome for text in drawn]
    return {
        "correct": outcomes.count("correct") / len(outcomes),
        "unscored": outcomes.count("unscored") / len(outcomes),
    }
'''


def export(names: Sequence[str], folder: Path, *, root: Path, n_samples: int) -> str:
    """Write the tasks of some benchmarks; returns what to run, for a person.

    Raises ValueError for a benchmark without a dataset, FileNotFoundError for one not fetched.
    """
    settings = config.compose(["checkpoint=none"], root="evaluate")
    tokens = settings["response_tokens"]
    temperature = settings["evaluation"]["temperature"]
    files = {"utils.py": UTILS}
    keys = [word for word in names if "=" in word]
    names = [word for word in names if "=" not in word]
    if keys and len(names) != 1:
        raise ValueError(f"{' '.join(keys)} needs exactly one benchmark to apply to: name one")
    gated = []
    for name in names:
        spec, dataset = benchmark_spec(name, keys)
        gated += [name] if dataset.gated else []
        problems = load_problems(spec, None, data_folder(root, name, dataset))
        files[f"{name}.jsonl"] = "".join(_row(problem) for problem in problems)
        source = str((folder / f"{name}.jsonl").absolute())
        task = _task(name, source, n_samples=n_samples, tokens=tokens, temperature=temperature)
        files[f"{name}.yaml"] = task
    write_many(folder, files)
    tasks = ",".join(f"fgrpo_{name}" for name in names)
    system = json.dumps(settings["prompt"]["system"], ensure_ascii=False)
    return (
        f"wrote {', '.join(files)} into {folder}\n{_warning(gated)}"
        f"lm_eval --model hf --model_args pretrained=<model> --include_path {folder} "
        f"--tasks {tasks} --apply_chat_template --system_instruction {system} --log_samples "
        "--output_path out\n"
        "fgrpo-bench evaluate import out/<model>/samples_fgrpo_<benchmark>_<date>.jsonl "
        "--benchmark <benchmark> --name <name>"
    )


def _warning(gated: Sequence[str]) -> str:
    """What is said where benchmarks are among them whose text must not be passed on."""
    if not gated:
        return ""
    named = ", ".join(f"{name}.jsonl" for name in gated)
    return (
        f"warning: {named} holds the problems and answers of a gated benchmark as text, which its "
        "publisher asks not to show to others: keep it out of repositories and off web pages, and "
        "lm-eval's sample logs likewise\n"
    )


def _row(problem: Problem) -> str:
    fields = ("benchmark", "problem_id", "prompt", "target", "grader")
    return json.dumps({name: getattr(problem, name) for name in fields}) + "\n"


def _task(name: str, source: str, *, n_samples: int, tokens: int, temperature: float) -> str:
    """A task as lm-eval reads it: all of a problem's draws are judged, not the first alone."""
    return f"""task: fgrpo_{name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {json.dumps(source)}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{target}}}}"
process_results: !function utils.process_results
repeats: {n_samples}
filter_list:
  - name: all
    filter: [{{function: take_first_k, k: {n_samples}}}]
generation_kwargs:
  {{until: [], do_sample: true, temperature: {temperature}, max_gen_toks: {tokens}}}
metric_list:
  - {{metric: correct, aggregation: mean, higher_is_better: true}}
  - {{metric: unscored, aggregation: mean, higher_is_better: false}}
metadata: {{version: 1.0}}
"""
