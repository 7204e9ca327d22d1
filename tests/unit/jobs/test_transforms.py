"""What a job file with an Iceberg table may say: transforms of `partition_by`, and its catalog."""

import json

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file import parse_job
from ashore.topics.loop.job import columns_of


def parse(*partition_by: str, **catalog: str) -> tuple[str, ...]:
    table = {
        "topic": "clicks",
        "table": "ods.clicks",
        "schema": "id BIGINT, at TIMESTAMP, name STRING, x DOUBLE, at_day INT, day DATE",
        "format": "iceberg",
        "partition_by": partition_by,
    }
    document = {
        "job": "shop",
        "lake": "file:///lake",
        "source": {
            "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
            "first_start": {"default": "earliest"},
        },
        "tables": [table],
        "catalog": {"iceberg": catalog},
    }
    return parse_job(json.dumps(document), check_schema=columns_of).tables[0].partition_by


def test_transforms_are_spelled_in_one_way() -> None:
    assert parse("date", "HOUR( at )", "bucket(016,id)") == ("date", "hour(at)", "bucket(16, id)")


@pytest.mark.parametrize(
    ("partition_by", "words"),
    [
        (["day(id)"], "day\\(id\\): id is BIGINT"),
        (["hour(day)"], "day is DATE"),
        (["bucket(4, x)"], "x is DOUBLE"),
        (["day(when)"], "when is not a column"),
        (["day(at)"], "field at_day, as a column"),
        (["month(at)", "hour(at)"], "another such transform of at"),
        (["bucket(4, id)", "bucket(8, id)"], "another such transform of id"),
    ],
)
def test_what_cannot_be_computed_is_refused(partition_by: list[str], words: str) -> None:
    with pytest.raises(JobFileInvalid, match=words):
        parse(*partition_by)


@pytest.mark.parametrize("kind", ["rest", "hive"])
def test_a_server_is_a_catalog_by_its_address(kind: str) -> None:
    with pytest.raises(JobFileInvalid, match="address of a catalog"):
        parse("date", type=kind)
    assert parse("date", type=kind, uri="thrift://127.0.0.1:9083") == ("date",)
