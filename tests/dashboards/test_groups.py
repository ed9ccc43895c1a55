"""Groups of training runs that `fgrpo-bench groups --name` stored have a page each."""

from __future__ import annotations

import re
import socket
from io import BytesIO
from pathlib import Path

import plotly.graph_objects as graph
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dashboards.__main__ import main as dashboard
from dashboards.app import HEADERS
from dashboards.pages.groups import build
from evaluators.__main__ import main
from fgrpo_bench.analysis.rollouts import load_groups
from fgrpo_bench.files.paths import stored_groups
from fgrpo_bench.files.whole import read_json, write_json
from tests.dashboards.conftest import client_of
from tests.evaluators.test_groups import lines, rollouts
from tests.support.dashboard import HOSTILE, Reader, assert_inert, snapshot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With the groups of two steps, stored as `mine`."""
    for step in (1, 2):
        lines(tmp_path / f"dump/{step}.jsonl", rollouts(step))
    runs = tmp_path / "runs"
    assert main(["groups", str(tmp_path / "dump"), "--name", "mine", "--root", str(runs)]) == 0
    return runs


def test_the_first_page_leads_to_a_page_with_charts_and_tables(root: Path):
    client, before = client_of(root), snapshot(root)
    first = Reader(client.get("/").text)
    assert "/_groups/mine" in first.hrefs() and "all wrong 40.0%" in first.text
    answer = client.get("/_groups/mine")
    page = Reader(answer.text)
    assert answer.status_code == 200
    assert all(answer.headers[name] == value for name, value in HEADERS.items())
    assert "GRPO with DAPO's filter" in page.text and "By step" in page.text
    links = {link.partition("csv=")[2]: link for link in page.hrefs() if "csv=" in link}
    assert set(links) == {"gradient", "steps"}
    for link in links.values():
        assert len(pl.read_csv(BytesIO(client.get(link).content))) > 1
    assert client.get("/_groups/mine?csv=other").status_code == 404
    assert snapshot(root) == before


def test_a_root_without_a_sweep_is_served_too(root: Path, monkeypatch, capsys):
    served = []
    monkeypatch.setattr("uvicorn.run", lambda app, **_: served.append(app))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert dashboard(["serve", "--root", str(root), "--port", str(port)]) == 0
    assert len(served) == 1 and f":{port} " in capsys.readouterr().out


def test_the_library_call_of_a_chart_gives_its_data(root: Path, monkeypatch):
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(root))
    charts = build(root, "mine").charts
    for chart in charts:
        graph.Figure(chart.figure)
        names: dict[str, pl.DataFrame] = {}
        exec(chart.call, names)  # noqa: S102 - the project's own text, which is what is tested
        assert_frame_equal(names["result"], chart.data)
    gradient, steps = charts
    bars = graph.Figure(gradient.figure).data
    assert [sum(bar.x[i] for bar in bars) for i in (0, 1)] == pytest.approx([100, 100], abs=0.1)
    assert gradient.data.filter(method="GRPO")["share"].sum() == pytest.approx(1)
    assert steps.data["all_wrong"].to_list() == [0.4, 0.4]


def test_a_name_that_is_not_listed_is_refused_and_a_damaged_file_is_named(root: Path):
    client = client_of(root)
    for name in ("other", "..%2fmine", "mine.json", "x" * 9_999):
        assert client.get(f"/_groups/{name}").status_code == 404
    path = stored_groups(root) / "mine.json"
    whole = read_json(path)
    for fault in ({"total": None}, {"in_bins": [1]}, {"total": whole["total"] | {"n_groups": 0}}):
        write_json(path, whole | fault)
        answer = client.get("/_groups/mine")
        assert answer.status_code == 500 and "mine.json" in Reader(answer.text).text
        assert "cannot be read" in Reader(client.get("/").text).text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_in_a_stored_file_are_text(root: Path, text: str):
    path = stored_groups(root) / "mine.json"
    whole = read_json(path)
    whole["methods"][0]["label"] = whole["bins"][0] = text
    write_json(path, whole | {"source": text, "remarks": [text]})
    for link in ("/", "/_groups/mine"):
        page = client_of(root).get(link).text
        assert_inert(page)
        for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page):
            assert "<" not in block


def test_a_name_is_of_one_dump(root: Path, tmp_path: Path, capsys):
    words = ["--name", "mine", "--root", str(root)]
    assert main(["groups", str(tmp_path / "dump"), *words]) == 0
    assert main(["groups", str(tmp_path / "dump/1.jsonl"), *words]) == 1
    assert "has the groups of another dump" in capsys.readouterr().err
    assert main(["groups", str(tmp_path / "dump"), "--name", "../up"]) == 1
    assert load_groups("mine", root=root).total.n_groups == 10
    with pytest.raises(FileNotFoundError, match=r"did you mean mine\?"):
        load_groups("mina", root=root)
