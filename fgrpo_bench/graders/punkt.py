"""The English sentence splitter that IFEval's checkers need: NLTK's punkt data, put in place once.

The data names no licence of its own, so it is not part of this project: `make setup` takes it out
of a wheel of the package index, whatever else there is no network for, and keeps what is English.

  python -m fgrpo_bench.graders.punkt
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

PLACE = "tokenizers/punkt_tab/english"
CARRIER = "llama-index-core==0.14.25"
"""A wheel that carries NLTK's data (MIT as a whole); nothing of it is installed."""
CARRIED = f"llama_index/core/_static/nltk_cache/{PLACE}"
FILES = {
    "abbrev_types.txt": "92a3e070f43d9b4c5534758ca40ad7343b04e7e29bfe0c2eb658a39445a4f779",
    "collocations.tab": "8e2da1225e4dd2cc9dba261ee231ccb134859e21b46006e7f472c5ee269af0cf",
    "ortho_context.tab": "4bbcca25ed3d3f06c02402abf8419b9f033b8adc06e7b482eca4e45f81a5dc4c",
    "sent_starters.txt": "f3f8535483e1dba487241b764945168123bca3209a9645e59acd1225dc76edac",
}
"""What is needed, by its sha256: other data counts other sentences."""


def main() -> None:
    """Put the data into this environment, where NLTK looks for it by itself."""
    folder = Path(sys.prefix) / "share/nltk_data" / PLACE
    if not list(wrong(folder)):
        print(f"NLTK's English punkt data stands in {folder}")
        return
    with tempfile.TemporaryDirectory() as name:
        pip = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--dest", name, CARRIER], check=True)
        (wheel,) = Path(name).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        with ZipFile(wheel) as archive:
            for file in FILES:
                (folder / file).write_bytes(archive.read(f"{CARRIED}/{file}"))
    check(folder)
    print(f"NLTK's English punkt data: put into {folder}")


def check(folder: Path) -> None:
    """RuntimeError where a file is missing or another one than was tested."""
    if files := list(wrong(folder)):
        raise RuntimeError(
            f"{folder} lacks NLTK's English punkt data or has another version of it "
            f"({', '.join(files)}), and with other data IFEval counts other sentences: run "
            f"`{sys.executable} -m fgrpo_bench.graders.punkt`"
        )


def wrong(folder: Path) -> Iterator[str]:
    """Names of the files that are missing or have another digest."""
    for name, digest in FILES.items():
        path = folder / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield name


if __name__ == "__main__":
    main()
