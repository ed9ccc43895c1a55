"""`python -m fgrpo_bench.report bundle <sweep>`: a sweep's results as one archive.

It holds declaration, plan, the specs and markers of all stages, counts, grades, analysis and
report, with a digest of every file, and on request the draws. Unpacked, its folder `runs` is a
folder of runs that report, dashboard and `fgrpo_bench.analysis.load` read; verify.py in it checks
it with nothing but Python (fgrpo_bench.report.exports.check_bundle).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import polars as pl

from fgrpo_bench import __version__
from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.likelihood import stages as likelihood_stages
from fgrpo_bench.analysis.store import folder_of
from fgrpo_bench.commandline import Parser
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.exports import check_bundle
from fgrpo_bench.report.exports.check_bundle import COUNTS, ESTIMATES, MANIFEST
from fgrpo_bench.report.provenance import evaluated, graded
from fgrpo_bench.results import load_results
from fgrpo_bench.runs import add_run_options, choose_run
from fgrpo_bench.specs.dataset import withheld
from fgrpo_bench.stages.files import write_whole
from fgrpo_bench.stages.paths import RunPaths

EXAMPLES = """\
examples:
  python -m fgrpo_bench.report bundle groupsize
  python -m fgrpo_bench.report bundle groupsize --draws --out groupsize.tar.gz
  python -m fgrpo_bench.report check-bundle groupsize.tar.gz
"""
README = """\
Results of the sweep {sweep} ({experiment}, {version}), made by fgrpo-bench {program}.

python verify.py    checks every file, and every mean pass@k from the counts
counts.csv          draws and correct ones, a row a problem and checkpoint
estimates.csv       mean pass@k with intervals, a row a cell and k
runs/               specs, markers, grades, analysis and report; where fgrpo-bench is installed,
                    python -m fgrpo_bench.report {sweep} --root runs   makes the report from them

The weights are not in it.{left_out}
"""


def main(arguments: Sequence[str]) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    parser = Parser(
        prog="python -m fgrpo_bench.report bundle",
        description="Pack a sweep's results into one archive that verify.py in it checks with "
        "nothing but Python.",
        epilog=EXAMPLES,
    )
    parser.add_argument("sweep", help="name of the sweep, e.g. groupsize")
    parser.add_argument("--draws", action="store_true", help="every draw with its text too")
    parser.add_argument("--out", type=Path, help="the archive (default: below exports/ of the run)")
    parser.add_argument(
        "--select", default=LAST, metavar="RULE", help="which checkpoint, as of the report"
    )
    add_run_options(parser)
    options = parser.parse_args(arguments)
    try:
        paths = choose_run(
            options.root, options.sweep, experiment=options.experiment, version=options.version
        )
        results = load_results(paths)
        write_report(results, options.select)
        analysis = analysed(results, options.select)
        name = f"{paths.sweep}-{paths.experiment}-{paths.version}"
        out = options.out or paths.folder / "exports" / f"{name}.tar.gz"
        left_out = pack(analysis, out, name=name, draws=options.draws)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for line in left_out:
        print(f"left out: {line}")
    print(f"{out}  {out.stat().st_size / 1e6:.1f} MB")
    return 0


def pack(analysis: Analysis, out: Path, *, name: str, draws: bool) -> tuple[str, ...]:
    """Write the archive whole or not at all, the same bytes for the same results; returns what was
    left out, a line each.

    name: of the folder in it. draws: whether draws with their texts are in it. ValueError where
    nothing is evaluated yet.
    """
    paths = analysis.results.of_sweep().paths
    left_out: list[str] = []
    stored = {each.relative_to(paths.root).as_posix(): each
              for each in _stored(analysis, draws=draws, left_out=left_out)}  # fmt: skip
    designs, counts = _counts(analysis)
    if counts.is_empty():
        raise ValueError(
            f"{paths.folder} has no complete evaluation to pack: `python -m sweeps status "
            f"{paths.sweep}` says what is missing"
        )
    contents = {
        COUNTS: counts.write_csv().encode(),
        ESTIMATES: _estimates(analysis).write_csv().encode(),
        "verify.py": Path(check_bundle.__file__).read_bytes(),
        "README.txt": _readme(paths, left_out).encode(),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    for path, source in stored.items():
        with source.open("rb") as file:
            digests[f"runs/{path}"] = hashlib.file_digest(file, "sha256").hexdigest()
    manifest = {
        "program": f"fgrpo-bench {__version__}",
        "rule": analysis.rule,
        "designs": designs,
        "averages": {name: list(of) for name, of in analysis.averages.items()},
        "left_out": left_out,
        "files": dict(sorted(digests.items())),
    }
    contents = {MANIFEST: (json.dumps(manifest, indent=1) + "\n").encode()} | contents

    def write(aside: Path) -> None:
        with (
            aside.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for path, content in contents.items():
                _add(archive, f"{name}/{path}", io.BytesIO(content), len(content))
            for path, source in sorted(stored.items()):
                with source.open("rb") as file:
                    _add(archive, f"{name}/runs/{path}", file, source.stat().st_size)

    write_whole(out, write)
    return tuple(left_out)


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    """With nothing of this machine: no owner and no time."""
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, content)


def _stored(analysis: Analysis, *, draws: bool, left_out: list[str]) -> Iterator[Path]:
    """Files of the run that go in, those that are there, each once."""
    results = analysis.results.of_sweep()
    paths = results.paths
    yield from (paths.sweep_json, paths.plan)
    for folder in (folder_of(paths, analysis.rule), paths.report):
        yield from (each for each in sorted(folder.glob("*")) if each.is_file())
    for point in results.points:
        yield from _existing(point.train.spec, point.train.done, point.train.metrics)
    for _, _, stage in likelihood_stages(results):
        yield from _existing(stage.spec, stage.done, stage.likelihoods)
    for point in evaluated(results):
        yield from _existing(point.evaluate.spec, point.evaluate.done)
    gated = set()
    for checkpoint, benchmark, version in graded(results):
        of = checkpoint.evaluate.benchmark(benchmark)
        yield from _existing(of.passk, of.manifest)
        spec = checkpoint.evaluation_spec()
        if withheld((spec.former | spec.benchmarks).get(benchmark)):
            gated.add(benchmark)
            continue
        yield from _existing(of.grades(version), *([of.draws] if draws else []))
    left_out += [
        f"grades and draws of {name}: a gated benchmark, whose publisher asks that none of its "
        "text is shown to others"
        for name in sorted(gated)
    ]
    if not draws:
        left_out.append("the draws (--draws packs them)")


def _existing(*paths: Path) -> Iterator[Path]:
    return (path for path in paths if path.exists())


def _counts(analysis: Analysis) -> tuple[dict[str, Any], pl.DataFrame]:
    """Designs by their name in the table, and a row a problem and checkpoint that stands for a run:
    the counts that its pass@k follows from."""
    designs: dict[str, Any] = {}
    parts = []
    steps = dict(analysis.cells.select("cell", "step").iter_rows())
    for checkpoint in analysis.results.checkpoints:
        for benchmark in analysis.results.benchmarks:
            if checkpoint.results_on(benchmark) is None:
                continue
            cell, asked = checkpoint.label, checkpoint.asked()
            if asked.design is not None:
                designs[asked.words] = asdict(asked.design)
            table = checkpoint.passk(benchmark).unique("problem_id").sort("problem_id")
            parts.append(
                table.with_columns(n_drawn=asked.n_drawn)
                .drop_nulls("n_drawn")
                .select(
                    pl.lit(benchmark).alias("benchmark"),
                    pl.lit(cell).alias("cell"),
                    pl.lit(steps[cell]).alias("step"),
                    pl.lit(checkpoint.seed).alias("seed"),
                    "problem_id",
                    "n_drawn",
                    "n_scored",
                    "n_correct",
                    pl.col("n_unscored").cast(pl.List(pl.String)).list.join(" "),
                    pl.lit(asked.words if asked.design else None, pl.String).alias("design"),
                )
            )
    if not parts:
        return designs, pl.DataFrame()
    used = analysis.problems.select("benchmark", "cell", "seed", "problem_id")
    counts = pl.concat(parts).join(used, on=used.columns, how="semi", maintain_order="left")
    return designs, counts


def _estimates(analysis: Analysis) -> pl.DataFrame:
    columns = ["column", "cell", "step", "k", "seeds", "n_problems", "mean", "low", "high"]
    seeds = pl.col("seeds").cast(pl.List(pl.String)).list.join(" ")
    return analysis.estimates.filter("is_chosen").select(columns).with_columns(seeds)


def _readme(paths: RunPaths, left_out: Sequence[str]) -> str:
    return README.format(
        sweep=paths.sweep,
        experiment=paths.experiment,
        version=paths.version,
        program=__version__,
        left_out="".join(f"\nLeft out: {line}." for line in left_out),
    )
