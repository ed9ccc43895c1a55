"""The dashboard as a folder of files that opens without a server, to be sent to somebody.

The same pages are made, with links to files instead of addresses. What a control would ask a server
for is made beforehand: every choice of every control on every benchmark, one at a time, and the
draws of the problems of the largest gain and of those that training lost most, for one seed of
every cell. Choices that were not made are left out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dashboards import rendering
from dashboards.page import Address, Chart, Links, Page
from dashboards.pages import BUILDERS
from dashboards.pages.draws import OUTCOMES, compared_checkpoints, draws_address
from dashboards.queries import RunRoot, by_gain, checked, fates_of
from fgrpo_bench.analysis.results import Results, load_results
from fgrpo_bench.command.runs import find_runs, named, split_name
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs.cell import BASE


@dataclass
class FileLinks:
    """Links between the files of an export, relative to a page's own folder."""

    known: dict[Address, str] | None
    """File of every page, relative to the export; None before it is known which there will be."""
    folder: str
    """Folder of the page that is being made, relative to the export."""
    tables: dict[str, str] = field(default_factory=dict)
    """CSV by file, relative to the export, of the pages made so far."""

    @property
    def is_static(self) -> bool:
        """Whether pages may be missing."""
        return self.known is not None

    def home(self) -> str:
        """The list of sweeps."""
        return self._relative("index.html")

    def page(self, address: Address) -> str | None:
        """The relative link; None for a page that is not exported."""
        file = _file(address) if self.known is None else self.known.get(address)
        return None if file is None else self._relative(file)

    def data(self, address: Address, chart: Chart) -> str:
        """A file named by its content: pages that show the same table share it."""
        text = chart.data.write_csv()
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        file = f"{_folder(address.run)}/data/{chart.name}-{digest}.csv"
        self.tables[file] = text
        return self._relative(file)

    def asset(self, name: str) -> str:
        """A file of rendering.ASSETS, copied beside the pages."""
        return self._relative(f"_static/{name}")

    def _relative(self, file: str) -> str:
        return Path(os.path.relpath(file, self.folder)).as_posix()


def chosen_runs(root: Path, name: str | None) -> list[RunPaths]:
    """Runs under a root that sweep[/experiment[/version]] fits; None is all. LookupError without
    any."""
    sweep, experiment, version = (None, None, None) if name is None else split_name(name)
    runs = find_runs(root, sweep, experiment=experiment, version=version)
    if not runs:
        known = ", ".join(map(named, RunRoot(root=root).runs()))
        raise LookupError(f"no such sweep under {root}; there is: {known or 'none'}")
    return runs


def export(runs: Sequence[RunPaths], to: Path, *, problems: int) -> tuple[int, int]:
    """Write every page of some runs into a new folder; how many pages and tables.

    problems: of each benchmark, those whose draws are written out. FileExistsError where the folder
    holds something.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise FileExistsError(f"{to} is there already: name a new folder, or remove this one")
    loaded = [checked(load_results(run)) for run in runs]
    wanted = {
        results.paths: {address: _file(address) for address in _addresses(results, problems)}
        for results in loaded
    }
    known = {address: file for files in wanted.values() for address, file in files.items()}
    for name, source in rendering.ASSETS.items():
        target = to / "_static" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    tables: set[str] = set()
    for results in loaded:
        for address, file in wanted[results.paths].items():
            links = FileLinks(known=known, folder=_folder(results.paths))
            page = _build(results, address, links)
            _write(to / file, rendering.html(page, links, runs))
            # Pages that show the same table share its file.
            for table, text in links.tables.items():
                if table not in tables:
                    _write(to / table, text)
                    tables.add(table)
    links = FileLinks(known=known, folder=".")
    _write(to / "index.html", rendering.listing(links, runs, root=""))
    return len(known), len(tables)


def _build(results: Results, address: Address, links: Links) -> Page:
    given: dict[str, list[str]] = {}
    for name, value in address.parameters:
        given.setdefault(name, []).append(value)
    return BUILDERS[address.view](results, given, links)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))


def _folder(run: RunPaths) -> str:
    return f"{run.sweep}/{run.experiment}/{run.version}"


def _file(address: Address) -> str:
    """Named by the view and, beside the default page, a digest of the parameters: no text of a
    problem becomes a file name."""
    digest = hashlib.sha256(repr(address.parameters).encode()).hexdigest()[:12]
    suffix = f"-{digest}" if address.parameters else ""
    return f"{_folder(address.run)}/{address.view}{suffix}.html"


def _addresses(results: Results, problems: int) -> Iterator[Address]:
    links = FileLinks(known=None, folder=".")
    for view in BUILDERS:
        first = Address(run=results.address, view=view)
        yield first
        if view == "draws":
            continue
        for benchmark in {first: None} | _choices(results, first, links, only="benchmark"):
            yield from _choices(results, benchmark, links)
    for name in results.benchmarks:
        yield from _draws(results, name, problems)


def _choices(
    results: Results, address: Address, links: Links, *, only: str | None = None
) -> dict[Address, None]:
    """What the controls of a page, or one of them, lead to."""
    page = _build(results, address, links)
    return {
        option.address: None
        for control in page.controls
        if only in (None, control.name)
        for option in control.options
    }


def _draws(results: Results, benchmark: str, problems: int) -> Iterator[Address]:
    """Pages of draws: of the cells that the page opens on, and of the base model beside each cell,
    of one seed. Half of the problems are those that the page opens on, the rest those that training
    lost most."""
    fates = fates_of(results, benchmark, results.evaluation["ks"][-1])
    base = next(
        (checkpoint for checkpoint in results.checkpoints if checkpoint.label == BASE), None
    )
    pairs = [compared_checkpoints(results, fates)]
    if base is not None:
        same_seed = (e for e in results.checkpoints if e.label != BASE and e.seed == base.seed)
        pairs += [(base.name, checkpoint.name) for checkpoint in same_seed]
    gained = by_gain(results, benchmark, *pairs[0])[: -(-problems // 2)]
    lost = (fates.problems[i] for i in fates.order("loss"))
    for problem in list(dict.fromkeys([*gained, *lost]))[:problems]:
        for a, b in dict.fromkeys(pairs):
            chosen = {"problem": problem, "a": a, "b": b}
            yield draws_address(results, benchmark, **chosen)
            for outcome in OUTCOMES:
                yield draws_address(results, benchmark, **chosen, outcome=outcome)
