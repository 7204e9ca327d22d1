"""What `ashore checkpoint inspect` prints: tables and bars for people, one document with `--json`.

What it promises: a view of a value: no clock, no storage.
What it must not know: how the value came about.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from statistics import median

from ashore.base.units import format_duration, format_size, format_time
from ashore.cli.output import print_lines, print_table
from ashore.queries.state.inspection import Amount, InspectedOperator, Inspection, StorePart
from ashore.queries.state.layout import SchemaField, StoreSchema
from ashore.queries.state.replay import LOAD_RATES, REPLAY_BYTES_PER_S, REPLAY_FILE_S
from ashore.queries.state.versions import KeptVersion

_BAR = 20  # columns of the longest bar
_PARTITIONS_MAX = 40  # that are shown one by one; of more, the largest


def show_inspection(found: Inspection) -> None:
    """Print what a checkpoint holds."""
    print_lines(_head(found))
    rows = [[name, end or "none yet"] for name, end in found.sources.items()]
    print_table("", {"source": "left", "offset": "left"}, rows)
    for operator in found.operators:
        _show_operator(operator)
    kinds = [
        *[(str(kind), amount) for kind, amount in found.kinds.items()],
        (f"read by a restart after batch {found.batch}", found.required),
        ("not read by it", found.others),
    ]
    print_table(
        "",
        {"files": "left", "count": "right", "size": "right"},
        [[name, f"{each.files:,}", format_size(each.size_bytes)] for name, each in kinds],
    )


def inspection_document(found: Inspection) -> dict[str, object]:
    """Return what `inspect --json` prints."""
    return {
        "query_id": found.query_id,
        "batch": found.batch,
        "planned": found.planned,
        "batches": [found.done[0], found.done[-1]],
        "watermark_ms": found.watermark_ms,
        "job_version": _version_document(found.version),
        "partitions": found.partitions,
        "provider": found.provider,
        "formats": dict(found.formats),
        "sources": dict(found.sources),
        "operators": [_operator_document(each) for each in found.operators],
        "files": {
            **{str(kind): _amount(each) for kind, each in found.kinds.items()},
            "required": _amount(found.required),
            "not_required": _amount(found.others),
        },
        "replay_rate": {"bytes_per_s": REPLAY_BYTES_PER_S, "file_s": REPLAY_FILE_S},
        "restore": {"core_s": found.restore_s, "slowest_partition_s": found.slowest_s},
        "load_rate": asdict(LOAD_RATES[found.provider]) if found.provider in LOAD_RATES else None,
    }


def _head(found: Inspection) -> Iterator[str]:
    yield f"query {found.query_id}"
    kept = f"batches {found.done[0]} to {found.done[-1]} are kept"
    planned = f", batch {found.planned} is planned" if found.planned > found.done[-1] else ""
    yield f"batch {found.batch} ({kept}{planned})"
    if found.version is not None:
        yield _describe_version(found.version)
    if found.watermark_ms is not None:
        yield f"watermark {format_time(found.watermark_ms)}"
    if found.operators:
        cut = "" if found.partitions is None else f" in {found.partitions} partitions"
        yield f"state{cut}, {found.provider}"
        if found.restore_s is not None:
            spent, slowest = _seconds(found.restore_s), _seconds(found.slowest_s)
            yield f"restore: about {spent} of one core; the slowest partition {slowest}"
    else:
        yield "no state"
    yield "formats: " + ", ".join(f"{name} v{version}" for name, version in found.formats.items())


def _describe_version(version: KeptVersion) -> str:
    words = f"job version {version.number} of {version.owner}"
    if version.content is None:
        return f"{words}, written by another release"
    releases = version.content.releases
    return f"{words}, by Ashore {releases.ashore} on Spark {releases.spark}"


def _version_document(version: KeptVersion | None) -> dict[str, object] | None:
    if version is None:
        return None
    owner, content = version.owner, version.content
    operators = content.operators if content else ()
    return {
        "version": version.number,
        "job": owner.job,
        "slice": owner.slice,
        "ashore": content.releases.ashore if content else None,
        "spark": content.releases.spark if content else None,
        "operators": [
            {"id": each.operator_id, "graph_id": each.id, "name": each.name} for each in operators
        ],
    }


def _show_operator(operator: InspectedOperator) -> None:
    print_lines(["", *_describe(operator)])
    sizes = _by_partition(operator.parts)
    shown = set(sorted(sizes, key=lambda at: -sizes[at])[:_PARTITIONS_MAX])
    largest = max(sizes.values(), default=0)
    rows = [
        _part_row(each, sizes[each.partition] / largest)
        for each in operator.parts
        if each.partition in shown
    ]
    columns = {
        "partition": "left",
        "rows": "right",
        "size": "right",
        "snapshot": "right",
        "changes": "right",
        "replay": "right",
        "restore": "right",
        "": "left",
    }
    print_table("", columns, rows)
    print_lines(_describe_skew(sizes, len(shown)))


def _describe(operator: InspectedOperator) -> Iterator[str]:
    counted = "not known without a restore" if operator.rows is None else f"{operator.rows:,}"
    yield f"operator {operator.operator} {operator.name}, rows: {counted}"
    for schema in (each for some in operator.schemas.values() for each in some):
        family = "" if schema.family == "default" else f"{schema.family}: "
        yield f"  {family}{_fields(schema.key) or 'no key'} -> {_fields(schema.value)}"


def _part_row(part: StorePart, share: float) -> list[str]:
    """Return the line of a store. `share`: its partition, beside the largest one."""
    return [
        f"{part.partition}/{part.store}".rstrip("/"),
        "" if part.rows is None else f"{part.rows:,}",
        format_size(part.size_bytes),
        "none" if part.snapshot is None else str(part.snapshot),
        f"{part.changes:,}",
        _seconds(part.replay_s),
        _seconds(part.restore_s),
        "█" * round(_BAR * share),
    ]


def _seconds(spent_s: float | None) -> str:
    return "" if spent_s is None else format_duration(spent_s * 1000)


def _describe_skew(sizes: Mapping[int, int], shown: int) -> Iterator[str]:
    if len(sizes) > shown:
        yield f"the largest {shown} of {len(sizes)} partitions"
    if len(sizes) > 1 and (middle := median(sizes.values())):
        yield f"the largest partition has {max(sizes.values()) / middle:.1f} times the median"


def _by_partition(parts: Sequence[StorePart]) -> dict[int, int]:
    grouped = groupby(parts, key=lambda each: each.partition)
    return {partition: sum(each.size_bytes for each in some) for partition, some in grouped}


def _fields(fields: Sequence[SchemaField]) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in fields)


def _operator_document(operator: InspectedOperator) -> dict[str, object]:
    return {
        "id": operator.operator,
        "name": operator.name,
        "keys": list(operator.keys),
        "partitions": operator.partitions,
        "rows": operator.rows,
        "bytes": operator.size_bytes,
        "schemas": [
            _schema_document(store, each)
            for store, some in operator.schemas.items()
            for each in some
        ],
        "by_partition": [_part_document(each) for each in operator.parts],
    }


def _schema_document(store: str, schema: StoreSchema) -> dict[str, object]:
    return {
        "store": store or "default",
        "family": schema.family,
        "key": [_field_document(each) for each in schema.key],
        "value": [_field_document(each) for each in schema.value],
    }


def _field_document(field: SchemaField) -> Mapping[str, object]:
    return {"name": field.name, "type": field.type, "nullable": field.is_nullable}


def _part_document(part: StorePart) -> dict[str, object]:
    return {
        "partition": part.partition,
        "store": part.store or "default",
        "rows": part.rows,
        "bytes": part.size_bytes,
        "snapshot": part.snapshot,
        "changes": part.changes,
        "change_bytes": part.change_bytes,
        "replay_s": part.replay_s,
        "restore_s": part.restore_s,
    }


def _amount(amount: Amount) -> dict[str, int]:
    return {"files": amount.files, "bytes": amount.size_bytes}
