"""The picture of a job: its geometry, and that its numbers are those of `status`."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations

import pytest
from tests.unit.proof.lakes import fill, make_lake

from ashore.fleet.server.pages.flow_svg import (
    DRAWN,
    WIDTH,
    FlowLeaf,
    FlowSlice,
    draw_flow,
    view_flow,
)
from ashore.proof.status.status import read_status


def flow(topics: int, tables: int) -> FlowSlice:
    return FlowSlice(
        "slice main",
        "running",
        ("93 records/s",),
        tuple(FlowLeaf(f"topic-{n}", f"lag {n}") for n in range(topics)),
        tuple(FlowLeaf(f"ods.table_{n}", f"{n} rows") for n in range(tables)),
    )


@pytest.mark.parametrize(("topics", "tables"), [(1, 1), (1, 3), (5, 2), (0, 0), (8, 9)])
def test_boxes_do_not_overlap_and_are_inside(topics: int, tables: int) -> None:
    root = ET.fromstring(draw_flow([flow(topics, tables), flow(tables, topics)]))
    height = float(root.attrib["viewBox"].split()[3])
    names = ("x", "y", "width", "height")
    boxes = [[float(each.attrib[n]) for n in names] for each in root.iter("rect")]
    assert len(boxes) == 2 * (topics + tables + 1)
    for x, y, across, down in boxes:
        assert x >= 0
        assert y >= 0
        assert x + across <= WIDTH
        assert y + down <= height
    for (x, y, across, down), (left, top, wide, high) in combinations(boxes, 2):
        assert x + across <= left or left + wide <= x or y + down <= top or top + high <= y


def test_its_numbers_are_those_of_status() -> None:
    lake = make_lake()
    fill(lake.source, "clicks", 1, 1_234)
    status = read_status(lake.opened())
    (found,) = view_flow(status, "running")
    assert found.topics == (FlowLeaf("clicks", f"lag {status.lag:,}", "behind"),)
    rows = {each.table: each.rows for each in status.slices[0].tables}
    assert [each.name for each in found.tables] == ["ods.clicks", "ods.clicks__dead"]
    assert found.tables[0].words == f"{rows['ods.clicks']:,} rows"
    assert found.tables[1].kind == "dead"


def test_a_lag_that_is_not_known_is_not_drawn_as_none() -> None:
    lake = make_lake()
    status = read_status(lake.opened())
    part = status.slices[0]
    unknown = [replace(each, lag=None) for each in part.shards]
    part = replace(part, shards=tuple(unknown))
    (found,) = view_flow(replace(status, slices=(part,)), "running")
    assert found.topics[0].words == "lag unknown"


def test_of_many_topics_the_largest_are_drawn_and_names_are_escaped() -> None:
    lake = make_lake()
    status = read_status(lake.opened())
    part = status.slices[0]
    many = tuple(replace(part.shards[0], stream=f"<t{n:02}>", lag=n) for n in range(20))
    part = replace(part, shards=many)
    (found,) = view_flow(replace(status, slices=(part,)), "running")
    assert found.topics[0].name == "<t19>"
    assert found.topics[DRAWN].name == f"{20 - DRAWN} more topics"
    assert "&lt;t19&gt;" in draw_flow([found])
