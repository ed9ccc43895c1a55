"""The export: complete in itself, every link leads to a file, and nothing is overwritten."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from dashboards.__main__ import main
from dashboards.page import VIEWS
from dashboards.pages.problems import is_gated
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json
from tests.support.dashboard import Reader, snapshot, sweep_with_draws


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "out"
    before = snapshot(finished.paths.root)
    root = ["--root", str(finished.paths.root)]
    assert main(["export", "groupsize", *root, "--to", str(folder), "--problems", "3"]) == 0
    assert snapshot(finished.paths.root) == before
    return folder


def test_every_link_of_every_file_leads_to_a_file_of_the_export_and_none_names_the_machine(
    finished, exported
):
    pages = list(exported.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert str(finished.paths.root) not in text and str(exported) not in text
        found = Reader(text)
        links = found.hrefs() + [
            value
            for tag, a in found.elements
            for value in (a.get("src"), a.get("href") if tag == "link" else None)
            if value
        ]
        for link in links:
            if link.startswith(("#", "data:,")):
                continue
            assert not link.startswith(("/", "http")), (page, link)
            assert (page.parent / unquote(link.partition("#")[0])).resolve().is_file(), (page, link)


def test_every_page_can_be_reached_from_the_first(exported):
    seen, waiting = set(), {exported / "index.html"}
    while waiting:
        page = waiting.pop()
        seen.add(page)
        links = Reader(page.read_text(encoding="utf-8")).hrefs()
        found = {
            (page.parent / link.partition("#")[0]).resolve() for link in links if link[0] != "#"
        }
        waiting |= {path for path in found if path.suffix == ".html"} - seen
    everything = {path.resolve() for path in exported.rglob("*.html")}
    assert everything == {path.resolve() for path in seen}


def test_all_views_and_the_draws_of_the_most_forgotten_problems_are_there(exported):
    folder = exported / "groupsize" / "countdown" / "v1"
    for view in VIEWS:
        assert (folder / f"{view}.html").exists()
    assert len(list(folder.glob("draws-*.html"))) == 3 * (4 + 1) * 4, (
        "the base beside every cell, and the pair that is compared"
    )
    assert len(list((folder / "data").glob("*.csv"))) > 15
    assert "<form" not in (folder / "sweep.html").read_text()


def test_a_folder_that_holds_something_is_refused(finished, exported, capsys):
    before = snapshot(exported)
    assert main(["export", "--root", str(finished.paths.root), "--to", str(exported)]) == 1
    assert "is there already: name a new folder" in capsys.readouterr().err
    assert snapshot(exported) == before


def test_an_unknown_sweep_is_refused_with_those_there_are(finished, tmp_path, capsys):
    root = ["--root", str(finished.paths.root), "--to", str(tmp_path / "out")]
    assert main(["export", "gamma", *root]) == 1
    assert "there is: groupsize/countdown/v1" in capsys.readouterr().err
    assert main(["export", "groupsize/countdown/v1/page", *root]) == 1
    assert "names no run: write sweep[/experiment[/version]]" in capsys.readouterr().err


def _in_spec(spec, dataset):
    spec["evaluation"]["benchmarks"]["countdown"]["dataset"] = dataset


GPQA = {"layout": "gpqa"}
UNKNOWN = {
    "the evaluation says so": lambda path: _change(path, lambda spec: _in_spec(spec, GPQA)),
    "a layout that nobody knows": lambda path: _change(
        path, lambda spec: _in_spec(spec, {"layout": "new"})
    ),
    "no layout": lambda path: _change(path, lambda spec: _in_spec(spec, {})),
    "no longer of this evaluation": lambda path: _change(
        path, lambda spec: spec["evaluation"]["benchmarks"].clear()
    ),
    "another shape": lambda path: path.write_text("[]"),
    "no JSON": lambda path: path.write_text("{"),
}


def _change(path, change):
    content = read_json(path)
    change(content)
    write_json(path, content)


@pytest.mark.parametrize("why", [*UNKNOWN, "the sweep says so and the evaluation is gone"])
@pytest.mark.slow
def test_texts_of_a_gated_benchmark_are_left_out_and_so_where_it_is_not_known(why, tmp_path):
    results = sweep_with_draws(tmp_path / "runs", texts=("the secret question",))
    for point in results.points:
        if why in UNKNOWN:
            UNKNOWN[why](point.evaluate.spec)
        else:
            point.evaluate.spec.unlink()
    if why not in UNKNOWN:
        _change(
            results.paths.sweep_json,
            lambda stored: stored["declaration"]["experiment"]["evaluation"]["benchmarks"][
                "countdown"
            ].update(dataset=GPQA),
        )
    results = load_results(results.paths)
    assert all(is_gated(results, point, "countdown") for point in results.points)
    if why in ("the evaluation says so", "the sweep says so and the evaluation is gone"):
        root = ["--root", str(tmp_path / "runs")]
        assert main(["export", *root, "--to", str(tmp_path / "out"), "--problems", "2"]) == 0
        for file in (tmp_path / "out").rglob("*.*"):
            if file.suffix in (".html", ".csv"):
                assert "secret" not in file.read_text(encoding="utf-8"), file


def test_a_generated_task_is_open_by_its_sweep_alone(tmp_path):
    results = sweep_with_draws(tmp_path / "runs", texts=("1",))
    results.points[0].evaluate.spec.unlink()
    assert not any(is_gated(results, point, "countdown") for point in results.points)
