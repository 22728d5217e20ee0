"""The report in a real Chromium, at the width of a phone and of a desk, light and dark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from places import DATA

pytest.importorskip("matplotlib")
webdriver = pytest.importorskip("selenium.webdriver")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium with its driver on this machine"),
]
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from magicbyte.cli import main

    out = tmp_path_factory.mktemp("report") / "report.html"
    assert main(["report", str(DATA / "kafka-logs"), "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.binary_location = str(BROWSER)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.mark.parametrize("width, dark", [(390, False), (390, True), (1440, False), (1440, True)])
def test_it_fits_and_says_nothing_to_the_console(browser: Any, report: Path, width: int, dark: bool) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    browser.get(report.as_uri())
    assert browser.get_log("browser") == []  # a breach of the page's policy would stand there, too
    seen = browser.execute_script(
        """const box = (e) => e.getBoundingClientRect();
        const shown = (e) => box(e).width > 0;
        const out = [...document.querySelectorAll("section, figure, li, h1, p, svg")].filter(shown);
        return {wide: document.documentElement.scrollWidth,
          beyond: out.filter((e) => box(e).right > innerWidth + 1 || box(e).left < -1).length,
          pictures: [...document.querySelectorAll("svg")].filter(shown).length,
          all: document.querySelectorAll("svg").length,
          paper: getComputedStyle(document.body).backgroundColor,
          ink: getComputedStyle(document.querySelector("svg text").closest("figure")).color,
          fills: [...document.querySelectorAll("svg path")].filter(shown).map((e) => getComputedStyle(e).fill),
          letters: Math.min(...[...document.querySelectorAll("svg text")].filter(shown).map((e) => box(e).height)),
          loaded: performance.getEntriesByType("resource").length}"""
    )
    assert seen["wide"] == width and seen["beyond"] == 0
    assert seen["pictures"] * 2 == seen["all"] and seen["pictures"] >= 8
    assert (seen["paper"] == "rgb(18, 21, 27)") is dark and (seen["ink"] == "rgb(230, 233, 239)") is dark
    bars = {fill for fill in seen["fills"] if fill != "none"}
    assert ("rgb(91, 155, 224)" if dark else "rgb(47, 111, 179)") in bars and "rgb(0, 0, 0)" not in bars
    assert seen["letters"] >= 9  # px: small, and readable
    assert seen["loaded"] == 0


def test_a_table_sorts_both_ways(browser: Any, report: Path) -> None:
    browser.get(report.as_uri())
    column = "return [...document.querySelectorAll('#topics tbody tr')].map((r) => Number(r.cells[5].dataset.v))"
    head = "document.querySelectorAll('#topics th')[5]"
    browser.execute_script(f"{head}.querySelector('button').click()")
    first = browser.execute_script(column)
    assert first == sorted(first, reverse=True)
    browser.execute_script(f"{head}.querySelector('button').click()")
    assert browser.execute_script(column) == sorted(first)
    assert browser.execute_script(f"return {head}.getAttribute('aria-sort')") == "ascending"
    # A row of sums stays where it is.
    browser.execute_script("document.querySelectorAll('#v3 th')[1].querySelector('button').click()")
    assert browser.execute_script("return document.querySelector('#v3 tfoot td').textContent") == "all"
