"""Job files for the tests, and what refuses one."""

from collections.abc import Sequence

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file import Column, Job, SchemaCheck, parse_job

EXAMPLE = """\
job: clicks
lake: file:///data/lake                 # hdfs://nameservice/path, s3://bucket/path
source:
  kafka:
    bootstrap_servers: 127.0.0.1:9092
    options: {}                         # Java client names
  first_start: {default: latest, clicks: earliest}
  gap: fail
tables:
  - topic: clicks
    table: ods.clicks
    decode: json                        # json | text | bytes
    schema: "id BIGINT, user STRING, ts BIGINT, country STRING, amount DOUBLE, text STRING"
    event_time: {column: ts, unit: ms}
    partition_by: [date, hour]
    timezone: Asia/Shanghai
    late: {after: 2h, policy: rehome, future_max: 1h}
    shuffle: none
    format: parquet
    on_invalid: dead_letter
    provenance: true
    select: null
    roll: {size: 256MB}
    seal: {delay: 10m, idle_after: 30m, remember: 30d, actions: [success_file, catalog]}
catalog: {hive: {uri: "thrift://127.0.0.1:9083", strategy: near}}
batch: {interval: 10s, max_records: 5000000, max_bytes: 2GB}
clean: {every: 1h, ttl: 24h}
durability: close
commit_group: null
grace: 60s
spark: {master: "local[*]", conf: {}}
"""
VALID = EXAMPLE.replace(
    'catalog: {hive: {uri: "thrift://127.0.0.1:9083", strategy: near}}', "catalog: none"
)
SMALL = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
"""
SECRET = "hunter2-correct-horse"


def first_words(ddl: str) -> Sequence[Column]:
    """A schema check: names are the first words; a field without a type is refused."""
    position, columns = 0, []
    for field in ddl.split(","):
        words = field.split()
        if len(words) != 2:
            error = ValueError("a field is a name and a type")
            error.position = position  # type: ignore[attr-defined]
            raise error
        columns.append(Column(words[0], words[1], is_time=words[1] != "STRING"))
        position += len(field) + 1
    return columns


def changed(text: str, *pairs: tuple[str, str]) -> str:
    """Return `text` with each first string replaced; fails where it is not there."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def problems(
    text: str,
    check_schema: SchemaCheck | None = first_words,
    environment: dict[str, str] | None = None,
) -> list[dict[str, object]]:
    """Return what is wrong with `text`; fails where nothing is."""
    with pytest.raises(JobFileInvalid) as caught:
        parse_job(text, path="clicks.yaml", check_schema=check_schema, environment=environment)
    found = caught.value.fields["problems"]
    assert isinstance(found, list)
    assert all(each["file"] == "clicks.yaml" for each in found)
    return found


def only(text: str, **options: object) -> tuple[object, object, str, str]:
    """Return line, key, message and instead of the one problem of `text`."""
    found = problems(text, **options)  # type: ignore[arg-type]
    assert len(found) == 1, found
    return tuple(found[0][name] for name in ("line", "key", "message", "instead"))  # type: ignore[return-value]


def job(text: str = SMALL, **environment: str) -> Job:
    """Return the job of a valid text."""
    return parse_job(text, path="clicks.yaml", check_schema=first_words, environment=environment)
