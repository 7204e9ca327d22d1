"""One SELECT over records that are there: what `ashore sql` runs.

What it is: `answer_query`. The topics' views are those that a job's queries read, and so are the
views that its SQL makes; they are read once, as a batch.
What it promises: nothing is written, and no log or checkpoint is looked at. Each topic is read up
to offsets that are reported first. Records that are in no view are counted and reported.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.errors import AshoreError, BatchFailed, QueryRefused
from ashore.jobs.events import Answered, Event, Note, Reading
from ashore.jobs.file.source_text import written_file
from ashore.jobs.requests import OffsetsOfTopic, SqlRequest
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.plans.text import find_read, name_made
from ashore.queries.spark.internals.event_times import TimeMark, count_observed_once
from ashore.queries.spark.sql.assembly import SparkJob, read_sql, read_views
from ashore.queries.spark.sql.frames import VARIABLES, explained
from ashore.queries.spark.sql.functions import load_functions
from ashore.queries.spark.sql.refusals import not_computed, refused_at
from ashore.queries.spark.sql.row_errors import find_row_error
from ashore.queries.spark.sql.script import Script, parse_script, parse_select, select
from ashore.queries.spark.sql.settings import open_session
from ashore.queries.spark.sql.topics import JSON_OPTIONS
from ashore.queries.spark.sql.views import BAD, TIMES, View, make_view, open_ranges
from ashore.topics.loop.joins import require_streams
from ashore.topics.read.source import Source
from ashore.topics.run.spark.causes import DETAIL_LENGTH_MAX, outermost_cause, text_of

QUERY = "query"  # what messages call it
Send = Callable[[Event], None]


def answer_query(parts: SparkJob, request: SqlRequest, send: Send) -> Answered:
    """Return the rows of a query.

    `send`: reports what is read, and how many records are in no view.
    Raises QueryRefused, RowNotComputed, JobFileInvalid, SourceError, BatchFailed.
    """
    query = parse_select(parts.spark, written_file(request.sql, QUERY))
    script = parse_script(parts.spark, read_sql(parts.job)) if parts.job.sql else None
    made = {name_made(each.text): each.text for each in script.views} if script else {}
    named = find_read(request.sql, made)
    source = parts.assembly.environment.source
    views = [each for each in read_views(parts.job, source) if each.name.casefold() in named]
    session = open_session(parts.spark, VARIABLES)
    load_functions(parts.job).register(session)
    ranges = _plan_ranges(source, views, request, send)
    for view in views:
        _create_view(session, parts, view, ranges)
    if script is not None:
        for statement in script.views:
            if name_made(statement.text) in named:
                with explained(script, name_made(statement.text), statement):
                    session.sql(script.in_its_place(statement))
    frame = _select(session, query)
    limited = frame.limit(request.limit + 1)
    values = limited.select(F.to_json(F.struct("*"), JSON_OPTIONS).alias("row"))
    try:
        rows = [str(row[0]) for row in values.collect()]
    except (PySparkException, Py4JError) as error:
        raise _explain(error, query, script) from error
    _report_left_out(values, views, send)
    shown = tuple(rows[: request.limit])
    return Answered(tuple(frame.columns), shown, len(rows) > request.limit)


def _plan_ranges(
    source: Source, views: Sequence[View], request: SqlRequest, send: Send
) -> Mapping[str, Mapping[str, OffsetRange]]:
    topics = sorted({topic for view in views for topic in view.topics})
    streams = source.describe_streams(topics)
    require_streams(topics, streams)
    shards = [
        StreamShard(topic, shard) for topic in topics for shard in sorted(streams[topic].shards)
    ]
    ranges = plan_sample(source.read_offsets(shards), request)
    count = sum(each.size for shards in ranges.values() for each in shards.values())
    send(Reading(tuple(topics), count))
    return ranges


def _create_view(
    session: SparkSession,
    parts: SparkJob,
    view: View,
    ranges: Mapping[str, Mapping[str, OffsetRange]],
) -> None:
    own = [
        ShardRange(ShardKey(parts.assembly.environment.source.name, topic, 1, shard), offsets)
        for topic in view.topics
        for shard, offsets in sorted(ranges[topic].items())
    ]
    records = open_ranges(session, parts.kafka, view, own)
    # A job may stop at a bad record. A query that is tried out reports how many there are.
    tolerant = replace(view, spec=replace(view.spec, on_invalid="drop"))
    make_view(tolerant, records, TimeMark(parts.spark))


def _select(session: SparkSession, query: Script) -> DataFrame:
    (insert,) = query.inserts
    with explained(query, QUERY, insert):
        frame = select(session, query, insert)
    counts = Counter(name.casefold() for name in frame.columns)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        words = f"two columns are named {twice[0]}"
        raise refused_at(query.sql.place(0), words, hint="give one of them another name with `AS`")
    return frame


def _explain(error: Exception, query: Script, script: Script | None) -> AshoreError:
    """Return why the query did not come to its end."""
    found = find_row_error(text_of(error))
    if found is None:
        why = f"{QUERY} failed in Spark: {outermost_cause(error)}"
        detail = text_of(error)[:DETAIL_LENGTH_MAX]
        return BatchFailed(why, hint="nothing was written; try it again", detail=detail)
    owner = script if found.view and script is not None else query
    place = owner.locate(found.view, found.line, found.column, query.inserts[0])
    return not_computed(found, place)


def _report_left_out(frame: DataFrame, views: Sequence[View], send: Send) -> None:
    """Report how many of the records that were read are in no view."""
    for view in views:
        for (bad,) in count_observed_once(frame, [f"{BAD}:{view.name}"], 1):
            if bad:
                words = "record" if bad == 1 else "records"
                send(Note(view.name, f"{view.name}: {bad:,} {words} cannot be decoded"))
        for _, ahead in count_observed_once(frame, [f"{TIMES}:{view.name}"], 2):
            if ahead:
                words = "records are left out: their event time is more than late.future_max ahead"
                send(Note(view.name, f"{view.name}: {ahead:,} {words}"))


Sample = dict[str, dict[str, OffsetRange]]  # topic, partition


def plan_sample(there: Mapping[StreamShard, ShardOffsets], request: SqlRequest) -> Sample:
    """Return what is read of each topic partition.

    Of the newest offsets, partitions give equal parts as far as they have them. Offsets that are
    not there are refused: a range that ends early would look like an answer.

    `there`: the topic partitions that the query may read, and what they hold.
    Raises QueryRefused where offsets were asked for that are not there, or of a topic that is not
    read.
    """
    by_topic: dict[str, dict[str, ShardOffsets]] = defaultdict(dict)
    for shard, offsets in there.items():
        by_topic[shard.stream][shard.shard] = offsets
    for each in request.offsets:
        _check_topic(each, by_topic)
    named = {each.topic for each in request.offsets}
    sample: Sample = {
        topic: _newest(shards, request.last)
        for topic, shards in by_topic.items()
        if topic not in named
    }
    for topic in named:
        nothing = {
            shard: OffsetRange(offsets.end, offsets.end)
            for shard, offsets in by_topic[topic].items()
        }
        sample[topic] = nothing
    for each in request.offsets:
        for partition, offsets in by_topic[each.topic].items():
            if each.partition is None or each.partition == int(partition):
                sample[each.topic][partition] = _choose_range(each, partition, offsets)
    return sample


def _newest(shards: Mapping[str, ShardOffsets], count: int) -> dict[str, OffsetRange]:
    """Return the newest offsets of a topic. Small partitions give all they have, first."""
    left, found = count, dict[str, OffsetRange]()
    by_size = sorted(shards.items(), key=lambda each: (each[1].end - each[1].earliest, each[0]))
    for place, (shard, offsets) in enumerate(by_size):
        part = -(-left // (len(by_size) - place))
        start = max(offsets.earliest, offsets.end - part)
        found[shard] = OffsetRange(start, offsets.end)
        left -= offsets.end - start
    return found


def _check_topic(request: OffsetsOfTopic, by_topic: Mapping[str, Mapping[str, object]]) -> None:
    if request.topic not in by_topic:
        raise QueryRefused(
            f"the query does not read topic {request.topic}",
            hint=f"name one of {', '.join(sorted(by_topic))}" if by_topic else "leave it out",
        )
    shards = by_topic[request.topic]
    if request.partition is not None and str(request.partition) not in shards:
        raise QueryRefused(
            f"topic {request.topic} has no partition {request.partition}",
            hint=f"it has {len(shards)}, numbered from 0",
        )


def _choose_range(request: OffsetsOfTopic, shard: str, there: ShardOffsets) -> OffsetRange:
    end = there.end if request.end is None else request.end
    if request.partition is None:  # of each partition what it has of them
        start = min(max(request.start, there.earliest), there.end)
        return OffsetRange(start, max(min(end, there.end), start))
    if not there.earliest <= request.start <= end <= there.end:
        raise QueryRefused(
            f"{request.topic}/{shard} does not have the offsets {request.start} to {end}",
            hint=f"it has {there.earliest} to {there.end} (exclusive)",
        )
    return OffsetRange(request.start, end)
