"""The page in a real browser: sorting, stepping, keyboard, colours, phones, and no network."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from idaq.report.bench_payload import table_payload
from idaq.report.page import page_payload, render_page, write_page
from idaq.report.serve import make_server
from idaq.runs.directory import RunDir
from idaq.runs.results import thresholds
from idaq.storage.atomic import write_json
from idaq.storage.checked import read_object
from tests.bench.test_commands import made_up
from tests.report.browser import Visit, browser, visit
from tests.report.test_figures import CONFIG, TEST_TASKS, make_run

__all__ = ["browser"]

RUNS = "#runs table"
NONE = "\N{EN DASH}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two families, one on the plane and one that is not; names that a page must escape."""
    place = tmp_path_factory.mktemp("page")
    make_run(place / "runs" / "<b>plane", num_seeds=2)
    make_run(place / "runs" / "</script>", num_seeds=1, obs_dim=3, family="point-robot-sparse")
    return place


@pytest.fixture(scope="module")
def page(place: Path) -> Path:
    return write_page([place / "runs"], place / "page.html")


@pytest.fixture
def seen(browser: Browser, page: Path) -> Iterator[Visit]:
    """The page, which must stay quiet whatever is done to it."""
    seen = visit(browser, page)
    yield seen
    assert seen.problems == []
    assert seen.requests == [page.as_uri()]
    seen.page.context.close()


def results(place: Path, method: str, seed: int = 0) -> dict[str, Any]:
    file = RunDir(place / "runs" / "<b>plane").result_file(method, seed)
    with np.load(file) as arrays:
        return dict(arrays)


def number(cell: str) -> float:
    words = cell.replace("\N{MINUS SIGN}", "-").replace("▲", "").replace("▼", "").replace("≈", "")
    return float(words.split()[0].replace(",", ""))


def test_a_table_is_sorted_by_mouse_and_by_keyboard(seen: Visit) -> None:
    head = seen.page.locator(f"{RUNS} thead th", has_text="return")
    head.locator("button").click()
    falling = [number(cell) for cell in seen.column(RUNS, "return")]
    assert falling == sorted(falling, reverse=True)
    expect(head).to_have_attribute("aria-sort", "descending")
    head.locator("button").focus()
    seen.page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    rising = [number(cell) for cell in seen.column(RUNS, "return")]
    assert rising == sorted(rising)
    assert len(set(rising)) > 3


def test_differences_to_the_paper_are_coloured_and_missing_ones_come_last(seen: Visit) -> None:
    seen.page.locator(f"{RUNS} thead button", has_text="difference").click()
    cells = seen.column(RUNS, "difference")
    known = [number(cell) for cell in cells if cell != NONE]
    assert known == sorted(known, reverse=True)
    assert cells[len(known) :] == [NONE] * (len(cells) - len(known))
    assert seen.page.locator(f"{RUNS} .diff").count() == len(known)
    for kind, mark in (("better", "▲"), ("worse", "▼"), ("same", "≈")):
        for each in seen.page.locator(f"{RUNS} .{kind}").all_inner_texts():
            assert each.startswith(mark), "not by colour alone"


def test_rows_are_filtered(seen: Visit) -> None:
    search = seen.page.get_by_label("Show only")
    search.fill("SPARSE posterior")
    assert seen.column(RUNS, "family") == ["point-robot-sparse"]
    assert seen.column(RUNS, "method") == ["posterior (FOCAL)"]
    search.fill("")
    assert len(seen.column(RUNS, "family")) == 10


def test_stepping_through_an_adaptation(seen: Visit, place: Path) -> None:
    raw = results(place, "idaq-return", seed=1)
    judged_by = thresholds(raw, CONFIG)
    seen.page.get_by_label("Seed").select_option("1")
    seen.page.get_by_label("Test task").select_option(label=str(TEST_TASKS[2]))
    num = raw["returns"].shape[1]
    before = seen.page.get_by_label("Previous episode")
    expect(before).to_be_disabled()
    for episode in range(num):
        words = seen.text("#verdict").replace("\N{MINUS SIGN}", "-")
        is_final, kept = episode == num - 1, bool(raw["kept"][2, episode])
        verdict = "final, scored" if is_final else "kept" if kept else "rejected"
        assert words.startswith(f"Episode {episode + 1} of {num}: {verdict}")
        assert f"Return {raw['returns'][2, episode]:.2f}" in words
        if not is_final:
            assert f"threshold {judged_by[2, episode]:.2f}"[:12] in words
        stage = "reference" if episode < CONFIG.num_reference_episodes else "iterative"
        assert ("final episode" if is_final else f"{stage} stage") in words
        assert seen.page.locator("#explorer-body svg polyline").count() >= episode + 1
        if not is_final:
            seen.page.get_by_label("Next episode").click()
    expect(seen.page.get_by_label("Next episode")).to_be_disabled()


def test_stepping_by_keyboard_alone(seen: Visit) -> None:
    slider = seen.page.get_by_label("Episode", exact=True)
    slider.focus()
    seen.page.keyboard.press("ArrowRight")
    assert seen.text("#verdict").startswith("Episode 2 ")
    seen.page.keyboard.press("End")
    assert "final, scored" in seen.text("#verdict")
    seen.page.get_by_label("Previous episode").focus()
    seen.page.keyboard.press("ArrowLeft")
    assert seen.text("#verdict").startswith("Episode 5 ")
    for _ in range(60):  # everything can be reached by Tab
        seen.page.keyboard.press("Tab")
        if seen.page.evaluate("document.activeElement.tagName") == "BODY":
            break
    else:
        pytest.fail("Tab does not get through the page")


def test_a_method_without_judgement_and_a_family_without_trajectories(seen: Visit) -> None:
    method = seen.page.get_by_label("Method")
    method.select_option(label="posterior (FOCAL)")
    assert "keeps everything it sees" in seen.text("#verdict")
    method.select_option(label="expert context")
    assert "final, scored" in seen.text("#verdict")
    family = seen.page.locator("#explorer-body").get_by_label("Family")
    family.select_option(label="point-robot-sparse · default")
    assert "not saved" in seen.text("#explorer-body .explorer")
    assert (
        seen.page.locator("#explorer-body select")
        .nth(1)
        .evaluate("box => box.selectedOptions[0].textContent")
        == "expert context"
    ), "the method stays"


def test_the_episodes_as_a_table(seen: Visit) -> None:
    seen.page.get_by_text("All episodes as a table").click()
    assert seen.column("#explorer-body table", "episode") == list("123456")
    seen.page.locator("#explorer-body thead button", has_text="return").click()
    values = [number(cell) for cell in seen.column("#explorer-body table", "return")]
    assert values == sorted(values, reverse=True)


def test_the_final_return_of_every_budget_is_drawn(seen: Visit) -> None:
    """One line per method of several episodes, and a level for expert context."""
    card = seen.page.locator("#anytime")
    chart = card.locator("svg[aria-label='Final return against budget']")
    assert chart.locator("polyline").count() == 4
    assert chart.locator("circle").count() == 4 * CONFIG.num_episodes
    assert card.locator("svg line[stroke-dasharray='7 4'] title").count() == 1
    assert "what the method would commit to" in card.inner_text()


def test_names_are_text(seen: Visit) -> None:
    assert seen.page.locator("main b").count() == 0
    assert "2 runs of 2 task families" in seen.text("#subtitle")


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_system_and_the_button(
    browser: Browser, page: Path, scheme: Any, is_dark: bool
) -> None:
    seen = visit(browser, page, scheme=scheme)

    def brightness() -> float:
        colour = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour[4:-1].split(",")) / 3

    def contrast_of(selector: str) -> float:
        return float(seen.page.evaluate(CONTRAST, selector))

    assert (brightness() < 60) == is_dark
    for selector in ("h2", ".lead", ".diff", "thead th", "nav a"):
        assert contrast_of(selector) > 4.5, selector
    button = seen.page.locator("#theme")
    button.click()
    assert brightness() > 200
    button.click()
    assert brightness() < 60
    button.click()
    assert (brightness() < 60) == is_dark
    assert seen.problems == []


CONTRAST = """selector => {
  const parse = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (element) => parse(getComputedStyle(element).backgroundColor);
  const element = document.querySelector(selector);
  let behind = element;
  while (behind !== document.body && back(behind)[3] === 0) behind = behind.parentElement;
  const pair = [light(parse(getComputedStyle(element).color)), light(back(behind))];
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
}"""


@pytest.mark.parametrize("width", [360, 390, 768])
def test_a_phone_shows_the_page_without_scrolling_sideways(
    browser: Browser, page: Path, width: int
) -> None:
    seen = visit(browser, page, width=width)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    for control in seen.page.locator(".tools select, .tools input, .steps button").all():
        box = control.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert seen.problems == []


def test_runs_of_one_family_on_other_data_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "expert", num_seeds=1, methods=("posterior",))
    medium = make_run(tmp_path / "runs" / "medium", num_seeds=1, methods=("posterior",))
    write_json(medium.dataset_file, {"quality": "medium"})
    seen = visit(browser, write_page([tmp_path / "runs"], tmp_path / "page.html"))
    assert seen.column(RUNS, "family") == ["point-robot", "point-robot, medium data"]
    assert "2 runs of 1 task family" in seen.text("#subtitle")
    choices = seen.page.locator("#explorer-body").get_by_label("Family").locator("option")
    titles = ["point-robot · default", "point-robot, medium data · default"]
    expect(choices).to_have_text(titles)
    seen.page.context.close()


def test_figures_are_named_for_those_who_hear_them(seen: Visit) -> None:
    for figure in seen.page.locator("main svg").all():
        assert figure.get_attribute("role") == "img"
        assert figure.get_attribute("aria-label")


def test_experiments_have_tabs_statistics_and_figures(browser: Browser, tmp_path: Path) -> None:
    one = table_payload(made_up(5)) | {"scale": "fast", "preset": "default", "probes": []}
    one |= {"counts": {"done": 12, "unavailable": 6}, "curves": []}
    probe: dict[str, Any] = {"row": "push", "task": 3, "returns": [1.0, 2.0, 5.0]}
    probe |= {"distance": [0.3, 0.2, 0.1], "dataReturns": [4.0, 5.0]}
    probe |= {"uncertainty": {"return": [-1.0, -2.0, -5.0]}, "threshold": {"return": -5.0}}
    method: dict[str, Any] = {
        "name": "posterior",
        "label": "posterior (FOCAL)",
        "colour": "#6B6B6B",
    }
    method |= {"mean": [1.0, 2.0], "band": [[0.5, 1.5], [1.0, 3.0]]}
    curve = {"row": "push", "updates": [10, 20], "methods": [method]}
    two = one | {"name": "fig-quantification", "probes": [probe], "curves": [curve]}
    page = tmp_path / "page.html"
    page.write_text(render_page(page_payload([]) | {"experiments": [one, two]}))
    seen = visit(browser, page)
    assert "mean over 5 sets" in seen.text("#experiments table tr.total")
    assert seen.page.locator("#experiments svg").count() == 3
    assert "n/a" in seen.text("#experiments tbody tr:first-child")
    head = seen.page.locator("#experiments thead button", has_text="bad")
    head.click()
    shown = [number(cell) for cell in seen.column("#experiments table", "bad")]
    assert shown[:-1] == sorted(shown[:-1], reverse=True), "the mean stays below"
    seen.page.get_by_role("tab", name="x (fast)").focus()
    seen.page.keyboard.press("ArrowRight")
    chosen = seen.page.get_by_role("tab", selected=True)
    expect(chosen).to_have_text("fig-quantification (fast)")
    expect(chosen).to_be_focused()
    assert seen.page.locator("#experiments svg").count() == 5
    assert seen.problems == []


# --- Served ---------------------------------------------------------------------------------


def test_runs_are_seen_as_they_progress(browser: Browser, tmp_path: Path) -> None:
    server = make_server([tmp_path], 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        seen = visit(browser, address)
        expect(seen.page.locator("#progress")).to_contain_text("Nothing is running")
        run = make_run(tmp_path / "first", methods=())
        manifest = {"train": {"num_updates": 200}}
        write_json(run.checkpoints / "x.json", {})
        change_config(run, manifest)
        for seed, update in ((0, 150), (1, 50)):
            file = run.seed(seed) / "metrics.jsonl"
            file.parent.mkdir(parents=True)
            file.write_text(f'{{"update": {update}}}\n')
        progress = seen.page.locator("#progress")
        expect(progress).to_contain_text("200 of 400")
        expect(progress).to_contain_text("training")
        make_run(tmp_path / "second", methods=("idaq-return",))
        expect(seen.page.locator(RUNS)).to_contain_text("IDAQ, return")
        assert seen.problems == []
        assert all(request.startswith(address) for request in seen.requests)
        answer = seen.page.request.get(f"{address}etc/passwd")
        assert answer.status == 404
    finally:
        server.shutdown()
        server.server_close()


def change_config(run: RunDir, config: dict[str, Any]) -> None:
    manifest = read_object(run.manifest_file)
    manifest["identity"]["config"] = config
    write_json(run.manifest_file, manifest)
