"""A real browser for the tests of the explorer page."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the path: see scripts/browser")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_context(reduced_motion="reduce")
        browser.close()


@pytest.fixture
def visit(browser):
    """Open an address; whatever goes wrong in the page fails the test."""
    pages, faults = [], []

    def opened(url, width=1280, scheme="light"):
        page = browser.new_page()
        pages.append(page)
        page.set_default_timeout(10_000)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.on("console", lambda said: faults.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda asked: faults.append(asked.url) if outside(asked.url) else None)
        page.goto(url)
        return page

    yield opened
    for page in pages:
        page.close()
    assert faults == []


def outside(url):
    return not url.startswith(("file:", "data:", "blob:"))


@pytest.fixture(scope="module", autouse=True)
def _quickly(brief_heads):
    """Pages are tried, not how well models predict."""
