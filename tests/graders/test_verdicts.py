"""Verdicts that outlive the process."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from fgrpo_bench.graders.judge import Judge
from fgrpo_bench.graders.verdicts import LONGEST, VerdictStore
from fgrpo_bench.records import Grade

HALF = ("\\frac{1}{2}", "0.5", True)
EQUAL = Grade(outcome="correct", extracted="0.5", reason="equal")


def test_a_question_is_judged_once_over_all_processes(tmp_path):
    with Judge(store=VerdictStore(tmp_path)) as first:
        said = [first.verdict("\\frac{1}{2}", answer) for answer in ("0.5", "0.25", "0.5")]
        assert first.judgements == 2
    with Judge(store=VerdictStore(tmp_path)) as second:
        assert [second.verdict("\\frac{1}{2}", a) for a in ("0.5", "0.25", "0.5")] == said
        assert second.judgements == 0
        assert second.verdict("\\frac{1}{2}", "0.5", boxed=False).outcome == "correct"
        assert second.judgements == 1  # in a text it is another question


def test_stores_of_several_processes_are_read_together_and_never_written_over(tmp_path):
    stores = [VerdictStore(tmp_path) for _ in range(3)]
    for i, store in enumerate(stores):
        store.add(
            (str(i), "x", True), Grade(outcome="incorrect", extracted="x", reason="not equal")
        )
    assert len(VerdictStore(tmp_path)) == 3
    assert len(list(tmp_path.iterdir())) == 3
    assert stores[0].get(("1", "x", True)) is None  # it was opened before


def test_what_a_crash_or_another_program_left_in_a_file_is_passed_over(tmp_path):
    VerdictStore(tmp_path).add(HALF, EQUAL)
    (path,) = tmp_path.iterdir()
    torn = path.read_text()
    odd = '[1]\n{"a": 1}\n["k", "perfect", "x", "y"]\n["k", "correct", 3, "y"]\n'
    path.write_text(torn + odd + torn[: len(torn) // 2])
    store = VerdictStore(tmp_path)
    assert len(store) == 1 and store.get(HALF) == EQUAL


def test_a_very_long_answer_is_judged_again(tmp_path):
    VerdictStore(tmp_path).add(HALF, replace(EQUAL, extracted="x" * (LONGEST + 1)))
    assert len(VerdictStore(tmp_path)) == 0


def test_any_text_can_be_kept(tmp_path):
    question = ("\ud800", "a\x00\u2028b", False)
    late = Grade(outcome="unscored", extracted=None, reason="took more than 5 s")
    VerdictStore(tmp_path).add(question, late)
    assert VerdictStore(tmp_path).get(question) == late


@pytest.mark.parametrize("threads", [1, 8])
def test_threads_share_a_store(tmp_path, threads):
    answers = [str(i % 5) for i in range(40)]
    with (
        Judge(workers=2, store=VerdictStore(tmp_path)) as judge,
        ThreadPoolExecutor(threads) as pool,
    ):
        found = list(pool.map(lambda answer: judge.verdict("3", answer), answers))
        assert judge.judgements == 5
    assert [v.outcome for v in found] == ["correct" if a == "3" else "incorrect" for a in answers]
    assert len(VerdictStore(tmp_path)) == 5
    assert isinstance(found[0], Grade)
