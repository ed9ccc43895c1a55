"""Every block that shows what a terminal shows is compared with what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fgrpo_bench.engines.embedded.kernels import digits_warning
from sweeps import REPOSITORY
from sweeps.cli import main as sweeps
from tests.pages.blocks import PAGES, assert_printed, blocks, name
from tests.support.smoke import smoke_sweep

PLANS = {
    ("docs/guides/gpu-hours.md", "estimated on GPUs: "): "transfer experiment=qwen2.5-7b",
    ("docs/guides/gpu-hours.md", "GiB of a GPU's 80"): "transfer experiment=qwen2.5-7b",
    ("docs/guides/gpu-hours.md", "math500: pass@256"): "transfer experiment=qwen2.5-7b",
    ("docs/start/first-sweep.md", "30 runs, 72 stages"): "groupsize profile.max_parallel=2",
}
"""By page and how a block begins: the plan that prints it, which is compared below."""
COMPARED = {
    ("docs/guides/evaluate.md", "problems: "): "tests/evaluators/test_guides.py",
    ("docs/guides/groups.md", "rollouts: "): "tests/evaluators/test_groups.py",
    ("docs/guides/train.md", "problems: "): "tests/sweeps/test_new.py",
    ("docs/reference/conformance.md", "Advantages of "): "tests/conform/test_page.py",
    ("docs/start/first-sweep.md", "2 runs, 6 stages"): "tests/pages/test_outputs.py",
    ("docs/start/first-sweep.md", "Focal weight at N = 4"): "tests/pages/test_outputs.py",
}
"""The test that compares it."""
NOT_COMPARED = {
    ("docs/developers/architecture.md", "conf/*.yaml -> "): "a picture",
    ("docs/guides/data.md", '{"question": '): "goes in",
    ("docs/guides/data.md", "answers: behind ####"): "of GSM8K's test set, which is not shipped",
    ("docs/guides/evaluate.md", '{"question": '): "goes in",
    ("docs/guides/train.md", '{"question": '): "goes in",
    ("docs/reference/mlflow.md", "tags.kind = "): "goes in, into MLflow's pages",
    ("docs/reference/sweeps.md", "point           train"): "one moment of a sweep that runs",
}
"""Why it is not."""


def beginning(page: Path, block: str) -> tuple[str, str] | None:
    """The key that a table above has for a block."""
    known = {**PLANS, **COMPARED, **NOT_COMPARED}
    fits = [key for key in known if key[0] == name(page) and block.startswith(key[1])]
    return fits[0] if len(fits) == 1 else None


def test_every_block_is_compared_or_says_why_not():
    shown = [(page, block) for page in PAGES for block in blocks(page, "")]
    unlisted = [(name(page), block) for page, block in shown if beginning(page, block) is None]
    assert unlisted == []
    listed = [*PLANS, *COMPARED, *NOT_COMPARED]
    assert sorted(beginning(page, block) or ("", "") for page, block in shown) == sorted(listed)
    for test in COMPARED.values():
        text = (REPOSITORY / test).read_text(encoding="utf-8")
        assert re.search(r'blocks\(\w+, ""\)', text), f"{test} reads no such block"


@pytest.mark.slow  # plans of whole sweeps
@pytest.mark.parametrize("words", sorted(set(PLANS.values())))
def test_a_plan_prints_what_the_pages_show(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path))
    profile = ["profile=slurm-8gpu"] if words.startswith("transfer") else []
    assert sweeps(["plan", *shlex.split(words), *profile]) == 0
    printed = capsys.readouterr().out
    for (page, start), plan in PLANS.items():
        if plan == words:
            (block,) = [b for b in blocks(REPOSITORY / page, "") if b.startswith(start)]
            assert_printed(block, printed)


@pytest.mark.slow  # a whole smoke sweep, on two cores
def test_a_first_sweep_prints_what_its_page_shows(tmp_path):
    _, printed = smoke_sweep(tmp_path)
    printed = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", "", printed, flags=re.MULTILINE)
    stages, answer, _ = blocks(REPOSITORY / "docs/start/first-sweep.md", "")
    for line in stages.splitlines():  # two workers end in one order or the other
        assert_printed(line, printed)
    if "AMD's" not in (
        digits_warning() or ""
    ):  # where the page's were drawn; others round otherwise
        answer, printed = without_digits(answer), without_digits(printed)
    assert_printed(answer, printed)


def without_digits(text: str) -> str:
    """Without decimals, and without the verdicts that rest on them."""
    return re.sub(r"[-+]?\d+\.\d|(?i:inconclusive|suggestive) (?=\()", "_", text)
