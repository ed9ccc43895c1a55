"""Draws and problems exchanged with other programs: their draws imported, our prompts exported.

In: a file of responses, or names of benchmarks. Out: an evaluation under evals/ whose draws are
stored, graded (`stored.regrade`) and scored like our own, and marked done only then; or a folder of
tasks for lm-evaluation-harness.

Two kinds of JSON Lines are read, and inspect's logs (.json, .eval), whose epochs are the draws.
lm-eval's `samples_<task>_*.jsonl` (written by --log_samples):

    {"doc_id": 0, "doc": {"problem_id": "math500-000000", ...}, "resps": [["...", "..."]], ...}

and completions, a line a problem or a draw:

    {"problem_id": "math500-000000", "responses": ["...", "..."]}
    {"problem": "Convert the point $(0,3)$ ...", "response": "...", "n_tokens": 512}

A problem is known by its id or by its text. Nothing of a file is ever run, and whatever is wrong
with one is a ValueError that names file and line.

An exported task is judged there by this package's graders, so fgrpo_bench has to be installed
beside lm-eval. With --log_samples its log holds every draw, which can be imported again.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.layouts import without_options
from fgrpo_bench.files.paths import StagePaths, check_inside
from fgrpo_bench.files.unpacked import check_zip
from fgrpo_bench.files.whole import now, write_json, write_many
from fgrpo_bench.graders import grader_version
from fgrpo_bench.kinds.benchmarks import graders_of, load_problems, passk_path
from fgrpo_bench.kinds.evaluate import EvaluationSpec, versions
from fgrpo_bench.specs import BenchmarkSpec, check_name, config, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.markers import Marker, described, write_marker
from fgrpo_bench.stages.tables import DRAWS, write_table

from .standalone import data_folder
from .stored import StoredDraws, benchmark_spec, regrade


def import_file(
    path: Path, spec: BenchmarkSpec, *, name: str, root: Path, subset: bool
) -> tuple[StoredDraws, list[str]]:
    """Store the draws of a file under evals/<name>, to be graded and then marked as done; and lines
    on what of the file was passed over.

    spec: a benchmark with a dataset. subset: whether the file may leave problems out. Raises
    ValueError for a name that is none, ids that are unknown, draws that are doubled and problems of
    unequal n.
    """
    said: list[str] = []
    check_name("--name", name)
    benchmark = spec.name
    if spec.dataset is None:
        raise ValueError(f"{benchmark} has no dataset, whose problems a file could be of")
    data = data_folder(root, benchmark, spec.dataset)
    problems = load_problems(spec, None, data)
    rows = read_rows(path, said, subset=subset)
    draws = table(list(responses(path, rows, problems, said)))
    n_samples = check_numbers(path, draws, problems, subset=subset)
    sha256 = sha256_file(path)
    # without the graders, so that another import of the same file by more of them is the same
    drawn_on = replace(spec, extra_graders=())
    identity = {"import": sha256, "benchmark": to_dict(drawn_on)}
    mark = fingerprint(identity)
    stage = StagePaths(root / "evals" / name / "eval" / f"imported-{mark[:8]}" / "step-00000")
    check_inside(stage.folder, root / "evals")
    target = {
        "n_samples": n_samples,
        "ks": [2**i for i in range(n_samples.bit_length())],
        "graders": versions({benchmark: spec}),
    }
    stored = StoredDraws(
        stage=stage,
        paths=stage.benchmark(benchmark),
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
                "benchmarks": {benchmark: to_dict(spec)},
                "n_samples": n_samples,
                "ks": target["ks"],
            },
            data={benchmark: str(data.absolute())},
        ),
    )
    write_json(stage.spec, stored.spec.as_json())
    write_table(stored.paths.draws, draws, DRAWS)
    engine = {"engine": "imported", "file": path.name, "sha256": sha256}
    prompts = fingerprint([[p.problem_id, p.prompt] for p in problems])
    manifest = DrawsRecord(
        fingerprint=mark, weights_sha256=None, prompts_sha256=prompts, engines=(engine,)
    )
    write_json(stored.paths.manifest, manifest.as_json())
    return stored, said


def take_in(
    path: Path, spec: BenchmarkSpec, *, name: str, root: Path, subset: bool
) -> tuple[StoredDraws, str]:
    """Import a file, grade and score it, and mark it as done; what was stored, and what there is to
    say. Raises as `import_file`."""
    stored, said = import_file(path, spec, name=name, root=root, subset=subset)
    said.append(regrade(stored, None))
    _conclude(stored)
    return stored, "\n".join(said)


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


def table(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """tables.DRAWS; seed and what follows the response are null where nobody knows them."""
    return pl.DataFrame(rows, schema=DRAWS, orient="row").sort("problem_id", "draw")


def check_numbers(
    path: Path, draws: pl.DataFrame, problems: Sequence[Problem], *, subset: bool
) -> int:
    """Draws per problem; ValueError where they differ or problems are missing."""
    counts = draws.group_by("problem_id").len().sort("len", "problem_id")
    fewest, most = counts.row(0), counts.row(-1)
    if fewest[1] != most[1]:
        raise ValueError(
            f"{path}: problem {fewest[0]} has {fewest[1]} draws and problem {most[0]} has "
            f"{most[1]}: what another program drew is scored as a fixed number of draws, the same "
            "for every problem, and pass@k is too high where problems stopped at correct ones; "
            "draw what is missing, or keep the first ones of every problem, as many as each was "
            "sure to make before any was judged"
        )
    if len(counts) < len(problems) and not subset:
        raise ValueError(
            f"{path} has {len(counts)} of the benchmark's {len(problems)} problems: add the "
            "others, or score these alone with --subset"
        )
    return int(most[1])


# Lines in, rows of tables.DRAWS out.

ENDS = {"stop": "stop", "max_tokens": "length", "model_length": "length"}
"""Of a response, by inspect's name of it."""
UNREADABLE: tuple[type[Exception], ...] = (OSError, BadZipFile, ValueError, RecursionError)
UNREADABLE += (LookupError, TypeError, AttributeError)
"""What a file raises that is no log of inspect."""
PARQUET = b"PAR1"
"""The first bytes of such a file."""
MOST_DRAWS = 10_000_000
"""Of a problem, and of what else is counted in a line."""
NumberedRow = tuple[int, dict[str, Any]]
"""A line's number in its file, from 1, and its object."""


def read_rows(path: Path, said: list[str], *, subset: bool) -> list[NumberedRow]:
    """One JSON object a line, where empty ones are passed over; or the samples of inspect's log, of
    which those of problems with an error are left out where a subset is meant, and said."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file: give a JSON Lines file of responses")
    if path.suffix in (".json", ".eval"):
        return list(enumerate(_inspect_rows(path, said, subset=subset), 1))
    rows: list[NumberedRow] = []
    with path.open("rb") as file:
        if file.read(4) == PARQUET:
            made = repr(str(path.with_suffix(".jsonl")))
            raise ValueError(
                f"{path} is Parquet: what was drawn is read from JSON Lines and from inspect's "
                f'logs; convert it: `python -c "import polars; '
                f'polars.read_parquet({str(path)!r}).write_ndjson({made})"`'
            )
        file.seek(0)
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{path}, line {number} is no JSON ({error}): mend the line; where the file is "
                    "of another kind, give JSON Lines or a log of inspect (.json, .eval)"
                ) from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number} is no JSON object: give one a line")
            rows.append((number, row))
    if not rows:
        raise ValueError(f"{path} holds no lines: give a JSON Lines file of responses")
    return rows


def _inspect_rows(path: Path, said: list[str], *, subset: bool) -> list[dict[str, Any]]:
    """The samples of a log of inspect as completions; ValueError where it is none, or where one
    ended in an error and no subset is meant."""
    rows: list[dict[str, Any]] = []
    try:
        if path.suffix == ".eval":
            with ZipFile(path) as archive:
                check_zip(path, archive, "samples/")
                names = [name for name in archive.namelist() if name.startswith("samples/")]
                samples = [json.loads(archive.read(name)) for name in names]
        else:
            samples = json.loads(path.read_text(encoding="utf-8"))["samples"]
        failed = [
            s
            for s in samples
            if (s.get("error") and not s.get("output")) or not s["output"]["choices"]
        ]
        left_out = {sample["id"] for sample in failed}
        for sample in samples:
            if sample["id"] in left_out:
                continue
            choice = sample["output"]["choices"][0]
            rows.append(
                {
                    "problem_id": sample["id"],
                    "problem": _content(sample["input"], role="user"),
                    "response": _content([choice["message"]], role="assistant"),
                    "draw": sample["epoch"] - 1,
                    "finish_reason": ENDS.get(choice.get("stop_reason")),
                }
            )
    except UNREADABLE as error:
        raise ValueError(
            f"{path} is no log of inspect with samples ({type(error).__name__}: {error}): give the "
            ".eval or .json file of a run whose samples were logged, or JSON Lines of responses"
        ) from error
    if failed:
        first = failed[0]
        failure = first.get("error")
        message = failure.get("message") if isinstance(failure, dict) else failure
        what = (
            f"{len(failed)} of {len(samples)} samples have no response, e.g. {_short(first['id'])} "
            f"in epoch {first.get('epoch')} with the error {_short(message)}"
        )
        problems = f"{len(left_out)} problem{'s' * (len(left_out) > 1)}"
        if not subset:
            raise ValueError(
                f"{path}: {what}: draw them again (`inspect eval-retry {shlex.quote(str(path))}`), "
                f"or leave their {problems} out with --subset"
            )
        said.append(f"left out: {problems}, as {what}")
    if not rows:
        raise ValueError(f"{path} has no sample with a response: give the log of another run")
    return rows


def _content(messages: Any, *, role: str) -> str:
    """A text, or that of the last message of a role; of its parts the text alone."""
    if isinstance(messages, str):
        return messages
    content = [message["content"] for message in messages if message["role"] == role][-1]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def responses(
    path: Path, rows: Sequence[NumberedRow], problems: Sequence[Problem], said: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows of tables.DRAWS, in the order of the file. said: gets what of it is passed over."""
    ids = {problem.problem_id for problem in problems}
    texts: dict[str, list[str]] = {}
    for problem in problems:
        texts.setdefault(_folded(problem.prompt), []).append(problem.problem_id)
    for problem in problems:  # where a file's options were put behind its questions
        question = _folded(without_options(problem.prompt))
        if question != _folded(problem.prompt):
            texts.setdefault(question, []).append(problem.problem_id)
    logged: dict[tuple[str, str], Any] = {}  # by doc_id and problem, where no filter is named
    others: dict[str, int] = {}  # lines of further filters
    complete: set[str] = set()  # problems that came with all their responses
    numbers: dict[str, int] = {}
    seen: dict[tuple[str, int], str] = {}
    chosen: str | None = None
    for line, row in rows:
        where = f"{path}, line {line}"
        if "resps" in row and "filter" in row:  # each draw is logged once a filter
            if not isinstance(row["filter"], str):
                raise ValueError(
                    f"{where}: filter is {_short(row['filter'])}: give the name of lm-eval's filter"
                )
            chosen = chosen or row["filter"]
            if row["filter"] != chosen:
                others[row["filter"]] = others.get(row["filter"], 0) + 1
                continue
        _check_fixed(row, where)
        problem_id = _problem(row, ids, texts, where)
        if "resps" in row and "doc_id" in row and "filter" not in row:  # as of an older lm-eval
            before = logged.setdefault((str(row["doc_id"]), problem_id), row["resps"])
            if before != row["resps"]:
                raise ValueError(
                    f"{where}: doc_id {_short(row['doc_id'])} came before with other responses, as "
                    "of another run: import a file of each run"
                )
            if before is not row["resps"]:
                others["without a name"] = others.get("without a name", 0) + 1
                continue
        own_texts = _texts(row, where)
        if problem_id in complete:
            raise ValueError(
                f"{where}: problem {problem_id} came with its responses before: its draws would be "
                "counted twice; leave one of the lines out"
            )
        if "response" not in row:
            complete.add(problem_id)
        given = _given(row, where)
        for text in own_texts:
            number = row.get("draw", numbers.get(problem_id, 0))
            if not _is_count(number) or (problem_id, number) in seen:
                raise ValueError(
                    f"{where}: draw {_short(number)} of problem {problem_id} came before or is no "
                    "number from 0: number the draws of a problem 0, 1, 2, ... or leave `draw` out"
                )
            seen[problem_id, number] = where
            numbers[problem_id] = number + 1
            yield (problem_id, number, None, text.encode("utf-8", "replace").decode(), *given, None)
    _check_gaps(seen)
    for name, count in others.items():
        said.append(f"passed over: {count} lines with the same draws for another filter, {name}")


def _check_gaps(seen: dict[tuple[str, int], str]) -> None:
    """ValueError for a problem whose draws are not numbered 0, 1, 2, ... to the last."""
    drawn: dict[str, int] = {}
    for problem_id, _ in seen:
        drawn[problem_id] = drawn.get(problem_id, 0) + 1
    for (problem_id, number), where in seen.items():
        if number >= drawn[problem_id]:
            raise ValueError(
                f"{where}: draw {number} of problem {problem_id}, which has {drawn[problem_id]} "
                "draws: number them 0, 1, 2, ... without gaps, or leave `draw` out"
            )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST_DRAWS


def _given(row: dict[str, Any], where: str) -> tuple[int | None, str | None]:
    """n_tokens and finish_reason of a line; None where they are not given."""
    n_tokens, finish_reason = row.get("n_tokens"), row.get("finish_reason")
    if n_tokens is not None and not _is_count(n_tokens):
        raise ValueError(
            f"{where}: n_tokens is {_short(n_tokens)}: give a number from 0 to {MOST_DRAWS:,}, or "
            "leave it out"
        )
    if finish_reason is not None and not isinstance(finish_reason, str):
        raise ValueError(
            f"{where}: finish_reason is {_short(finish_reason)}: give a text, or leave it out"
        )
    return n_tokens, finish_reason


def _check_fixed(row: dict[str, Any], where: str) -> None:
    """ValueError for draws of a design that stops, which their metadata name."""
    metadata = row.get("metadata")
    design = row.get("design") or (isinstance(metadata, dict) and metadata.get("design"))
    if design:
        raise ValueError(
            f"{where}: design is {_short(design)}, by which draws stop, and an import is scored as "
            "a fixed number of draws, so that its pass@k would be too high; draw under that design "
            "here (`fgrpo-bench evaluate run checkpoint=... design=...`), or import draws of a "
            "fixed number"
        )


def _problem(row: dict[str, Any], ids: set[str], texts: dict[str, list[str]], where: str) -> str:
    """The problem that a line is about."""
    doc = row["doc"] if isinstance(row.get("doc"), dict) else row
    if "problem_id" in doc and isinstance(doc["problem_id"], str) and doc["problem_id"] in ids:
        return doc["problem_id"]
    if "problem_id" in doc and "problem" not in doc:
        raise ValueError(
            f"{where}: unknown problem_id {_short(doc['problem_id'])}; those of this benchmark "
            f"look like {min(ids)!r}: use these, or give the text as `problem`"
        )
    known = [
        texts[folded]
        for value in doc.values()
        if isinstance(value, str) and (folded := _folded(value)) in texts
    ]
    if not known:
        raise ValueError(
            f"{where}: no problem_id, and no text that is a problem of this benchmark: give one of "
            f"the ids, e.g. {min(ids)!r}, or the problem's exact text as `problem`"
        )
    if len(known[0]) > 1:
        raise ValueError(
            f"{where}: problems {' and '.join(known[0])} have this text: name the one meant as "
            "`problem_id`, or drop the copies from the problems"
        )
    return known[0][0]


def _texts(row: dict[str, Any], where: str) -> list[str]:
    texts: Any = None
    if "resps" in row:
        if isinstance(row["resps"], list):
            texts = [
                text
                for group in row["resps"]
                for text in (group if isinstance(group, list) else [group])
            ]
    elif "responses" in row:
        texts = row["responses"]
    elif "response" in row:
        texts = [row["response"]]
    for number, text in enumerate(texts if isinstance(texts, list) else ()):
        if text is None:
            raise ValueError(
                f"{where}: response {number} is null, as of a draw that failed: draw it again, "
                'give "" where the model answered nothing, or leave the problem out of the file, '
                "with --subset"
            )
        if not isinstance(text, str):
            raise ValueError(f"{where}: response {number} is {_short(text)}: give a text")
    if not isinstance(texts, list) or not texts:
        raise ValueError(
            f"{where}: no responses: give `response` (a text), `responses` (a list of texts), or a "
            "line of lm-eval's sample log with `resps`"
        )
    return texts


def _folded(text: str) -> str:
    return " ".join(text.split())


def _short(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value)[:80]


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
