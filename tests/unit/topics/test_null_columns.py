"""A column that no row sets is named where records have a field of nearly its name."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.proof.lakes import CLICKS_0, Lake

from ashore.log.store.reader import read_log
from ashore.topics.loop.samples import (
    Respelled,
    SampledRecord,
    explain_times,
    find_respelled,
    list_paths,
    read_samples,
    unset_columns,
)
from ashore.topics.route.event_columns import EventColumn

NOW_MS = 1_795_000_000_000
DDL = "id BIGINT, user_id STRING, meta STRUCT<eventId: STRING, at: BIGINT>, tags ARRAY<STRING>"


def a_sample(**fields: object) -> SampledRecord:
    return SampledRecord("clicks/0 offset 7", NOW_MS, fields)


def test_footers_name_columns_and_fields_that_are_null_in_each_row() -> None:
    meta = pa.struct([("eventId", pa.string()), ("at", pa.int64())])
    table = pa.table(
        {
            "id": pa.array([1, None, 3], pa.int64()),
            "user_id": pa.nulls(3, pa.string()),
            "meta": pa.array([{"eventId": None, "at": 1}, None, None], meta),
            "tags": pa.array([None, [], None], pa.list_(pa.string())),
        }
    )
    output = io.BytesIO()
    pq.write_table(table, output, row_group_size=2)
    unset = unset_columns(output.getvalue()[-4_000:])
    known = [path for path in list_paths(DDL) if ".".join(path) in unset]
    assert known == [("user_id",), ("meta", "eventId"), ("tags",)]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"userId": "a"}, "userId"),
        ({"USER-ID": 1}, "USER-ID"),
        ({"userId": None}, None),  # it tells nothing
        ({"userId": "a", "user_id": None}, None),  # records have the column's own
        ({"userID2": "a"}, None),
        ({}, None),
    ],
)
def test_only_another_spelling_of_a_column_that_no_record_has_counts(
    fields: dict[str, object], field: str | None
) -> None:
    found = find_respelled(list_paths(DDL), [a_sample(id=1), a_sample(**fields)])
    expected = [] if field is None else [Respelled(("user_id",), field, "clicks/0 offset 7")]
    assert found == expected


def test_a_field_below_a_column_is_found_and_a_column_stands_for_its_fields() -> None:
    below = find_respelled(list_paths(DDL), [a_sample(meta={"eventid": "x", "at": 1})])
    assert [(each.column, each.field) for each in below] == [(("meta", "eventId"), "meta.eventid")]
    whole = find_respelled(list_paths(DDL), [a_sample(META={"eventid": "x"})])
    assert [(each.column, each.field) for each in whole] == [(("meta",), "META")]


def test_two_columns_that_differ_by_a_sign_are_no_spelling_of_each_other() -> None:
    assert find_respelled(list_paths("user_id INT, userid INT"), [a_sample(userid=1)]) == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (NOW_MS // 1000, "ms", "with `unit: s` is 2026-11-18 11:06 UTC, "),
        (NOW_MS, "s", "with `unit: ms` is 2026-11-18 11:06 UTC"),
        (NOW_MS * 1000, "ms", "with `unit: us`"),
        (NOW_MS, "ms", "`ts` of clicks/0 offset 7 is 1795000000000"),
        ("soon", "ms", '`ts` of clicks/0 offset 7 is "soon"'),
        (10**400, "ms", "`ts` of clicks/0 offset 7 is 1000"),
        (float("nan"), "ms", "`ts` of clicks/0 offset 7 is NaN"),
    ],
)
def test_a_sample_explains_times(value: object, unit: str, text: str) -> None:
    assert text in explain_times(EventColumn("ts", unit), [a_sample(ts=value)])


def test_a_time_under_another_name_is_named() -> None:
    found = explain_times(EventColumn("ts"), [a_sample(TS=1)])
    assert found == "clicks/0 offset 7 has `TS` and not `ts`"
    assert explain_times(EventColumn("ts"), [a_sample(id=1)]) == "none of 1 records has `ts`"
    assert explain_times(EventColumn("ts"), []) == ""


def test_samples_are_what_the_log_has_as_read_and_a_silent_source_has_none() -> None:
    lake = Lake()
    lake.source.create("clicks", 1)
    lake.source.append(CLICKS_0, b'{"id": 1}', b"no JSON", b"[1]", b'{"id": 2}', b'{"id": 3}')
    lake.open()
    lake.join(0)
    lake.land({lake.key(): (0, 4)})
    fold = read_log(lake.storage, lake.name)
    assert [each.fields for each in read_samples(lake.source, fold, "clicks")] == [
        {"id": 1},
        {"id": 2},
    ]
    lake.source.is_reachable = False
    assert read_samples(lake.source, fold, "clicks") == []
