"""The estimators of the installed verl, TRL and SkyRL against the vectors, and the page."""

from pathlib import Path

import pytest

from fgrpo_bench.conformance.__main__ import _check_trainer, _markdown
from fgrpo_bench.conformance.check import DIFFERS, EPSILON, EQUAL

DOCS = Path(__file__).parents[2] / "docs/reference"
EXPECTED = {
    "verl": {
        "grpo": EQUAL,  # its 1e-6 is below the tolerance of float32 for most groups
        "grpo, norm_adv_by_std_in_grpo=False": EQUAL,
        "rloo": EQUAL,
        "rloo_vectorized": EQUAL,
        "grpo, equal rewards": DIFFERS,  # rounding over a deviation of rounding
        "fgrpo_grpo, equal rewards": EQUAL,
        "verl, groups stay whole": EQUAL,
    },
    "skyrl": {
        "grpo": EQUAL,
        "grpo, equal rewards": DIFFERS,
        "grpo, grpo_norm_by_std=false": EQUAL,
        "rloo": EQUAL,
        "maxrl": EPSILON,  # beside its mean
        "skyrl, groups stay whole": EQUAL,
    },
    "trl": {
        "GRPOTrainer, scale_rewards=group": EPSILON,
        "GRPOTrainer, scale_rewards=none": EQUAL,
        "RLOOTrainer": EQUAL,
        "trl, groups stay whole": EQUAL,
    },
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_trainers_estimators_are_what_the_page_says(name):
    title, verdicts = _check_trainer(name)
    kinds = {verdict.name: verdict.kind for verdict in verdicts}
    assert {each: kinds[each] for each in EXPECTED[name]} == EXPECTED[name]
    ours = [v for v in verdicts if v.name.startswith("fgrpo_") and v.advantage]
    assert all(verdict.is_equal for verdict in ours)
    assert len({verdict.advantage for verdict in ours}) == (14 if name == "verl" else 0)
    section = "\n".join(_markdown(title, verdicts))
    assert section in (DOCS / "conformance.md").read_text(encoding="utf-8")
