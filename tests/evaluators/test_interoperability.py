"""Our prompts in lm-evaluation-harness, and draws of other programs scored like our own."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from evaluators.__main__ import main
from evaluators.interchange import Import, checked, read_draws
from evaluators.problems import KnownProblems
from evaluators.stored import find
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.specs.base import check_name
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, read_table
from tests.evaluators.evaluations import ROWS

IDS = [f"math500-{i:06d}" for i in range(3)]
PROBLEMS = [
    Problem(benchmark="math500", problem_id=i, prompt=prompt, target=gold, grader="math")
    for i, (prompt, gold) in zip(IDS, ROWS, strict=True)
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def drawn_of(file, said=None, *, subset=False, problems=PROBLEMS):
    """The draws of a file that are scored. said: gets the lines on what is read and left out."""
    said = [] if said is None else said
    request = Import(files=(file,), spec=None, subset=subset)
    drawn = read_draws(request, KnownProblems(problems, subset=subset).place, said)
    return checked(request, drawn, problems, said)


@pytest.mark.slow
def test_completions_of_another_program_are_scored_like_our_own(keys, tmp_path, capsys):
    file = write(
        tmp_path / "theirs.jsonl",
        [
            {"problem_id": IDS[0], "responses": ["\\boxed{12}", "13", "\\boxed{12.0}", "x"]},
            {"problem": f" {ROWS[1][0]}\n", "response": "so \\boxed{3}", "n_tokens": 7},
            {"problem": ROWS[1][0], "response": "\\boxed{4}", "finish_reason": "length"},
            {"problem_id": IDS[1], "response": "3"},
            {"problem_id": IDS[1], "response": "\\boxed{3}"},
            {"problem_id": IDS[2], "responses": ["\\boxed{0.5}", "<b>&", "\ud800", "1/2"]},
        ],
    )
    assert main(["import", str(file), *keys, "--benchmark", "math500", "--name", "theirs"]) == 0
    assert "math500" in capsys.readouterr().out
    (stored,) = find("theirs")
    draws = read_table(stored.paths.draws, DRAWS)
    assert len(draws) == 12 and draws["seed"].null_count() == 12
    assert draws.filter(pl.col("n_tokens") == 7)["response"].to_list() == ["so \\boxed{3}"]
    grades = read_table(stored.paths.grades("math-5"), GRADES)
    right = grades.filter(pl.col("outcome") == "correct").group_by("problem_id").len()
    assert dict(right.iter_rows()) == {IDS[0]: 2, IDS[1]: 3, IDS[2]: 2}
    passk = read_table(stored.paths.passk(), PASSK)
    first = passk.filter(k=1).sort("problem_id")
    assert first["pass_at_k"].to_list() == [0.5, 0.75, 0.5]
    assert passk["k"].unique().sort().to_list() == [1, 2, 4]
    assert main(["run", str(stored.stage.folder)]) == 0  # done: nothing is drawn
    assert main(["import", str(file), *keys, "--benchmark", "math500", "--name", "theirs"]) == 0


@pytest.mark.slow
def test_a_column_of_a_dataset_names_the_clusters_in_pass_at_k(root, tmp_path, capsys):
    write(tmp_path / "source.jsonl", [
        {"problem": f"{i}?", "answer": "1", "passage": passage}
        for i, passage in enumerate([7, "b", 7, None, None, ""])
    ])  # fmt: skip
    words = [f"path={tmp_path / 'source.jsonl'}", "expected_rows=6"]
    assert main(["data", "math500", *words, "cluster=theme"]) == 1
    assert "has no column 'theme'; it has answer, passage, problem" in capsys.readouterr().err
    words.append("cluster=passage")
    assert main(["data", "math500", *words]) == 0
    draws = [{"problem": f"{i}?", "responses": ["\\boxed{1}", "2"]} for i in range(6)]
    file = write(tmp_path / "theirs.jsonl", draws)
    assert main(["import", str(file), *words, "--benchmark", "math500", "--name", "theirs"]) == 0
    (stored,) = find("theirs")
    rows = read_table(stored.paths.passk(), PASSK).filter(k=2).sort("problem_id")
    assert rows["cluster"].to_list() == ["7", "b", "7", None, None, None]
    stored.paths.passk().unlink()
    assert main(["grade", "theirs"]) == 0
    again = read_table(stored.paths.passk(), PASSK).filter(k=2).sort("problem_id")
    assert again.equals(rows)


ALL = {"problem_id": IDS[0], "responses": ["1", "2"]}


def row(**fields):
    """A line with one response to the first problem, but for what is given."""
    return {"problem_id": IDS[0], "response": "1"} | fields


def log(**fields):
    """A line of a log of lm-eval."""
    return {"problem_id": IDS[0], "resps": ["1"]} | fields


FILES = [
    ([row(problem_id="aime-1")], "line 1: unknown problem_id 'aime-1'"),
    ([row(problem_id=IDS)], "line 1: unknown problem_id None"),
    ([row(problem_id=0)], "line 1: unknown problem_id '0'"),
    (
        [{"problem": "what?", "response": "1"}],
        "line 1: no text that is a problem of this benchmark, nor one that a problem stands in",
    ),
    ([row(draw=0)] * 2, "line 2: draw 0 of problem math500-000000 came before"),
    (
        [ALL | {"design": {"stages": [1, 2], "enough": 1}}],
        "line 1: design is an object, by which draws stop, and an import is scored as a fixed",
    ),
    ([ALL | {"metadata": {"design": "[64, 128]"}}], "line 1: design is '[64, 128]', by which"),
    ([ALL], "1 of the benchmark's 3 problems have draws: add the others, or score these alone"),
    ([{"problem_id": IDS[0]}], "line 1: no responses"),
    ([{"problem_id": IDS[0], "responses": [1]}], "line 1: response 0 is 1: give a text"),
    ([log(resps=3)], "line 1: response 0 is 3: give a text"),
    ([log(resps=[[["a"]]])], "line 1: response 0 is a list: give a text"),
    ([log(resps=[])], "line 1: no responses"),
    ([log(filter={"a": 1})], "line 1: filter is an object: give a name"),
    (
        [log(), log(problem_id=IDS[1], filter="all"), log(problem_id=IDS[1], filter=["all"])],
        "line 3: filter is a list",
    ),
    ([row(draw=10**30)], f"line 1: draw is {10**30}: give a number from 0 to 10,000,000"),
    ([row(draw=True)], "line 1: draw is True: give a number"),
    (
        [row(draw=0), row(draw=9_999_999)],
        "line 2: draw 9999999 of problem math500-000000 came before, or one before it is not there",
    ),
    ([row(n_tokens=2**40)], "line 1: n_tokens is 10995"),
    ([row(n_tokens="7")], "line 1: n_tokens is '7'"),
    ([row(n_tokens=-1)], "line 1: n_tokens is -1"),
    ([row(finish_reason=1)], "finish_reason is 1: give"),
    ([row(step=1), row(step=2)], "draws of several steps (1 at "),
    ([[1]], "line 1 is no JSON object"),
    ([], "holds no lines"),
]


@pytest.mark.parametrize(("rows", "said"), FILES)
def test_a_file_that_cannot_be_scored_is_refused_by_its_line(rows, said, tmp_path):
    file = write(tmp_path / "theirs.jsonl", rows)
    with pytest.raises(ValueError) as found:
        drawn_of(file)
    assert said in str(found.value)


def test_a_subset_of_the_problems_is_scored_where_it_is_meant(tmp_path):
    other = {"problem": "another one?", "response": "1"}
    file, said = write(tmp_path / "theirs.jsonl", [ALL, other]), []
    assert len(drawn_of(file, said, subset=True)) == 2
    assert said[1:] == [
        f"left out: 1 draws of other problems, the first at {file}, line 2",
        "left out: 2 of 3 problems, which have no draws",
    ]


def test_unequal_and_missing_draws_are_scored_up_to_the_fewest_and_said(tmp_path):
    """A draw without a response is missing, whatever was drawn after it."""
    rows = [
        {"problem_id": IDS[0], "responses": ["a", None, "c", "d"]},
        *({"problem_id": IDS[1], "response": text} for text in "ef"),
        {"problem_id": IDS[2], "responses": ["g", "h", "i"]},
    ]
    file, said = write(tmp_path / "theirs.jsonl", rows), []
    kept = drawn_of(file, said).sort("problem_id", "draw")
    assert kept["draw"].to_list() == [0, 1] * 3
    assert kept["response"].to_list() == ["a", "c", "e", "f", "g", "h"]
    assert said[1] == (
        "no response: 1 draws, of which 1 count as missing and 0 are scored by completions; "
        f"the first at {file}, line 1"
    )
    assert said[2].startswith("left out: 2 of 8 draws: problem math500-000001 has 2, and the first")


@pytest.mark.parametrize("names", [("strict", "flexible"), (None, None)])
def test_each_draw_of_an_lm_eval_log_counts_once_whatever_filters_it_had(names, tmp_path):
    rows = [
        {"doc_id": i, "doc": {"question": row[0]}, "resps": [["a", "b"]]}
        | ({} if name is None else {"filter": name})
        for name in names
        for i, row in enumerate(ROWS)
    ]
    said = []
    made = drawn_of(write(tmp_path / "samples_x.jsonl", rows), said)
    again = "as one before" if names[1] is None else "for another filter, flexible"
    assert said[1:] == [f"passed over: 3 lines with the same draws {again}"]
    assert made.select("problem_id", "draw", "response").rows() == [
        (problem_id, draw, text) for problem_id in IDS for draw, text in ((0, "a"), (1, "b"))
    ]


@pytest.mark.slow
@pytest.mark.rare  # lm-eval is pinned
def test_lm_eval_runs_an_exported_task_and_its_log_is_imported(keys, model, tmp_path, capsys):
    folder, out = tmp_path / "tasks", tmp_path / "out"
    assert main(["export-lm-eval", "math500", *keys, "--to", str(folder), "--n-samples", "2"]) == 0
    assert "--tasks fgrpo_math500" in capsys.readouterr().out
    task = folder / "math500.yaml"
    task.write_text(task.read_text().replace("max_gen_toks: 4096", "max_gen_toks: 8"))
    command = [sys.executable, "-m", "lm_eval", "--model", "hf", "--model_args"]
    command += [f"pretrained={model},dtype=float32,max_length=32", "--device", "cpu"]
    command += ["--tasks", "fgrpo_math500", "--include_path", str(folder), "--log_samples"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        [*command, "--output_path", str(out)],
        env=os.environ | offline | {"PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (samples,) = out.rglob("samples_fgrpo_math500_*.jsonl")
    (results,) = out.rglob("results_*.json")
    theirs = json.loads(results.read_text())["results"]["fgrpo_math500"]["correct,all"]
    assert main(["import", str(samples), *keys, "--benchmark", "math500", "--name", "harness"]) == 0
    (stored,) = find("harness")
    assert len(read_table(stored.paths.draws, DRAWS)) == 6
    passk = read_table(stored.paths.passk(), PASSK)
    assert passk.filter(pl.col("k") == 1)["pass_at_k"].mean() == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "is no JSON (maximum recursion depth exceeded"),
        (b'{"problem_id": ' + b"[" * 100_000, "is no JSON"),
        (b'{"response": "\xff"}', "is no JSON ('utf-8' codec can't decode byte 0xff"),
        (b'{"draw": ' + b"9" * 5000 + b"}", "is no JSON (Exceeds the limit"),
        (b'{"response": "cut', "is no JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_with_its_number_in_the_file(line, said, tmp_path):
    file = tmp_path / "theirs.jsonl"
    file.write_bytes(json.dumps(ALL).encode() + b"\n\n" + line + b"\n")
    with pytest.raises(ValueError) as found:
        drawn_of(file)
    assert str(found.value).startswith(f"{file}, line 3 {said}")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("log.json", b"\xff", "line 1 is no JSON"),
        ("log.json", b"[1]", "line 1 is no JSON object"),
        ("log.json", b'{"samples": [{"id": "x"}]}', "line 1: no responses: its columns (id)"),
        ("log.json", b"[" * 100_000, "line 1 is no JSON"),
        ("log.eval", b"\xff", "is no log of inspect with samples (BadZipFile"),
        ("log.eval", b"PK\x03\x04 cut", "is no log of inspect with samples (BadZipFile"),
        ("log.jsonl", b"PK\x03\x04 cut", "is no log of inspect with samples (BadZipFile"),
        ("some.parquet", b"PAR1 cut", "is no whole Parquet file"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name(name, content, said, tmp_path):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        drawn_of(file)
    assert name in str(raised.value)


def test_lines_are_counted_with_the_empty_ones(tmp_path):
    file = tmp_path / "theirs.jsonl"
    file.write_text("\n\n" + json.dumps({"problem_id": "x", "response": "1"}) + "\n")
    with pytest.raises(ValueError, match="line 3: unknown problem_id 'x'"):
        drawn_of(file)


def test_two_problems_of_one_text_are_told_apart_by_their_ids_alone(tmp_path):
    copies = [replace(problem, prompt="1 + 1?") for problem in PROBLEMS[:2]]
    file = write(tmp_path / "theirs.jsonl", [{"problem": "1 + 1?", "response": "2"}])
    with pytest.raises(ValueError, match="000000 and math500-000001 have this text: name"):
        drawn_of(file, problems=copies)
    file = write(tmp_path / "theirs.jsonl", [{"problem_id": IDS[1], "response": "2"}])
    made = drawn_of(file, problems=copies, subset=True)
    assert made["problem_id"].to_list() == [IDS[1]]


WITHIN = [
    ("user\nWhat is  1 + 1?\nassistant\n", "What is 1 + 1?"),
    ("What is 1 + 1? Then double it. Answer:", "What is 1 + 1? Then double it."),
    ("What is 11 + 1?", None),
    ("Solve x = 12", None),
    ("What is 1 + 1? Or solve x = 1 now", "both stand in its prompt"),
]


@pytest.mark.parametrize(("prompt", "expected"), WITHIN)
def test_a_problem_is_found_by_its_text_within_the_prompt(prompt, expected, tmp_path):
    """The longest where one holds the other; at borders of words."""
    texts = ["What is 1 + 1?", "What is 1 + 1? Then double it.", "x = 1"]
    problems = [replace(PROBLEMS[0], problem_id=text, prompt=text) for text in texts]
    row = {"input": prompt, "output": "2", "gts": "2", "score": 1, "step": 1}
    file = write(tmp_path / "1.jsonl", [row])
    request = Import(files=(file,), spec=None)
    place = KnownProblems(problems, subset=False).place
    if expected in texts:
        assert read_draws(request, place, [])["problem_id"].to_list() == [expected]
    else:
        with pytest.raises(ValueError, match=expected or re.escape(prompt)):
            read_draws(request, place, [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--name n path=x", "no file is named"),
        ("a.jsonl --verdicts theirs --strict --name n", "--strict beside --verdicts theirs, by wh"),
        ("a.jsonl --verdicts theirs --grader math --name n", "--grader math beside --verdicts th"),
        ("a.jsonl path=x --name n", "path=x is of --benchmark: of the problems in a file"),
        ("a.jsonl --data mine.csv --benchmark math500 --name n", "both say what the draws are of"),
        ("a.jsonl path=x --data mine.csv --name n", "path=x is of --benchmark: of --data mine.csv"),
        ("a.jsonl --benchmark math500 --answer x --name n", "--answer x is of --data: --benchmark"),
        ("a.jsonl --benchmark math500 --grader choice --name n", "--grader choice is of --data: "),
    ],
)
def test_words_of_an_import_that_would_be_dropped_are_refused(
    words, said, root, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write(Path("a.jsonl"), [ALL])
    with pytest.raises(SystemExit, match="2"):
        main(["import", *words.split()])
    assert said in capsys.readouterr().err


def tree(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_a_name_is_one_folder_and_leads_nowhere_else(keys, tmp_path, capsys):
    for name in ("../../../evil", "/tmp/evil", "..", "a/b", "", ".x", "_x", "evals"):
        with pytest.raises(ValueError, match=f"^--name {re.escape(repr(name))}: .*it names a fol"):
            check_name("--name", name)
    file = write(tmp_path / "theirs.jsonl", [{"problem_id": i, "response": "1"} for i in IDS])
    words = ["import", str(file), *keys, "--benchmark", "math500"]
    before = tree(tmp_path)
    for name in ("", str(tmp_path / "outside")):
        assert main([*words, f"--name={name}"]) == 1, name
        assert f"--name {name!r}: " in capsys.readouterr().err
        assert tree(tmp_path) == before, name


@pytest.mark.slow
def test_nothing_is_marked_done_before_it_is_graded_and_scored(keys, tmp_path, monkeypatch, capsys):
    file = write(tmp_path / "theirs.jsonl", [{"problem_id": i, "response": "1"} for i in IDS])
    words = ["import", str(file), "--benchmark", "math500", "--name", "theirs", *keys]

    def fails(*_, **__):
        raise MemoryError("14.6 TiB")

    with monkeypatch.context() as patch:
        patch.setattr("evaluators.stored.score", fails)
        with pytest.raises(MemoryError):
            main(words)
    (stored,) = find("theirs")
    assert stored.paths.draws.exists() and not stored.stage.done.exists()
    assert main(words) == 0
    assert is_done(stored.stage, fingerprint=stored.spec.fingerprint, target={"n_samples": 1})
    stored.paths.passk().unlink()
    assert not is_done(stored.stage, fingerprint=stored.spec.fingerprint, target={})


@pytest.mark.slow
def test_words_may_stand_after_options_and_others_are_refused(keys, tmp_path, capsys):
    given = ["export-lm-eval", "math500", "--to", str(tmp_path / "tasks"), *keys]
    assert main(given) == 0
    said = capsys.readouterr().out
    assert "wrote utils.py, math500.jsonl, math500.yaml" in said and "warning" not in said
    for wrong, said in (
        ([*given, "--no=1"], "unknown argument '--no'"),
        (["audit", "x", "--json", "a=1"], "unexpected extra argument(s) (a=1)"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
        assert said in capsys.readouterr().err
    assert main([*given, "more"]) == 1
    assert "needs exactly one benchmark" in capsys.readouterr().err


def test_an_export_of_a_gated_benchmark_says_that_it_holds_protected_text(
    keys, tmp_path, capsys, monkeypatch
):
    given = ["export-lm-eval", "math500", *keys, "--to"]
    monkeypatch.setattr("fgrpo_bench.specs.dataset.GATED", ("plain",))
    assert main([*given, str(tmp_path / "gated")]) == 0
    said = capsys.readouterr().out
    assert "warning: math500.jsonl holds the problems and answers of a gated benchmark" in said


def test_draws_for_options_in_a_column_are_known_by_the_question_alone(tmp_path, root, capsys):
    """Ten options as MMLU-Pro has them, answers A to J."""
    options = [f"{number} metres" for number in range(10)]
    rows = [
        {"question": f"Which is {i}?", "options": options, "answer": "ABCDEFGHIJ"[i]}
        for i in range(10)
    ]
    drawn = [
        {"problem": row["question"], "responses": [f"The answer is ({row['answer']}).", "(A)"]}
        for row in rows
    ]
    for name, lines in (("mmlu", rows), ("drawn", drawn)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    words = ["import", str(tmp_path / "drawn.jsonl"), "--name", "ten", "--grader", "choice"]
    assert main([*words, "--data", str(tmp_path / "mmlu.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "options: column 'options' behind each problem" in said
    assert re.search(r" 1 +55\.0 \[.*\] +0\.00% +10\.0 ", said)
