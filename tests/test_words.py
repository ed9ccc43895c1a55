"""Sentences that readers stumbled over stay away from what users read."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
READ = ("fgrpo_bench", "sweeps", "evaluators", "dashboards", "conf", "docs")
SUFFIXES = {".py", ".md", ".html", ".js", ".yaml", ".txt", ".tex"}
OLD = {
    "lost points back": "recovers ... of the points lost",
    r"(rollouts|prompts|draws|tokens|updates) a (step|prompt|second|node)\b": "per",
    r"answers 256 held-out problems": "we sample each 512 times on 256 held-out problems",
    r"the same command goes on": "rerun it to resume",
    r"What each weighs": "How each weights a prompt",
    r"(is|are) open (against|in every|at k)|\bThat is open|pass@\d+ is open": "is inconclusive",
    r"what is judged: ": "supported benchmarks",
    r"The method is of": "F-GRPO is by ...",
    r"and of this repository": "and this repository's version",
    r"is without 0|would be without 0": "excludes 0",
    r"of the question's \d+ cells dominated": "compared settings are dominated",
    r"points and more are shown": "detectable difference: ... points",
    r"more likely right than none": "more likely than not contain a correct one",
    r"takes models and problems as given": "conditions on models and problems",
    r"there for its comparisons alone": "covers declared comparisons only",
    r"of a point's are cut off": "no run has over ...% truncated",
    r"Which checkpoint is judged": "Which checkpoint is evaluated",
    r"of a focal run none that cost": "only within the rollout budget of its base algorithm",
    r"that does not say `?gives_log_probs": "advantages that read log-probs need ...",
    r"its own view of one begins": "MLflow opens on a page that this project does not use",
    r"Such draws are others": "these draws differ",
    r"stops where luck was": "problems stop early after lucky draws",
    r"is said by the code": "for behaviour, read the code",
    r"\bin want of\b": "missing",
    r"(?<!\. )python -m (sweeps|evaluators|dashboards) [a-z]": "the command fgrpo-bench",
}
"""By the words as they were, as patterns, those that took their place."""


def test_an_old_sentence_does_not_come_back() -> None:
    folders = [(REPOSITORY / name).rglob("*") for name in READ]
    files = [REPOSITORY / "README.md", *(path for found in folders for path in found)]
    texts = {
        path: re.sub(r'"\s*\n\s*f?"', "", path.read_text())  # a string of several lines as one
        for path in files
        if path.suffix in SUFFIXES
    }
    found = [
        f"{path.relative_to(REPOSITORY)}: for {old!r} write: {OLD[old]}"
        for old in OLD
        for path, text in texts.items()
        if re.search(old, text)
    ]
    assert found == []
