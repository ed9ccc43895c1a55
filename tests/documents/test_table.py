"""Which values of a table are called the best."""

from __future__ import annotations

from dataclasses import replace

from fgrpo_bench.documents.table import keyed_table, percent_value, with_best
from fgrpo_bench.documents.terminal import aligned


def test_lines_align_and_leave_no_space_at_the_end():
    rows = [["a", "bb"], ["ccc", ""], ["d", "e"]]
    assert aligned(rows) == ["a    bb", "ccc", "d    e"]
    assert aligned(rows, n_labels=1) == ["a    bb", "ccc", "d     e"]


def test_the_best_is_the_largest_and_one_alone_is_none():
    rows = {
        ("a",): {"x": (percent_value(0.01), percent_value(None))},
        ("b",): {"x": (percent_value(0.009),)},
    }
    assert with_best(rows, columns=["x"])["a",]["x"][0].best
    assert not with_best({("a",): rows["a",]}, columns=["x"])["a",]["x"][0].best
    apart = with_best(rows, columns=["x"], among=lambda key: key[0])
    assert not apart["a",]["x"][0].best and not apart["b",]["x"][0].best
    assert keyed_table(title="t", names=["n"], columns=["y"], rows=rows).rows == (
        ("a", "-"),
        ("b", "-"),
    )


def test_what_is_printed_alike_is_best_together():
    alike = {(name,): {"x": (percent_value(mean),)} for name, mean in
             [("a", 0.31449), ("b", 0.31351), ("c", 0.31349)]}  # fmt: skip
    made = {key: values["x"][0] for key, values in with_best(alike, columns=["x"]).items()}
    assert [(value.text, value.best) for value in made.values()] == [
        *(("31.4", True), ("31.4", True), ("31.3", False))
    ]


def test_of_values_with_intervals_one_alone_above_all_others_is_best():
    def best(*intervals):
        values = [replace(percent_value(0.9 - i / 10), interval=at)
                  for i, at in enumerate(intervals)]  # fmt: skip
        rows = {(str(i),): {"x": (value,)} for i, value in enumerate(values)}
        made = with_best(rows, columns=["x"], is_apart=True)
        return [values["x"][0].best for values in made.values()]

    assert best((0.85, 0.95), (0.7, 0.84), (0.6, 0.8)) == [True, False, False]
    assert best((0.85, 0.95), (0.7, 0.85), (0.6, 0.8)) == [False] * 3
    assert best((0.85, 0.95), None) == best(None, (0.7, 0.8)) == [False] * 2


def test_texts_that_are_no_numbers_compete_with_nobody():
    best = with_best({(n,): {"x": (percent_value(v),)} for n, v in [("a", None), ("b", 0.5)]},
                     columns=["x"])  # fmt: skip
    assert not best["a",]["x"][0].best and not best["b",]["x"][0].best
