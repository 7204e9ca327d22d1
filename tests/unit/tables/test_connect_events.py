"""Events of Iceberg's sink for Kafka Connect, as it has written them, and damaged ones."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.log.positions import StreamShard
from ashore.proof.doctor.lakehouse_sink import judge_iceberg_sink
from ashore.proof.doctor.observation import LakehouseSinkSeen
from ashore.proof.doctor.observe_sink import see_control
from ashore.tables.iceberg.connect_events import OFFSETS, read_completed
from ashore_lab.testing import FakeClock, RecordedSource

WRITTEN = json.loads((Path(__file__).parent / "connect_control.json").read_text("utf-8"))
EVENTS = {each["offset"]: base64.b64decode(each["value"]) for each in WRITTEN["events"]}
((MARK, REACHED),) = (item for item in WRITTEN["summary"].items() if item[0].startswith(OFFSETS))
COMPLETED = [number for number, value in EVENTS.items() if read_completed(value)]
NEXT_OF = {StreamShard("m", str(shard)): 14_000 if shard < 2 else 12_000 for shard in range(8)}


def control(*values: bytes) -> RecordedSource:
    """Return a source with the control topic; other offsets have markers of transactions."""
    source = RecordedSource(clock=FakeClock())
    source.create("control-m", 1)
    source.create("control", 1)
    source.append(StreamShard("control-m", "0"), *values)
    return source


def all_events() -> list[bytes]:
    return [EVENTS.get(number, b"") for number in range(max(EVENTS) + 1)]


def test_two_tasks_had_read_all_records() -> None:
    found = [read_completed(EVENTS[number]) for number in COMPLETED]
    assert len(found) == 2
    assert {each.group for each in found if each} == {"connect-m"}
    assert {key: value for each in found if each for key, value in each.next_of.items()} == NEXT_OF


def test_the_mark_and_the_control_topic_say_where_landing_begins() -> None:
    seen = see_control(control(*all_events()), MARK, REACHED)
    assert seen is not None
    assert seen.is_whole
    sink = LakehouseSinkSeen("ods.m", "iceberg", {MARK: REACHED}, ("m",), (), seen)
    assert judge_iceberg_sink(sink).next_of == NEXT_OF


def test_events_from_the_mark_on_are_of_files_that_the_table_does_not_have() -> None:
    seen = see_control(control(*all_events()), MARK, json.dumps({"0": max(COMPLETED)}))
    assert seen is not None
    assert len(seen.events) == 1


@pytest.mark.parametrize(
    ("reached", "tasks"),
    [
        ({"0": 1, "1": 2, "2": 0}, [0, 1]),
        ({"0": 1, "1": 1, "2": 0}, [0]),
        ({"0": 0, "1": 2}, [1]),
        ({"1": 2}, [1]),
        ({"0": 1}, [0]),
    ],
)
def test_a_control_topic_of_several_partitions_is_read_up_to_each_mark(
    reached: dict[str, int], tasks: list[int]
) -> None:
    source = RecordedSource(clock=FakeClock())
    source.create("control-m", 3)
    first, second = (EVENTS[number] for number in COMPLETED)
    source.append(StreamShard("control-m", "0"), first, b"")
    source.append(StreamShard("control-m", "1"), b"", second)
    seen = see_control(source, MARK, json.dumps(reached))
    assert seen is not None
    assert seen.is_whole
    expected = [read_completed(EVENTS[COMPLETED[each]]) for each in tasks]
    assert list(seen.events) == [each.next_of for each in expected if each]


@pytest.mark.parametrize("value", ["{}", "[]", "x", '{"0": 99}', '{"x": 1}'])
def test_a_mark_that_the_control_topic_does_not_reach_is_not_followed(value: str) -> None:
    assert see_control(control(*all_events()), MARK, value) is None


def test_another_connector_has_other_events() -> None:
    seen = see_control(control(*all_events()), f"{OFFSETS}control-m.connect-other", REACHED)
    assert seen is not None
    assert seen.events == ()
    assert see_control(control(*all_events()), f"{OFFSETS}gone.connect-m", REACHED) is None


@pytest.mark.parametrize("number", COMPLETED)
def test_an_event_that_is_cut_is_none(number: int) -> None:
    value = EVENTS[number]
    assert all(read_completed(value[:size]) is None for size in range(len(value) - 1))


@given(st.binary(max_size=60), st.integers(0, 1_100))
def test_any_bytes_give_an_event_or_none(noise: bytes, at: int) -> None:
    value = EVENTS[COMPLETED[0]]
    read_completed(value[:at] + noise + value[at + len(noise) :])
    read_completed(noise)
