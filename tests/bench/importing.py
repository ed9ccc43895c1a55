"""A dump of verl, 500 problems of 256 draws: imported, graded and scored, against grading alone;
and compared once it is imported."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROBLEMS, DRAWS = 500, 256
SENTENCE = "We expand the product, collect terms x_{%d}, and compare both sides of the equation. "
COMMAND = """
import json, resource, sys
from fgrpo_bench.__main__ import main
assert main(sys.argv[1:]) == 0
uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
seconds = sum(use.ru_utime + use.ru_stime for use in uses)
print(json.dumps({"seconds": seconds, "megabytes": uses[0].ru_maxrss / 1024}))
"""


def write_dump(path: Path) -> None:
    """Responses of 10 to 30 sentences and a box, right by a chance of each problem's own."""
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for i in range(PROBLEMS):
            rate = rng.random()
            for _ in range(DRAWS):
                is_right = rng.random() < rate
                answer = 3 * i + 7 if is_right else rng.choice([1, 2, 3, 5, 8])
                text = "".join(SENTENCE % rng.randrange(99) for _ in range(rng.randint(10, 30)))
                row = {
                    "input": f"user\nWhat is 3 times {i} plus 7? (number {i})\nassistant\n",
                    "output": f"{text}So it is \\boxed{{{answer}}}.",
                    "gts": str(3 * i + 7),
                    "score": float(is_right),
                    "step": 200,
                }
                file.write(json.dumps(row) + "\n")


def used(root: Path, *words: str) -> dict[str, float]:
    """Processor seconds with those of the grading processes, peak megabytes without, and seconds on
    the clock."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        check=True,
        env=os.environ | {"FGRPO_RUN_ROOT": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    facts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return facts | {"wall": time.perf_counter() - begun}


def main() -> None:
    """Print one line of facts."""
    with tempfile.TemporaryDirectory() as folder:
        root, dump = Path(folder) / "runs", Path(folder) / "200.jsonl"
        write_dump(dump)
        imported = used(root, "evaluate", "import", str(dump), "--name", "theirs")
        (grades,) = root.glob("evals/theirs/eval/*/*/dump/grades.math-*.parquet")
        grades.unlink()
        shutil.rmtree(root / "verdicts", ignore_errors=True)
        graded = used(root, "evaluate", "grade", "theirs")
        places = [f"{label}={dump}" for label in ("a", "b")]
        used(root, "compare", *places)
        again = used(root, "compare", *places)
        facts = {
            "dump, MB": dump.stat().st_size / 2**20,
            "import, CPU s": imported["seconds"],
            "grading alone, CPU s": graded["seconds"],
            "ratio": imported["seconds"] / graded["seconds"],
            "peak, MB": imported["megabytes"],
            "compared again, CPU s": again["seconds"],
            "compared again, s": again["wall"],
        }
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
