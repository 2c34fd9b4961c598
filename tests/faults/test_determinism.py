"""The same command gives the same bytes; another seed does not; seeds can be added."""

from pathlib import Path

from tests.program import METHODS, RUN, Program, finish, results, start, tree


def test_two_processes_give_the_same_bytes(run: Path, tmp_path: Path) -> None:
    """`run` was made in this process; its twin is made in another process and directory."""
    twin = tmp_path / "twin"
    outcome = finish(start(*RUN, "--seeds", "2", "--out", twin))
    assert outcome.code == 0, outcome.err
    first, second = results(run), results(twin)
    assert first == second
    for name in ("agent.safetensors", "metrics.jsonl"):
        assert f"seeds/seed-000/{name}" in first
    assert "adapt/idaq-prediction-error/seed-000.npz" in first
    assert "summary.json" in first


def test_another_seed_gives_others(run: Path) -> None:
    found = results(run)
    for name in found:
        if "seed-000" in name and "." in Path(name).name and "tensorboard" not in name:
            assert found[name] != found[name.replace("seed-000", "seed-001")], name


def test_another_data_seed_gives_other_data(idaq: Program, data: Path, tmp_path: Path) -> None:
    other, collect = tmp_path / "other", ("collect", "point-robot", "--trajectories", "2")
    assert idaq(*collect, "--out", other, "--seed", "1").code == 0
    assert results(other)["actions.npy"] != results(data)["actions.npy"]
    again = tmp_path / "again"
    assert idaq(*collect, "--out", again).code == 0
    assert results(again) == results(data)


def test_added_seeds_are_what_they_would_have_been(
    idaq: Program, run: Path, tmp_path: Path
) -> None:
    before = {n: seen for n, seen in tree(run).items() if "seed-00" in n and Path(n).suffix}
    assert idaq(*RUN, "--seeds", "3", "--out", run, "--resume").code == 0
    after = tree(run)
    assert {name: after[name] for name in before} == before, "none is computed again"
    at_once = tmp_path / "at-once"
    assert idaq(*RUN, "--seeds", "3", "--out", at_once).code == 0
    assert results(at_once) == results(run)


def test_seeds_added_in_front_are_what_they_would_have_been(
    idaq: Program, run: Path, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    assert idaq(*RUN, "--seeds", "1", "--first-seed", "1", "--out", later).code == 0
    assert idaq(*RUN, "--seeds", "2", "--out", later, "--resume").code == 0
    assert results(later) == results(run)


def test_the_order_of_methods_does_not_matter(idaq: Program, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    methods = ("--methods", *reversed(METHODS))
    command = RUN[: RUN.index("--methods")]
    assert idaq(*command, *methods, "--seeds", "2", "--out", other).code == 0
    assert results(other) == results(run)
