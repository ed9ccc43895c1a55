"""Which problem a draw of another program is of: of a benchmark, of somebody's file, or of its own.

In: draws as `dumps` reads them. Out: the problem_id of each. A problem is known by its id, by its
text, or by its text within the prompt that the model read; without a benchmark the problems and
golds in the files are one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data import DatasetLock
from fgrpo_bench.data.columns import Columns, file_dataset
from fgrpo_bench.data.layouts import DUMP, content_id, without_options
from fgrpo_bench.files.whole import read_record, write_text
from fgrpo_bench.graders.recorded import is_recorded
from fgrpo_bench.specs import BenchmarkSpec
from fgrpo_bench.stages.digests import sha256_file

from .dumps import DumpedDraw
from .fetch import prepare_file
from .standalone import slug

SHOWN = 160
"""Characters of a prompt in a message."""
NO_GOLD = "(none in the file)"
"""Stands for the answer to a problem where only the verdicts in a file count."""
# Problems: those of a benchmark or of somebody's file, found in what was read; or the file's own.


class KnownProblems:
    """Finds the problem of a draw among those of a benchmark."""

    def __init__(self, problems: Sequence[Problem], *, subset: bool) -> None:
        self._ids = {problem.problem_id for problem in problems}
        self._subset = subset
        self._whole: defaultdict[str, list[str]] = defaultdict(list)  # ids by folded text
        for problem in problems:
            self._whole[_folded(problem.prompt)].append(problem.problem_id)
        for problem in problems:  # where a file's options were put behind its questions
            question = _folded(without_options(problem.prompt))
            if question != _folded(problem.prompt):
                self._whole[question].append(problem.problem_id)
        self._longest = max(map(len, self._whole))
        self._by_start: defaultdict[str, list[str]] = defaultdict(list)  # texts by their first part
        for text in self._whole:
            self._by_start[text[:START]].append(text)
        self._sizes = sorted({len(start) for start in self._by_start})
        self._cached: dict[tuple[str | None, str | None], str | None] = {}

    def place(self, draw: DumpedDraw, where: str) -> str | None:
        """Its problem_id; None where it is of another problem and a subset is meant."""
        key = draw.problem_id, draw.problem
        if key not in self._cached or key == (None, None):
            self._cached[key] = self._place(draw, where)
        return self._cached[key]

    def _place(self, draw: DumpedDraw, where: str) -> str | None:
        if draw.problem_id in self._ids:
            return draw.problem_id
        for text in self._texts(draw):
            if text in self._whole:
                return self._only(self._whole[text], where)
        if draw.problem is not None and (inside := self._inside(_folded(draw.problem))):
            longest = max(inside, key=len)
            if any(text not in longest for text in inside):
                ids = [self._whole[text][0] for text in inside]
                raise ValueError(
                    f"{where}: problems {' and '.join(ids)} both stand in its prompt "
                    f"({_beginning(draw.problem)}): name the one meant as `problem_id`, or drop "
                    "one from the problems"
                )
            return self._only(self._whole[longest], where)
        if self._subset and draw.problem is not None:
            return None
        raise ValueError(self._unknown(draw, where))

    def _texts(self, draw: DumpedDraw) -> Iterator[str]:
        """What in a row may be a problem as it stands, folded."""
        if draw.problem is not None:
            yield _folded(draw.problem)
        doc = draw.row.get("doc")
        for value in (doc if isinstance(doc, dict) else draw.row).values():
            if isinstance(value, str) and len(value) < 2 * self._longest + START:
                yield _folded(value)

    def _inside(self, prompt: str) -> list[str]:
        """The texts of problems that stand in a prompt, at borders of words."""
        there = set()
        for size in self._sizes:
            for at in range(len(prompt) - size + 1):
                for text in self._by_start.get(prompt[at : at + size], ()):
                    if prompt.startswith(text, at) and _at_borders(prompt, at, at + len(text)):
                        there.add(text)
        return sorted(there)

    def _only(self, ids: Sequence[str], where: str) -> str:
        if len(ids) > 1:
            raise ValueError(
                f"{where}: problems {' and '.join(ids)} have this text: name the one meant as "
                "`problem_id`, or drop the copies from the problems"
            )
        return ids[0]

    def _unknown(self, draw: DumpedDraw, where: str) -> str:
        of_ours = f"one of the ids, e.g. {min(self._ids)!r}, or the problem's text as `problem`"
        if draw.problem is None:
            return f"{where}: unknown problem_id {draw.problem_id!r}: give {of_ours}"
        return (
            f"{where}: no text that is a problem of this benchmark, nor one that a problem stands "
            f"in: {_beginning(draw.problem)}; give {of_ours}, or leave draws of other problems out "
            "with --subset"
        )


START = 24
"""Characters of a problem by which it is looked for."""


def _at_borders(text: str, start: int, end: int) -> bool:
    """Whether no word and no number goes on beyond either end."""
    before = text[start - 1 : start + 1] if start else ""
    return not (len(before) == 2 and before.isalnum()) and not (
        end < len(text) and text[end - 1 : end + 1].isalnum()
    )


def _folded(text: str) -> str:
    return " ".join(text.split())


def _beginning(text: str) -> str:
    return repr(text[:SHOWN]) + ("..." if len(text) > SHOWN else "")


class OwnProblems:
    """The problems and golds of the files themselves, which are known by both: equal ones of other
    files are the same problems."""

    def __init__(self, files: Sequence[Path], grader: str) -> None:
        self._files, self._grader = files, grader
        self._name = "dump" if grader == "math" else f"dump-{slug(grader, 26)}"
        self._ids: dict[tuple[str, str], str] = {}
        self._rows: dict[str, tuple[str, str]] = {}

    def place(self, draw: DumpedDraw, where: str) -> str:
        """Its problem_id."""
        answer = NO_GOLD if is_recorded(self._grader) else draw.gold
        if draw.problem is None or not draw.problem.strip():
            raise ValueError(
                f"{where}: no problem: name the column of the problems with --prompt, or the "
                "problems that draws are of with --data"
            )
        if answer is None or not answer.strip():
            raise ValueError(
                f"{where}: no answer to the problem: name the column of the answers with --answer, "
                "give the problems with answers by --data, or take the verdicts that stand in the "
                "file with --verdicts theirs"
            )
        key = draw.problem, answer
        if key not in self._ids:
            self._ids[key] = f"{self._name}-{content_id(*key)}"
            self._rows.setdefault(self._ids[key], key)
        return self._ids[key]

    def benchmark(self, folder: Path, root: Path, notices: list[str]) -> BenchmarkSpec:
        """Them as a benchmark, prepared below the folder of all runs. folder: keeps them. said:
        gets where the short answers stood, and how many problems have several."""
        lines = (
            json.dumps({"problem": problem, "answer": answer}) + "\n"
            for problem, answer in self._rows.values()
        )
        path = folder / "problems.jsonl"
        write_text(path, "".join(lines))
        columns = Columns(prompt="problem", answer="answer", options=None, said=())
        dataset = file_dataset(
            path,
            columns,
            name=self._name,
            grader=self._grader,
            sha256=sha256_file(path),
            layout=DUMP,
        )
        try:
            prepared = prepare_file(root, dataset)
        except ValueError as error:
            raise ValueError(
                f"{error}; the answers are those of {', '.join(map(str, self._files))}: "
                "mend it there, give the problems by --data, or take the verdicts that stand in "
                "the file with --verdicts theirs"
            ) from error
        notices += filter(None, [read_record(prepared.lock, DatasetLock).answers])
        rows = Counter(_folded(problem) for problem, _ in self._rows.values())
        if several := sum(count > 1 for count in rows.values()):
            notices.append(
                f"different answers: {several:,} of {len(rows):,} problems have several, and count "
                "as one problem for each; give the right ones by --data"
            )
        return BenchmarkSpec(
            name=self._name,
            dataset=dataset,
            n_problems=None,
            grader=self._grader,
            extra_graders=(),
            prompt=None,
        )
