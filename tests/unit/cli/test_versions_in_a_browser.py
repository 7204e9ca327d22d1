"""The picture of two versions as a browser shows it: letters in their boxes, and contrast.

Run where a Chromium is on the path; what the layout computes is tested without one.
"""

import html
import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.unit.fleet.test_versions_svg import compared

from ashore.fleet.server.pages.versions_svg import draw_diff

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCHEMES = {"light": 1, "dark": 0}  # as Chromium counts them
TEXT_CONTRAST, LINE_CONTRAST = 4.5, 3.0  # WCAG 2.2: AA of small text, and of what is no text

# Everything that a reader sees, where the browser has put it, in colours that are computed.
LOOK = """
const place = each => { const b = each.getBBox(); return [b.x, b.y, b.width, b.height]; };
const style = (each, name) => getComputedStyle(each)[name];
const texts = [...document.querySelectorAll("svg > text, g.operator text")].map(each => {
  const shape = each.parentNode.querySelector(":scope > .shape");
  const isInBox = each.parentNode.matches("g.operator");
  return {
    words: each.textContent, place: place(each), fill: style(each, "fill"),
    box: isInBox ? place(shape) : null,
    behind: isInBox ? style(shape, "fill") : style(each.parentNode, "backgroundColor"),
  };
});
const lines = [...document.querySelectorAll(".shape, .flow, .pair")].map(each => ({
  kind: each.getAttribute("class"), stroke: style(each, "stroke"),
  behind: style(document.querySelector("svg"), "backgroundColor"),
}));
const svg = document.querySelector("svg");
const size = [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height];
document.getElementById("seen").textContent = JSON.stringify({ texts, lines, size });
"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium on the path")
    return found


def look(browser: str, drawing: str, scheme: str, directory: Path) -> Any:
    """Return what a page with the drawing looks like, as LOOK writes it down."""
    page = directory / f"{scheme}.html"
    body = f'{drawing}<pre id="seen"></pre><script>{LOOK}</script>'
    page.write_text(f'<!doctype html><meta charset="utf-8">{body}', "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    options += [f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"]
    options += [f"--user-data-dir={directory / 'profile'}"]
    command = [browser, *options, page.as_uri()]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    seen = re.search(r'<pre id="seen">(.*?)</pre>', answer.stdout, re.DOTALL)
    assert seen is not None, answer.stdout[-2000:]
    return json.loads(html.unescape(seen[1]))


def luminance(colour: str) -> float:
    """Return how bright a colour is, from 0 to 1, as WCAG has it."""
    parts = [float(each) / 255 for each in re.findall(r"[\d.]+", colour)[:3]]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def is_within(inner: list[float], outer: list[float]) -> bool:
    (x, y, width, height), (left, top, across, down) = inner, outer
    return left <= x and x + width <= left + across and top <= y and y + height <= top + down


def is_over(one: list[float], other: list[float]) -> bool:
    (x, y, width, height), (left, top, across, down) = one, other
    is_beside = x + width <= left or left + across <= x
    return not is_beside and y < top + down and top < y + height


def test_contrast_is_counted_as_wcag_does() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(118, 118, 118)", "rgb(255, 255, 255)") == pytest.approx(4.54, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("old", "new"), [("q9", "q8"), ("q11", "q12")])
def test_labels_stay_in_their_boxes_and_are_read(
    browser: str, tmp_path: Path, old: str, new: str, scheme: str
) -> None:
    seen = look(browser, draw_diff(compared(old, new)), scheme, tmp_path)

    texts = seen["texts"]
    assert any(each["box"] for each in texts)
    for each in texts:
        assert is_within(each["place"], each["box"] or [0, 0, *seen["size"]]), each
        assert contrast(each["fill"], each["behind"]) >= TEXT_CONTRAST, each
    for one, other in combinations(texts, 2):
        assert not is_over(one["place"], other["place"]), (one, other)
    backgrounds = {each["behind"] for each in seen["lines"]}
    assert [luminance(each) > 0.5 for each in backgrounds] == [scheme == "light"]
    for each in seen["lines"]:
        assert contrast(each["stroke"], each["behind"]) >= LINE_CONTRAST, each
