"""`fgrpo-bench bundle <sweep>`: a sweep's results as one archive.

It holds declaration, plan, the specs and markers of all stages, counts, grades, analysis and
report, the short columns beside the problems, on request the draws, and the digest of every file as
`sha256sum --check` reads them.
Unpacked, its folder `runs` is a folder of runs that report, dashboard and
`fgrpo_bench.analysis.load` read.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated

import typer

from fgrpo_bench import __version__
from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.other_scores import likelihood_stages as likelihood_stages
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.stored import frames_folder
from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    WHICH_RUN,
    Application,
    Root,
    Run,
    Select,
    refusals,
)
from fgrpo_bench.command.runs import choose_run, default_root
from fgrpo_bench.files.paths import DataPaths, RunPaths
from fgrpo_bench.files.whole import write_whole
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.provenance import evaluated, graded
from fgrpo_bench.specs.dataset import withheld
from fgrpo_bench.stages.digests import FileDigest, as_lines, make_manifest

MANIFEST_FILE = "manifest.sha256"
"""In the archive's folder, as `sha256sum --check` reads it."""
README = """\
Results of the sweep {sweep} ({experiment}, {version}), made by fgrpo-bench {program}.

runs/              specs, markers, counts, grades, analysis and report
manifest.sha256    the digest of every other file: sha256sum --check manifest.sha256

In a checkout of fgrpo-bench, FOLDER being this one:
fgrpo-bench report --verify FOLDER/{report}    every number from the grades
fgrpo-bench report {sweep} --root FOLDER/runs    the report again

The weights are not in it.{left_out}
"""


app = Application("A sweep's results in one archive.", guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    return application.run(app, arguments, "python -m fgrpo_bench.report bundle")


@app.add(
    "bundle",
    "pack a sweep's results into one archive with the digest of every file",
    "fgrpo-bench bundle groupsize",
    "fgrpo-bench bundle groupsize/countdown/v1 --draws --out groupsize.tar.gz",
    more=f"{WHICH_RUN}\nOthers, in the folder that they unpacked:\n"
    "  sha256sum --check manifest.sha256\n",
)
def bundle(
    sweep: Run,
    draws: Annotated[bool, typer.Option("--draws", help="every draw with its text too")] = False,
    out: Annotated[
        Path | None, typer.Option(help="the archive (default: below exports/ of the run)")
    ] = None,
    select: Select = LAST,
    root: Root = None,
) -> int:
    paths = choose_run(root or default_root(), sweep)
    results = load_results(paths)
    write_report(results, select)
    analysis = analysed(results, select)
    name = f"{paths.sweep}-{paths.experiment}-{paths.version}"
    archive = out or paths.folder / "exports" / f"{name}.tar.gz"
    for line in pack(analysis, archive, name=name, draws=draws):
        print(f"left out: {line}")
    print(f"{archive}  {archive.stat().st_size / 1e6:.1f} MB")
    return 0


def pack(analysis: Analysis, out: Path, *, name: str, draws: bool) -> tuple[str, ...]:
    """Write the archive whole or not at all, the same bytes for the same results; returns what was
    left out, a line each.

    name: of the folder in it. draws: whether draws with their texts are in it. ValueError where
    nothing is evaluated yet.
    """
    paths = analysis.results.require_sweep().paths
    left_out: list[str] = []
    names = {item.relative_to(paths.root).as_posix()
             for item in _stored(analysis, draws=draws, omitted=left_out)}  # fmt: skip
    if not any(graded(analysis.results)):
        raise ValueError(
            f"{paths.folder} has no complete evaluation to pack: `fgrpo-bench sweep status "
            f"{paths.sweep}` says what is missing"
        )
    readme = _readme(paths, left_out).encode()
    manifest = {f"runs/{path}": k for path, k in make_manifest(paths.root, sorted(names)).items()}
    manifest["README.txt"] = FileDigest(sha256=hashlib.sha256(readme).hexdigest())
    contents = {MANIFEST_FILE: as_lines(manifest).encode(), "README.txt": readme}

    def write(aside: Path) -> None:
        with (
            aside.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for path, content in contents.items():
                _add(archive, f"{name}/{path}", io.BytesIO(content), len(content))
            for path in sorted(names):
                source = paths.root / path
                with source.open("rb") as file:
                    _add(archive, f"{name}/runs/{path}", file, source.stat().st_size)

    write_whole(out, write)
    return tuple(left_out)


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    """With nothing of this machine: no owner and no time."""
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, content)


def _stored(analysis: Analysis, *, draws: bool, omitted: list[str]) -> Iterator[Path]:
    """Files of the run that go in, those that are there, each once."""
    results = analysis.results.require_sweep()
    paths = results.paths
    yield from (paths.sweep_json, paths.plan)
    for folder in (frames_folder(paths, analysis.rule), paths.report):
        yield from (file for file in sorted(folder.glob("*")) if file.is_file())
    for point in results.points:
        yield from _existing(point.train.spec, point.train.done, point.train.metrics)
    for _, _, stage in likelihood_stages(results):
        yield from _existing(stage.spec, stage.done, stage.likelihoods)
    for point in evaluated(results):
        yield from _existing(point.evaluate.spec, point.evaluate.done)
    gated = set()
    for checkpoint, benchmark, version in graded(results):
        of = checkpoint.evaluate.benchmark(benchmark)
        versions = (version, *checkpoint.extra_grader_versions(benchmark).values())
        yield from _existing(of.passk(), of.manifest, *map(of.passk, versions[1:]))
        spec = checkpoint.evaluation_spec()
        if benchmark in spec.data:
            # As the spec names it, through the run's link: there a reader looks for it.
            data = Path(os.path.normpath(checkpoint.evaluate.folder / spec.data[benchmark]))
            if data.is_relative_to(paths.root):
                yield from _existing(DataPaths(data).columns)
        if withheld(spec.all_benchmarks.get(benchmark)):
            gated.add(benchmark)
            continue
        yield from _existing(*map(of.grades, versions), *([of.draws] if draws else []))
    omitted += [
        f"grades and draws of {name}: a gated benchmark, whose publisher asks that none of its "
        "text is shown to others"
        for name in sorted(gated)
    ]
    if not draws:
        omitted.append("the draws (--draws packs them)")


def _existing(*paths: Path) -> Iterator[Path]:
    return (path for path in paths if path.exists())


def _readme(paths: RunPaths, omitted: Sequence[str]) -> str:
    return README.format(
        sweep=paths.sweep,
        experiment=paths.experiment,
        version=paths.version,
        program=__version__,
        report=f"runs/{paths.report.relative_to(paths.root).as_posix()}",
        left_out="".join(f"\nLeft out: {line}." for line in omitted),
    )
