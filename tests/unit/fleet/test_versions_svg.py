"""The picture of two versions: its geometry, and what a reader can tell apart without colours."""

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise, product
from pathlib import Path

import pytest
from tests.unit.cli.test_versions_commands import golden_graph, version_of

from ashore.fleet.server.pages.versions_svg import (
    LETTER,
    LETTERS,
    WIDTH,
    Box,
    draw_diff,
    lay_out_graph,
)
from ashore.plans.version_changes import ChangeKind, compare_versions
from ashore.proof.status.query_versions import ComparedVersions, RecordedVersion

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("q0", "q5", "q7", "q8", "q9", "q11", "q16", "q20")


def compared(old: str, new: str) -> ComparedVersions:
    versions = [version_of(golden_graph(each), "SELECT 1 < 2") for each in (old, new)]
    before, after = (
        RecordedVersion(number, number, 0, 0, "", each) for number, each in enumerate(versions, 1)
    )
    return ComparedVersions("ods.<big>", before, after, compare_versions(*versions))


@pytest.mark.parametrize(("old", "new"), [*product(NAMES, NAMES[:4])])
def test_nothing_overlaps_and_pairs_stand_beside_each_other(old: str, new: str) -> None:
    found = compared(old, new)
    layout = lay_out_graph(found.diff.operators)
    for one, other in combinations((*layout.before, *layout.after), 2):
        assert not is_over(one, other)
    before = {box.operator.id: box for box in layout.before}
    after = {box.operator.id: box for box in layout.after}
    for each in found.diff.operators:
        if each.before and each.after:
            assert before[each.before.id].y == after[each.after.id].y
    for box in (*layout.before, *layout.after):
        assert box.x >= 0
        assert box.x + WIDTH <= layout.width
        assert box.bottom <= layout.height
        assert all(len(line) <= LETTERS for line in box.lines)
    assert LETTERS * LETTER <= WIDTH


def is_over(one: Box, other: Box) -> bool:
    is_beside = one.x + WIDTH <= other.x or other.x + WIDTH <= one.x
    return not is_beside and one.y < other.bottom and other.y < one.bottom


@pytest.mark.parametrize(("old", "new"), [("q11", "q12"), ("q9", "q8"), ("q0", "q5")])
def test_every_operator_and_every_edge_is_drawn_once(old: str, new: str) -> None:
    found = compared(old, new)
    drawing = draw_diff(found)
    assert drawing == draw_diff(found)
    root = ET.fromstring(drawing)
    groups = [each for each in root.iter(f"{SVG}g") if "operator" in each.get("class", "")]
    drawn = [(each.get("data-id"), *(each.get("class") or "").split()[1:]) for each in groups]
    operators = [
        (operator.id, change.change.value, *(["stateful"] if operator.state else []))
        for side in ("before", "after")
        for change in found.diff.operators
        if (operator := getattr(change, side)) is not None
    ]
    assert drawn == operators
    edges = sum(
        len(operator.inputs)
        for change in found.diff.operators
        for operator in (change.before, change.after)
        if operator
    )
    assert sum(1 for each in root.iter(f"{SVG}path") if each.get("class") == "flow") == edges
    shapes = {
        ChangeKind(change): frozenset((each.tag, each.get("rx"), count(group))
                                  for each in group if each.get("class") == "shape")
        for group, (_, change, *_rest) in zip(groups, drawn, strict=True)
    }  # fmt: skip
    outlines = {
        change: shape for change, shape in shapes.items() if change is not ChangeKind.REMOVED
    }
    assert len(set(outlines.values())) == len(outlines)  # what is removed has dashes
    assert "href" not in drawing


def count(group: ET.Element) -> int:
    return sum(1 for each in group if each.get("class") == "shape")


def test_flows_end_at_their_boxes_and_pass_others_by() -> None:
    found = compared("q9", "q8")
    layout = lay_out_graph(found.diff.operators)
    root = ET.fromstring(draw_diff(found))
    boxes = (*layout.before, *layout.after)
    for path in root.iter(f"{SVG}path"):
        if path.get("class") != "flow":
            continue
        points = [
            tuple(float(each) for each in part[1:].split(","))
            for part in (path.get("d") or "").split()
        ]
        for x, y in (points[0], points[-1]):
            assert any(box.x <= x <= box.x + WIDTH and box.y <= y <= box.bottom for box in boxes)
        for (x1, y1), (x2, y2) in pairwise(points):
            if x1 == x2:  # a way down: not through a box
                inside = [
                    box for box in boxes
                    if box.x < x1 < box.x + WIDTH and min(y1, y2) < box.y + 1 < max(y1, y2) - 1
                ]  # fmt: skip
                assert inside == []


def test_the_picture_goes_into_a_file(tmp_path: Path) -> None:
    text = draw_diff(compared("q11", "q12"))
    path = tmp_path / "diff.svg"
    path.write_text(text, "utf-8")
    assert ET.parse(path).getroot().tag == f"{SVG}svg"
    assert "ods.&lt;big&gt;" in text
