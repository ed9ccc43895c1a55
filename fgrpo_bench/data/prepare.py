"""The data stage: obtain the source file, read its rows, apply the rules, write the table.

In: a dataset's declaration (`specs.DatasetSpec`). Out: problems.parquet (tables.PROBLEMS), the
short columns beside them (columns.parquet) and the record data.lock.json, which says where every
byte came from and what each rule left; a source that was fetched before is used again only if it
has the digest that stands there. `fetch` downloads, `rows` reads files, `layouts` knows how
publishers lay out a row, `golds` what a short answer is, and `dataset_problems` and
`problem_columns` (`fgrpo_bench.data`) read the tables back.

Every gold is graded against itself: a file with one that fails is refused; of a publisher's
training set, where these are few, it is said. No error tells anything of a row of a gated dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data import (
    DatasetFacts,
    DatasetLock,
    DatasetMarker,
    DatasetSource,
    Prepared,
    Rule,
    TokenizerSource,
    golds,
)
from fgrpo_bench.data.fetch import fetch_file
from fgrpo_bench.data.layouts import DUMP, content_id
from fgrpo_bench.data.rows import ShortColumns, read_rows
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.files.whole import read_record, write_json
from fgrpo_bench.graders import BOXED, CHOICE, GRADERS, Grader, get_grader, grader_version, waits
from fgrpo_bench.graders.recorded import is_recorded
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.stored import FetchSpec
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.stages.tables import PROBLEMS, write_table

DIGITS = 12
"""Of the digest that stands for a cluster of a gated dataset."""
CHUNK = 1_000
"""Rows whose tokens are counted at once, and golds that are tried before progress is told."""
TRIED_AT_ONCE = 8
"""Golds, where each waits for a process."""
MOST_FAILING = 0.01
"""Share of a publisher's training set whose golds may fail: some have a few rows without one, while
a wrong column fails throughout."""
SHOWN = 80
"""Most characters of a refused gold that a message shows."""


def prepare(spec: FetchSpec, run: StageRun) -> DatasetFacts:
    """Run a data stage; returns facts for its completion marker."""
    dataset = spec.dataset_spec
    grader_version(dataset.grader)  # an unknown grader is refused before anything is fetched
    paths = DataPaths(run.paths.folder)
    lock = _lock(paths, spec.fingerprint)
    source, pinned = _source(dataset, paths, lock, run)
    lock = replace(lock, source=pinned)
    # written before the rows are read: a run that is killed now finds the same bytes pinned
    write_json(paths.lock, lock.as_json())
    further = filter(None, (dataset.token_field, dataset.cluster))
    keys = [dataset.prompt_key, dataset.answer_key, *further]
    short_columns = ShortColumns()
    rows = read_rows(
        source,
        keys,
        layout=dataset.layout,
        options=dataset.options,
        short_columns=short_columns,
    )
    count = None
    if dataset.max_tokens is not None:
        tokenizer, pinned_tokenizer = _tokenizer(dataset, paths, lock, run)
        lock = replace(lock, tokenizer=pinned_tokenizer)
        write_json(paths.lock, lock.as_json())
        count = _counter(tokenizer, run)
    table, rules, taken = select(rows, dataset, count)
    if table.is_empty():
        raise ValueError(
            f"none of the {len(rows)} rows of {source} is left ("
            + "; ".join(f"{rule.rule}: {rule.rows_after}" for rule in rules)
            + "): check the columns (--prompt and --answer, or prompt_key and answer_key) and "
            "max_tokens"
        )
    remark = describe(dataset, len(table))
    if dataset.exact_rows and _expected(dataset) not in (None, len(table)):
        raise ValueError(
            f"{remark}: {source} is not the benchmark that was meant; fetch the revision that has "
            "them (dataset.revision), or set dataset.expected_rows where this one is meant"
        )
    faults = find_faults(table, dataset, taken["_refused"], partial(_tried, run))
    fault = describe_faults(faults, dataset)
    if fault is not None and not _is_kept(dataset, len(faults) / len(table)):
        raise ValueError(fault)
    write_table(paths.problems, table, PROBLEMS)
    columns = short_columns.take_rows(taken["row"], table["problem_id"])
    write_table(paths.columns, columns, columns.schema)
    result = Prepared(rows=len(table), sha256=sha256_file(paths.problems))
    answers = "; ".join(filter(None, (golds.forms_summary(taken["_form"]), fault))) or None
    lock = replace(lock, rules=tuple(rules), result=result, remark=remark, answers=answers)
    lock = replace(lock, columns_sha256=sha256_file(paths.columns))
    write_json(paths.lock, lock.as_json())
    run.register_outputs(paths.problems, paths.columns, paths.lock)
    print(*filter(None, (remark, answers)), sep="; ", flush=True)
    return DatasetFacts(
        rows=result.rows, sha256=result.sha256, source_sha256=pinned.sha256, remark=remark
    )


def file_table(dataset: DatasetSpec) -> tuple[pl.DataFrame, list[str]]:
    """The table of a dataset of a file on this machine, its golds tried, and for a person where
    they stood (`golds.forms_summary`) and the `remarks`; nothing is written. Raises as
    `prepare`."""
    keys = [dataset.prompt_key, dataset.answer_key, *filter(None, [dataset.cluster])]
    rows = read_rows(Path(dataset.path), keys, layout=dataset.layout, options=dataset.options)
    table, rules, taken = select(rows, dataset, None)
    faults = find_faults(table, dataset, taken["_refused"], lambda done, of: None)
    if fault := describe_faults(faults, dataset):
        raise ValueError(fault)
    answers = golds.forms_summary(taken["_form"])
    return table, [*filter(None, [answers]), *remarks(table, rules)]


def remarks(table: pl.DataFrame, rules: Sequence[Rule], *, has_clusters: bool = False) -> list[str]:
    """For a person: rows that lack a problem or an answer, and problems that stand in several rows,
    with one answer or with different ones. table, rules: as from `select`. has_clusters: whether
    --cluster could name what copies share."""
    lines = []
    first, *_ = rules
    if empty := first.rows_before - first.rows_after:
        lines.append(
            f"left out: {empty:,} of {first.rows_before:,} rows lack a problem or an answer"
        )
    problems = table.group_by("prompt").agg(pl.col("gold_used").n_unique())
    if copies := len(table) - len(problems):
        shared = ", or name what they share with --cluster" if has_clusters else ""
        lines.append(
            f"copies: {copies:,} of {len(table):,} problems have the text of another one, but "
            f"intervals take problems as independent; drop the copies{shared}"
        )
    if disagreeing := problems.filter(pl.col("gold_used") > 1).height:
        lines.append(
            f"different answers: {disagreeing:,} of these texts have several; keep the right one"
        )
    return lines


def _is_kept(dataset: DatasetSpec, failing: float) -> bool:
    """Whether a file of which this share of the golds fails is taken, and that is said alone: a
    publisher's training set, of which nobody mends a row."""
    is_training_set = dataset.repository is not None and not dataset.exact_rows
    return is_training_set and failing <= MOST_FAILING


def select(
    rows: pl.DataFrame, dataset: DatasetSpec, count: Callable[[list[str]], list[int]] | None
) -> tuple[pl.DataFrame, list[Rule], pl.DataFrame]:
    """The table (tables.PROBLEMS), rule by rule the rows before and after, and of each row of the
    table its number in the file (row), where its gold stood (_form) and why it is none of its
    grader (_refused, empty where it is one), as `golds.Gold` has them.

    rows: as from read_rows. count: tokens of texts; None without a length limit.
    """
    rules: list[Rule] = []

    def apply(rule: str, kept: pl.DataFrame) -> pl.DataFrame:
        before = rules[-1].rows_after if rules else len(rows)
        rules.append(Rule(rule=rule, rows_before=before, rows_after=len(kept)))
        return kept

    prompt, answer = pl.col(dataset.prompt_key), pl.col(dataset.answer_key)
    filled = [column.str.strip_chars().fill_null("") != "" for column in (prompt, answer)]
    kept = apply("prompt and answer are not empty", rows.filter(*filled))
    if count is not None and dataset.token_field is not None:
        tokens = pl.Series(count(kept[dataset.token_field].fill_null("").to_list()), dtype=pl.Int64)
        kept = apply(
            f"at most {dataset.max_tokens} tokens of {dataset.tokenizer} in {dataset.token_field}",
            kept.filter(tokens <= dataset.max_tokens),
        )
    kept = _with_golds(kept, dataset)
    if dataset.deduplicate:
        problem = prompt.str.replace_all(r"\s+", " ").str.strip_chars()
        kept = kept.with_columns(problem.alias("_problem"))
        # before copies are dropped: of two answers to one problem nobody knows which is right
        agreed = pl.col("_gold").str.strip_chars().n_unique().over("_problem") == 1
        kept = apply("copies of a problem agree on the answer", kept.filter(agreed))
        first = kept.unique("_problem", keep="first", maintain_order=True)
        kept = apply("one copy of a problem", first)
    if dataset.limit is not None:
        kept = apply(f"the first {dataset.limit}", kept.head(dataset.limit))
    number = pl.col("row").cast(pl.String).str.zfill(6)
    if dataset.layout == DUMP:
        texts = kept.select(dataset.prompt_key, dataset.answer_key).iter_rows()
        number = pl.lit(pl.Series([content_id(*row) for row in texts], dtype=pl.String))
    table = kept.select(
        problem_id=pl.concat_str(pl.lit(f"{dataset.name}-"), number),
        prompt=prompt,
        answer=answer,
        gold_used="_gold",
        cluster=pl.Series(_clusters(kept, dataset), dtype=pl.String),
    )
    return table.cast(PROBLEMS), rules, kept.select("row", "_form", "_refused")


def _with_golds(rows: pl.DataFrame, dataset: DatasetSpec) -> pl.DataFrame:
    """With the columns _gold (what a grader gets), _form (where it stood) and _refused (why it is
    none, else empty)."""
    answers = rows.select(dataset.prompt_key, dataset.answer_key).rows()
    understood = golds.understood(answers, dataset.grader)
    columns = {
        "_gold": [gold.text for gold in understood],
        "_form": [gold.form for gold in understood],
        "_refused": [gold.refused or "" for gold in understood],
    }
    return rows.with_columns(pl.Series(n, texts, pl.String) for n, texts in columns.items())


def find_faults(
    table: pl.DataFrame,
    dataset: DatasetSpec,
    refused: Iterable[str],
    tried: Callable[[int, int], None],
) -> list[tuple[str, str]]:
    """Problem id and reason of the golds that are none; where all are golds, of those that the
    grader does not call correct as a response.

    refused: of each row of the table, as from `select`. tried(golds so far, of): called as they
    are; it may raise.
    """
    faults = [
        (problem_id, f"{why}; mend that row, or leave it out")
        for problem_id, why in zip(table["problem_id"], refused, strict=True)
        if why
    ]
    return faults or _failing(table, dataset, tried)


def describe_faults(faults: Sequence[tuple[str, str]], dataset: DatasetSpec) -> str | None:
    """What is wrong with the first of these (`find_faults`), and how many there are; None where
    there are none."""
    if not faults:
        return None
    problem_id, why = faults[0]
    others = f" ({len(faults):,} rows fail)" if len(faults) > 1 else ""
    row = f"problem {problem_id}"
    if dataset.layout != DUMP:
        row = f"row {int(problem_id.rpartition('-')[2])} of dataset {dataset.name}"
    return f"{row}, column {dataset.answer_key}: {why}{others}"


def _failing(
    table: pl.DataFrame, dataset: DatasetSpec, tried: Callable[[int, int], None]
) -> list[tuple[str, str]]:
    """Problem id and reason of each gold that its grader does not call correct; of a grader of this
    package that takes other things than answers, of the first where it can judge none."""
    if is_recorded(dataset.grader):
        return []
    grader, unlike = get_grader(dataset.grader), dict[tuple[str, str], Problem]()
    per_prompt = dataset.grader not in BOXED  # in mathematics equal golds are tried once
    for row in table.iter_rows(named=True):
        problem = Problem(
            benchmark=dataset.name,
            problem_id=row["problem_id"],
            prompt=row["prompt"],
            target=row["gold_used"],
            grader=dataset.grader,
        )
        unlike.setdefault((problem.prompt if per_prompt else "", problem.target), problem)

    def fault(problem: Problem) -> tuple[str, str] | None:
        for response in golds.trials(problem.target, dataset.grader):
            if (verdict := grader(problem, response)).outcome != "correct":
                given = "its answer" if dataset.gated else repr(response[:SHOWN])
                shown = "" if dataset.gated else f" {problem.target[:SHOWN]!r}"
                return problem.problem_id, (
                    f"the gold{shown} fails against itself: {given} is graded {verdict.outcome} "
                    f"({verdict.reason}); name another column with --answer, another grader with "
                    "--grader (answer_key and grader in a benchmark's file), or leave the row out"
                )
        return None

    problems, faults = list(unlike.values()), list[tuple[str, str]]()
    if dataset.layout in ("plain", DUMP) and dataset.grader in GRADERS.keys() - BOXED - CHOICE:
        unjudged = list(takewhile(bool, (_unjudged(grader, problem) for problem in problems)))
        if len(unjudged) < len(problems):
            return []
        return [
            (
                problem.problem_id,
                f"the grader {dataset.grader} cannot judge it ({why}), nor any other: "
                "name another one with --grader (grader in a benchmark's file)",
            )
            for problem, why in zip(problems[:1], unjudged, strict=False)
        ]
    with ThreadPoolExecutor(TRIED_AT_ONCE if waits(dataset.grader) else 1) as pool:
        for start in range(0, len(problems), CHUNK):
            faults += filter(None, pool.map(fault, problems[start : start + CHUNK]))
            tried(min(start + CHUNK, len(problems)), len(problems))
    return faults


def _unjudged(grader: Grader, problem: Problem) -> str | None:
    """Why a grader says nothing of a problem's own gold as a response; None where it does."""
    try:
        verdict = grader(problem, problem.target)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return "it is of another form"
    return verdict.reason if verdict.outcome == "unscored" else None


def _tried(run: StageRun, done: int, total: int) -> None:
    if run.stopping and done < total:
        raise Stopped("the source is fetched; its golds are tried anew")
    run.progress(step=done, of=total)


def _clusters(rows: pl.DataFrame, dataset: DatasetSpec) -> Iterator[str | None]:
    """What each row shares with others; None where the column is empty, and without one. That of a
    gated dataset is a digest, since tables with clusters are shown to others."""
    if dataset.cluster is None:
        yield from [None] * len(rows)
        return
    for name in rows[dataset.cluster]:
        if name is None or not name.strip():
            yield None
        else:
            yield fingerprint(name)[:DIGITS] if dataset.gated else name


def _expected(dataset: DatasetSpec) -> int | None:
    if dataset.expected_rows is None or dataset.limit is None:
        return dataset.expected_rows
    return min(dataset.expected_rows, dataset.limit)


def describe(dataset: DatasetSpec, rows: int) -> str:
    """One sentence for a person: the count, and by which rule where another one was expected."""
    if _expected(dataset) in (None, rows):
        return f"{dataset.name}: {rows} rows"
    length = (
        "no length limit"
        if dataset.max_tokens is None
        else f"rows of more than {dataset.max_tokens} tokens of {dataset.tokenizer} in the column "
        f"{dataset.token_field} dropped"
    )
    copies = "conflicting copies dropped" if dataset.deduplicate else "copies kept"
    return (
        f"{dataset.name}: {rows} rows where {dataset.expected_rows} were expected, with {length} "
        f"and {copies}"
    )


def _lock(paths: DataPaths, mark: str) -> DatasetLock:
    if not paths.lock.exists():
        return DatasetLock(fingerprint=mark)
    lock = read_record(paths.lock, DatasetLock)
    if lock.fingerprint != mark:
        raise ValueError(
            f"{paths.lock} records data of fingerprint {lock.fingerprint}, but this stage "
            f"has {mark}: data of different rules do not share a folder; give this one another"
        )
    return lock


def _source(
    dataset: DatasetSpec, paths: DataPaths, lock: DatasetLock, run: StageRun
) -> tuple[Path, DatasetSource]:
    """The source file, its digest checked, and what the lock is to say of it."""
    pinned = lock.source
    if dataset.repository is None:
        path = Path(dataset.path)
        if not path.is_file():
            raise FileNotFoundError(
                f"path={path} is no file: it names the problems of {dataset.name} on this machine, "
                "e.g. path=problems.jsonl"
            )
        source = DatasetSource(path=dataset.path, sha256=sha256_file(path))
    else:
        path = paths.source / dataset.path
        if pinned is not None and path.is_file():
            source = replace(pinned, sha256=sha256_file(path))
        else:
            fetched = fetch_file(
                dataset.repository,
                dataset.path,
                kind="dataset",
                revision=dataset.revision if pinned is None else pinned.revision,
                folder=paths.source,
                on_progress=partial(_stop, run),
            )
            path = fetched.path
            source = DatasetSource(
                publisher=fetched.endpoint,
                repository=dataset.repository,
                revision=fetched.revision,
                path=dataset.path,
                sha256=sha256_file(path),
            )
    expected = dataset.sha256 or _pin(pinned, run) or source.sha256
    if source.sha256 != expected:
        where = "the spec pins" if dataset.sha256 else f"{paths.lock} pinned"
        raise ValueError(
            f"{path} has sha256 {source.sha256}, but {where} {expected}: it is not the file that "
            "was meant; restore that one, or change the pin where the new one is meant"
        )
    return path, source


def _pin(pinned: DatasetSource | None, run: StageRun) -> str | None:
    """Digest of what was fetched before; that of a lost lock is in the marker."""
    if pinned is not None:
        return pinned.sha256
    if run.former is None:
        return None
    return DatasetMarker.parsed(run.former.as_json()).source_sha256


def _tokenizer(
    dataset: DatasetSpec, paths: DataPaths, lock: DatasetLock, run: StageRun
) -> tuple[Path, TokenizerSource]:
    """The file of the tokenizer that counts, and what the lock is to say of it."""
    assert dataset.tokenizer is not None
    path = Path(dataset.tokenizer) / "tokenizer.json"
    if path.is_file():
        return path, TokenizerSource(name=dataset.tokenizer, sha256=sha256_file(path))
    fetched = fetch_file(
        dataset.tokenizer,
        "tokenizer.json",
        kind="model",
        revision=None if lock.tokenizer is None else lock.tokenizer.revision,
        folder=paths.tokenizer,
        on_progress=partial(_stop, run),
    )
    return fetched.path, TokenizerSource(
        name=dataset.tokenizer,
        publisher=fetched.endpoint,
        revision=fetched.revision,
        sha256=sha256_file(fetched.path),
    )


def _counter(path: Path, run: StageRun) -> Callable[[list[str]], list[int]]:
    """Counts tokens without special ones. path: of the tokenizer's file."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))

    def count(texts: list[str]) -> list[int]:
        lengths: list[int] = []
        for start in range(0, len(texts), CHUNK):
            if run.stopping:
                raise Stopped("the source is fetched; its tokens are counted anew")
            part = tokenizer.encode_batch(texts[start : start + CHUNK], add_special_tokens=False)
            lengths += [len(encoding) for encoding in part]
            run.progress(step=len(lengths), of=len(texts))
        return lengths

    return count


def _stop(run: StageRun, done: int, total: int) -> None:
    if run.stopping and done < total:
        raise Stopped(f"{done} of {total} bytes have arrived")
