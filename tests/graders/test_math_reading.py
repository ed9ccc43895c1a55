"""What counts as one answer, how it is written for math-verify, and which words are looked at."""

from __future__ import annotations

import pytest

from fgrpo_bench.graders.math import leniencies
from fgrpo_bench.graders.math_reading import LONGEST_JOINT, as_read, denies, joins, parts, refusal


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("7", 1),
        ("10{,}000", 1),
        ("10,\\!080", 1),
        ("1,234,567", 1),
        ("1, 234", 2),
        ("1, 2 and 3", 3),
        ("1 \\text{ or } 2", 2),
        ("\\pm 3", 2),
        ("(1, 2)", 2),
        ("(1, 2), (3, 4), (5, 6)", 3),
        ("\\left\\{1, 2, 3\\right\\}", 3),
        ("x \\in \\{1, 2\\}", 2),
        ("(x, y) = (1, 2)", 2),
        ("f(x, y)", 1),
        ("\\frac{(a, b)}{2}", 1),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", 1),
        ("\\text{red, green}", 1),
        ("sand", 1),
        ("}, 1", 2),
        ("", 1),
    ],
)
def test_parts_are_counted(answer, number):
    assert parts(answer) == number


def test_commas_names_and_a_few_words_join_boxes_and_sentences_do_not():
    joints = [
        "",
        ", ",
        "$, $",
        " and ",
        "$ \\text{ and } $",
        "\\\\ \\quad ",
        ",\n\n",
        " or $x_2 = ",
    ]
    named = [
        " \\text{ and } \\beta = ",
        " for (i), and for (ii): ",
        " is the first root, the other is ",
    ]
    assert all(map(joins, [*joints, *named]))
    other = [". So ", " andy ", " is wrong, the answer is ", " = ", "," * (LONGEST_JOINT + 1)]
    assert not any(map(joins, other))


def test_lines_labels_and_units_join_boxes_loosely_and_results_on_the_way_do_not():
    loose = [
        "\n- ",
        "$\n2. $x = ",
        "$.\n\n**Part (b):** $",
        " chickens and ",
        "$ boys, $",
        " \\\\ y &= ",
        " |\n| b | ",
        " cm and the width is ",
        "$\n* **Girls:** $",
    ]
    assert all(joins(between, loosely=True) for between in loose)
    assert not any(joins(between) for between in loose if between[0] != " " or "and" in between)
    other = [
        ". So ",
        " chickens, so ",
        "\n- Final answer: ",
        " and the sum is ",
        "\nStep 2: ",
        " is not ",
    ]
    assert not any(joins(between, loosely=True) for between in other)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2516_8", "\\mathbb{B}_{8x2516}"),
        ("0101_{\\text{base two}}", "\\mathbb{B}_{2x101}"),
        ("(2516)_{(8)}", "\\mathbb{B}_{8x2516}"),
        ("2516_{10}", "2516"),
        ("1A_{16}", "\\mathbb{B}_{16x1A}"),
        ("2A_1", "2A_1"),
        ("a_1, x_{12}, \\log_2 8, 0.5_2, {}_5C_2", "a_1, x_{12}, \\log_2 8, 0.5_2, {}_5C_2"),
        ("5_n", "5_n"),
        ("5_{99}", "5_{99}"),
        ("\\angle CBA+\\angle{ B A C }", "\\angle ABC+\\angle BAC"),
        ("\\triangle CBA", "\\triangle ABC"),
        ("\\angle CBAD", "\\angle CBAD"),
        ("= 3", "3"),
        ("\\approxeq 3", "\\approxeq 3"),
        ("3+4i, e^{i\\pi}, xi", "3+4I, e^{I\\pi}, xi"),
        ("a_i+4i", "a_i+4i"),
        ("\\sum_{i=1}^3 i", "\\sum_{i=1}^3 i"),
        ("5 \\pmod{7}", "5 "),
        ("\\simeq 3", "3"),
        ("\\alpha = 3", "\\alpha = 3"),
        ("E_{0} + \\bar E_1 + E^2", "\\mathcal{E}_{0} + \\bar \\mathcal{E}_1 + E^2"),
    ],
)
def test_what_math_verify_passes_over_is_written_so_that_it_cannot(written, read):
    assert as_read(written) == read
    assert as_read(read) == read


def test_words_that_deny_are_seen_and_others_are_not():
    assert all(map(denies, ["is not it", "or more", "at most", "isn't", "and 4"]))
    assert not any(map(denies, ["metres", "and more", "square knots", "notes", "order"]))
    assert refusal("\\text{not prime}", "\\text{not prime}", several=False) is None
    assert refusal("3", "", several=False) is None


def test_a_pair_is_no_set_and_a_residue_has_its_modulus():
    pairs = ["(1,2)", "\\left(1,2\\right)", "(x,y)=(1,2)", "\\langle 1, 2 \\rangle"]
    sets = ["\\{1,2\\}", "x \\in \\left\\{1,2\\right\\}", "S = \\{(1,3),(2,4)\\}"]
    neither = ["1,2", "(1,2),(3,4)", "[1,2]", "(3)", "(1,2", "2)", ""]
    for pair in pairs:
        for group in sets:
            for sides in ((pair, group), (group, pair)):
                assert refusal(*sides, several=True) == "a pair for a set, or the reverse"
        assert all(refusal(pair, other, several=True) is None for other in (*pairs, *neither))
    assert refusal("3 \\pmod{5}", "3 (\\bmod 7)", several=False) == "another modulus"
    assert refusal("3 \\pmod{5}", "3 (mod 5)", several=False) is None
    assert refusal("3", "3 \\pmod 7", several=False) is None


def test_words_and_points_keep_their_order_and_products_do_not():
    same = [("abc", "cba"), ("mgh", "hgm"), ("3ABC", "3CBA"), ("ABC^2", "CBA^2"), ("on", "no")]
    other = [
        ("east", "seat"),
        ("ABC", "CAB"),
        ("(\\text{dog}, 1)", "(\\text{god}, 1)"),
        ("Dog", "god"),
    ]
    assert [refusal(*pair, several=False) for pair in same] == [None] * len(same)
    assert None not in [refusal(*pair, several=False) for pair in other]


def test_what_decides_nothing_is_named_by_its_kind():
    assert leniencies("5 \\text{ cm}", "5 cm", "") == []
    assert leniencies("5", "5 km", "") == ["a unit or text behind"]
    assert leniencies("\\$5", "5\\%", "") == ["a percent sign", "a currency sign"]
    kept = [("1,2", "1,2,\\ldots"), ("f(x)", "f'(x)")]
    assert [leniencies(*pair, "") for pair in kept] == [["dots or a prime"]] * 2
