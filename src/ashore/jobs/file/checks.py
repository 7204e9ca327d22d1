"""What keys of a job file say together.

What it is: checks over items of `tables` that are right by themselves.
What it promises: pure; a broken item keeps no other item from being checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ashore.base.suggest import suggest
from ashore.base.units import format_duration
from ashore.jobs.file import sql_checks
from ashore.jobs.file.columns import Column, find_column, list_times
from ashore.jobs.file.naming import TOPIC_PLACE, table_name
from ashore.jobs.file.problems import Finding
from ashore.jobs.file.section import Key
from ashore.jobs.file.tables import (
    GENERATION_COLUMN,
    HEADERS_COLUMN,
    TIME_PARTITIONS,
    EventTime,
    Table,
)
from ashore.log.tables import ICEBERG, SNAPSHOTS
from ashore.storage.bucket_conf import find_store
from ashore.tables.ddl import parse_ddl
from ashore.tables.masks import check_mask
from ashore.tables.transforms import SOURCES, Transform, parse_transform

Items = Mapping[int, Table]
LineOf = Callable[[Key], int]

# How others name the partitions of time.
_TIMES_MEANT = {
    **dict.fromkeys(("day", "days", "dt", "ds", "month", "year", "yyyymmdd"), "date"),
    **dict.fromkeys(("hours", "hr", "hh"), "hour"),
    **dict.fromkeys(("minutes", "min", "mm"), "minute"),
}
_STORES = {"s3": "S3", "azure": "Azure", "gcs": "Google's store"}  # by their sections
_ONCE = "each topic matches exactly one item"


def check_spark(data: object, items: Items) -> Iterator[Finding]:
    """Yield what needs Spark in a job that says it has none. `data` is the job file's."""
    if not isinstance(data, dict) or data.get("spark") != "none":
        return
    instead = "remove `spark: none`: the default is Spark on this machine"
    if data.get("sql") is not None:
        yield Finding(("sql",), "SQL runs in Spark", instead)
    for index, item in items.items():
        for name in ("select", "where"):
            if getattr(item, name):
                yield Finding(("tables", index, name), f"{name} runs in Spark", instead)


def check_bucket(data: object) -> Iterator[Finding]:
    """Yield what does not go with a lake in a bucket, or outside of one. `data` is plain."""
    lake = data.get("lake") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(lake, str):
        return
    store = find_store(lake)
    for name in _STORES.keys() - {store}:
        section = data.get(name)
        named = section.items() if isinstance(section, dict) else ()
        if any(value for key, value in named if key != "path_style"):
            yield Finding((name,), f"the lake {lake} is not on {_STORES[name]}", "remove the key")
    yield from _check_place_of_checkpoints(data, lake, store)


def _check_place_of_checkpoints(
    data: Mapping[str, object], lake: str, store: str | None
) -> Iterator[Finding]:
    """Yield a place that Spark's clients are not set up for. `store`: of the lake."""
    sql = data.get("sql")
    if sql is None:
        return
    place = sql.get("checkpoints") if isinstance(sql, dict) else None
    key = ("sql", "checkpoints") if place else ("sql",)
    disk = "write file:///path, on a disk that driver and executors share"
    match find_store(str(place or lake)):
        case None if store and str(place).startswith("hdfs://"):
            what = "with a lake in a bucket Spark's checkpoints are there or on a disk"
            yield Finding(key, what, disk)
        case "s3" if store != "s3":
            what = "checkpoints are in a bucket of S3 only where the lake is too"
            yield Finding(key, what, disk)
        case ("azure" | "gcs") as found:
            what = f"Spark's checkpoints cannot be in {_STORES[found]}: set `sql.checkpoints`"
            yield Finding(key, what, disk)


def check_hdfs(data: object) -> Iterator[Finding]:
    """Yield the section `hdfs` where the lake is elsewhere. `data` is plain."""
    lake = data.get("lake") if isinstance(data, dict) else None
    section = data.get("hdfs") if isinstance(data, dict) else None
    is_said = isinstance(section, dict) and any(section.values())
    if is_said and isinstance(lake, str) and (lake.startswith("file://") or find_store(lake)):
        yield Finding(("hdfs",), f"the lake {lake} is not on HDFS", "remove the key")


def check_iceberg(data: object, items: Items) -> Iterator[Finding]:
    """Yield what keeps tables from being Iceberg tables. `data` is plain, variables replaced."""
    found = {index: item for index, item in items.items() if item.format == ICEBERG}
    for index in items.keys() - found.keys():
        for position, name in enumerate(items[index].partition_by):
            if parse_transform(name):
                message = f"{name} is a transform, which Iceberg tables have"
                instead = "add format: iceberg, or name a column, date, hour or minute"
                yield Finding(("tables", index, "partition_by", position), message, instead)
    if not isinstance(data, dict) or not found:
        return
    catalog = data.get("catalog")
    section = catalog.get("iceberg") if isinstance(catalog, dict) else None
    known: dict[str, object] = section if isinstance(section, dict) else {}
    kind, lake = known.get("type", "sql"), data.get("lake")
    if known.get("uri") or kind == "glue":
        return
    if kind != "sql" or not (isinstance(lake, str) and lake.startswith("file:")):
        message = "format: iceberg needs the address of a catalog, unless the lake is a local disk"
        yield Finding(("catalog",), message, "add catalog: {iceberg: {type: rest, uri: ...}}")


def check_item(index: int, item: Table) -> Iterator[Finding]:
    """Yield what is wrong with one item, its columns not looked at."""
    key: Key = ("tables", index)
    yield from _check_retention(key, item)
    if item.compact is not None and (item.format not in SNAPSHOTS or not item.land):
        message = "compact applies to tables in a table format, which have snapshots"
        yield Finding((*key, "compact"), message, "remove the key, or write format: iceberg")
    if item.topic is None:
        yield from sql_checks.check_sink_table(key, item)
        return
    yield from sql_checks.check_read_topic(key, item)
    if TOPIC_PLACE in item.table and not item.is_pattern:
        yield Finding(
            (*key, "table"),
            f"{TOPIC_PLACE} is for items whose topic is an /expression/",
            f"write {item.table.replace(TOPIC_PLACE, table_name_part(item.topic))}",
        )
    if item.is_json and item.schema_ddl is None:
        yield Finding(
            (*key, "schema"),
            f"decode: {item.decode} needs a schema",
            'add schema: "id BIGINT, user STRING"',
        )


def _check_retention(key: Key, item: Table) -> Iterator[Finding]:
    """Yield why the partitions of a table cannot be dropped by their age: the first reason."""
    if item.retention_ms is None:
        return
    place = (*key, "retention")
    if not item.land:
        yield Finding(place, "with land: false there is no table to drop from", "remove the key")
    elif item.format in SNAPSHOTS:
        message = "retention does not apply to tables in a table format in this release"
        yield Finding(place, message, "remove the key, and delete rows by another engine")
    elif item.topic is None:
        message = (
            "`retention` does not apply to tables that SQL writes: rows can go to any partition, "
            "however old"
        )
        instead = (
            "remove the key, and drop partitions with: ashore retire JOB.yaml TABLE --older-than "
            "90d"
        )
        yield Finding(place, message, instead)
    elif "date" not in item.partition_by:
        message = "retention drops partitions of time, and partition_by has no date"
        yield Finding(place, message, "write partition_by: [date, ...], or remove retention")
    elif item.retention_ms <= item.late.after_ms:
        message = "retention is not longer than late.after: records would still come to it"
        yield Finding(place, message, f"write more than {format_duration(item.late.after_ms)}")


def table_name_part(topic: str) -> str:
    """Return what stands for `topic` in a table's name."""
    return table_name(f"x.t{TOPIC_PLACE}", topic).name.removeprefix("t")


def check_columns(index: int, item: Table, found: Sequence[Column]) -> Iterator[Finding]:
    """Yield what is wrong with one item, given the columns of its schema."""
    key: Key = ("tables", index)
    columns = [column.name for column in found]
    if item.topic is not None and not item.is_json and len(columns) != 1:
        message = f"decode: {item.decode} has one column, the schema has {len(columns)}"
        yield Finding((*key, "schema"), message, f'write schema: "{_one_column(item)}"')
    yield from _check_types(key, item, found)
    seen: set[str] = set()
    for column in columns:
        if column.casefold() in seen:
            message = f"the schema has the column {column} twice (names are not case-sensitive)"
            yield Finding((*key, "schema"), message, "give each column a name of its own")
        seen.add(column.casefold())
    if item.topic is not None and item.mask:
        yield from _check_mask(key, item, found)
    for column in item.compact.sort_by if item.compact and item.select is None else ():
        if item.topic is not None and column not in {*columns, *item.provenance_columns}:
            message = f"the table has no column {column} to sort by"
            yield Finding((*key, "compact", "sort_by"), message, f"columns: {', '.join(columns)}")
    if item.event_time and item.select is None:
        yield from _check_event_time((*key, "event_time"), item.event_time, found)
    if item.select is None:  # else the table's columns are known to Spark only
        yield from _check_places(key, item, columns)
        yield from _check_partitions(key, item, found)


def _check_mask(key: Key, item: Table, columns: Sequence[Column]) -> Iterator[Finding]:
    place, time = (*key, "mask"), item.event_time.column if item.event_time else ""
    try:
        check_mask(parse_ddl(item.ddl), item.mask.items())
    except ValueError as error:
        instead = "name columns of the schema, with sha256, last4 or null for each"
        yield Finding(place, str(error), instead)
    if any(time == path or time.startswith(f"{path}.") for path in item.mask):
        yield Finding(place, f"{time} is the event time", "remove it from mask")
    for column in columns:
        if item.is_json and not column.has_text_keys:  # what Spark decodes is not masked
            message = f"a table with a mask has maps with STRING keys, and {column.name} is "
            yield Finding(place, message + column.type, "write MAP<STRING, ...>, or remove mask")


def _check_types(key: Key, item: Table, columns: Sequence[Column]) -> Iterator[Finding]:
    place = (*key, "schema")
    if item.topic is not None and not item.is_json and len(columns) == 1:
        type_ = _one_column(item).rpartition(" ")[2]
        if columns[0].type != type_:
            message = f"decode: {item.decode} gives {type_}, and {columns[0].name} is "
            instead = f'write schema: "{columns[0].name} {type_}"'
            yield Finding(place, message + columns[0].type, instead)
    if not item.is_landed or item.select is not None:
        return
    for column in columns:
        if item.is_json and not column.has_text_keys:
            message = f"a map in JSON has STRING keys, and {column.name} is {column.type}"
            yield Finding(place, message, "write MAP<STRING, ...>")
        if item.format == "orc" and column.has_wall_time:
            message = (
                f"{column.name} is {column.type}, and Spark cannot read TIMESTAMP_NTZ from ORC"
            )
            yield Finding(place, message, "write TIMESTAMP, or format: parquet")


def _check_partitions(key: Key, item: Table, columns: Sequence[Column]) -> Iterator[Finding]:
    """Yield columns whose values cannot be directories, and what leaves none for the files."""
    types = {column.name: column for column in columns}
    families = set[tuple[str, str]]()
    for position, name in enumerate(item.partition_by):
        transform = parse_transform(name)
        if transform is not None:
            place = (*key, "partition_by", position)
            yield from _check_transform(place, transform, types)
            if transform.family in families:
                message = f"{name}: the table has another such transform of {transform.column}"
                yield Finding(place, message, "remove one")
            families.add(transform.family)
        column = types.get(name)
        if column is not None and not column.can_partition:
            message = f"{name} is {column.type}, which cannot be a partition column"
            instead = "name a STRING, BOOLEAN, DATE, integer or DECIMAL column"
            yield Finding((*key, "partition_by", position), message, instead)
    if types and types.keys() <= set(item.partition_by):
        message = "partition_by has every column: the files would have none"
        yield Finding((*key, "partition_by"), message, "remove a column")


def _check_transform(
    place: Key, transform: Transform, types: Mapping[str, Column]
) -> Iterator[Finding]:
    column = types.get(transform.column)
    expected = SOURCES[transform.kind]
    if column is None:
        message = f"{transform}: {transform.column} is not a column of the schema"
        yield Finding(place, message, suggest(transform.column, list(types), "name a column"))
    elif column.type.partition("(")[0] not in expected:
        message = f"{transform}: {column.name} is {column.type}"
        yield Finding(place, message, f"name a column of type {', '.join(sorted(expected))}")
    if transform.field in types:
        message = f"{transform} makes a partition field {transform.field}, as a column is called"
        yield Finding(place, message, "rename the column")


def _check_event_time(key: Key, time: EventTime, columns: Sequence[Column]) -> Iterator[Finding]:
    column, place = find_column(columns, time.column), (*key, "column")
    if column is None:
        times = list(list_times(columns))
        others = f"the schema's columns are {', '.join(each.name for each in columns)}"
        instead = _field_of(time.column, times) or suggest(time.column, times, others)
        yield Finding(place, f"{time.column!r} is not a column of the schema", instead)
    elif column.type == "STRING" and time.format is None:
        message = f"{time.column} is STRING, and event_time does not say how it is written"
        instead = "add format: iso8601, or a pattern such as yyyy-MM-dd HH:mm:ss"
        yield Finding(place, message, instead)
    elif column.type != "STRING" and not column.is_time:
        message = f"{time.column} is {column.type}, which is not a time"
        times = list(list_times(columns))
        instead = f"name one of {', '.join(times)}" if times else "name a number or a TIMESTAMP"
        yield Finding(place, message, instead)
    elif column.type != "STRING" and time.format is not None:
        message = f"format says how a STRING is written, and {time.column} is {column.type}"
        yield Finding((*key, "format"), message, "remove it; unit says what a number counts")


def _field_of(name: str, paths: Sequence[str]) -> str:
    found = [path for path in paths if path.endswith(f".{name}")]
    return f"did you mean `{found[0]}`?" if len(found) == 1 else ""


def _check_places(key: Key, item: Table, columns: Sequence[str]) -> Iterator[Finding]:
    folded = [column.casefold() for column in columns]
    for name in item.provenance_columns if item.topic is not None else ():
        if name in folded:
            key_of = "generation" if name == GENERATION_COLUMN else "provenance"
            message = f"the schema's column {name} is also added by {key_of}"
            other = "true" if name == HEADERS_COLUMN else "false"
            instead = f"rename the column, or write {key_of}: {other}"
            yield Finding((*key, "schema"), message, instead)
    for position, column in enumerate(item.partition_by):
        place = (*key, "partition_by", position)
        if column in TIME_PARTITIONS:
            if column in folded:
                message = f"{column} is the event time's {column}, and also a column of the schema"
                yield Finding(place, message, "rename the column, or partition by others")
        elif column not in columns and not parse_transform(column):
            yield _no_partition(place, column, columns)


def _one_column(item: Table) -> str:
    return item.model_copy(update={"schema_ddl": None}).ddl


def _no_partition(key: Key, column: str, columns: Sequence[str]) -> Finding:
    times = ", ".join(f"`{each}`" for each in TIME_PARTITIONS)
    message = f"{column!r} is neither a column of the schema nor one of {times}"
    meant = _TIMES_MEANT.get(column.casefold())
    if meant:
        return Finding(key, message, f"did you mean `{meant}`?")
    others = f"write date, hour, minute, or a column: {', '.join(columns)}"
    return Finding(key, message, suggest(column, [*TIME_PARTITIONS, *columns], others))


def check_topics(items: Items, line_of: LineOf) -> Iterator[Finding]:
    """Yield topics that are matched by two items, as far as the file alone shows."""
    first: dict[str, int] = {}
    topics = {index: item.topic for index, item in items.items() if item.topic is not None}
    for index, topic in topics.items():
        if topic in first:
            line = line_of(("tables", first[topic], "topic"))
            message = f"{topic} is matched by the item in line {line} too"
            yield Finding(("tables", index, "topic"), message, f"{_ONCE}: remove one")
        first.setdefault(topic, index)
    patterns = [(index, item) for index, item in items.items() if item.is_pattern]
    for index, topic in topics.items():
        for other, pattern in patterns:
            if not items[index].is_pattern and pattern.matches(topic):
                line = line_of(("tables", other, "topic"))
                message = f"{topic} is matched by {pattern.topic} in line {line} too"
                instead = f"{_ONCE}: leave {topic} out of the expression"
                yield Finding(("tables", index, "topic"), message, instead)


def check_first_start(starts: object, items: Items) -> Iterator[Finding]:
    """Yield names in `first_start` that no item is about. `starts` is plain data."""
    names = [name for name in starts if isinstance(name, str)] if isinstance(starts, dict) else []
    for name in names:
        if name == "default" or name.startswith("/"):
            continue
        if not any(item.matches(name) for item in items.values()):
            known = [each.topic for each in items.values() if each.topic and not each.is_pattern]
            instead = suggest(name, known, "remove it, or add the topic to tables")
            message = f"no item of `tables` has the topic {name}"
            yield Finding(("source", "first_start", name), message, instead)


def conflict(one: Table, two: Table) -> str | None:
    """Return the key that keeps both items from filling one table, None where both may."""
    if one.topic is None or two.topic is None:
        return "topic"  # a table is fed by topics or by SQL
    if one.select != two.select:
        return "select"
    if one.select is None and " ".join(one.ddl.split()) != " ".join(two.ddl.split()):
        return "schema"
    same = (
        *("format", "partition_by", "timezone", "provenance", "generation"),
        *("late", "seal", "retention_ms"),
    )
    different = (name for name in same if getattr(one, name) != getattr(two, name))
    return next((name.removesuffix("_ms") for name in different), None)


def check_tables(items: Items, line_of: LineOf) -> Iterator[Finding]:
    """Yield tables that are fed in conflicting ways, or collide with another's side table."""
    fixed = {index: item for index, item in items.items() if TOPIC_PLACE not in item.table}
    first: dict[str, int] = {}
    for index, item in fixed.items():
        before = first.setdefault(item.table.casefold(), index)
        if before != index:
            yield from _shared_table(index, item, (before, fixed[before]), line_of)
    for index, item in fixed.items():
        name = table_name(item.table)
        sides = [name.dead] * (item.is_landed or item.on_error == "dead_letter")
        for side in (*sides, *[name.late] * item.is_landed):
            taken = first.get(str(side).casefold())
            if taken is not None:
                line = line_of(("tables", index, "table"))
                message = f"{fixed[taken].table} is the side table of {item.table} in line {line}"
                yield Finding(("tables", taken, "table"), message, "choose another name")


def _shared_table(
    index: int, item: Table, before: tuple[int, Table], line_of: LineOf
) -> Iterator[Finding]:
    key: Key = ("tables", index)
    line = line_of(("tables", before[0], "table"))
    if item.table != before[1].table:
        message = f"{item.table} and {before[1].table} in line {line} differ in case only"
        yield Finding((*key, "table"), message, "catalogs ignore case: rename one")
        return
    different = conflict(before[1], item)
    if different:
        here = line_of((*key, "table"))
        message = f"the items of {item.table} in lines {line} and {here} differ in `{different}`"
        instead = f"write the same {different} in both, or use two tables"
        yield Finding((*key, different), message, instead)
