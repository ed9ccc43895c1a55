"""The data stage: obtain the source file, read its rows, apply the rules, write the table.

In: a dataset's declaration (`specs.DatasetSpec`). Out: problems.parquet (tables.PROBLEMS) and the
record data.lock.json, which says where every byte came from and what each rule left; a source that
was fetched before is used again only if it has the digest that stands there. `fetch` downloads,
`layouts` knows how publishers lay out a row, `dataset_problems` (`fgrpo_bench.data`) reads the
table back.

No error tells anything of a row's content: some datasets may not be shown in plain text.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from fgrpo_bench.core import registry
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data import (
    DatasetFacts,
    DatasetLock,
    DatasetMarker,
    DatasetSource,
    Prepared,
    Rule,
    TokenizerSource,
)
from fgrpo_bench.data.fetch import fetch_file
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.files.whole import read_record, write_json
from fgrpo_bench.graders import BOXED, grader_version
from fgrpo_bench.graders.math_notation import stored_gold
from fgrpo_bench.graders.maze import checked_maze
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.stored import FetchSpec
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.stages.tables import PROBLEMS, write_table

GOLDS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(sorted(BOXED), stored_gold),
    **dict.fromkeys(("maze", "maze-reached"), checked_maze),
}
"""What makes of a published gold the one that a grader gets, or refuses it by a ValueError; other
graders get it as it is."""
DIGITS = 12
"""Of the digest that stands for a cluster of a gated dataset."""
CHUNK = 1_000
"""Rows whose tokens are counted at once."""
READ_AT_ONCE = 2_000
"""Rows that are held with all their columns."""


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
    rows = read_rows(source, keys, layout=dataset.layout)
    count = None
    if dataset.max_tokens is not None:
        tokenizer, pinned_tokenizer = _tokenizer(dataset, paths, lock, run)
        lock = replace(lock, tokenizer=pinned_tokenizer)
        write_json(paths.lock, lock.as_json())
        count = _counter(tokenizer, run)
    table, rules = select(rows, dataset, count)
    if table.is_empty():
        raise ValueError(
            f"none of the {len(rows)} rows of {source} is left ("
            + "; ".join(f"{rule.rule}: {rule.rows_after}" for rule in rules)
            + "): check prompt_key, answer_key and max_tokens"
        )
    remark = describe(dataset, len(table))
    if dataset.exact_rows and _expected(dataset) not in (None, len(table)):
        raise ValueError(
            f"{remark}: {source} is not the benchmark that was meant; fetch the revision that has "
            "them (dataset.revision), or set dataset.expected_rows where this one is meant"
        )
    write_table(paths.problems, table, PROBLEMS)
    result = Prepared(rows=len(table), sha256=sha256_file(paths.problems))
    lock = replace(lock, rules=tuple(rules), result=result, remark=remark)
    write_json(paths.lock, lock.as_json())
    run.leave(paths.problems, paths.lock)
    print(remark, flush=True)
    return DatasetFacts(
        rows=result.rows, sha256=result.sha256, source_sha256=pinned.sha256, remark=remark
    )


def select(
    rows: pl.DataFrame, dataset: DatasetSpec, count: Callable[[list[str]], list[int]] | None
) -> tuple[pl.DataFrame, list[Rule]]:
    """The table (tables.PROBLEMS) and, rule by rule, the rows before and after.

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
    if dataset.deduplicate:
        problem = prompt.str.replace_all(r"\s+", " ").str.strip_chars()
        kept = kept.with_columns(
            problem.alias("_problem"),
            pl.Series("_answer", _golds(kept, dataset, str.strip), dtype=pl.String),
        )
        # before copies are dropped: of two answers to one problem nobody knows which is right
        agreed = pl.col("_answer").n_unique().over("_problem") == 1
        kept = apply("copies of a problem agree on the answer", kept.filter(agreed))
        first = kept.unique("_problem", keep="first", maintain_order=True)
        kept = apply("one copy of a problem", first)
    if dataset.limit is not None:
        kept = apply(f"the first {dataset.limit}", kept.head(dataset.limit))
    number = pl.col("row").cast(pl.String).str.zfill(6)
    table = kept.select(
        problem_id=pl.concat_str(pl.lit(f"{dataset.name}-"), number),
        prompt=prompt,
        answer=answer,
        gold_used=pl.Series(_golds(kept, dataset, str), dtype=pl.String),
        cluster=pl.Series(_clusters(kept, dataset), dtype=pl.String),
    )
    return table.cast(PROBLEMS), rules


def _golds(
    rows: pl.DataFrame, dataset: DatasetSpec, otherwise: Callable[[str], str]
) -> Iterator[str]:
    """What the grader gets of each row; ValueError that names one whose gold it refuses.

    otherwise: for a grader that has nothing in GOLDS.
    """
    says = GOLDS.get(dataset.grader, otherwise)
    for number, gold in rows.select("row", dataset.answer_key).iter_rows():
        try:
            yield says(gold)
        except ValueError as error:
            raise ValueError(
                f"row {number} of dataset {dataset.name}, column {dataset.answer_key}: {error}; "
                "mend that row, or leave it out"
            ) from error


def _clusters(rows: pl.DataFrame, dataset: DatasetSpec) -> Iterator[str | None]:
    """What each row shares with others; None where the column is empty, and without one. That of a
    gated dataset is a digest, since tables with clusters are shown to others."""
    if dataset.cluster is None:
        yield from [None] * len(rows)
        return
    for name in rows[dataset.cluster]:
        is_empty = name is None or not name.strip()
        yield None if is_empty else fingerprint(name)[:DIGITS] if dataset.gated else name


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
            raise FileNotFoundError(f"{path} is no file: `path` must name the dataset")
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
    wanted = dataset.sha256 or _pin(pinned, run) or source.sha256
    if source.sha256 != wanted:
        where = "the spec pins" if dataset.sha256 else f"{paths.lock} pinned"
        raise ValueError(
            f"{path} has sha256 {source.sha256}, but {where} {wanted}: it is not the file that "
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


def _stop(run: StageRun, done: int, of: int) -> None:
    if run.stopping and done < of:
        raise Stopped(f"{done} of {of} bytes have arrived")


# Rows of a JSON, JSON Lines, CSV or Parquet file as text columns.

SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")
PROMPTS = ("prompt", "question", "problem"), ("instruction", "query", "input")
ANSWERS = (
    ("answer", "gold", "target", "expected_answer", "final_answer", "ground_truth"),
    ("solution", "label", "output", "reference"),
)
"""Names of columns that are taken where none is given; the latter where there is none of the
former, as `solution` is often the way to `answer`."""


def column_names(path: Path) -> list[str]:
    """The columns of a file's first row; raises as `read_rows`."""
    return list(next(iter(_rows_of(path)), {}))


def column_of(
    option: str,
    given: str | None,
    columns: Sequence[str],
    usual: Sequence[Sequence[str]],
    path: Path,
) -> str:
    """The column that an option names, or the only one of a usual name; ValueError where neither
    says which."""
    there = f"{path} has the columns {', '.join(columns)}"
    if given is not None:
        if given not in columns:
            raise ValueError(f"{option} {given}{suggestion(given, columns)}: {there}")
        return given
    by_tier = ([name for name in columns if name.lower() in names] for names in usual)
    fitting = next(filter(None, by_tier), [])
    if len(fitting) != 1:
        why = f"{' and '.join(fitting)} may be meant" if fitting else "none has a usual name"
        raise ValueError(f"{there}, of which {why}: name one with {option}")
    return fitting[0]


def read_rows(path: Path, keys: list[str], *, layout: str = "plain") -> pl.DataFrame:
    """The named columns as text, in the order of the file, with the row number in `row`.

    keys: first those of the prompt and of the gold, which the layout fills
    (fgrpo_bench.data.layouts). Numbers become their shortest text and null stays null. Raises
    ValueError that names the file where it is empty, of an unknown kind, damaged, without a column,
    of another layout, or holds nested values.
    """
    names = tuple(dict.fromkeys(keys))
    schema = {"row": pl.Int64} | dict.fromkeys(names, pl.String)
    parts: list[pl.DataFrame] = []
    with _counter_of_rows(path.name) as count_rows:
        for start, rows in _chunks(_rows_of(path)):
            columns = sorted({key for row in rows for key in row})
            for key in () if parts else names:
                if key not in columns:
                    raise ValueError(
                        f"{path} has no column {key!r}; it has {', '.join(columns)}: name one of "
                        "these as prompt_key, answer_key, token_field or cluster"
                    )
            numbered = range(start, start + len(rows))
            texts: dict[str, list[str | None]] = {name: [] for name in names}
            for number, row in zip(numbered, rows, strict=True):
                arranged = _arranged(row, keys, layout, f"{path}, row {number}")
                for name in names:
                    where = f"{path}, row {number}, column {name!r}"
                    texts[name].append(_text(arranged.get(name), where))
            parts.append(pl.DataFrame({"row": numbered} | texts, schema=schema))
            count_rows(numbered.stop)
    if not parts:
        raise ValueError(f"{path} holds no rows: a dataset needs at least one; fetch it again")
    return pl.concat(parts)


def _chunks(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Rows by READ_AT_ONCE with the number of the first, so that columns that are not wanted are
    never held for a whole file."""
    rows = iter(rows)
    start = 0
    while chunk := list(islice(rows, READ_AT_ONCE)):
        yield start, chunk
        start += len(chunk)


@contextmanager
def _counter_of_rows(name: str) -> Iterator[Callable[[int], None]]:
    """What shows a person on a terminal how many rows of a file are read."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done: bar.update(task, description=f"{name}: {done:,} rows read")


def _rows_of(path: Path) -> Iterator[dict[str, Any]]:
    readers = {".json": _json, ".jsonl": _json, ".csv": _csv, ".parquet": _parquet}
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file: give the path of a dataset")
    if path.suffix not in readers:
        raise ValueError(
            f"{path} ends in {path.suffix!r}: a dataset is a {', '.join(readers)} file; convert it"
        )
    return readers[path.suffix](path)


def _arranged(row: dict[str, Any], keys: list[str], layout: str, where: str) -> dict[str, Any]:
    prompt, answer = keys[:2]
    try:
        values = registry.entry("layouts", layout)(row, prompt, answer)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        lacks = f": it lacks the column {error}" if isinstance(error, KeyError) else ""
        raise ValueError(
            f"{where} is not of layout={layout}{lacks}; fetch the file again, or name the layout "
            "that it has"
        ) from None
    return row | {prompt: values[0], answer: values[1]}


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with _text_file(path, newline="") as file:
        try:
            for number, row in enumerate(csv.DictReader(file, strict=True)):
                if None in row or None in row.values():
                    raise csv.Error(f"row {number} has another number of fields than the heading")
                yield row
        except csv.Error as error:
            raise ValueError(f"{path} is no readable CSV file ({error}): fetch it again") from None


def _json(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON array, or of one JSON object a line."""
    with _text_file(path) as file:
        first = next((line for line in file if line.strip()), "")
        file.seek(0)
        if first.lstrip().startswith("["):
            rows = _parsed(file.read(), str(path))
            yield from (_row(row, path, i) for i, row in enumerate(rows))
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(_parsed(line, f"{path}, line {number},"), path, number - 1)


@contextmanager
def _text_file(path: Path, newline: str = "\n") -> Iterator[TextIO]:
    """newline: as of `open`; in JSON Lines a line ends with a newline alone."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is no text in UTF-8 (byte {error.start}): it is damaged or of another kind "
            "than its name says; convert it"
        ) from error


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{where} is no JSON ({error}): the file is damaged or of another kind; fetch it again"
        ) from error


def _row(value: Any, path: Path, number: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}, row {number} is {type(value).__name__}: a row is an object with named "
            "columns; convert the file"
        )
    return value


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        frame = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path} is no readable Parquet file ({str(error).splitlines()[0]}): fetch it again"
        ) from error
    yield from frame.iter_rows(named=True)


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    raise ValueError(
        f"{where} holds {type(value).__name__}: prompts, answers and clusters are text or numbers; "
        "write them out as text first"
    )
