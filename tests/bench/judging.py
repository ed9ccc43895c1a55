"""Judgements by others, each way in a process of its own: `python -m tests.bench.judging <way>`.

Reads a JSON line [gold, response] a judgement and prints [verdicts, CPU seconds], the imports left
out. Ways:
  plain    math-verify parses gold and whole response anew for every sample, in this process
  forked   the same, in a process that is forked for each judgement
  minerva  lm-eval's process_results of its task minerva_math, which asks SymPy and math-verify; it
           takes ANTLR 4.11 only, Hydra 4.9 only: this process finds it in ANTLR_4_11
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ANTLR_4_11 = Path(sys.prefix) / "antlr-4.11"
"""Where `make bench` puts it."""


def plain(gold: str, response: str) -> bool:
    """Of math-verify on the whole response."""
    from math_verify import parse, verify

    return bool(verify(parse(f"\\boxed{{{gold}}}"), parse(response)))


def forked(gold: str, response: str) -> bool:
    """The same, by a child that ends with it."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = int(plain(gold, response))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1), code
    return bool(code)


def minerva() -> Callable[[str, str], bool]:
    """lm-eval's function; its module is read by its path, so that the rest is not imported."""
    package = importlib.util.find_spec("lm_eval")
    assert package is not None and package.submodule_search_locations is not None
    path = Path(package.submodule_search_locations[0]) / "tasks" / "minerva_math" / "utils.py"
    spec = importlib.util.spec_from_file_location("minerva_math", path)
    assert spec is not None and spec.loader is not None
    utils: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)

    def judged(gold: str, response: str) -> bool:
        doc = {"solution": f"\\boxed{{{gold}}}", "answer": utils.normalize_final_answer(gold)}
        return bool(utils.process_results(doc, [response])["math_verify"])

    return judged


def by(way: str, questions: Sequence[tuple[str, str]]) -> tuple[list[bool], float]:
    """Verdicts and CPU seconds of one way, from a process of its own."""
    path = [str(ANTLR_4_11)] if way == "minerva" else []
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.judging", way],
        input="\n".join(map(json.dumps, questions)),
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*path, str(Path.cwd())])},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    verdicts, seconds = json.loads(done.stdout.splitlines()[-1])
    return verdicts, seconds


def main() -> None:
    way = sys.argv[1]
    judged = minerva() if way == "minerva" else {"plain": plain, "forked": forked}[way]
    judged("\\frac{1}{2}", "So \\boxed{0.5}.")
    begun = sum(os.times()[:4])
    verdicts = [judged(*json.loads(line)) for line in sys.stdin]
    print(json.dumps([verdicts, sum(os.times()[:4]) - begun]))


if __name__ == "__main__":
    main()
