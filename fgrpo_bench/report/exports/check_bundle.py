"""Check a bundle of results: every file by its digest, and every mean pass@k from its counts.

    python verify.py                      in an unpacked bundle
    python verify.py <name>.tar.gz        a packed one
    python -m fgrpo_bench.report check-bundle <name>.tar.gz    the same, in a checkout

Nothing but Python's standard library is needed, and nothing of the bundle is run. Means are
computed in whole numbers and fractions, apart from the program that made them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import IO, Any

MANIFEST, COUNTS, ESTIMATES = "manifest.json", "counts.csv", "estimates.csv"
LARGEST = 2**28
"""Bytes of a table that is read into memory; more is an error."""
TOLERANCE = 1e-9
"""Between a mean in floating point and the same in fractions."""
Key = tuple[str, str, str, str]
"""Benchmark, cell, step and seed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 where everything agrees, else 1 with a line for everything that does not."""
    given = sys.argv[1:] if arguments is None else arguments
    path = Path(given[0]) if given else Path(__file__).resolve().parent
    if given[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    if len(given) > 1 or not path.exists():
        wrong = f"{len(given)} arguments" if len(given) > 1 else f"{path} does not exist"
        print(f"error: {wrong}: name one bundle, packed or unpacked (see --help)", file=sys.stderr)
        return 2
    try:
        differences, summary = check(path)
    except (OSError, ValueError, KeyError, tarfile.TarError) as error:
        print(f"error: {path} is no readable bundle: {error!r}", file=sys.stderr)
        return 1
    for line in differences:
        print(line)
    n = f"{len(differences)} difference{'s' if len(differences) > 1 else ''}"
    print(f"{path}: {n if differences else summary}")
    return 1 if differences else 0


def check(path: Path) -> tuple[list[str], str]:
    """What does not agree, a line each, and what was looked at."""
    known = json.loads(_text(path, MANIFEST))
    tables = {name: _rows(path, name) for name in (COUNTS, ESTIMATES)}
    differences, seen = [], set()
    for name, file in _files(path):
        if name == MANIFEST:
            continue
        seen.add(name)
        if name not in known["files"]:
            differences.append(f"{name}: is not of this bundle")
        elif _sha256(file) != known["files"][name]:
            differences.append(f"{name}: was changed after the bundle was made")
    differences += [f"{name}: is missing" for name in sorted(known["files"].keys() - seen)]
    n_means = 0
    values = _values(tables[COUNTS], known["designs"])
    for row in tables[ESTIMATES]:
        if row["mean"]:
            n_means += 1
            computed = _mean(row, values, known["averages"])
            if computed is None or abs(float(computed) - float(row["mean"])) > TOLERANCE:
                differences.append(
                    f"{ESTIMATES}: {row['column']}, {row['cell']}, step {row['step']}, "
                    f"pass@{row['k']} is {row['mean']}, from the counts {_shown(computed)}"
                )
    digest = "the manifest's own digest has to be compared with the publisher's"
    return differences, (
        f"{len(seen)} files have their digests, {n_means} means of pass@k follow from the counts; "
        f"{digest}: sha256 {hashlib.sha256(_text(path, MANIFEST).encode()).hexdigest()}"
    )


class _Values:
    """pass@k of problems from their counts, each computed once."""

    def __init__(self) -> None:
        self.counts: dict[Key, dict[str, tuple[Any, ...]]] = {}
        self._known: dict[tuple[Any, ...], Fraction | None] = {}

    def of(self, key: Key, k: int) -> dict[str, Fraction]:
        """By problem; those without a value are left out."""
        values = {}
        for problem, counted in self.counts.get(key, {}).items():
            asked = (*counted, k)
            if asked not in self._known:
                self._known[asked] = pass_at_k(*asked)
            if (value := self._known[asked]) is not None:
                values[problem] = value
        return values


def _values(rows: Sequence[Mapping[str, str]], designs: Mapping[str, Any]) -> _Values:
    values = _Values()
    for row in rows:
        design = designs[row["design"]] if row["design"] else None
        unscored = tuple(map(int, row["n_unscored"].split())) if design else ()
        counted = (
            tuple(design["stages"]) if design else (),
            design["enough"] if design else 0,
            int(row["n_drawn"]),
            int(row["n_scored"]),
            int(row["n_correct"]),
            unscored,
        )
        key = (row["benchmark"], row["cell"], row["step"], row["seed"])
        values.counts.setdefault(key, {})[row["problem_id"]] = counted
    return values


def _mean(
    row: Mapping[str, str], values: _Values, averages: Mapping[str, Sequence[str]]
) -> Fraction | None:
    """Over seeds, benchmarks of an average, and the problems with a value for every seed."""
    total, n = Fraction(0), 0
    seeds, k = row["seeds"].split(), int(row["k"])
    for benchmark in averages.get(row["column"], [row["column"]]):
        own = [values.of((benchmark, row["cell"], row["step"], seed), k) for seed in seeds]
        common = set.intersection(*map(set, own)) if own else set()
        if not common:
            return None
        for each in own:
            total += sum((each[problem] for problem in common), Fraction(0)) / len(common)
            n += 1
    return total / n if n else None


def pass_at_k(
    stages: Sequence[int],
    enough: int,
    n_drawn: int,
    n_scored: int,
    n_correct: int,
    n_unscored: Sequence[int],
    k: int,
) -> Fraction | None:
    """Unbiased pass@k of a problem; None where its draws give none.

    stages: empty for a fixed number of draws, 1 - C(n - c, k) / C(n, k). Else 1 - W_k / W, where W
    counts the orders of judged draws that the design lets end here and W_k those of them that
    begin with k wrong ones (Girshick, Mosteller and Savage 1946).
    """
    if not stages or len(stages) == 1:
        if k > n_scored:
            return None
        return 1 - Fraction(comb(n_scored - n_correct, k), comb(n_scored, k))
    stage = list(stages).index(n_drawn)
    if k > n_scored:
        return None if stage == len(stages) - 1 or k > stages[-1] else Fraction(1)
    before = stages[stage - 1] - sum(n_unscored[:stage]) if stage else 0
    last = n_scored - before

    def orders(earlier: int, later: int, most: int) -> int:
        return sum(
            comb(earlier, i) * comb(later, n_correct - i) for i in range(min(most, n_correct) + 1)
        )

    allowed = enough - 1 if stage else 0
    all_orders = orders(before, last, allowed)
    if k <= before:
        wrong_first = orders(before - k, last, allowed)
    else:
        wrong_first = orders(0, last - (k - before), allowed)
    return 1 - Fraction(wrong_first, all_orders)


def _shown(value: Fraction | None) -> str:
    return "none" if value is None else repr(float(value))


def _files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Every file by its name in the bundle; the archive is read and never unpacked."""
    if path.is_dir():
        for each in sorted(path.rglob("*")):
            if each.is_file():
                with each.open("rb") as file:
                    yield each.relative_to(path).as_posix(), file
        return
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.isdir():
                continue
            content = archive.extractfile(member) if member.isfile() else None
            if content is None:
                raise ValueError(f"{member.name} is no plain file")
            yield member.name.partition("/")[2], content


def _text(path: Path, name: str) -> str:
    for file_name, file in _files(path):
        if file_name == name:
            content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise ValueError(f"{name} is larger than {LARGEST:,} bytes")
            return content.decode()
    raise ValueError(f"it has no {name}")


def _rows(path: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(_text(path, name))))


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
