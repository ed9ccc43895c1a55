"""The estimators of the installed OpenRLHF against the vectors, and the page."""

from pathlib import Path

from fgrpo_bench.conformance.__main__ import _check_trainer, _markdown
from fgrpo_bench.conformance.check import DIFFERS, EQUAL


def test_its_estimators_are_what_the_page_says():
    title, verdicts = _check_trainer("openrlhf")
    kinds = {verdict.name: verdict.kind for verdict in verdicts}
    assert {kinds[name] for name in ("group_norm", "dr_grpo", "rloo")} == {EQUAL}
    assert kinds["openrlhf, groups stay whole"] == EQUAL
    assert kinds["group_norm, equal rewards"] == DIFFERS  # rounding over a deviation of rounding
    page = Path(__file__).parents[2] / "docs/reference/conformance.md"
    assert "\n".join(_markdown(title, verdicts)) in page.read_text(encoding="utf-8")
