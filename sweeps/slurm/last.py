"""`python -m sweeps.slurm.last <folder>`: what the last job of a sweep does, with no driver alive.

It writes the report on what is done and then syncs MLflow, which shows the report's files, as a
driver does (`finish`). MLflow is synced only where it is a server: nodes must not share an SQLite
file over a network file system, so the embedded store is left to `tick`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fgrpo_bench.report.build import write_report
from fgrpo_bench.results import load_results
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tracking.store import URI_VARIABLE
from sweeps.finish import sync


def run_paths(folder: Path) -> RunPaths:
    """The run whose folder this is."""
    *_, sweep, experiment, version = folder.parts
    root = folder.parents[2]
    return RunPaths(root=root, sweep=sweep, experiment=experiment, version=version)


def main(folder: Path) -> int:
    """Exit code 0; whatever goes wrong is raised."""
    paths = run_paths(folder)
    written = write_report(load_results(paths))
    if os.environ.get(URI_VARIABLE, "").startswith(("http://", "https://")):
        sync(paths, print)
    print(written.text)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
