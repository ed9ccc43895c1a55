"""The server: every page answers, parameters are looked up and nothing else, nothing is written."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from io import BytesIO

import polars as pl
import pytest

from dashboards.__main__ import main
from dashboards.app import HEADERS
from dashboards.glossary import TERMS
from dashboards.page import VIEWS
from dashboards.pages import BUILDERS
from dashboards.pages.draws import answers, draws
from dashboards.pages.pairs import in_front
from dashboards.queries import by_gain, problem_outcomes
from fgrpo_bench.analysis import analysed
from fgrpo_bench.files.whole import read_json, write_text
from fgrpo_bench.report.words import answer
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.tables import GRADES, METRICS, read_table, write_table
from sweeps import REPOSITORY
from sweeps.status import render, report
from tests.dashboards.conftest import client_of
from tests.support.dashboard import GRADER, Reader, assert_inert, snapshot, sweep_with_draws
from tests.support.report import copy, forget
from tests.support.servers import free_port, listening, stop, wait_for
from tests.support.watched import Training, note

BASE = "/groupsize/countdown/v1"
TRAVERSALS = (
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "\u202e",
    "x" * 9_999,
)


@pytest.mark.slow
def test_the_first_page_links_every_sweep_and_every_view_of_it(client):
    page = client.get("/")
    assert page.status_code == 200
    assert f"{BASE}/sweep" in Reader(page.text).hrefs()
    assert "Does a focal weight" in Reader(page.text).text
    for view, title in VIEWS.items():
        answer = client.get(f"{BASE}/{view}")
        assert answer.status_code == 200, answer.text
        links = Reader(answer.text)
        assert {f"{BASE}/{name}" for name in VIEWS} <= set(links.hrefs())
        assert title in links.text
    assert client.get(BASE, follow_redirects=False).headers["location"] == f"{BASE}/sweep"


@pytest.mark.slow
def test_the_first_page_says_state_date_and_answer_and_draws_a_curve(finished, tmp_path):
    results = copy(finished, tmp_path)
    client = client_of(tmp_path)
    before = Reader(client.get("/").text)
    assert "Not analysed yet" in before.text and f"{BASE}/sweep" in before.hrefs()
    analysis = analysed(results)
    page = Reader(client.get("/").text)
    for sentence in answer(analysis):
        assert sentence in page.text
    times = [read_marker(point.evaluate).finished_ms or 0 for point in results.points]
    newest = datetime.fromtimestamp(max(times) / 1000, UTC)
    assert f"newest result {newest:%d %b %Y, %H:%M} UTC" in page.text
    n_stages = len(read_json(results.paths.plan)["stages"])
    assert f"{n_stages} done" in page.text and f"{BASE}/compare" in page.hrefs()
    lines = [a for tag, a in page.elements if tag == "polyline"]
    assert len(lines) == len(analysis.cells)
    front = [line for line in lines if line["class"] == "front"]
    assert len(front) == 2 and front == lines[-2:]
    heights = [float(point.partition(",")[2]) for point in front[1]["points"].split()]
    assert heights == sorted(heights, reverse=True), "pass@k rises with k, to the top"
    (tmp_path / "groupsize" / "countdown" / "v1" / "plan.json").write_text("{")
    assert "cannot be read" in Reader(client.get("/").text).text


@pytest.mark.slow
def test_what_failed_stands_first_with_its_log_and_compare_says_it_too(tmp_path):
    results = sweep_with_draws(tmp_path)
    shutil.copytree(results.paths.folder, tmp_path / "another" / "countdown" / "v1")
    client = client_of(tmp_path)
    before = Reader(client.get("/").text).text
    assert before.index("another / countdown") < before.index("groupsize / countdown"), "by name"
    failed = next(p for p in results.points if p.point_id == "grpo-n8-g1-s12")
    for stage in (failed.train, failed.evaluate):
        stage.done.unlink()
    write_text(failed.train.log(1), "MemoryError: no room\n")
    note(failed.train, exit_code=1, outcome="failed", wall_seconds=1.0)
    sentence = "train of grpo-n8-g1-s12: see grpo-n8-g1-s12/logs/attempt-001.log"
    text = Reader(client.get("/").text).text
    assert text.index("groupsize / countdown") < text.index(sentence) < text.index("another /")
    assert sentence in Reader(client.get(f"{BASE}/compare").text).text
    n_stages = len(read_json(results.paths.plan)["stages"])
    n_runs = sum(point.cell is not None for point in results.points)
    runs = f"{n_runs - 1} of {n_runs} runs done"
    assert f"{runs}, stages: " in text
    shown = Reader(client.get(f"{BASE}/sweep").text).text
    assert f"{runs}; {n_stages - 2} of {n_stages} stages" in shown
    assert f"{runs}; stages: " in render(report(results.paths)), "in the terminal"


@pytest.mark.slow
def test_the_rollouts_of_a_group_stand_side_by_side_and_without_any_there_is_no_view(tmp_path):
    results = sweep_with_draws(tmp_path)
    client, run = client_of(tmp_path), "grpo-n8-g1-s12"
    page = Reader(client.get(f"{BASE}/rollouts", params={"run": run}).text)
    text = " ".join(page.text.split())
    assert "4 of 8 rollouts are correct, so the focal weight is 0.500; the group has 25.0%" in text
    assert text.count("share of the gradient3.1%") == text.count("focal weight0.500") == 8
    assert text.count("advantage+0.500") == text.count("advantage-0.500") == 4
    bars = [a["value"] for tag, a in page.elements if tag == "progress"]
    assert bars == ["1.0"] * 8
    given = {"run": run, "step": "1", "group": "0"}
    text = Reader(client.get(f"{BASE}/rollouts", params=given).text).text
    assert "0 of 8 rollouts are correct" in text and "has 0.0% of" in text
    for point in results.points[:-1]:
        point.train.rollouts.unlink(missing_ok=True)
    page = Reader(client.get(f"{BASE}/rollouts").text)
    assert not [href for href in page.hrefs() if "g0-s11" in href], "runs that stored some alone"
    results.points[-1].train.rollouts.unlink()
    assert f"{BASE}/rollouts" not in Reader(client.get(f"{BASE}/sweep").text).hrefs()
    page = Reader(client.get(f"{BASE}/rollouts").text)
    assert "stored_groups" in page.text and "advantage" not in page.text


@pytest.mark.slow
def test_every_link_of_every_page_leads_to_a_page(client):
    seen, waiting = set(), {"/", *(f"{BASE}/{view}" for view in VIEWS)}
    while waiting and len(seen) < 150:
        url = waiting.pop()
        seen.add(url)
        answer = client.get(url)
        assert answer.status_code == 200, (url, answer.text[-500:])
        if answer.headers["content-type"].startswith("text/html"):
            found = {h for h in Reader(answer.text).hrefs() if h.startswith("/")}
            new = {h for h in found if "problem=" not in h} | set(sorted(found)[:3])
            waiting |= new - seen
    assert len(seen) > 60


@pytest.mark.slow
def test_every_control_changes_what_the_page_says(client):
    for view in VIEWS:
        page = client.get(f"{BASE}/{view}").text
        options = [
            a["href"]
            for tag, a in Reader(page).elements
            if tag == "a" and view in (a.get("href") or "") and "?" in a["href"]
            if "aria-current" not in a
        ]
        for href in [h for h in options if "csv=" not in h][:12]:
            assert client.get(href).text != page, href


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_every_answer_forbids_foreign_scripts_frames_and_guessing_of_types(client, view):
    headers = client.get(f"{BASE}/{view}").headers
    for name, value in HEADERS.items():
        assert headers[name] == value
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.slow
@pytest.mark.parametrize("value", TRAVERSALS)
def test_a_parameter_that_is_in_no_listing_is_refused(client, value):
    for part in range(4):
        names = ["groupsize", "countdown", "v1", "draws"]
        names[part] = value.replace("/", "%2f")
        assert client.get("/" + "/".join(names)).status_code in (404, 400)
    for view, names in {
        "sweep": ("benchmark", "show", "curve"),
        "compare": ("benchmark", "k", "against", "over", "cost", "cell"),
        "forgetting": ("benchmark", "k", "seed", "order", "page"),
        "draws": ("benchmark", "problem", "a", "b", "outcome", "finish", "answer", "min", "page"),
        "rollouts": ("run", "step", "group"),
        "audit": ("benchmark",),
    }.items():
        for name in names:
            answer = client.get(f"{BASE}/{view}", params={name: value})
            assert answer.status_code == 404, (view, name, answer.status_code)
            assert_inert(answer.text)
            assert "root:" not in answer.text
    assert client.get(f"/_static/{value}").status_code in (404, 400)


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_a_word_of_ours_is_explained_once_a_page_and_stands_in_the_glossary(client, view):
    elements = Reader(client.get(f"{BASE}/{view}").text).elements
    words = [a["aria-describedby"] for _, a in elements if a.get("class") == "term"]
    meanings = [a["id"] for _, a in elements if a.get("role") == "tooltip"]
    assert words == meanings and len(set(words)) == len(words) > 2
    glossary = (REPOSITORY / "docs" / "start" / "glossary.md").read_text(encoding="utf-8")
    assert not [word for word in TERMS if word not in glossary]


def test_an_error_names_the_value_and_the_valid_ones(client):
    answer = client.get(f"{BASE}/compare", params={"k": "7"})
    assert "unknown k '7': it is one of 1, 8, 32" in Reader(answer.text).text
    answer = client.get(f"{BASE}/draws", params={"min": "-1"})
    assert "must be a whole number" in Reader(answer.text).text


def test_a_request_under_another_name_is_refused_so_that_other_sites_cannot_read_along(client):
    for host in ("evil.example", "[::2]:8000", "[::1].evil.example", "::1", "[::1", "127.0.0.1.x"):
        assert client.get("/", headers={"host": host}).status_code == 400, host
    for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]"):
        assert client.get("/", headers={"host": host}).status_code == 200, host


def test_nothing_can_be_sent(client):
    for method in ("post", "put", "delete", "patch"):
        assert getattr(client, method)(f"{BASE}/sweep").status_code == 405


@pytest.mark.slow
def test_every_chart_gives_its_data_as_csv_and_looking_writes_nothing(client, finished):
    before = snapshot(finished.paths.root)
    names = {
        "sweep": {"steps", "learning"},
        "compare": {"curves", "plane", "differences", "band"},
        "forgetting": {"fates", "heat"},
    }
    for view in VIEWS:
        page = Reader(client.get(f"{BASE}/{view}").text)
        found = {h.partition("csv=")[2]: h for h in page.hrefs() if "csv=" in h}
        assert set(found) == names.get(view, set())
        for href in found.values():
            answer = client.get(href)
            assert answer.headers["content-type"] == "text/csv; charset=utf-8"
            assert len(pl.read_csv(BytesIO(answer.content))) > 0
    assert snapshot(finished.paths.root) == before


def test_points_and_lengths_can_be_chosen(client):
    some = client.get(f"{BASE}/compare", params={"cell": ["base", "grpo-n8-g0"]})
    table = client.get(f"{BASE}/compare", params={"cell": ["base", "grpo-n8-g0"], "csv": "curves"})
    assert set(pl.read_csv(BytesIO(table.content))["cell"]) == {"base", "grpo-n8-g0"}
    checked = [a for tag, a in Reader(some.text).elements if tag == "input" and "checked" in a]
    assert len(checked) == 2
    short = Reader(client.get(f"{BASE}/draws", params={"max": "5"}).text).text
    assert "5 tokens" in short
    assert "7 tokens" not in short


@pytest.mark.slow
def test_draws_are_searched_for_a_text_as_it_stands_and_each_has_an_address(tmp_path):
    sweep_with_draws(tmp_path, texts=("(a+b) <i>", "aab"))
    client = client_of(tmp_path)

    def shown(text: str) -> Reader:
        answer = client.get(f"{BASE}/draws", params={"text": text})
        assert_inert(answer.text)
        return Reader(answer.text)

    both, one, none = shown(""), shown("a+b) <i>"), shown("<script>x</script>")
    ids = [a["id"] for tag, a in both.elements if str(a.get("id", "")).startswith("left-")]
    assert ids and len(ids) == len(set(ids))
    assert {f"#{each}" for each in ids} <= {a.get("href") for _, a in both.elements}
    assert one.text.count("aab") < both.text.count("aab") and "(a+b) <i>" in one.text
    assert "draws match the filter" in one.text and "match the filter" not in both.text
    assert "No draw of this side matches" in none.text
    too_long = client.get(f"{BASE}/draws", params={"text": "x" * 201})
    assert too_long.status_code == 404 and "at most 200 characters" in too_long.text


@pytest.mark.slow
def test_all_distinct_answers_can_be_listed(tmp_path):
    sweep_with_draws(tmp_path, texts=tuple(f"answer {i}" for i in range(30)))
    client = client_of(tmp_path)

    def listed(url: str) -> tuple[Reader, set[str]]:
        page = Reader(client.get(url).text)
        return page, {h.partition("answer=")[2].partition("&")[0] for h in page.hrefs()} - {""}

    page, few = listed(f"{BASE}/draws")
    (href,) = {h for h in page.hrefs() if "answers=all" in h and "answer=" not in h}
    _, every = listed(href)
    assert few < every
    assert len(every) == 25, "24 of the 30 are found in a response, and none in the others"


def test_draws_open_on_the_compared_cells_with_the_right_ones_first(client, finished):
    page = Reader(client.get(f"{BASE}/draws").text)
    pair = in_front(analysed(finished, is_kept=False))
    problems = problem_outcomes(finished, "countdown", 32)
    points = {point.name: point for point in problems.checkpoints}
    old, new = (points[f"{cell}-s11"] for cell in (pair.old, pair.new))
    first = by_gain(finished, "countdown", old.name, new.name)[0]
    options = [a["value"] for tag, a in page.elements if tag == "option" and "selected" in a]
    assert f"problem={first}" in options[1]
    assert f"solves it in {100 * problems.rate(new, first):.1f}% of its draws" in page.text
    assert f"a={pair.old}-s11" in options[1] and f"b={pair.new}-s11" in options[2]
    badges = [
        a["class"] for tag, a in page.elements if tag == "span" and "badge" in a.get("class", "")
    ]
    right = [name == "badge correct" for name in badges]
    sides = right[: len(right) // 2], right[len(right) // 2 :]
    assert all(side == sorted(side, reverse=True) for side in sides)
    assert any(right)


def test_the_bars_are_the_answers_of_both_cells(finished):
    page = BUILDERS["draws"](finished, {"answers": ["all"]})
    bars = page.context["bars"]
    for place, side in enumerate(page.context["sides"]):
        table = answers(draws(side.checkpoint, "countdown", page.address.parameters[-1][1]))
        shown = [(row.text, row.outcome, row.counts[place]) for row in bars.rows]
        expected = {
            (row["answer"], row["outcome"]): row["count"] for row in table.iter_rows(named=True)
        }
        assert {(text, outcome): n for text, outcome, n in shown if n} == expected
        assert sum(expected.values()) == side.total


def test_a_draw_shows_what_every_grader_said_and_the_audit_leads_to_one_they_differ_on(tmp_path):
    results = sweep_with_draws(tmp_path)
    paths = results.points[0].evaluate.benchmark("countdown")
    table = read_table(paths.grades(GRADER), GRADES)
    own = (pl.col("problem_id") == "p003") & (pl.col("draw") == 25)
    other = table.with_columns(
        outcome=pl.when(own).then(pl.lit("unscored")).otherwise("outcome"),
        reason=pl.when(own).then(pl.lit("<b>too late</b>")).otherwise("reason"),
        grader_version=pl.lit("other-2"),
    )
    write_table(paths.grades("other-2"), other, GRADES)
    client = client_of(tmp_path)
    audit = Reader(client.get(f"{BASE}/audit").text)
    assert "Not clean: " in audit.text and "graders differ on 1 draws" in audit.text
    (href,) = {h for h in audit.hrefs() if "problem=p003" in h and "page=" in h}
    page = client.get(href).text
    assert "other-2 disagrees:" in page
    assert "&lt;b&gt;too late&lt;/b&gt;" in page
    assert "draw 25<" in page


@pytest.mark.slow
def test_a_sweep_in_progress_or_without_any_result_shows_what_there_is_and_is_fetched_again(
    tmp_path,
):
    results = sweep_with_draws(tmp_path)
    client = client_of(tmp_path)
    finished = Reader(client.get(f"{BASE}/sweep").text).text
    assert "pass@k in percent with 95% intervals" in finished and "of 2 done" not in finished
    forget(results, "grpo-n8-g1-s11", "grpo-n8-g1-s12", "base-s12")
    for view in VIEWS:
        assert client.get(f"{BASE}/{view}").status_code == 200, view
    text = Reader(client.get(f"{BASE}/sweep").text).text
    assert "waiting" in text and "2 of 2 done" in text and "pass@k in percent" not in text
    assert "projected" in text and "projected" not in finished
    assert "No results yet: F-GRPO N=8 gamma=1." in Reader(client.get(f"{BASE}/compare").text).text
    assert 'data-refresh="5"' not in client.get(f"{BASE}/sweep").text
    with locked(results.paths.driver_lock, wait=False, what="the sweep"):
        assert 'data-refresh="5"' in client.get(f"{BASE}/sweep").text
    forget(results, *(p.point_id for p in results.points if p.evaluate.done.exists()))
    for view in VIEWS:
        answer = client.get(f"{BASE}/{view}")
        assert answer.status_code == 200, (view, answer.text[-800:])


def test_a_run_that_trains_shows_what_to_look_into_and_then_its_curves(tmp_path):
    results = sweep_with_draws(tmp_path)
    point = next(p for p in results.points if p.point_id == "grpo-n8-g1-s11")
    run = Training(point, "openrlhf")
    run.whole[4]["truncated_fraction"] = 0.8
    run.train(5)
    note(point.train)
    client = client_of(tmp_path)
    page = Reader(client.get(f"{BASE}/sweep").text)
    text = " ".join(page.text.split())
    assert f"warning {point.point_id}: truncated_fraction is 0.80 at step 5 (over 0.5)" in text
    assert text.index("warning") < text.index("Training: reward") < text.index("Points")
    curve = client.get(f"{BASE}/sweep", params={"curve": "tokens_per_second", "csv": "steps"})
    assert curve.text.splitlines()[0] == "cell,step,tokens_per_second,seeds,steps"
    point.train.done.write_bytes(run.aside[point.train.done])
    assert "warning" not in Reader(client.get(f"{BASE}/sweep").text).text


@pytest.mark.slow
def test_a_curve_that_no_run_has_leaves_the_way_to_the_others(tmp_path):
    results = sweep_with_draws(tmp_path)
    for point in results.points:
        if point.cell is not None:
            without = point.metrics().with_columns(rollout_kl=pl.lit(None, pl.Float64))
            write_table(point.train.metrics, without, METRICS)
    page = client_of(tmp_path).get(f"{BASE}/sweep", params={"curve": "rollout_kl"}).text
    assert 'id="chart-steps"' not in page
    assert f"{BASE}/sweep?curve=entropy" in Reader(page).hrefs()


def test_a_damaged_file_is_named_and_the_other_pages_stay(tmp_path):
    results = sweep_with_draws(tmp_path)
    results.points[3].train.metrics.write_bytes(b"no parquet")
    client = client_of(tmp_path)
    answer = client.get(f"{BASE}/compare")
    assert answer.status_code == 500
    assert "metrics.parquet is no readable Parquet file" in answer.text
    assert client.get(f"{BASE}/draws").status_code == 200
    pl.DataFrame({"step": [1], "seconds": [0.5]}).write_parquet(results.points[3].train.metrics)
    answer = client.get(f"{BASE}/sweep")
    assert answer.status_code == 500
    assert "gpus" in answer.text


def has_ipv6_loopback() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "host, name, bound",
    [
        ("127.0.0.1", "127.0.0.1", "0100007F"),
        pytest.param("::1", "[::1]", f"{'0' * 24}01000000", marks=pytest.mark.rare),
    ],
)
def test_the_command_serves_on_loopback_alone_and_ends_with_ctrl_c(
    finished, tmp_path, host, name, bound
):
    if host == "::1" and not has_ipv6_loopback():
        pytest.skip("this machine has no IPv6 loopback")
    port, address = free_port(), f"http://{name}"
    command = [sys.executable, "-m", "dashboards", "serve", "--host", host, "--port", str(port)]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [*command, "--root", finished.paths.root],
            stdout=output,
            stderr=output,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
    try:
        wait_for(f"{address}:{port}/", process)
        assert listening(port) == {bound}
        with urllib.request.urlopen(f"{address}:{port}{BASE}/sweep", timeout=30) as page:
            assert b"groupsize on countdown" in page.read()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(600) in (0, 130, -signal.SIGINT)
        time.sleep(0.1)
    finally:
        stop(process)
    said = (tmp_path / "output").read_text()
    assert f"Dashboard: {address}:{port} " in said and "Traceback" not in said
    assert not listening(port)


@pytest.mark.parametrize("command", ["serve", "mlflow"])
def test_a_root_without_sweeps_is_named_with_the_remedy(tmp_path, capsys, command):
    assert main([command, "--root", str(tmp_path)]) == 1
    assert "holds no sweep: run `fgrpo-bench sweep run <sweep>` first" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "mlflow"])
def test_a_port_in_use_is_named_with_one_that_is_free(finished, capsys, command):
    root = finished.paths.root
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([command, "--root", str(root), "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 cannot be served: Address already in use" in said
    free = int(re.search(r"e.g. --port (\d+), which is free", said)[1])
    assert free != port
    with socket.create_server(("127.0.0.1", free)):
        pass
    assert not (root / "mlflow.db").exists()


def test_a_page_that_is_not_there_leads_back_to_the_list(client):
    answer = client.get("/no-such-page")
    assert answer.status_code == 404
    assert '<a class="home" href="/">' in answer.text
