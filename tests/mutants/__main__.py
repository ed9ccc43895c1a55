"""`make mutants`: do the tests still notice each of 100 stored mistakes?

Each row of table.jsonl is one wrong expression in a function of stats, objectives, analysis, stages
or SLURM's decisions. It is put into a copy of this folder, where it stands now, and the tests of
its module run until the first fails: then it is killed. A mutant that was killed when the table was
recorded has to be killed still. Fails where one survives, or where its expression is gone:
`--replace` then finds the same expression in another function, or draws another mutant of the
module. Verdicts are kept in cache/mutants.jsonl by the text of the module and of its tests.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from resource import RLIMIT_CPU, prlimit
from typing import Any

from rich.console import Console
from rich.progress import Progress

from tests.mutants.expressions import Module, Mutant, draw, elsewhere, read, where

REPOSITORY = Path(__file__).resolve().parents[2]
PRODUCT = ("fgrpo_bench", "sweeps", "evaluators", "dashboards")
TABLE = "tests/mutants/table.jsonl"
CACHE = "cache/mutants.jsonl"
GROUPS = {
    "fgrpo_bench.stats": 30,
    "fgrpo_bench.objectives": 14,
    "fgrpo_bench.analysis": 26,
    "sweeps.slurm.decide": 10,
    "fgrpo_bench.stages": 20,
}
"""How many mutants `--draw` draws of each."""
HOMES = {
    "fgrpo_bench.stats": ("tests/stats",),
    "fgrpo_bench.objectives": ("tests/objectives", "tests/paper/test_expected_weight.py"),
    "fgrpo_bench.analysis": ("tests/analysis", "tests/stats/test_power.py"),
    "fgrpo_bench.analysis.published": ("tests/report", "tests/analysis"),
    "fgrpo_bench.files": ("tests/stages", "tests/stored"),
    "fgrpo_bench.specs.training": ("tests/objectives",),
    "fgrpo_bench.stages": ("tests/stages", "tests/stored"),
    "sweeps.slurm": ("tests/slurm/test_decide.py",),
}
"""Where the tests of modules are, by how their names begin: the files that import the module run
first, and the others where these notice nothing."""
PYTEST = ("-m", "pytest", "-n", "0", "-x", "--hypothesis-seed=0", "-m", "not slow")
PATIENCE = 10
LEAST_SECONDS = 60.0
"""A mutant does not end that takes so many times the processor's time of the tests without it, or
so many seconds where these are quick; one that only waits has as many times longer."""
FAILED, NO_TESTS = 1, 5
"""Of pytest's exit codes. It has others where a module cannot be imported, mutated as it is."""
EXAMPLES = """examples:
  make mutants
  make mutants ARGS='--dry-run'
  make mutants ARGS='--only fgrpo_bench.stats 71 72 --jobs 2'
  make mutants ARGS='--replace 17'"""


@dataclass(frozen=True)
class Case:
    """A mutant where it stands now, and the files of tests that are to notice it."""

    mutant: Mutant
    module: Module
    near: tuple[str, ...]
    """Those that run first."""
    others: tuple[str, ...]
    """Those that run where it survives these."""


def _digest(root: Path, tests: Iterable[str], *texts: str) -> str:
    read_tests = ((root / test).read_text(encoding="utf-8") for test in tests)
    return sha256(json.dumps([*texts, *tests, *read_tests]).encode()).hexdigest()


def choose_tests(
    module: str, modules: Mapping[str, Module], root: Path, homes: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of a module's tests that import it, and the others; all and none where none does.

    ValueError: no tests are known of it.
    """
    home = max((h for h in homes if f"{module}.".startswith(f"{h}.")), key=len, default=None)
    if home is None:
        raise ValueError(f"no tests are known of {module}: add its folder of tests to HOMES")
    files = [
        file.relative_to(root).as_posix()
        for place in homes[home]
        for file in sorted((root / place).rglob("test_*.py") if (root / place).is_dir() else [])
        or [root / place]
    ]
    missing = [file for file in files if not (root / file).is_file()]
    if missing:
        raise ValueError(f"HOMES has {missing[0]} for {home}, which is no file: name its tests")
    own = f"test_{module.rpartition('.')[2]}.py"
    files.sort(key=lambda file: not file.endswith(own))  # what is most likely to fail comes first
    near = tuple(file for file in files if module in _imported(root / file, modules))
    if not near:
        return tuple(files), ()
    return near, tuple(file for file in files if file not in near)


def _imported(file: Path, modules: Mapping[str, Module]) -> set[str]:
    """The modules that a file imports, by themselves or through a package that names their part."""
    return set(_named(ast.parse(file.read_text(encoding="utf-8")), modules))


def _named(tree: ast.AST, modules: Mapping[str, Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            package = modules.get(node.module)
            again = package.tree.body if package and package.path.name == "__init__.py" else []
            wanted = {alias.name for alias in node.names}
            yield from (f"{node.module}.{name}" for name in wanted)
            for part in again:
                if isinstance(part, ast.ImportFrom) and wanted & {
                    a.asname or a.name for a in part.names
                }:
                    yield part.module or ""


@dataclass
class Copies:
    """Copies of the folder, in which pytest runs, and the processes that run there now."""

    folders: SimpleQueue[Path] = field(default_factory=SimpleQueue)
    running: set[subprocess.Popen[str]] = field(default_factory=set)

    @contextmanager
    def one(self) -> Iterator[Path]:
        """A copy that no other thread has meanwhile."""
        folder = self.folders.get()
        try:
            yield folder
        finally:
            self.folders.put(folder)

    def run(self, folder: Path, tests: Sequence[str], limit: float | None) -> tuple[int, str]:
        """pytest's exit code and what it printed; FAILED where it reaches a limit in seconds.

        RuntimeError: something else ended it.
        """
        shutil.rmtree(folder / ".hypothesis", ignore_errors=True)  # examples of another mutant
        with subprocess.Popen(
            [sys.executable, *PYTEST, *tests],
            cwd=folder,
            env=os.environ
            | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
            | ({} if limit is None else {"PYTHONDONTWRITEBYTECODE": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # what hangs is ended with all that it began
        ) as process:
            self.running.add(process)
            try:
                if limit is not None:  # not of the clock: another time the machine may be busier
                    prlimit(process.pid, RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 1))
                out, _ = process.communicate(timeout=limit and limit * PATIENCE)
            except subprocess.TimeoutExpired:
                self.end(process)
                process.communicate()
                return FAILED, ""
            finally:
                self.running.discard(process)
        if process.returncode == -signal.SIGXCPU:
            return FAILED, ""
        if process.returncode < 0:
            name = signal.Signals(-process.returncode).name
            raise RuntimeError(f"pytest was ended by {name}: nothing is known of {' '.join(tests)}")
        return process.returncode, out

    def end(self, process: subprocess.Popen[str]) -> None:
        """End a process and what it began."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def copies(root: Path, number: int) -> Iterator[Copies]:
    """Copies of all files that git does not ignore; gone at the end."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        made = Copies()
        for i in range(number):
            folder = Path(scratch) / str(i)
            for name in filter(None, listed.stdout.split("\0")):
                if (root / name).is_file():  # a deleted file is listed until that is committed
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(root / name, folder / name)
            made.folders.put(folder)
        try:
            yield made
        finally:
            for process in list(made.running):
                made.end(process)


def run(cases: Sequence[Case], root: Path, *, jobs: int) -> dict[int, str]:
    """The verdicts of some mutants by their ids: "killed" or "survived".

    RuntimeError: tests fail without any mutant, so that they say nothing.
    """
    cache = root / CACHE
    cache.parent.mkdir(exist_ok=True)
    rows = cache.read_text(encoding="utf-8").splitlines() if cache.exists() else []
    known: dict[str, Any] = {row["key"]: row["value"] for row in map(json.loads, rows)}
    sources = json.dumps({name: m.text for name, m in read(root, PRODUCT).items()})

    def keep(key: str, value: str | float) -> None:
        known[key] = value
        with cache.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "value": value}) + "\n")

    with (
        copies(root, jobs) as made,
        Progress(console=Console(stderr=True)) as bar,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = bar.add_task("mutants", total=len(cases))

        # Digests are of the copies: whoever edits tests meanwhile gets no verdicts of other ones.
        def without(folder: Path, test: str) -> float:
            """Seconds of a file of tests, all of which pass; 0 where it has only slow ones."""
            key = _digest(folder, [test], sources)
            if key not in known:
                begun = time.monotonic()
                code, out = made.run(folder, [test], None)
                if code not in (0, NO_TESTS):
                    raise RuntimeError(f"without a mutant this fails: {test}\n{out}")
                keep(key, 0.0 if code == NO_TESTS else time.monotonic() - begun)
            return float(known[key])

        def judge(case: Case, tests: tuple[str, ...], folder: Path) -> str:
            mutated = case.module.mutated(case.mutant)
            key = _digest(folder, tests, str(case.module.path), mutated)
            if key in known:
                return str(known[key])
            seconds = {test: without(folder, test) for test in tests}
            tests = tuple(test for test in tests if seconds[test])
            if not tests:
                return "survived"
            file = folder / case.module.path
            times = (file.stat().st_atime, file.stat().st_mtime)  # by which bytecode is known
            file.write_text(mutated, encoding="utf-8")
            try:
                limit = max(LEAST_SECONDS, PATIENCE * sum(seconds.values()))
                code, _ = made.run(folder, tests, limit)
            finally:
                file.write_text(case.module.text, encoding="utf-8")
                os.utime(file, times)
            keep(key, "killed" if code else "survived")
            return str(known[key])

        def verdict(case: Case) -> tuple[int, str]:
            with made.one() as folder:
                said = judge(case, case.near, folder)
                if said == "survived" and case.others:
                    said = judge(case, case.others, folder)
            bar.advance(task)
            return case.mutant.id, said

        try:
            return dict(pool.map(verdict, cases))
        except BaseException:  # Ctrl-C too: what runs is ended, what waits is not begun
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(made.running):
                made.end(process)
            raise


def stored(root: Path) -> list[Mutant]:
    """The table. An unknown column raises TypeError."""
    lines = (root / TABLE).read_text(encoding="utf-8").splitlines()
    return [Mutant(**json.loads(line)) for line in lines]


def store(root: Path, mutants: Iterable[Mutant]) -> None:
    """Write the table; what is None is left out."""
    rows = ({k: v for k, v in asdict(m).items() if v is not None} for m in mutants)
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    (root / TABLE).write_text(text, encoding="utf-8")


def successor(old: Mutant, table: Sequence[Mutant], modules: Mapping[str, Module]) -> Mutant:
    """What takes the place of a mutant that is gone, with the verdict that it has to keep.

    Its expression under another name, where one function alone holds it; else another mutant of
    its module. ValueError: that module is no more.
    """
    number = max(m.id for m in table) + 1
    renamed = elsewhere(old, modules)
    if len(renamed) == 1:
        return replace(renamed[0], id=number)
    if old.module not in modules:
        raise ValueError(
            f"{old}\n    {old.module} is no more, and {len(renamed)} functions hold that: "
            f'put where its code went as "module" into {TABLE}; then --replace {old.id}'
        )
    (new,) = draw(modules, old.module, 1, first_id=number, taken=table, seed=str(old.id))
    return replace(new, before=old.before)


def main(arguments: Sequence[str] | None = None, *, root: Path = REPOSITORY) -> int:
    """Do what was asked for and print a line a mutant; 1 where anything is lost or gone."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least 1 runs")
    modules = read(root, PRODUCT)
    if options.draw:
        if (root / TABLE).exists():
            parser.error(f"{TABLE} exists: --replace draws another for a mutant that is gone")
        drawn: list[Mutant] = []
        for group, number in GROUPS.items():
            drawn += draw(modules, group, number, first_id=len(drawn) + 1)
        store(root, drawn)
        return 0
    table = {mutant.id: mutant for mutant in stored(root)}
    standing = [mutant for mutant in table.values() if mutant.replaced_by is None]
    for asked in (*(options.only or ()), *map(str, options.replace or ())):
        if not any(_is(mutant, asked) for mutant in standing):
            parser.error(f"{asked}: neither the id of a mutant of {TABLE} nor a module of one")
    try:
        if options.replace:
            for number in options.replace:
                new = successor(table[number], list(table.values()), modules)
                table |= {number: replace(table[number], replaced_by=new.id), new.id: new}
                print(f"{table[number]}\n    is replaced by\n{new}")
            store(root, table.values())
            return 0
        if options.only:
            standing = [m for m in standing if any(_is(m, asked) for asked in options.only)]
        return _judge(standing, modules, root, options)
    except (RuntimeError, ValueError) as error:
        sys.exit(f"make mutants: {error}")
    except KeyboardInterrupt:
        sys.exit("make mutants: stopped; the same command resumes here")


def _judge(
    mutants: Sequence[Mutant],
    modules: Mapping[str, Module],
    root: Path,
    options: argparse.Namespace,
) -> int:
    cases, gone = [], []
    for mutant in mutants:
        try:
            module = where(mutant, modules)
        except LookupError as error:
            gone.append(f"{error}: make mutants ARGS='--replace {mutant.id}'")
        else:
            cases.append(Case(mutant, module, *choose_tests(module.name, modules, root, HOMES)))
    verdicts = {} if options.dry_run else run(cases, root, jobs=options.jobs)
    for case in cases:
        print(f"{verdicts.get(case.mutant.id, 'not run'):9}{case.mutant}")
        if case.module.name != case.mutant.module:
            print(f"{'':9}stands in {case.module.name} now")
        if options.dry_run:
            print(f"{'':9}{' '.join(case.near)}")
    for words in gone:
        print(f"gone     {words}")
    if options.record:
        recorded = ((m, verdicts.get(m.id, m.before)) for m in stored(root))
        store(root, (replace(m, before=verdict) for m, verdict in recorded))
    survived = [case.mutant for case in cases if verdicts.get(case.mutant.id) == "survived"]
    equivalent = [mutant for mutant in survived if mutant.equivalent]
    lost = [mutant for mutant in survived if mutant.before == "killed" and not options.record]
    print(
        f"{len(mutants)} mutants: {list(verdicts.values()).count('killed')} killed, "
        f"{len(survived) - len(equivalent)} survive, {len(equivalent)} are equivalent, "
        f"{len(gone)} are gone, {len(lost)} were killed before and survive now"
    )
    for mutant in lost:
        print(f"lost     {mutant}")
    return 1 if lost or gone else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make mutants",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", nargs="+", metavar="ID|MODULE", help="some of them, or those of some modules"
    )
    parser.add_argument("--jobs", type=int, default=1, help="so many at once (default 1)")
    parser.add_argument("--dry-run", action="store_true", help="say where they stand, run nothing")
    parser.add_argument(
        "--record", action="store_true", help="write the verdicts into the table, to be kept"
    )
    parser.add_argument(
        "--replace",
        nargs="+",
        type=int,
        metavar="ID",
        help="put others in the place of what is gone",
    )
    parser.add_argument("--draw", action="store_true", help="draw the table, where there is none")
    return parser


def _is(mutant: Mutant, asked: str) -> bool:
    return asked == str(mutant.id) or f"{mutant.module}.".startswith(f"{asked}.")


if __name__ == "__main__":
    sys.exit(main())
