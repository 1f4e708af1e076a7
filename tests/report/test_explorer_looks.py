"""How the page looks in a real browser: nothing is covered, cut off, or beyond the keyboard."""

import base64
import csv
import datetime as dt
import io
from itertools import combinations, pairwise

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.evaluation.metrics import METRICS
from tallyfold.report.explorer import write_report
from tallyfold.report.explorer.page import page_text
from tallyfold.report.explorer.payload import payload_of

LONG = [
    "The factorization of sparse count tensors with many axes, and what it says of words " * 2,
    "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverordnung" * 3,
    "כותר ארוך מאוד של ספר על ההיסטוריה של העיר העתיקה ועל מה שנכתב עליה " * 2,
    "https://example.org/a/very/long/path/without/any/space/in/it/index.html?query=1&page=2",
    "=HYPERLINK(A1)", "+1", "-x", "@user", "-3.5", 'with "quotes", and a comma', "two\nlines",
]  # fmt: skip


@pytest.fixture(scope="module")
def parts():
    """Return counts of documents x words x months, with names that are hard to show."""
    made = tf.simulate((40, 30, 14), 4, density=0.15, random_state=4).tensor
    months = [f"2023-{n:02}" for n in range(1, 13)] + ["2024-01", "2024-02"]
    axes = [
        tf.Axis("document (title)", [*LONG, *(f"document {n}" for n in range(40 - len(LONG)))]),
        tf.Axis("word", [f"word {n}" for n in range(30)]),
        tf.Axis("month", months),
    ]
    tensor = tf.CountTensor(axes, made.indices, made.counts)
    return tf.split(tensor, 0.2, random_state=0, cells="nonzero")


@pytest.fixture(scope="module")
def model(parts):
    model = tf.BPTF(n_components=4, max_iter=20, random_state=3).fit(parts.train)
    return model.rename({1: "letters and other writings of the second period"})


@pytest.fixture(scope="module")
def address(model, parts, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(model, file, test=parts.test, train=parts.train).as_uri()


@pytest.fixture
def page(visit, address):
    return visit(address)


def written(payload, folder):
    (folder / "page.html").write_text(page_text(payload), encoding="utf-8")
    return (folder / "page.html").as_uri()


def card(page, title):
    return page.locator("section.card", has=page.locator(f"h4:text-is('{title}')"))


# -- the map ---------------------------------------------------------------------------------------


def places(kind, n):
    rng = np.random.default_rng(n)
    if kind == "one heap":
        return rng.normal(0, 1e-3, (n, 2))
    if kind == "two heaps":
        return rng.normal(0, 0.02, (n, 2)) + np.arange(n)[:, None] % 2
    if kind == "a line":
        return np.stack([np.linspace(0, 1, n), np.zeros(n)], 1)
    return rng.normal(0, 1, (n, 2))


@pytest.mark.parametrize(
    ("kind", "n", "width"),
    [
        ("anywhere", 4, 390),
        ("anywhere", 4, 1280),
        ("one heap", 4, 390),
        ("two heaps", 25, 1280),
        ("a line", 40, 390),
        ("one heap", 60, 1280),
    ],
)
def test_no_two_texts_on_the_map_overlap(visit, model, tmp_path, kind, n, width):
    payload = payload_of(model)
    first = payload["components"][0]
    names = ["mail", "server, host (urllib.request)", "naïve, Ελληνικά", "a b c d e f"]
    payload["components"] = [
        first | {"name": k, "called": f"{names[k % 4]} {k}", "share": 1 / n, "x": x, "y": y}
        for k, (x, y) in enumerate(places(kind, n).tolist())
    ]
    for axis in payload["axes"]:
        n_labels = len(axis["labels"])
        for name in ("mean", "low", "high"):
            axis[name] = codes(n_labels * n)
    page = visit(written(payload, tmp_path), width=width)
    numbers, named = page.locator("#map .numeral"), page.locator("#map .name")
    assert numbers.count() == n
    assert named.count() >= (3 if (kind, n) == ("anywhere", 4) else 0)
    texts = [each.bounding_box() for each in [*numbers.all(), *named.all()]]
    frame = page.locator("#map svg").bounding_box()
    for box in texts:
        assert within(box, frame)
    for one, other in combinations(texts, 2):
        assert not covers(one, other)


def codes(n):
    """Return n packed numbers, all alike."""
    return {"from": -1.0, "to": -1.0, "codes": base64.b64encode(b"\1\0" * n).decode()}


def covers(one, other, least=1.0):
    across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
    down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
    return across > least and down > least


def within(box, frame, least=1.0):
    return (
        box["x"] >= frame["x"] - least
        and box["y"] >= frame["y"] - least
        and box["x"] + box["width"] <= frame["x"] + frame["width"] + least
        and box["y"] + box["height"] <= frame["y"] + frame["height"] + least
    )


# -- names, stability, labels ----------------------------------------------------------------------


def test_names_and_stability_are_in_the_list(visit, model, tmp_path):
    payload = payload_of(model)
    for number, each in enumerate(payload["components"]):
        each["stability"] = [0.91, 0.5, 0.123, None][number]
    page = visit(written(payload, tmp_path))
    entries = page.locator("#list button")
    assert entries.locator("b").all_inner_texts() == model.component_names_
    said = entries.locator(".stability").all_inner_texts()
    assert said == ["stability 0.91", "stability 0.50", "stability 0.12"]
    assert "stability 0.91" in page.locator("#detail-lead").inner_text()
    page.locator(".explain summary").click()
    assert page.locator(".if-stable").is_visible()


def test_of_stability_that_is_not_known_nothing_is_said(page):
    page.locator(".explain summary").click()
    assert "tability" not in page.locator("body").inner_text()


def test_components_that_are_switched_off_are_nowhere(visit, parts, tmp_path):
    model = tf.BPTF(n_components=30, prior_shape=0.1, max_iter=60).fit(parts.train)
    off = int(model.posterior_.switched_off().sum())
    assert off > 0
    page = visit(write_report(model, tmp_path / "off.html").as_uri())
    assert page.locator("#list button").count() == 30 - off
    assert page.locator("#map .component").count() == 30 - off
    assert f"({off} more are switched off)" in page.locator("#lead").inner_text()
    again = visit(f"{page.url.partition('#')[0]}#component=29")
    assert "component “29”" in again.locator("#missing").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_no_label_is_cut(visit, address, width):
    page = visit(address, width=width)
    while page.locator("#detail .more").count():
        page.locator("#detail .more").first.click()
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".label, .gist b, h3, h4, .chart-title, dd, .note")]
            .filter((node) => node.offsetParent)
            .filter((node) => node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0
                || node.scrollHeight > node.clientHeight + 2 && node.clientHeight > 0)
            .map((node) => node.textContent)"""
    )
    assert cut == []
    shown = page.locator("#detail .label").all_inner_texts()
    assert {label.replace("\n", " ").strip() for label in LONG} <= {
        label.replace("\n", " ").strip() for label in shown
    }


def test_bars_of_long_and_short_labels_have_one_scale(page):
    starts = page.evaluate(
        """() => [...document.querySelectorAll("#detail table.bars")].map((table) => new Set(
            [...table.querySelectorAll(".bar svg")].map((bar) => {
                const { left, width } = bar.getBoundingClientRect();
                return `${left.toFixed(0)} ${width.toFixed(0)}`;
            })).size)"""
    )
    assert set(starts) == {1}
    assert page.locator("#detail tr.long").count() > 0


# -- charts ----------------------------------------------------------------------------------------


def check_ticks(page):
    """Check that no text of a chart is outside it, or covers another."""
    charts = page.locator(".chart svg").all()
    assert charts
    for chart in charts:
        frame = chart.bounding_box()
        texts = [each.bounding_box() for each in chart.locator("text").all()]
        assert all(within(box, frame, 0.5) for box in texts)
        for one, other in combinations(texts, 2):
            assert not covers(one, other)


@pytest.mark.parametrize("width", [390, 1280])
def test_no_tick_label_is_cut(visit, address, width):
    check_ticks(visit(address, width=width))


@pytest.mark.parametrize("width", [390, 1280])
def test_no_tick_label_of_large_and_close_numbers_is_cut(visit, model, parts, tmp_path, width):
    payload = payload_of(model, test=parts.test)
    for each in payload["fit"]["history"]:
        each[1] = -123_456_789.0 + each[0] / 10  # large, and nearly the same
        each[2] = -1e-7 * each[0]
    means = payload["held_out"]["calibration"]["means"]
    payload["held_out"]["calibration"]["means"] = [[1e5 * a, 1e5 * b] for a, b in means]
    times = payload["axes"][2]
    start = dt.datetime(2024, 1, 1, 13, 30)
    times["labels"] = [str(start + dt.timedelta(hours=n)) for n in range(14)]
    check_ticks(visit(written(payload, tmp_path), width=width))


def test_an_ordered_axis_shows_the_component_and_its_part_of_all(page, model):
    first = int(model.posterior_.by_size()[0])
    course = model.course(first, "month")
    month = card(page, "month")
    assert month.locator("path.line").count() == month.locator("path.band").count() == 1
    month.get_by_role("button", name="Part of all").click()
    assert month.locator("path.line").count() == month.locator("path.band").count() == 1
    month.locator("summary").click()
    shown = [float(text.split()[0]) for text in month.locator("td:nth-child(2)").all_inner_texts()]
    assert shown == pytest.approx(100 * course["part"], rel=0.06)
    assert page.evaluate("document.activeElement.closest('section').textContent").startswith(
        "month"
    )
    month.get_by_role("button", name="Ranked").click()
    assert month.locator("path.line").count() == 0


def test_one_line_of_objectives_for_each_phase(visit, tmp_path):
    tensor = tf.simulate((30, 25, 10), 3, density=0.2).tensor
    given = {"zeros": "missing", "amount": "negative-binomial"}
    model = tf.VAEBPTF(n_components=2, max_iter=6, **given).fit(tensor)
    phases = [*dict.fromkeys(model.history_["phase"])]
    assert len(phases) > 1
    page = visit(write_report(model, tmp_path / "phases.html").as_uri())
    titles = card(page, "Course of the fit").locator(".chart-title").all_inner_texts()
    drawn = {title.partition("“")[2].partition("”")[0] for title in titles if "Objective" in title}
    alike = model.history_.groupby("phase").apply(
        lambda rows: bool((rows["objective"] == rows["validation"]).all())
    )
    assert drawn == {phase for phase in phases if not alike[phase]}


# -- what is said ----------------------------------------------------------------------------------


def test_components_that_say_nothing_are_said_to_before_all_else(visit, model, tmp_path):
    payload = payload_of(model)
    page = visit(written(payload, tmp_path))
    assert page.locator("#nothing-beyond").is_hidden()
    payload["nothing_beyond"] = "The 4 components carry next to nothing beyond main effects."
    page = visit(written(payload, tmp_path))
    assert page.locator("#nothing-beyond").inner_text() == payload["nothing_beyond"]


@pytest.mark.parametrize(
    ("gate", "said"), [("author × year", True), ("none", False), (None, False)]
)
def test_a_gate_is_said_above_the_components(visit, model, tmp_path, gate, said):
    payload = payload_of(model)
    payload["fit"]["gate"] = gate
    note = visit(written(payload, tmp_path)).locator("#gated")
    assert note.is_visible() is said
    assert not said or "which pairs of author × year" in note.inner_text()


def test_kept_scores_and_what_main_effects_score(visit, model, parts, tmp_path):
    kept = model.rename({0: "first"})
    kept.keep_scores({"log-pmf-positive": -1.5, "mae-mean": 0.4}, parts.test)
    payload = payload_of(kept)
    page = visit(written(payload, tmp_path))
    table = page.locator(".scores")
    assert table.locator("tbody tr").count() == 1
    assert table.locator("td").all_inner_texts() == ["-1.500", "0.4000"]
    assert "kept with the model" in page.locator("#fit").inner_text()
    assert page.locator("#beaten").count() == 0
    payload["kept"]["rows"].append({"model": "main effects", "scores": [-1.5, 1], "own": False})
    page = visit(written(payload, tmp_path))
    assert "add nothing to predictions" in page.locator("#beaten").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_many_kept_scores_have_a_row_each(visit, model, parts, tmp_path, width):
    kept = model.rename({0: "first"})
    names = [*METRICS][:12]
    kept.keep_scores(dict.fromkeys(names, -1.25), parts.test)
    payload = payload_of(kept)
    payload["kept"]["rows"].append({"model": "main effects", "scores": [0.5] * 12, "own": False})
    page = visit(written(payload, tmp_path), width=width)
    heads = page.locator(".scores tbody th").all_inner_texts()
    assert [head.split()[0] for head in heads] == names
    assert page.locator(".scores thead th").all_inner_texts() == ["", "bptf", "main effects"]
    cells = page.locator(".scores td")
    assert cells.evaluate_all("(all) => all.every((td) => td.scrollWidth <= td.clientWidth)")
    assert cells.all_inner_texts()[:2] == ["-1.250", "0.5000"]


def test_examples_lead_to_their_labels(page, visit, model, parts, tmp_path):
    first = int(model.posterior_.by_size()[0])
    expected = model.examples(first, parts.train, top=10)
    examples = card(page, "What shows it best")
    assert examples.locator("tbody tr").count() == len(expected)
    word = expected["word"][0]
    examples.locator("tbody tr").first.get_by_role("button", name=word).click()
    assert page.locator("#detail-title").inner_text() == word
    without = visit(write_report(model, tmp_path / "without.html").as_uri())
    assert card(without, "What shows it best").count() == 0
    assert "--train train.parquet" in without.locator("#detail").inner_text()


# -- tables as files -------------------------------------------------------------------------------


def saved(page, button):
    with page.expect_download() as waiting:
        button.click()
    download = waiting.value
    raw = download.path().read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    return download.suggested_filename, [*csv.reader(io.StringIO(raw.decode("utf-8-sig")))]


def csv_button(page, title):
    return card(page, title).first.get_by_role("button", name="Download as CSV").first


def test_a_ranking_is_saved_whole_and_runs_no_formula(page, model):
    name, (head, *rows) = saved(page, csv_button(page, "document (title)"))
    assert name == f"Component-{model.posterior_.by_size()[0]}-document-title-.csv"
    assert head == ["document (title)", "share", "low", "high", "overall"]
    assert len(rows) == 40
    labels = {row[0] for row in rows}
    assert {"'=HYPERLINK(A1)", "'+1", "'-x", "'@user"} - {"'+1"} <= labels
    assert {"-3.5", 'with "quotes", and a comma', "two\nlines", LONG[2]} <= labels
    assert not any(cell[:1] in "=@\t" for row in rows for cell in row if cell)
    table = model.components("document (title)", top=40)
    table = table[table["component"] == model.posterior_.by_size()[0]].set_index("label")
    for label, *numbers, _ in rows:
        plain = label if label in table.index else label.removeprefix("'")
        expected = table.loc[plain, ["weight", "low", "high"]].astype(float)
        assert [*map(float, numbers)] == pytest.approx([*expected], rel=1e-3, abs=1e-11)


@pytest.mark.parametrize(
    ("title", "head"),
    [
        ("month", ["month", "share", "low", "high", "overall"]),
        ("What shows it best", ["document (title)", "word", "month", "count", "share"]),
        ("Scores on held-out cells", ["model", "MAE, mean", "MAE, median", "RMSE", "log pmf"]),
    ],
)
def test_other_tables_are_saved(page, title, head):
    _, (got, *rows) = saved(page, csv_button(page, title))
    assert got == head
    assert rows
    assert {len(row) for row in rows} == {len(head)}


def test_numbers_behind_charts_and_the_list_are_saved(page, model):
    _, rows = saved(page, page.locator("#list-tools button"))
    assert rows[0] == ["component", "name", "share", "stability"]
    assert [row[1] for row in rows[1:]] == model.component_names_
    course = card(page, "Course of the fit")
    course.locator("summary").click()
    _, (head, *rows) = saved(page, course.get_by_role("button", name="Download"))
    assert head == ["iteration", "phase", "objective", "validation"]
    assert [float(row[2]) for row in rows] == pytest.approx(model.history_["objective"], rel=1e-4)


def test_tables_are_saved_from_a_notebook_too(visit, model, tmp_path):
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><title>n</title><link rel=icon href=data:,>{model.explore()._repr_html_()}"
    )
    page = visit((tmp_path / "notebook.html").as_uri())
    with page.expect_download() as waiting:
        page.frame_locator("iframe").locator("#list-tools button").click()
    assert waiting.value.suggested_filename == "Components.csv"


# -- by keyboard alone -----------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_tabulator_reaches_everything_in_order_and_shows_where_it_is(
    visit, address, width, scheme
):
    page = visit(address, width=width, scheme=scheme)
    seen = []
    for _ in range(400):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
                const node = document.activeElement;
                if (node === document.body) return null;
                const ring = node.querySelector(":scope > .ring");
                const style = getComputedStyle(ring ?? node);
                const box = node.getBoundingClientRect();
                return {
                    name: node.ariaLabel || node.textContent.trim() || node.labels?.[0].textContent,
                    marked: style.outlineStyle === "solid" || style.strokeWidth === "5px",
                    top: box.top + scrollY, seen: box.bottom > 0 && box.top < innerHeight,
                };
            }"""
        )
        if found is None:
            break
        seen.append(found)
    assert 30 < len(seen) < 400
    assert all(each["name"] and each["marked"] and each["seen"] for each in seen)
    names = [each["name"] for each in seen]
    landmarks = ["Dark", "Find a label", "Download as CSV: Components", "Next", "How to read this"]
    found = [next(n for n, name in enumerate(names) if mark in name) for mark in landmarks]
    assert found == sorted(found)
    if width < 600:  # one column: never back up
        assert all(b["top"] >= a["top"] - 60 for a, b in pairwise(seen))


def test_a_walk_by_keyboard_alone(visit, address, model):
    page = visit(address, width=390)
    second = [int(k) for k in model.posterior_.by_size()][1]

    def title():
        return page.locator("#detail-title").inner_text()

    def focused():
        return page.evaluate("document.activeElement.id || document.activeElement.className")

    while not page.evaluate("document.activeElement.matches('#list button')"):
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert title().startswith(f"Component {second}")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")  # to the last
    assert page.evaluate("document.activeElement.dataset.component") == str(
        int(model.posterior_.by_size()[3])
    )
    while focused() != "label":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert focused() == "detail-title"
    assert "entity" in page.url
    while focused() != "label":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # a component, from the bars of the entity
    assert focused() == "detail-title"
    assert title().startswith("Component")
    assert "entity" not in page.url
    page.go_back()
    page.wait_for_function("location.hash.includes('entity')")
