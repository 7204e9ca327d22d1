"""Records are placed by what their event time says, wherever it is and however it is written."""

import pytest
from tests.unit.topics.orders import HOUR_MS, NOW_MS, a_record, click
from tests.unit.topics.test_task import land

NESTED = "id BIGINT, ts BIGINT, meta STRUCT<at: STRING, ms: BIGINT>"


@pytest.mark.parametrize(
    ("column", "settings", "untimed"),
    [("meta.ms", {}, 1), ("meta.at", {"event_format": "iso8601"}, 2)],
)
def test_fields_and_texts_say_when_a_record_happened(column, settings, untimed):
    earlier = {"at": "2026-11-20T23:20:00Z", "ms": NOW_MS - HOUR_MS}
    values = [{"meta": earlier}, {"meta": {"at": "soon", "ms": NOW_MS}}, {"ts": 5}]
    records = [a_record(at, {"id": at, **each}) for at, each in enumerate(values)]
    landed = land(records, event_column=column, schema=NESTED, **settings)
    by_hour = {each.rsplit("=", 1)[1]: ids for each, ids in landed.by_directory.items()}
    assert by_hour == {"07": [0], "08": [1, 2]}
    assert landed.counters["no_event_time"] == untimed


@pytest.mark.parametrize("watermark_ms", [None, NOW_MS])
def test_times_near_1970_are_counted_wherever_they_are_filed(watermark_ms: int | None) -> None:
    times = [NOW_MS // 1000, 0, -1, NOW_MS, 1_000_000_000_000, None]
    watermarks = [("ods.clicks", watermark_ms)] if watermark_ms else []
    landed = land([click(1 + i, ts=ts) for i, ts in enumerate(times)], watermarks=watermarks)
    assert landed.counters["near_1970"] == 3
