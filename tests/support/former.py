"""Sweeps that the version before made, as archives: sweep `smoke` of a model of 32 channels."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from fgrpo_bench.runs import find_runs
from fgrpo_bench.stages import journal
from fgrpo_bench.stages.digests import sealed
from fgrpo_bench.stages.files import read_json, write_json
from fgrpo_bench.stages.paths import RunPaths

ARCHIVES = Path(__file__).parents[1] / "stored" / "former"
SMALL = [
    f"experiment.train.model.{size}"
    for size in (
        *("hidden_size=32", "n_layers=1", "n_heads=1", "n_kv_heads=1", "intermediate_size=32"),
    )
]
"""Overrides that they were run with."""
ROOT = "/runs"
"""The run root that their files name."""


def unpacked(name: str, root: Path) -> RunPaths:
    """A sweep under another run root, as if it had been run there."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(root, filter="data")
    (paths,) = find_runs(root, "smoke")
    declared = json.loads(paths.sweep_json.read_text().replace(ROOT, str(root)))
    for path, content in ((paths.sweep_json, declared), (paths.plan, read_json(paths.plan))):
        write_json(path, sealed(content))
    if paths.submissions.exists():
        lines = [line.row for line in journal.read(paths.submissions)]
        paths.submissions.unlink()
        for line in lines:
            assert line is not None
            journal.append(paths.submissions, moved(line, root))
    for card in paths.batch("").glob("*/batch.json"):
        facts = moved(json.loads(card.read_text()), root)
        card.write_text(json.dumps(journal.sealed(facts)))
    return paths


def moved(line: dict, root: Path) -> dict:
    """What a line of a journal would say under another run root."""
    line.pop("crc", None)
    return dict(json.loads(json.dumps(line).replace(f'"{ROOT}/', f'"{root}/')))
