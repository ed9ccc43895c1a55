"""The page of advantages says what the docstrings of their functions say, and these what is so."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import pytest
import torch

from fgrpo_bench.objectives.advantages import (
    ADVANTAGES,
    default_parameters,
    first_state,
    next_advantages,
    reads_log_probs,
)
from tests.support.plans import is_somebodys

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "methods.md"
BEGIN = (
    "<!-- `pytest tests/objectives/test_methods_page.py --update-golden` writes what follows -->"
)
END = "<!-- end of what it writes -->"
SHIPPED = [name for name, entry in ADVANTAGES.items() if not is_somebodys(name, entry)]
FIELDS = ("Formula", "Weight", "Uniform groups")
TEACH = {
    "none": (False, False),
    "all right": (True, False),
    "all wrong": (False, True),
    "both": (True, True),
}
"""What a docstring's `Uniform groups` begins with: whether those all right have a gradient, and
those all wrong."""


def documented(advantage: str) -> tuple[str, dict[str, str]]:
    """What the docstring of an advantage says first, and its FIELDS, each in one line."""
    entry = ADVANTAGES[advantage]
    text = inspect.getdoc(getattr(entry, "function", entry)) or ""
    first, _, rest = text.partition("\n\n")
    parts = re.split(rf"^({'|'.join(FIELDS)}): ", rest, flags=re.MULTILINE)[1:]
    values = (" ".join(value.split()) for value in parts[1::2])
    return " ".join(first.split()), dict(zip(parts[::2], values, strict=True))


def item(advantage: str) -> str:
    """Its paragraph on the page."""
    first, fields = documented(advantage)
    names = [f"`{name}`" for name in default_parameters(advantage)]
    title = f"`{advantage}`" + (f" ({', '.join(names)})" if names else "")
    told = " ".join(f"{name}: {fields[name]}." for name in FIELDS)
    return textwrap.fill(
        f"- {title}: {first} {told}",
        width=100,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def test_the_page_has_every_advantage_as_its_docstring_tells_it(golden):
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    items = "\n".join(item(name) for name in SHIPPED)
    golden("../../docs/reference/methods.md", f"{before}{BEGIN}\n\n{items}\n\n{END}{after}")


@pytest.mark.parametrize("advantage", SHIPPED)
def test_what_a_docstring_says_of_uniform_groups_is_so(advantage):
    first, fields = documented(advantage)
    assert "(arXiv 2" in first and tuple(fields) == FIELDS
    rewards = torch.tensor([[1.0] * 4, [0.0] * 4])
    log_probs = -torch.arange(1.0, 9).view(2, 4)
    read = {"log_probs": log_probs, "n_tokens": torch.ones(2, 4)}
    given = {"k": 2} if "k" in default_parameters(advantage) else {}
    _, values = next_advantages(
        first_state(advantage, 4, given), rewards, 0.0, advantage, given, rewards,
        **(read if reads_log_probs(advantage) else {}),
    )  # fmt: skip
    told = next(words for words in TEACH if fields["Uniform groups"].startswith(words))
    assert tuple((values != 0).any(1).tolist()) == TEACH[told]
