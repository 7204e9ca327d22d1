"""The pictures of the documentation: made by the code, readable, and shown somewhere."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tools.pictures import crash_points, landing, sealing, sql_job
from tools.pictures.every import PICTURES, TARGET, render_files
from tools.pictures.live import Still, record_demo, record_run
from tools.pictures.shapes import Box, Kind, Line, Picture, Text, find_faults

from ashore.log.fold import EMPTY, new_partition
from ashore.log.plan_seal import SealRule, plan_seal
from ashore.log.positions import BatchTime

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
SEEN_ABOUT = 40  # characters that say what is on a picture, and not only what it is called


def shown() -> Iterator[tuple[str, str]]:
    """Yield the words and the file of every picture in a document."""
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text("utf-8")
        for words, target in re.findall(r"!\[([^]]*)\]\(([^)\s]+)\)", text):
            yield " ".join(words.split()), str((path.parent / target).resolve())


def test_the_files_are_what_the_code_draws():
    drawn = render_files()
    assert {path.name for path in TARGET.glob("*.svg")} == set(drawn)
    for name, text in drawn.items():
        assert (TARGET / name).read_text("utf-8") == text, f"{name}: run: make docs"


def test_what_is_no_drawing_is_a_screen_that_the_script_takes():
    """They are taken by hand, of a real server."""
    script = (ROOT / "tools" / "serve_screens.py").read_text("utf-8")
    others = {path.name for path in TARGET.iterdir() if path.suffix != ".svg"}
    assert others == {f"serve-{name}.png" for name in re.findall(r'shoot\(page, "(\w+)"', script)}


@pytest.mark.parametrize("name", render_files())
def test_a_file_is_svg_that_says_what_it_shows_in_light_and_dark(name: str):
    text = (TARGET / name).read_text("utf-8")
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    said = {each.get("id"): each.text for each in root}
    for part in (root.get("aria-labelledby") or "").split():
        assert said[part], part
    assert len(said["about"] or "") > SEEN_ABOUT
    assert "@media (prefers-color-scheme: dark)" in text
    links = re.findall(r"(?:href|src)=|@import|url\((?!#)|https?://[^\s\"]+", text)
    assert links == ["http://www.w3.org/2000/svg"], "a picture loads nothing"


@pytest.mark.parametrize("name", render_files())
def test_a_picture_is_shown_with_words_for_who_cannot_see_it(name: str):
    words = [each for each, target in shown() if target == str(TARGET / name)]
    assert words, f"{name} is in no document"
    assert all(len(each) > SEEN_ABOUT for each in words), words


@pytest.mark.parametrize("picture", PICTURES, ids=lambda each: each.name)
def test_every_text_can_be_read(picture: Picture):
    assert list(find_faults(picture)) == []


def words_of(still: Still) -> set[str]:
    return set(re.findall(r"[\w,]+", re.sub(r"<[^>]*>", " ", unescape(still.matrix))))


def test_the_stills_of_recordings_are_what_their_words_say():
    spark, half, killed, again, verifying = map(words_of, record_demo().stills)
    assert "SIGKILL" not in spark | half
    assert "SIGKILL" in killed & again & verifying
    assert "verifying" not in killed | again
    assert {"verifying", "1,199,988"} <= verifying
    _, writing, landed, twice = map(words_of, record_run().stills)
    assert "write" in writing
    assert {"idle", "10,000"} <= landed
    assert "20,000" in twice  # whether the job has ended by then is not said


def steps() -> list[str]:
    """Return the steps of a batch, as the page has them: `1. Plan`."""
    page = (ROOT / "docs" / "internals" / "commit.md").read_text("utf-8")
    return re.findall(r"^## (\d\. \w+)$", page, re.MULTILINE)


def test_the_steps_of_crash_points_are_those_of_the_page():
    assert list(dict.fromkeys(row.step for row in crash_points.ROWS)) == steps()


@pytest.mark.parametrize("picture", [landing.PICTURE, sql_job.PICTURE], ids=lambda each: each.name)
def test_numbers_on_arrows_are_those_of_the_steps(picture: Picture):
    known = {each.lower().replace(".", "") for each in steps()} | {"6 commit"}
    numbered = [match[0] for each in picture.texts if (match := re.match(r"\d \w+", each.text))]
    assert len(numbered) > 3
    assert set(numbered) <= known


def test_the_partition_is_sealed_when_the_plan_of_seals_says():
    """The rules of the product, at each minute of the time line."""
    table, partition, minute_ms = "ods.clicks", "date=2026-11-21/hour=08", 60_000
    day_ms = 1_795_219_200_000
    rule = SealRule(table, "UTC", sealing.DELAY * minute_ms)
    state = new_partition((table, partition), 1)
    made: list[tuple[int, int]] = []
    due: list[int] = []
    for clock in range(sealing.FROM, sealing.UNTIL):
        state = replace(state, rows=12 if clock >= sealing.LATE else 10)
        now_ms, watermark_ms = day_ms + clock * minute_ms, sealing.watermark(clock) * minute_ms
        time = BatchTime(now_ms, ((table, day_ms + int(watermark_ms)),))
        fold = replace(EMPTY, partitions={(table, partition): state})
        plan = plan_seal(fold, {}, [rule], time)
        due += [clock for _ in (*plan.partitions, *plan.blocked)]
        for each in plan.partitions:
            made.append((clock, each.version))
            state = replace(
                state, sealed_version=each.version, sealed_rows=each.rows, sealed_ms=now_ms
            )
    assert due[0] == sealing.DUE
    assert made == [(sealing.SEALED, 1), (sealing.AGAIN, 2)]


@pytest.mark.parametrize(
    ("shapes", "fault"),
    [
        ((Box(0, 0, 40, 40, ("too wide for it",)),), "'too wide for it' is wider"),
        ((Box(0, 0, 90, 30, ("two", "lines")),), "'two' is wider or higher"),
        ((Text(95, 50, "leaves"),), "'leaves' leaves the picture"),
        ((Box(0, 0, 50, 50), Text(50, 25, "side")), "'side' lies on the side of a box"),
        ((Text(50, 50, "one"), Text(55, 55, "other")), "'one' lies on 'other'"),
        ((Line(((0, 0), (100, 100))), Text(50, 54, "struck")), "'struck' lies on a line"),
        ((Text(50, 50, "WWWWWWWW", Kind.CODE), Text(50, 80, "WWWWWWWWW")), "'WWWWWWWWW' leaves"),
    ],
)
def test_what_cannot_be_read_is_found(shapes: tuple[Box | Text | Line, ...], fault: str):
    found = list(find_faults(Picture("x", "x", "x", 100, 100, shapes)))
    assert len(found) >= 1
    assert found[0].startswith(fault)


def test_what_can_be_read_is_not_found():
    good = (Box(0, 0, 90, 40, ("name",)), Text(45, 80, "below"), Line(((0, 50), (90, 50))))
    picture = Picture("x", "x", "x", 100, 100, good)
    assert list(find_faults(picture)) == []
    assert list(find_faults(replace(picture, width=50)))
