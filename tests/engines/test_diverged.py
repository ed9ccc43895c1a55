"""What is said of numbers that are not finite, whichever engine computed them."""

import math

import pytest

from fgrpo_bench.engines.diverged import diverged, named_groups, not_finite


@pytest.mark.parametrize(
    ("loss", "norm", "what"),
    [
        (math.nan, 1.0, "loss (nan)"),
        (-math.inf, 1.0, "loss (-inf)"),
        (-0.5, math.inf, "gradient norm (inf)"),
        (-0.5, -1.0, "gradient norm (-1)"),  # what DeepSpeed says in place of nan
        (-0.5, 0.0, None),
        (-0.5, None, None),
    ],
)
def test_a_number_that_is_none_is_found_by_its_name(loss, norm, what):
    assert not_finite({"loss": loss, "gradient norm": norm}) == what


def test_groups_are_named_once_and_not_all():
    assert named_groups(["7-3"]) == "the group of 7-3"
    assert named_groups(["a", "b", "a", "c"]) == "the groups of a, b, c"
    assert named_groups(["a", "b", "c", "d", "e"]) == "the groups of a, b, c and 2 more"


def test_the_error_names_the_step_the_number_and_the_remedy():
    said = str(diverged(3, "the loss (nan)", saved="nothing is saved"))
    assert said.startswith("step 3: the loss (nan) is not finite. The run diverged")
    assert "nothing is saved. Lower the learning rate" in said
