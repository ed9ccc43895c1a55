"""A driver whose stages are fake: `python -m tests.support.fake_driver <declaration.json>`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs import Declaration, from_dict
from sweeps.local import drive
from tests.support.fake_stage import fake_command


def fake_finish(paths: RunPaths, say: Callable[[str], None]) -> None:
    """A table of the results in place of the report, so that two runs can be compared."""
    results = {
        stage["name"]: read_json(paths.folder / stage["name"] / "result.json")["value"]
        for stage in read_json(paths.plan)["stages"]
    }
    write_json(paths.report / "table.json", results)
    say("finished")


if __name__ == "__main__":
    declaration = from_dict(Declaration, read_json(Path(sys.argv[1])))
    sys.exit(drive.run(declaration, command=fake_command, finish=fake_finish))
