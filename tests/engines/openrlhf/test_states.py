"""What a kill in a save leaves is cleared away, and the newest whole state is gone on from."""

import pytest

from fgrpo_bench.engines.openrlhf.states import Origin, mark_whole, remove_partial

FILES = ("mp_rank_00_model_states.pt", "rank_0_optim_states.pt", "rank_1_optim_states.pt")
ORIGIN = Origin(ranks=2, base_sha256="b")


def save(states, step, *, files=FILES, whole=True, latest=True):
    folder = states / "_actor" / f"global_step{step}"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).write_bytes(b"x" * step)
    if whole:
        assert mark_whole(states, step, ORIGIN) == len(files) * step
    if latest:
        (states / "_actor" / "latest").write_text(f"global_step{step}")


def settled(states, *, ranks=2, base_sha256="b"):
    """(step, what was said, folders left, what latest names)."""
    lines = []
    origin = Origin(ranks=ranks, base_sha256=base_sha256)
    step = remove_partial(states, origin, say=lines.append)
    folder = states / "_actor"
    left = sorted(path.name for path in folder.glob("global_step*"))
    latest = (folder / "latest").read_text() if folder.exists() else None
    return step, lines, left, latest


def test_where_nothing_was_saved_there_is_nothing_to_do(tmp_path):
    assert remove_partial(tmp_path / "states", ORIGIN, say=pytest.fail) == 0


def test_whole_states_are_kept_in_silence(tmp_path):
    save(tmp_path, 20)
    save(tmp_path, 30)
    assert settled(tmp_path) == (30, [], ["global_step20", "global_step30"], "global_step30")


@pytest.mark.parametrize(("files", "latest"), [(1, False), (2, True)])
def test_a_kill_in_the_first_save_starts_at_step_1(tmp_path, files, latest):
    """Also where `latest` names it: the first rank writes that before the others are through."""
    save(tmp_path, 10, files=FILES[:files], whole=False, latest=latest)
    step, lines, left, _ = settled(tmp_path)
    assert (step, left) == (0, [])
    assert lines[0].startswith("the state of step 10 was cut short")
    assert lines[1] == "no whole state was saved: the run starts at step 1"


@pytest.mark.parametrize("latest", [True, False])
def test_a_half_written_newer_state_is_cleared_away(tmp_path, latest):
    save(tmp_path, 20)
    for _ in range(2):  # kills in a row
        save(tmp_path, 30, files=FILES[:2], whole=False, latest=latest)
        step, lines, left, named = settled(tmp_path)
        assert (step, left, named) == (20, ["global_step20"], "global_step20")
        assert "step 30 was cut short" in lines[0]


def test_a_latest_that_points_nowhere_is_set_right(tmp_path):
    save(tmp_path, 20)
    (tmp_path / "_actor" / "latest").write_text("global_step30")
    said = "resuming from step 20, the newest state that is whole"
    assert settled(tmp_path) == (20, [said], ["global_step20"], "global_step20")


def test_a_listed_file_that_was_cut_makes_a_state_no_longer_whole(tmp_path):
    save(tmp_path, 20)
    save(tmp_path, 30)
    (tmp_path / "_actor" / "global_step30" / FILES[2]).write_bytes(b"x")
    assert settled(tmp_path)[0] == 20


@pytest.mark.parametrize(
    ("origin", "rule"),
    [
        ({"ranks": 4}, r"saved by 2 ranks, and this run has 4: .* 2 again"),
        ({"base_sha256": "c"}, r"base model with sha256 b, and this run's has c: .* or move the s"),
    ],
)
def test_a_state_of_another_origin_is_refused_with_both(tmp_path, origin, rule):
    save(tmp_path, 20)
    with pytest.raises(ValueError, match=rule):
        settled(tmp_path, **origin)
