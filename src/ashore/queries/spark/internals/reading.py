"""Spark's plans as values: the one place where they are read from the JVM.

What it is: `read_plan`, from a streaming frame to the graph of what it does; `check_streaming`,
whether Spark, and what it lets through, may be run as a stream; `read_sources`, what a frame reads,
and `refresh_files`, the files that it reads as tables listed anew.
What it promises: what a plan's JSON does not say is asked for once, and stands in the value. No
query runs, no source is read, nothing is written; no option that may hold a secret is read.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from ashore.errors import check
from ashore.plans.build import build_graph
from ashore.plans.checks import check_graph
from ashore.plans.graph import PlanGraph, PlanSource
from ashore.plans.hints import STATEFUL, WrittenOperator, id_at, place_ids
from ashore.plans.physical import (
    Node,
    Planned,
    PlannedJoin,
    PlannedNode,
    PlannedSide,
    StateInfo,
    parse_tree,
    write_option,
)
from ashore.queries.spark.internals.planning import MODES, OutputMode, plan_streaming
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.spark_version import require_known_spark
from ashore.topics.run.spark.source.source_options import FORMAT

# Sources of Kafka's topics, Spark's own and that of Ashore: what is read is the same.
KAFKA = {"kafka", FORMAT}
# Of their options, those that say what is read; their words.
TOPICS = {"subscribe": "", "subscribepattern": "topics like ", "assign": "partitions "}
JOIN = "StreamingSymmetricHashJoinExec"
EXPAND, PROJECTED = "ExpandExec", "projections"
WATERMARKS = "EventTimeWatermarkExec"
BY_VALUE = "StreamingSymmetricHashJoinHelper$JoinStateValueWatermarkPredicate"
ANY_TIME_US = 1 << 50  # what the watermark is plays no part; a number that Java takes for a long
WATERMARK = "spark.watermarkDelayMs"  # of the metadata of a column


def read_plan(frame: DataFrame) -> PlanGraph:
    """Return what a streaming frame does. Nothing is started.

    Raises SparkUnknown; QueryRefused where ids that its SQL gives cannot be distinguished; and
    AnalysisException where Spark cannot plan the frame.
    """
    physical = plan_streaming(frame)
    node = parse_tree(jvm.TO_JSON(physical))
    sources, readings = _read_leaves(frame)
    columns = {number: places[0] for number, places in readings.items()}
    root = _read(frame.sparkSession, node, physical, is_kept=False)
    graph = build_graph(Planned(root, sources, columns, readings))
    return place_ids(graph, read_written(frame))


def check_streaming(frame: DataFrame, mode: str) -> PlanGraph:
    """Return what a frame does. Refuse what cannot be run as a stream, or not rightly.

    What passes may still be refused by a source or a sink.
    Raises AnalysisException, for `explain_refusal`; QueryRefused, for what Spark would accept;
    SparkUnknown.
    """
    spark = frame.sparkSession
    require_known_spark(spark)
    java_mode = MODES[OutputMode(mode)](spark)
    jvm.CHECK_FOR_STREAMING(spark, jvm.analyzed_plan(frame), java_mode)
    graph = read_plan(frame)  # some shapes pass the check, and the planner refuses them
    check_graph(graph, appends=mode == OutputMode.APPEND)
    return graph


# ---- nodes


def _read(spark: SparkSession, node: Node, java: JavaObject, *, is_kept: bool) -> PlannedNode:
    """Return a node and all below it. `is_kept`: whether an operator with state takes its rows."""
    inputs = list(jvm.items(jvm.CHILDREN(java)))
    kind = jvm.class_name(java)
    check(
        kind == node.kind and len(inputs) == len(node.children),
        f"expected {node.kind} with {len(node.children)} children in Spark's plan, got {kind} with "
        f"{len(inputs)}",
    )
    keeps_state = _keeps_state(node)
    columns = list(jvm.items(jvm.PLAN_OUTPUT(java)))
    times = _watermarked(columns) if is_kept else []
    pairs = zip(node.children, inputs, strict=True)
    return PlannedNode(
        node=_with_projections(node, java) if kind == EXPAND else node,
        children=tuple(_read(spark, *pair, is_kept=keeps_state) for pair in pairs),
        columns=_parse(columns),
        watermarked=frozenset(_numbers(_parse(times))),
        buffers=_read_buffers(java) if _takes_rows_in(node) else (),
        state=_read_state(java, kind) if keeps_state else None,
        join=_read_join(spark, java, inputs) if kind == JOIN else None,
        delay_ms=int(jvm.TIME_DELAY(java)) if kind == WATERMARKS else None,
    )


def _with_projections(node: Node, java: JavaObject) -> Node:
    """Return a node that makes several rows of one, with these: over a union they are no JSON."""
    if node.fields.get(PROJECTED) is not None:
        return node
    rows = tuple(_parse(jvm.items(row)) for row in jvm.items(jvm.PROJECTIONS(java)))
    return replace(node, fields={**node.fields, PROJECTED: rows})


def _keeps_state(node: Node) -> bool:
    """Aggregates read their state in a node of its own, under the one that writes it."""
    return "stateInfo" in node.fields and not node.kind.endswith("StateStoreRestoreExec")


def _read_state(java: JavaObject, kind: str) -> StateInfo:
    state = jvm.STATE_INFO(java)
    check(jvm.IS_DEFINED(state), f"Spark planned no state for {kind}")
    info = jvm.OPTION_GET(state)
    return StateInfo(jvm.STATE_OPERATOR_ID(info), jvm.STATE_PARTITIONS(info))


def _takes_rows_in(node: Node) -> bool:
    """Return whether a node is the first phase of an aggregate."""
    modes = {write_option(each.fields.get("mode")) for each in node.nodes("aggregateExpressions")}
    return modes == {"Partial"}


def _read_buffers(java: JavaObject) -> tuple[tuple[Node, ...], ...]:
    """Return what each function of an aggregate needs, in the order of the state."""
    functions = jvm.items(jvm.BASE_AGGREGATES(java))
    buffers = (jvm.AGGREGATE_BUFFERS(jvm.AGGREGATE_FUNCTION(each)) for each in functions)
    return tuple(_parse(jvm.items(each)) for each in buffers)


def _read_join(spark: SparkSession, java: JavaObject, inputs: Sequence[JavaObject]) -> PlannedJoin:
    condition = jvm.FULL_CONDITION(jvm.JOIN_CONDITION(java))
    predicates = jvm.WATERMARK_PREDICATES(java)
    left, right = inputs
    return PlannedJoin(
        condition=_parse([jvm.OPTION_GET(condition)])[0] if jvm.IS_DEFINED(condition) else None,
        left=_read_side(spark, jvm.LEFT_PREDICATE(predicates), (left, right), condition),
        right=_read_side(spark, jvm.RIGHT_PREDICATE(predicates), (right, left), condition),
    )


def _read_side(
    spark: SparkSession,
    predicate: JavaObject,
    inputs: tuple[JavaObject, JavaObject],
    condition: JavaObject,
) -> PlannedSide:
    """Return when Spark forgets rows of one side. `inputs`: its own, then the other's."""
    if not jvm.IS_DEFINED(predicate):
        return PlannedSide(False, None)
    if jvm.class_name(jvm.OPTION_GET(predicate)) != BY_VALUE:
        return PlannedSide(True, None)
    column, theirs = (_watermarked(jvm.items(jvm.PLAN_OUTPUT(each)))[0] for each in inputs)
    bound = jvm.STATE_WATERMARK(
        spark,
        jvm.COLUMN_SET(spark, column),
        jvm.COLUMN_SET(spark, theirs),
        condition,
        jvm.SOME(spark, ANY_TIME_US),
    )
    return PlannedSide(True, None if jvm.IS_DEFINED(bound) else _parse([column])[0])


# ---- columns


def _parse(columns: Iterable[JavaObject]) -> tuple[Node, ...]:
    return tuple(parse_tree(jvm.TO_JSON(each)) for each in columns)


def _watermarked(columns: Iterable[JavaObject]) -> list[JavaObject]:
    """Return the columns that are event time with a watermark."""
    return [each for each in columns if jvm.HAS_METADATA(jvm.COLUMN_METADATA(each), WATERMARK)]


def _numbers(columns: Iterable[Node]) -> Iterator[int]:
    for each in columns:
        number = each.number_of("exprId")
        if number is not None:
            yield number


# ---- sources


def read_sources(frame: DataFrame) -> tuple[PlanSource, ...]:
    """Return what a frame reads, each as often as the plan reads it. Raises SparkUnknown."""
    return tuple(_read_source(leaf) for leaf in leaves_of(frame))


def leaves_of(frame: DataFrame) -> Iterator[JavaObject]:
    """Yield the leaves of the analysed plan of a frame. Raises SparkUnknown."""
    require_known_spark(frame.sparkSession)
    return jvm.items(jvm.LEAVES(jvm.analyzed_plan(frame)))


def _read_leaves(frame: DataFrame) -> tuple[tuple[PlanSource, ...], dict[int, tuple[int, ...]]]:
    """Return what a frame reads, and the places of the sources that have an expression id."""
    leaves = list(leaves_of(frame))
    readings: dict[int, tuple[int, ...]] = {}
    for place, leaf in enumerate(leaves):
        for number in _numbers(_parse(jvm.items(jvm.PLAN_OUTPUT(leaf)))):
            readings[number] = (*readings.get(number, ()), place)
    return tuple(_read_source(leaf) for leaf in leaves), readings


def _read_source(leaf: JavaObject) -> PlanSource:
    match jvm.class_name(leaf):
        case "StreamingRelationV2":
            return _read_stream(leaf)
        case "StreamingRelation":
            return _read_files(leaf)
        case "LogicalRelation":
            return _read_relation(jvm.BATCH_RELATION(leaf))
        case kind:
            # Rows in memory, tables of a catalog: as Spark writes it, without the columns' ids.
            text = re.sub(r"\s*\[[^]]*#[^]]*\]", "", str(jvm.TEXT(leaf))).partition(",")[0]
            return PlanSource(text.strip(), kind, text.strip(), bool(jvm.IS_STREAMING(leaf)))


def _read_stream(leaf: JavaObject) -> PlanSource:
    written = str(jvm.V2_FORMAT(leaf))
    written = "kafka" if written in KAFKA else written
    options = jvm.V2_OPTIONS(leaf)
    found = ((words, jvm.OPTION_VALUE(options, option)) for option, words in TOPICS.items())
    reads = next((f"{words}{value}" for words, value in found if value is not None), written)
    return PlanSource(_given_name(leaf) or reads, written, reads, True)


def directory_of(leaf: JavaObject) -> str:
    """Return the directory that a stream of files reads. Such a source is `FileSource[path]`."""
    return str(jvm.V1_NAME(leaf)).rstrip("]").partition("[")[2].rstrip("/")


def _read_files(leaf: JavaObject) -> PlanSource:
    """A source of files is called `FileSource[path]`."""
    written, _, path = str(jvm.V1_NAME(leaf)).rstrip("]").partition("[")
    name = _given_name(leaf) or path.rstrip("/").rpartition("/")[2]
    return PlanSource(name or written, written, path or written, True)


def _read_relation(relation: JavaObject) -> PlanSource:
    """Files, or what else Spark reads in batches, JDBC tables among it."""
    text = str(jvm.TEXT(relation))
    if jvm.class_name(relation) != "HadoopFsRelation":
        return PlanSource(text, "relation", text, False)
    paths = jvm.items(jvm.ROOT_PATHS(jvm.FILE_INDEX(relation)))
    reads = ", ".join(str(jvm.TEXT(path)) for path in paths)
    return PlanSource(reads.rpartition("/")[2], text, reads, False)


def _given_name(leaf: JavaObject) -> str:
    """Return the name that the query gave its source; empty where it gave none."""
    name = jvm.GIVEN_NAME(jvm.SOURCE_NAME(leaf))
    return str(jvm.OPTION_GET(name)) if jvm.IS_DEFINED(name) else ""


def reads_files(frame: DataFrame) -> bool:
    """Return whether a frame reads files as a table, not as a stream. Raises SparkUnknown."""
    return any(True for _ in _file_relations(frame))


def refresh_files(frame: DataFrame) -> None:
    """List the files anew that a frame reads as tables: the next batch of its query sees them.

    Spark lists them once, where a relation is made; the query that is started with the frame has
    the very same relations. Where it fails, the lists from before stay. It also fails where a
    directory is gone, which Spark would take for an empty one; but not where it goes meanwhile.
    Raises Py4JError, or what PySpark makes of Spark's exception.
    """
    session_state = jvm.SESSION_STATE(jvm.session_of(frame.sparkSession))
    for relation in _file_relations(frame):
        settings = jvm.HADOOP_SETTINGS(session_state, jvm.FILE_OPTIONS(relation))
        for path in jvm.items(jvm.ROOT_PATHS(jvm.FILE_INDEX(relation))):
            jvm.FILE_STATUS(jvm.FILE_SYSTEM(path, settings), path)
    jvm.REFRESH(jvm.analyzed_plan(frame))


def _file_relations(frame: DataFrame) -> Iterator[JavaObject]:
    for leaf in leaves_of(frame):
        if jvm.class_name(leaf) == "LogicalRelation":
            relation = jvm.BATCH_RELATION(leaf)
            if jvm.class_name(relation) == "HadoopFsRelation":
                yield relation


# ---- operators as they are written

_CTES, _DEFINED, _NAMED = "WithCTE", "CTERelationDef", "CTERelationRef"


def read_written(frame: DataFrame) -> tuple[WrittenOperator, ...]:
    """Return the operators with state of a frame's SQL, from the sink on, left before right.

    Reads only. An operator is where its clause stands in the text that Spark has parsed: of the
    statement, or of a view.
    """
    operators, _ = _Reader().read(jvm.analyzed_plan(frame))
    return operators


@dataclass(slots=True)
class _Reader:
    """Reads a plan once, its leaves in the order of its sources."""

    _leaves: int = 0
    _defined: dict[int, "_Written"] = field(default_factory=dict)  # of WITH, by Spark's ids

    def read(self, java: JavaObject) -> "_Written":
        """Return the operators of a plan with state, and the places of its sources."""
        kind, children = jvm.class_name(java), list(jvm.items(jvm.CHILDREN(java)))
        if not children:
            self._leaves += 1
            if kind == _NAMED:
                return self._defined[jvm.CTE_NAMED(java)]
            return (), frozenset({self._leaves - 1})
        inputs = [self.read(each) for each in children]
        if kind == _DEFINED:
            self._defined[jvm.CTE_DEFINED(java)] = inputs[0]
        if kind == _CTES:
            return inputs[-1]
        below = tuple(each for operators, _ in inputs for each in operators)
        sources = frozenset[int]().union(*(some for _, some in inputs))
        id_ = _read_id(java, children) if kind in STATEFUL else None
        own = () if id_ is None else (WrittenOperator(STATEFUL[kind], sources, id_),)
        return (*own, *below), sources


_Written = tuple[tuple[WrittenOperator, ...], frozenset[int]]


def _read_id(java: JavaObject, children: list[JavaObject]) -> str | None:
    """Return the id that the SQL gives an operator, empty where none; None: it keeps no state."""
    if not all(jvm.IS_STREAMING(each) for each in children):
        return None
    origin = jvm.PLAN_ORIGIN(java)
    text, start = jvm.ORIGIN_TEXT(origin), jvm.ORIGIN_START(origin)
    if not (jvm.IS_DEFINED(text) and jvm.IS_DEFINED(start)):
        return ""
    return id_at(str(jvm.OPTION_GET(text)), int(jvm.OPTION_GET(start)))
