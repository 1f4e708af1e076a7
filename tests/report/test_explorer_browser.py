"""The page in a real browser: what a person does with it, by mouse and by keyboard."""

import os
import re
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from tests.report.explorer_model import NASTY, SCRIPT, YEARS, labelled_parts, ranking

import tallyfold as tf
from tallyfold.report.explorer import write_report


@pytest.fixture(scope="module")
def parts():
    return labelled_parts()


@pytest.fixture(scope="module")
def model(parts):
    return tf.BPTF(n_components=4, max_iter=30, random_state=3).fit(parts.train)


@pytest.fixture(scope="module")
def address(model, parts, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(model, file, test=parts.test, train=parts.train).as_uri()


@pytest.fixture
def page(visit, address):
    return visit(address)


def by_size(model):
    return [int(k) for k in (-model.posterior_.shares()).argsort(kind="stable")]


def bars(page, axis):
    """Return the labels of an axis's card, in the order shown."""
    card = page.locator("#detail section.card", has=page.locator(f"h4:text-is('{axis}')"))
    return card.locator("tbody th").all_text_contents()


def title(page):
    return page.locator("#detail-title").inner_text()


def in_address(page):
    return dict(part.split("=") for part in page.url.partition("#")[2].split("&"))


# -- components ------------------------------------------------------------------------------------


def test_it_opens_with_the_largest_component(page, model):
    assert title(page) == f"Component {by_size(model)[0]}"
    assert page.locator("#list button").count() == 4
    assert page.locator("#map .component").count() == 4
    assert page.locator("#lead").inner_text().startswith("BPTF, 4 components, of user (40)")


def test_a_background_comes_last(visit, parts, tmp_path):
    """It is no topic, however large it is."""
    model = tf.BPTF(n_components=4, background=True, max_iter=30).fit(parts.train)
    assert model.posterior_.shares().argmax() == 3
    page = visit(write_report(model, tmp_path / "page.html").as_uri())
    names = page.locator("#list .gist > b").all_text_contents()
    assert names == [model.component_names_[k] for k in [*by_size(model)[1:], 3]]
    assert title(page) == f"Component {by_size(model)[1]}"
    assert "the largest of 3" in page.locator("#detail-lead").inner_text()
    page.locator("#previous").click()
    assert title(page) == "Component 3: background"
    assert "what is common everywhere" in page.locator("#detail-lead").inner_text()


@pytest.mark.parametrize("where", ["#list button", "#map .component"])
def test_a_click_chooses_a_component(page, model, where):
    second = by_size(model)[1]
    before = bars(page, "item")
    page.locator(f'{where}[data-component="{second}"]').click()
    assert title(page) == f"Component {second}"
    assert bars(page, "item") != before
    assert bars(page, "item") == ranking(model, "item", second, 0.4)[:12]
    assert f"Component {second}" in page.locator("#said").inner_text()
    assert page.locator("#list [aria-pressed=true]").get_attribute("data-component") == str(second)


def test_the_list_is_used_by_keyboard(page, model):
    page.locator("#list button").nth(1).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert title(page) == f"Component {by_size(model)[2]}"


def test_the_map_is_used_by_keyboard(page, model):
    page.locator("#map .component[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert title(page) == f"Component {by_size(model)[1]}"
    page.keyboard.press("ArrowLeft")
    assert title(page) == f"Component {by_size(model)[0]}"
    page.keyboard.press("ArrowLeft")
    assert title(page) == f"Component {by_size(model)[3]}"
    focused = page.evaluate("document.activeElement.dataset.component")
    assert focused == str(by_size(model)[3])


def test_next_and_back(page, model):
    page.get_by_role("button", name="Next").click()
    assert title(page) == f"Component {by_size(model)[1]}"
    page.go_back()
    page.wait_for_function(
        f"document.getElementById('detail-title').textContent === 'Component {by_size(model)[0]}'"
    )


def test_shares_and_intervals_are_written_out(page, model):
    table = model.components("year", top=8)
    component = by_size(model)[0]
    page.get_by_role("button", name="Ranked").click()
    row = page.locator("#detail tr", has=page.locator("bdi:text-is('2003')"))
    expected = table[(table["component"] == component) & (table["label"] == "2003")].iloc[0]
    shown = float(row.locator(".number > span").first.inner_text().removesuffix(" %"))
    assert shown == pytest.approx(100 * expected["weight"], rel=0.06)
    low, high = re.match(r"([\d.]+)–([\d.]+)", row.locator(".range").text_content()).groups()
    assert float(low) == pytest.approx(100 * expected["low"], rel=0.06)
    assert float(high) == pytest.approx(100 * expected["high"], rel=0.06)


def test_an_ordered_axis_is_a_line_with_its_numbers(page):
    card = page.locator("#detail section.card", has=page.locator("h4:text-is('year')"))
    assert card.locator("path.line").count() == 1
    assert card.locator("path.band").count() == 1
    card.locator("summary").click()
    assert card.locator("tbody th").all_text_contents() == YEARS


def test_more_labels_can_be_shown(page):
    page.locator("#detail .more").first.click()
    assert len(bars(page, "user")) > 12
    assert page.evaluate("document.activeElement.className") == "label"


# -- in a notebook ---------------------------------------------------------------------------------


def test_the_frame_of_a_notebook_works_and_stays_where_it_is(visit, model, tmp_path):
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><title>n</title><link rel=icon href=data:,>{model.explore()._repr_html_()}"
    )
    page = visit((tmp_path / "notebook.html").as_uri())
    inside = page.frame_locator("iframe")
    first = inside.locator("#detail-title").inner_text()
    inside.locator("#list button").nth(1).click()
    assert inside.locator("#detail-title").inner_text() != first
    inside.locator("#lambda").fill("0")
    frame = page.frames[1]
    frame.wait_for_function("location.hash.includes('relevance=0')")
    assert frame.url.startswith("about:srcdoc#")
    assert inside.locator("#lambda-value").inner_text() == "0.00"


# -- relevance -------------------------------------------------------------------------------------


def test_the_slider_reorders_the_bars(page, model):
    component = by_size(model)[0]
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("End")
    strongest = model.components("item", top=12, by="sure")
    strongest = strongest[strongest["component"] == component]["label"].tolist()
    assert bars(page, "item") == strongest == ranking(model, "item", component, 1.0)[:12]
    page.keyboard.press("Home")
    apart = bars(page, "item")
    assert apart == ranking(model, "item", component, 0.0)[:12]
    assert apart != strongest
    assert page.locator("#lambda-value").inner_text() == "0.00"
    page.wait_for_url(re.compile("relevance=0(&|$)"))


# -- entities --------------------------------------------------------------------------------------


def test_search_finds_an_entity_by_keyboard(page, model):
    page.get_by_role("combobox").fill("item 7")
    options = page.get_by_role("option")
    assert options.first.inner_text().split() == ["item", "7", "item"]
    page.keyboard.press("ArrowDown")
    assert options.first.get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    assert title(page) == "item 7"
    assert page.evaluate("document.activeElement.id") == "detail-title"
    factors = model.posterior_
    row = factors.labels[1].to_pylist().index("item 7")
    part = factors.mean("item")[row] / factors.mean("item").sum(axis=0) * factors.shares()
    expected = [f"Component {k}: {model.component_names_[k]}" for k in (-part).argsort()]
    assert bars(page, "components") == expected
    first = page.locator("#detail .number > span").first.inner_text()
    assert float(first.removesuffix(" %")) == pytest.approx(100 * part.max() / part.sum(), rel=0.06)
    assert page.locator("#detail .whisker").count() == 4
    assert len(bars(page, "user")) == 12
    assert "training data" in page.locator("#detail-lead").inner_text()
    assert in_address(page)["entity"] == "item+7"


def test_search_forgives_accents_and_says_what_it_does_not_find(page):
    box = page.get_by_role("combobox")
    box.fill("ETE")
    assert page.get_by_role("option").count() == 1
    box.fill("no such label")
    assert page.get_by_role("option").count() == 0
    assert "No label" in page.locator("#matches").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#matches").is_hidden()


def test_a_label_leads_to_its_profile_and_back(page, model):
    component = by_size(model)[0]
    label = bars(page, "item")[0]
    page.get_by_role("button", name=label, exact=True).first.click()
    assert title(page) == label
    assert "of-entity" in page.locator("#map").get_attribute("class")
    page.get_by_role("button", name=f"Back to component {component}").click()
    assert title(page) == f"Component {component}"


# -- the address -----------------------------------------------------------------------------------


def test_the_address_restores_the_view(page, visit, model):
    page.locator("#list button").nth(2).click()
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.wait_for_url(re.compile("relevance=0(&|$)"))
    again = visit(page.url)
    assert title(again) == title(page) == f"Component {by_size(model)[2]}"
    assert again.get_by_role("slider").input_value() == "0"
    assert bars(again, "user") == bars(page, "user")


def test_the_address_restores_an_awkward_entity(page, visit):
    page.get_by_role("combobox").fill(SCRIPT)
    page.keyboard.press("Enter")
    assert title(page) == SCRIPT
    assert title(visit(page.url)) == SCRIPT


@pytest.mark.parametrize(
    ("hash", "said"),
    [
        ("", None),
        ("#component=99&relevance=x", "component “99” and relevance “x”"),
        ("#component=&relevance=", "component “” and relevance “”"),
        ("#nonsense", "“nonsense”"),
        ("#axis=user&entity=nobody", "“nobody” (user)"),
        ("#axis=no&entity=item+7", "“item 7” (no)"),
        ("#entity=item+7", "“item 7” (no axis)"),
    ],
)
def test_a_bad_address_shows_the_first_component_and_says_so(visit, address, model, hash, said):
    page = visit(address + hash)
    assert title(page) == f"Component {by_size(model)[0]}"
    assert page.locator("#missing").is_visible() == (said is not None)
    if said:
        assert f"asks for {said}, which is not on" in page.locator("#missing").inner_text()
        page.get_by_role("button", name="Next").click()
        assert page.locator("#missing").is_hidden()


def test_a_component_has_an_address_by_its_name(visit, address, model):
    name = model.component_names_[2]
    page = visit(f"{address}#component={quote_plus(name)}")
    assert title(page) == "Component 2"
    assert page.locator("#missing").is_hidden()


def test_the_back_button_leads_from_an_entity_to_its_component(page, model):
    second = by_size(model)[1]
    page.locator(f'#list button[data-component="{second}"]').click()
    label = bars(page, "item")[3]
    page.get_by_role("button", name=label, exact=True).first.click()
    assert title(page) == label
    page.go_back()
    page.wait_for_function(
        f"document.getElementById('detail-title').textContent === 'Component {second}'"
    )
    page.go_forward()
    page.wait_for_function(f"document.getElementById('detail-title').textContent === {label!r}")


# -- labels are text -------------------------------------------------------------------------------


def test_labels_are_shown_as_text_and_run_nothing(page):
    page.locator("#detail .more").first.click()
    for label in NASTY[:2]:
        page.get_by_role("combobox").fill(label)
        page.keyboard.press("Enter")
        assert title(page) == label
    assert page.evaluate("window.ran") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


def test_an_empty_label_can_be_seen_and_clicked(page):
    page.evaluate("location.hash = '#axis=user&entity='")
    page.wait_for_function("document.getElementById('detail-title').textContent === '“”'")


# -- looks -----------------------------------------------------------------------------------------


def background(page):
    return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")


def test_dark_follows_the_system_and_the_button(visit, address):
    light, dark = visit(address), visit(address, scheme="dark")
    assert background(light) != background(dark)
    assert dark.locator("#theme").get_attribute("aria-pressed") == "true"
    light.locator("#theme").click()
    assert background(light) == background(dark)


@pytest.mark.parametrize("hash", ["", "#axis=item&entity=item+7"])
@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "light"), (390, "dark"), (800, "light"), (1280, "dark")]
)
def test_nothing_is_wider_than_the_screen(visit, address, width, scheme, hash, tmp_path):
    page = visit(address + hash, width=width, scheme=scheme)
    page.locator("summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    folder = Path(os.environ.get("TALLYFOLD_ARTEFACTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    what = "entity" if hash else "component"
    file = folder / f"explorer-{what}-{width}.png"
    page.screenshot(path=file, full_page=True)
    assert file.stat().st_size > 20_000


def test_every_button_and_picture_has_a_name(page):
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, [role=button], [role=img], input")]
            .filter((node) => !(node.textContent.trim() || node.ariaLabel || node.labels?.length))
            .map((node) => node.outerHTML)"""
    )
    assert unnamed == []


def test_a_focus_can_be_seen(page):
    page.locator("#query").focus()
    page.keyboard.press("Tab")
    style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_it_prints_without_controls(page):
    page.emulate_media(media="print")
    assert page.locator(".controls").is_hidden()
    assert page.locator("#detail").is_visible()


# -- other models ----------------------------------------------------------------------------------


def written(model, folder):
    return write_report(model, folder / "other.html").as_uri()


@pytest.fixture(scope="module")
def complete_log():
    return tf.split(tf.load_demo().filter(top={"module": 60, "word": 300}), 0.2, cells="all")


@pytest.fixture(scope="module")
def complete_page(complete_log, tmp_path_factory):
    train, test = complete_log
    file = tmp_path_factory.mktemp("complete") / "report.html"
    model = tf.VAEBPTF(n_components=4).fit(train)
    return write_report(model, file, test=test, train=train).as_uri()


def test_a_complete_log_is_scored_by_whether_and_how_many(visit, complete_page):
    page = visit(complete_page)
    page.locator(".explain summary").click()
    assert "components say whether" in page.locator(".explain").inner_text()
    assert page.locator(".scores thead th").all_inner_texts()[1:] == [
        "log score ↑",
        "whether ↑",
        "how many ↑",
        "AUC within ↑",
    ]
    said = page.locator("#fit").inner_text()
    assert "Whether there is a count" in said
    assert "Score on validation cells: how many" in said
    assert "empty cells held out with them" in said
    assert "saying one" not in said
    assert page.locator("#fit dt:text-is('likelihood')").count() == 0


def test_of_missing_zeros_nothing_is_said_of_whether(page):
    assert "Whether there is a count" not in page.locator("#fit").inner_text()
    assert page.locator(".if-complete").first.is_hidden()


def test_a_point_model_has_no_intervals(visit, parts, tmp_path):
    page = visit(written(tf.PTFKL(n_components=2, max_iter=5).fit(parts.train), tmp_path))
    assert page.locator("#detail").locator(".whisker, .band, .range").count() == 0
    assert page.locator(".legend .if-intervals").is_hidden()
    page.locator(".explain summary").click()
    assert "there are no intervals" in page.locator(".explain").inner_text()


def test_one_component_has_nothing_to_stand_apart_from(visit, parts, tmp_path):
    model = tf.MainEffects(max_iter=5).fit(parts.train)
    page = visit(written(model, tmp_path))
    assert page.locator("#relevance").is_hidden()
    assert page.locator("#detail .overall").count() == 0
    assert page.locator(".legend .if-several").is_hidden()
    assert bars(page, "item") == model.components("item", top=12)["label"].tolist()


def test_a_model_without_components_shows_its_fit(visit, parts, tmp_path):
    page = visit(written(tf.Constant().fit(parts.train), tmp_path))
    assert page.locator("#components").is_hidden()
    assert "no components" in page.locator("#fit").inner_text()


def test_what_was_left_out_is_said(visit, model, tmp_path, monkeypatch):
    monkeypatch.setattr("tallyfold.report.explorer.entities.MOST_BYTES", 2400)
    page = visit(written(model, tmp_path))
    assert "of 40 labels are on this page" in page.locator("#detail").inner_text()
