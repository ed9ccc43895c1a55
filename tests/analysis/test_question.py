"""The comparisons that are a sweep's question: declared, checked, and corrected over alone."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import polars as pl
import pytest
import yaml

from fgrpo_bench.analysis import analyse, analysed
from fgrpo_bench.analysis.question import KINDS, NONE_DECLARED, NOTHING_CORRECTED
from fgrpo_bench.report.footnotes import family_note
from fgrpo_bench.report.narrative import counted, legend, notes
from fgrpo_bench.specs import config
from fgrpo_bench.stats.significance import holm
from sweeps.cli import main
from sweeps.plan import make_plan
from tests.support.plans import loaded
from tests.support.report import copy, forget, nine_benchmarks, small_sweep, with_declaration

FOCAL = {("grpo-n8-g0.5", "grpo-n8-g0"), ("grpo-n8-g1", "grpo-n8-g0")}


composed = cache(lambda sweep: config.compose([f"sweep={sweep}"]))


def family(*overrides, sweep="groupsize", **asked):
    """Of a sweep with overrides. asked: what its family says otherwise."""
    declared = config.compose([f"sweep={sweep}", *overrides]) if overrides else composed(sweep)
    every_k = declared["sweep"]["family"] | {"ks": None}
    changed = declared["sweep"] | {"family": every_k | asked}
    return make_plan(config.validate(declared | {"sweep": changed})).family


def pairs(family):
    return {(pair.new.cell, pair.old.cell) for pair in family.pairs}


def rows(analysis):
    return analysis.comparisons.filter(pl.col("family").is_not_null())


@pytest.mark.slow
def test_a_family_is_every_declared_pair_at_every_k_on_every_column():
    declared = family(pairs=["focal", "largest"], ks=[2, 64])
    largest = {(new, "grpo-n32-g0") for new, _ in FOCAL}
    assert pairs(declared) == FOCAL | largest
    assert len(declared.comparisons) == 2 * 4
    assert {(column, k) for column, k, _ in declared.comparisons} == {
        ("countdown", 2),
        ("countdown", 64),
    }
    assert declared.name == f"{KINDS['focal']} and {KINDS['largest']}; k = 2, 64; countdown"


def by_default(*overrides, sweep="groupsize"):
    return make_plan(loaded(sweep, "sweep.family=null", *overrides)).family


@pytest.mark.slow
def test_by_default_it_is_the_first_kind_of_pairs_at_the_ends_of_k_on_the_headline():
    declared = by_default()
    assert pairs(declared) == FOCAL and declared.ks == (1, 256)
    assert declared.columns == ("countdown",)
    assert {pair.kind for pair in by_default("sweep.cells=[]").pairs} == {"group_size"}
    every = by_default("experiment=qwen2.5-7b", "evaluation@experiment.evaluation=paper")
    assert every.columns == ("average in-domain", "average out-of-domain")


def named(new, old):
    return {"new": new, "old": old}


def test_cells_name_further_pairs_and_one_that_is_a_pair_anyway_is_that_pair():
    two = [named("grpo-n8-g1", "grpo-n4-g0"), named("grpo-n8-g0", "base")]
    assert pairs(family(pairs=None, cells=two)) == {tuple(pair.values()) for pair in two}
    assert len(family(cells=two).pairs) == 4
    again = family(cells=[named("grpo-n8-g0", "grpo-n8-g1")])
    assert pairs(again) == FOCAL and len(again.pairs) == 2


@pytest.mark.slow
def test_methods_are_compared_with_grpo_at_the_same_n_and_learning_rate():
    declared = family(pairs=["methods"], sweep="methods")
    assert {(pair.old.cell, pair.kind) for pair in declared.pairs} == {("grpo-n8-g0", "methods")}
    assert len(declared.pairs) == 25 and len(declared.comparisons) == 50
    names = {pair.new.cell: pair.name for pair in declared.pairs}
    assert names["maxrl-n8-g0.5"] == "F-MaxRL gamma=0.5" and names["nsr-n8-g0"] == "NSR"
    factors = "sweep.grid.learning_rate_factor=[0.5,2]"
    rates = family(factors, pairs=["methods"], sweep="methods")
    assert len(rates.pairs) == 50
    assert ("nsr-n8-g0-lr2", "grpo-n8-g0-lr2") in pairs(rates)
    assert ("nsr-n8-g0-lr2", "grpo-n8-g0-lr0.5") not in pairs(rates)


def test_where_grpo_has_one_learning_rate_every_method_is_compared_with_that():
    def cell(algorithm, factor):
        return (
            f"{{algorithm: {algorithm}, group_size: 8, focal_gamma: 0.0, "
            f"learning_rate_factor: {factor}}}"
        )

    cells = ",".join([cell("grpo", 0.5), cell("nsr", 2.0), cell("rloo", 0.5)])
    few = ["sweep.grid.algorithm=[]", f"sweep.cells=[{cells}]"]
    own = family(*few, sweep="methods", pairs=["methods"])
    assert pairs(own) == {
        ("nsr-n8-g0-lr2", "grpo-n8-g0-lr0.5"),
        ("rloo-n8-g0-lr0.5", "grpo-n8-g0-lr0.5"),
    }


def test_methods_are_pairs_only_where_a_question_asks_for_them():
    assert "methods" not in {pair.kind for pair in by_default(sweep="gamma").pairs}
    with pytest.raises(ValueError, match="pairs names 'methods', and this sweep has pairs of"):
        family("sweep.grid.algorithm=[dapo]", sweep="gamma", pairs=["methods"])


REFUSED = [
    ({"pairs": ["controls"]}, "pairs names 'controls', and this sweep has pairs of"),
    ({"pairs": [], "ks": [1]}, "ks=[1] beside pairs=[], which declares no"),
    ({"pairs": [], "columns": ["a"]}, "name pairs or cells, or set columns to null"),
    ({"ks": [1, 3]}, "ks names 3, and this sweep is evaluated at k = 1, 2, 4"),
    ({"ks": [1, 1]}, "1 is given more than once"),
    ({"columns": ["math500"]}, "columns names 'math500', and this sweep has countdown"),
    ({"cells": [named("base", "x")]}, "cells names 'x', and this sweep has the"),
    ({"cells": [named("base", "base")]}, "cells compares base with itself"),
    (
        {"at": "equal_pass_at_1"},
        "experiment.checkpoints=last evaluates one checkpoint of each: set",
    ),
    ({"pairs": [], "at": "last"}, "at=last beside pairs=[], which declares no"),
    ({"kind": "focal"}, "family.kind: unknown key; remove it (valid here: at, cells,"),
]


@pytest.mark.parametrize(("asked", "said"), REFUSED)
def test_what_the_sweep_does_not_have_is_refused_before_anything_runs(asked, said):
    with pytest.raises(ValueError, match=r"sweep\.family") as refused:
        family(**asked)
    assert said in str(refused.value)


EVERY = "experiment.checkpoints=every"


@pytest.mark.slow
def test_a_family_at_equal_pass_at_1_is_another_one_at_the_largest_k():
    usual, at_last, equal = (family(EVERY, at=at) for at in (None, "last", "equal_pass_at_1"))
    assert usual == at_last and usual.sha256 == family().sha256
    assert equal.at_equal_pass_at_1 and equal.ks == (256,) and pairs(equal) == FOCAL
    assert equal.name == f"{KINDS['focal']}; at equal pass@1; k = 256; countdown"
    assert equal.sha256 != family(EVERY, ks=[256]).sha256
    assert family("experiment.checkpoints=[100,200]", at="equal_pass_at_1", ks=[16]).ks == (16,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "asked", "said"),
    [
        (EVERY, {"ks": [1, 256]}, "no two cells differ in pass@1; leave k = 1 out"),
        (EVERY, {"pairs": ["base"]}, "a pair with the base models"),
        ("experiment.checkpoints=[100]", {}, "evaluates one checkpoint of each"),
    ],
)
def test_at_equal_pass_at_1_paths_are_needed_and_a_larger_k(override, asked, said):
    with pytest.raises(ValueError, match=r"sweep\.family") as refused:
        family(override, at="equal_pass_at_1", **asked)
    assert said in str(refused.value)


@pytest.mark.slow
def test_a_plan_lists_the_family_and_no_stage_depends_on_it(tmp_path, capsys):
    assert main(["plan", "smoke", f"run_root={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-4:-1] == [
        "the question: focal weight against none; k = 1, 16; countdown; 2 comparisons, corrected "
        "together:",
        "  countdown, k = 1: F-GRPO N=4 gamma=1 against GRPO N=4",
        "  countdown, k = 16: F-GRPO N=4 gamma=1 against GRPO N=4",
    ]
    assert main(["run", "smoke", "--dry-run", f"run_root={tmp_path}"]) == 0
    assert capsys.readouterr().out == said
    asked, other = (
        make_plan(loaded("groupsize", f"sweep.family.pairs=[{kind}]")) for kind in ("focal", "base")
    )
    assert asked.stages == other.stages and asked.family != other.family


@pytest.mark.slow
def test_no_pairs_declare_no_comparison_and_with_cells_these_alone():
    none = family(pairs=[])
    assert none.comparisons == [] and none.name == NONE_DECLARED
    cell = named("grpo-n8-g1", "grpo-n4-g0")
    assert pairs(family(pairs=[], cells=[cell])) == {tuple(cell.values())}
    assert family(sweep="methods").name == family(sweep="methods-tuned").name == NONE_DECLARED


@pytest.mark.slow
def test_a_plan_without_a_family_says_so_in_a_sentence(tmp_path, capsys):
    none = "sweep.family={pairs: []}"
    assert main(["plan", "smoke", none, f"run_root={tmp_path}"]) == 0
    *_, said, power = capsys.readouterr().out.splitlines()
    assert said == NOTHING_CORRECTED and power.startswith("each comparison alone (k = 1, 16; ")
    assert main(["plan", "smoke", none, f"run_root={tmp_path}", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["family"], answer["comparisons"]) == (NONE_DECLARED, [])


@pytest.mark.slow
def test_without_a_family_every_pair_is_there_and_none_is_corrected_or_significant(tmp_path):
    def rates(point, rng, n_problems):
        level = 0.8 if point.cell and point.cell.algorithm == "nsr" else 0.4
        return np.clip(level + rng.uniform(-0.1, 0.1, n_problems), 0, 1)

    few = ["sweep.grid.algorithm=[grpo,nsr,psr]", "sweep.cells=[]"]
    results = small_sweep(tmp_path, "methods", *few, success_rates=rates)
    analysis = analyse(results)
    assert analysis.family == NONE_DECLARED and not analysis.has_family
    assert len(rows(analysis)) == 0 and "significant" not in set(analysis.comparisons["verdict"])
    assert analysis.comparison("countdown", 1, "nsr-n8-g0", "grpo-n8-g0").p < 0.05 / 44
    groups = set(analysis.comparisons["group"].drop_nulls())
    assert groups == {"Methods against GRPO N=8", "Training against the base model"}
    assert {(row.new, row.old, row.k) for row in analysis.in_question} == {
        (new, "grpo-n8-g0", k) for new in ("nsr-n8-g0", "psr-n8-g0") for k in (1, 32)
    }
    assert analysed(results).family == analysed(results).family == NONE_DECLARED
    for said in (family_note(analysis), legend(analysis), *notes(analysis).lines[4:5]):
        assert NOTHING_CORRECTED in said
    assert "significant" not in " ".join([legend(analysis), counted(analysis)]).lower()


def test_every_shipped_sweep_declares_which_comparisons_it_asks_about():
    for path in (config.CONF / "sweep").glob("*.yaml"):
        text = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert "family" in text.get("sweep", text), path


@pytest.mark.slow
def test_only_the_family_is_corrected_and_nothing_beside_it_is_significant(tmp_path):
    few = ["sweep.grid.group_size=[2,16,32]", "sweep.cells=[]"]
    few += ["sweep.grid.seed=[11,12,13,14,15,16,17,18]", "sweep.family.pairs=[base]"]
    analysis = analyse(small_sweep(tmp_path, "groupsize", *few))
    own, others = rows(analysis), analysis.comparisons.filter(pl.col("family").is_null())
    assert len(own) == 3 * 2 and set(own["old"]) == {"base"} and set(own["k"]) == {1, 32}
    assert own["p_holm"].to_list() == holm(own["p"].to_list())
    assert others["p"].null_count() == 0 and others["p"].min() < 0.01
    assert others["p_holm"].null_count() == others["p_bh"].null_count() == len(others)
    assert "significant" in set(own["verdict"]) and "significant" not in set(others["verdict"])


def test_a_sweep_without_a_family_has_the_default(analysis):
    default = with_declaration(analysis, lambda declared: declared["sweep"].pop("family"))
    own = rows(analyse(default.results))
    assert set(own.select("new", "old").rows()) == FOCAL and len(own) == 4


def test_comparisons_that_are_not_there_yet_count_in_the_correction(finished, tmp_path):
    whole = copy(finished, tmp_path)
    lost = [p.point_id for p in whole.points if p.point_id.startswith("grpo-n8-g1-")]
    own = rows(analyse(forget(whole, *lost)))
    assert len(own) == 2
    assert own["p_holm"].to_list() == holm([*own["p"], 1.0, 1.0])[:2]


@pytest.mark.slow
@pytest.mark.rare
def test_with_nine_benchmarks_the_question_can_still_be_answered_after_holm(tmp_path):
    """Over every comparison of the pair, as many as there are benchmarks and k, it could not."""

    def rates(point, rng, n_problems):
        lost = np.random.default_rng([4, point.seed]).random(n_problems) < 0.35
        kept = np.random.default_rng(5).beta(1, 2, n_problems)
        is_plain = point.cell is not None and point.cell.focal_gamma == 0
        return np.where(lost & is_plain, 0, np.minimum(kept * rng.uniform(0.9, 1.1), 1))

    small = ["sweep.grid.algorithm=[grpo]", "sweep.grid.focal_gamma=[0.0,1.0]"]
    small += ["experiment.evaluation.n_samples=64", "experiment.evaluation.ks=[1,8,16,32]"]
    analysis = analyse(nine_benchmarks(tmp_path, "gamma", *small, success_rates=rates))
    own = rows(analysis)
    assert set(own["column"]) == {"average in-domain", "average out-of-domain"} and len(own) == 4
    assert own.filter(k=32)["verdict"].to_list() == ["significant"] * 2
    every = analysis.comparisons.filter(new="grpo-n8-g1", old="grpo-n8-g0")
    every = every.with_columns(p_holm=pl.Series(holm(every["p"].to_list())))
    assert len(every) == 11 * 4
    assert every.filter(column="average in-domain", k=32)["p_holm"].item() > 0.05
