"""What `sql` and the items of `tables` say together.

What it is: checks for tables that SQL writes, and for topics that only SQL reads.
What it promises: pure; a key that would have no effect is refused, not ignored.
"""

from collections.abc import Iterator, Mapping

from ashore.jobs.file.model import SinkTopic
from ashore.jobs.file.naming import TOPIC_PLACE
from ashore.jobs.file.problems import Finding, validate
from ashore.jobs.file.section import Key
from ashore.jobs.file.tables import GENERATION_COLUMN, TIME_PARTITIONS, Table
from ashore.log import names

_OF_TOPICS = {
    *("land", "decode", "late", "shuffle", "on_invalid", "provenance", "generation"),
    *("select", "where", "mask"),
}


def view_name(table: str) -> str:
    """Return what a table that has a topic is called in SQL."""
    return table.partition(".")[2]


def check_sink_table(key: Key, item: Table) -> Iterator[Finding]:
    """Yield what is wrong with an item that has no topic."""
    for name in sorted(_OF_TOPICS & item.model_fields_set):
        message = f"{name} applies to records of a topic, and this table is written by SQL"
        yield Finding((*key, name), message, "remove the key, or add topic: NAME")
    if TOPIC_PLACE in item.table:
        yield Finding((*key, "table"), f"{TOPIC_PLACE} stands for a topic, and there is none")
    elif len(names.insert_into_table(item.table)) > 50:
        message = "the name of a table that SQL writes has at most 49 characters"
        yield Finding((*key, "table"), message, "choose a shorter one")
    times = [name for name in item.partition_by if name in TIME_PARTITIONS]
    if times and item.event_time is None and "partition_by" in item.model_fields_set:
        message = f"{times[0]} is computed from an event time, and the table has none"
        yield Finding(
            (*key, "partition_by"),
            message,
            "add event_time: {column: NAME}, a column of the SELECT",
        )


def check_read_topic(key: Key, item: Table) -> Iterator[Finding]:
    """Yield what is wrong with an item that has a topic, as far as SQL is concerned."""
    if item.on_error != "fail":
        message = "on_error applies to rows of SQL, and this table has a topic"
        yield Finding((*key, "on_error"), message, "remove the key; on_invalid applies to records")
    yield from _check_unlanded(key, item)


def _check_unlanded(key: Key, item: Table) -> Iterator[Finding]:
    if item.land:
        return
    if item.on_invalid == "dead_letter":
        message = "with land: false there is no table for records that cannot be decoded"
        yield Finding((*key, "on_invalid"), message, "write on_invalid: drop or on_invalid: fail")
    if item.generation:
        message = (
            f"with land: false no table gets the column {GENERATION_COLUMN}, and views of SQL do "
            "not have it"
        )
        yield Finding((*key, "generation"), message, "remove the key, or let the topic land")


def check_sql(data: object, items: Mapping[int, Table]) -> Iterator[Finding]:
    """Yield what is wrong with `sql` beside `tables`. `data` is plain."""
    has_sql = isinstance(data, dict) and data.get("sql") is not None
    sinks = [index for index, item in items.items() if item.topic is None]
    if not has_sql:
        for index in sinks:
            message = "this key is required where there is no sql"
            yield Finding(("tables", index, "topic"), message, "add topic: clicks")
        for index, item in items.items():
            if item.topic is not None and not item.land:
                message = "the topic does not land, and there is no sql that reads it"
                yield Finding(("tables", index, "land"), message, "remove the key, or add sql:")
        return
    sql = data.get("sql") if isinstance(data, dict) else None
    topics = sql.get("topics") if isinstance(sql, dict) else None
    written = topics if isinstance(topics, list) else []
    if items and not sinks and not written:
        message = "SQL has no table and no topic to write"
        instead = "add an item without a topic to tables, or topics: to sql"
        yield Finding(("sql",), message, instead)
    yield from _check_views(items)
    yield from _check_sink_tables(items)
    yield from _check_sink_topics(written, items)


def _check_sink_tables(items: Mapping[int, Table]) -> Iterator[Finding]:
    """Yield tables whose INSERTs would have one name, and so one log and one checkpoint."""
    first: dict[str, str] = {}
    for index, item in items.items():
        if item.topic is not None or TOPIC_PLACE in item.table:
            continue
        name = names.insert_into_table(item.table)
        before = first.setdefault(name, item.table)
        if before != item.table:
            message = f"SQL would write {before} and {item.table} through one log, {name}"
            instead = "choose another name for one: `__` stands where the dot of a table is"
            yield Finding(("tables", index, "table"), message, instead)


def _check_sink_topics(written: list[object], items: Mapping[int, Table]) -> Iterator[Finding]:
    tables = {item.table.casefold(): item.table for item in items.values()}
    sinks = (item.table for item in items.values() if item.topic is None)
    inserts = {names.insert_into_table(table): -1 for table in sinks}
    for index, each in enumerate(written):
        item = validate(SinkTopic, each, [])
        if item is None:
            continue  # the models have reported it
        key: Key = ("sql", "topics", index)
        table = tables.get(item.topic.casefold())
        name = names.insert_into_topic(item.topic)
        if table is not None:
            message = f"{item.topic} is a topic here, and {table} a table"
            yield Finding((*key, "topic"), message, "rename one: `INSERT INTO` would mean both")
        elif inserts.setdefault(name, index) != index:
            message = f"two items would have an INSERT called {name}"
            yield Finding((*key, "topic"), message, "remove one, or choose another name")
        if item.mode == "upsert" and not item.key:
            message = "upsert keeps the newest row of each key, and `key` is missing"
            yield Finding((*key, "key"), message, "add key: [COLUMN], a column of the SELECT")


def _check_views(items: Mapping[int, Table]) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for index, item in items.items():
        if item.topic is None or TOPIC_PLACE in item.table:
            continue
        before = first.setdefault(view_name(item.table).casefold(), item.table)
        if before != item.table:
            message = f"in SQL {before} and {item.table} would both be {view_name(item.table)}"
            yield Finding(("tables", index, "table"), message, "choose another name")


def sink_partitions(item: Table) -> tuple[str, ...]:
    """Return what a table that SQL writes is partitioned by: not by time, where it has none."""
    is_default = "partition_by" not in item.model_fields_set
    return () if is_default and item.event_time is None else item.partition_by
