"""Benchmarks fetched and prepared once, on a machine with a network: `fgrpo-bench data`.

They go where sweeps look for them, as the same stage: what is fetched here is not fetched again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from fgrpo_bench.core.commandline import check_once
from fgrpo_bench.data import DatasetLock
from fgrpo_bench.documents.terminal import aligned
from fgrpo_bench.files.paths import DataPaths, StagePaths, shared_data
from fgrpo_bench.files.whole import read_record, write_json
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import BenchmarkSpec, DatasetSpec
from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.stage import EXIT_DONE, EXIT_FAILED


def fetch_command(arguments: Sequence[str], root: Path) -> int:
    """Run the command to its exit code; says on stderr what is wrong with the words, names of
    benchmarks and keys of one of them, and with a file that these name."""
    names = [word for word in arguments if "=" not in word]
    keys = [word for word in arguments if "=" in word]
    try:
        if not names and not keys:
            print("\n".join(_listed(overview(root))))
            return 0
        datasets = [chosen(name, keys) for name in dict.fromkeys(names)]
        if not datasets or (keys and len(datasets) > 1):
            raise ValueError(f"{' '.join(keys)} needs exactly one benchmark to apply to: name one")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    code = EXIT_DONE
    for dataset in datasets:
        try:  # a person's own file is told of in a sentence, a failed download with its traceback
            code = max(code, run(root, dataset, refusing=dataset.repository is None))
        except (OSError, ValueError) as error:
            print(error, file=sys.stderr)
            code = max(code, EXIT_FAILED)
    return code


def chosen(name: str, keys: list[str]) -> DatasetSpec:
    """The dataset of a benchmark with some of its keys set; path= takes a local file.

    Raises ValueError where the benchmark has none or the keys do not fit.
    """
    from fgrpo_bench.specs.config import load_benchmark

    check_once(keys)
    overrides = [f"dataset.{key}" for key in keys]
    given = dict(key.split("=", 1) for key in keys)
    if "path" in given and "source" not in given:
        absolute = Path(given["path"]).absolute()
        overrides = [override for override in overrides if not override.startswith("dataset.path=")]
        overrides += [f"dataset.path={absolute}", "dataset.source=file"]
        overrides += ["dataset.repository=null", "dataset.revision=null"]
    dataset = load_benchmark(name, overrides).dataset
    if dataset is None:
        raise ValueError(
            f"benchmark {name} is the held-out split of the experiment's own task: there is "
            "nothing to fetch"
        )
    return dataset


def run(root: Path, dataset: DatasetSpec, *, refusing: bool = False) -> int:
    """Fetch and prepare one dataset to the stage's exit code.

    refusing: as of `run_stage`.
    """
    from fgrpo_bench.data.__main__ import work
    from fgrpo_bench.stages.stage import run_stage

    stage = dataset_stage(dataset)
    paths = StagePaths(shared_data(root, dataset.name, stage.fingerprint))
    if not paths.done.exists():  # what a failed attempt was asked may have been mended since
        write_json(paths.spec, stage.spec.as_json())
    print(f"{dataset.name}: {paths.folder}", flush=True)
    return run_stage(paths, work, refusing=refusing)


def prepare_file(root: Path, dataset: DatasetSpec) -> DataPaths:
    """Prepare a dataset of a file on this machine, once, without a word.

    Raises ValueError that names the row where it cannot be one.
    """
    stage = dataset_stage(dataset)
    paths = DataPaths(shared_data(root, dataset.name, stage.fingerprint))
    with redirect_stdout(StringIO()) as printed:
        code = run(root, dataset, refusing=True)
    if code != EXIT_DONE:  # stopped by Ctrl-C
        raise OSError(f"{dataset.path} was not prepared: {printed.getvalue().strip()}")
    return paths


def overview(root: Path) -> list[dict[str, str]]:
    """Of each benchmark its problems, graders, the revision that is fetched here, and publisher."""
    from fgrpo_bench.specs.config import load_benchmark, option_names

    rows = []
    for name in option_names("benchmark"):
        benchmark = load_benchmark(name)
        if benchmark.dataset is None:
            continue
        count = "all" if benchmark.n_problems is None else str(benchmark.n_problems)
        graders = ", ".join((benchmark.grader, *benchmark.extra_graders))
        publisher = benchmark.dataset.repository or benchmark.dataset.path
        rows.append(
            {
                "benchmark": name,
                "problems": count,
                "graders": graders,
                "fetched": _state(root, benchmark),
                "publisher": str(publisher),
            }
        )
    return rows


def _listed(rows: Sequence[dict[str, str]]) -> list[str]:
    """A line a benchmark, below their header."""
    return aligned([tuple(rows[0]), *(tuple(row.values()) for row in rows)])


def _state(root: Path, benchmark: BenchmarkSpec) -> str:
    dataset = benchmark.dataset
    assert dataset is not None
    folder = shared_data(root, dataset.name, dataset_stage(dataset).fingerprint)
    stage = StagePaths(folder)
    if is_locked(stage.lock):
        return "in hand"
    if not stage.done.exists():
        return "-"
    lock = read_record(DataPaths(folder).lock, DatasetLock)
    if lock.source is None or lock.result is None:
        return "damaged"
    return f"{lock.result.rows} rows of {(lock.source.revision or lock.source.sha256)[:12]}"
