"""Every call into Spark's own classes, declared with the signature that it relies on.

What it is: names of methods that are called like functions, and the few ways from PySpark's
objects to those of the JVM.
What it promises: nothing else in this folder reaches into the JVM, so that a test which compares
these declarations with the JVM has seen all of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from subprocess import Popen
from typing import Any, NamedTuple

from py4j.java_collections import ListConverter, MapConverter
from py4j.java_gateway import GatewayClient, JavaClass, JavaObject
from pyspark import RDD, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession

SQL = "org.apache.spark.sql"
CATALYST = f"{SQL}.catalyst"
EXECUTION = f"{SQL}.execution"
STREAMING = f"{EXECUTION}.streaming"
LOGICAL_PLAN = f"{CATALYST}.plans.logical.LogicalPlan"
SPARK_PLAN = f"{EXECUTION}.SparkPlan"
ATTRIBUTE = f"{CATALYST}.expressions.Attribute"
COLUMN_SET_OF = f"{CATALYST}.expressions.AttributeSet"
SEQ = "scala.collection.immutable.Seq"
MAP = "scala.collection.immutable.Map"
OPTION = "scala.Option"
CLASSIC_SESSION = f"{SQL}.classic.SparkSession"
STRING = "java.lang.String"
OBJECT = "java.lang.Object"
OUTPUT_MODE = f"{SQL}.streaming.OutputMode"


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an object, called as `METHOD(target, ...)`."""

    owner: str
    name: str
    returns: str
    parameters: tuple[str, ...] = ()

    def __call__(self, target: JavaObject, *arguments: object) -> Any:
        """Call it. Raises Py4JError, or what PySpark makes of Spark's exception."""
        return getattr(target, self.name)(*arguments)


@dataclass(frozen=True, slots=True)
class Static:
    """A static method of a class, or the constructor (`<init>`), called as `STATIC(spark, ...)`."""

    owner: str
    name: str
    returns: str
    parameters: tuple[str, ...] = ()

    def __call__(self, spark: SparkSession, *arguments: object) -> Any:
        """Call it. Raises Py4JError, or what PySpark makes of Spark's exception."""
        # By its whole name: for each part of it the JVM would look for a class in all jars.
        java_class = JavaClass(self.owner, _client_of(spark))
        if self.name == "<init>":
            return java_class(*arguments)
        return getattr(java_class, self.name)(*arguments)


# ---- jobs of Python functions
PYTHON = "org.apache.spark.api.python"
RDD_OF_ROWS = "org.apache.spark.rdd.RDD"
JAVA_RDD = "org.apache.spark.api.java.JavaRDD"
FUTURE = "org.apache.spark.api.java.JavaFutureAction"
LIST = "java.util.List"
ACCUMULATOR = "org.apache.spark.util.CollectionAccumulator"
PYTHON_FUNCTION = Static(
    f"{PYTHON}.SimplePythonFunction",
    "<init>",
    f"{PYTHON}.SimplePythonFunction",
    ("[B", "java.util.Map", LIST, STRING, STRING, LIST, ACCUMULATOR),
)
PYTHON_RDD = Static(
    f"{PYTHON}.PythonRDD",
    "<init>",
    f"{PYTHON}.PythonRDD",
    (RDD_OF_ROWS, f"{PYTHON}.PythonFunction", "boolean", "boolean"),
)
AS_JAVA_RDD = Method(f"{PYTHON}.PythonRDD", "asJavaRDD", JAVA_RDD)
COLLECT_ASYNC = Method(JAVA_RDD, "collectAsync", FUTURE)
WAIT_FOR = Method(FUTURE, "get", OBJECT)
LIST_SIZE = Method(LIST, "size", "int")
LIST_GET = Method(LIST, "get", OBJECT, ("int",))

# ---- stages that run
SPARK_CONTEXT = Method(CLASSIC_SESSION, "sparkContext", "org.apache.spark.SparkContext")
STATUS = "org.apache.spark.status.AppStatusStore"
STATUS_STORE = Method("org.apache.spark.SparkContext", "statusStore", STATUS)
ACTIVE_STAGES = Method(STATUS, "activeStages", SEQ)
STAGE = "org.apache.spark.status.api.v1.StageData"
STAGE_ROWS = Method(STAGE, "shuffleReadRecords", "long")
STAGE_BYTES = Method(STAGE, "shuffleReadBytes", "long")

# ---- statements

SESSION_STATE = Method(CLASSIC_SESSION, "sessionState", f"{SQL}.internal.SessionState")
SQL_PARSER = Method(
    f"{SQL}.internal.SessionState", "sqlParser", f"{CATALYST}.parser.ParserInterface"
)
PARSE_PLAN = Method(f"{CATALYST}.parser.ParserInterface", "parsePlan", LOGICAL_PLAN, (STRING,))
SCRIPT = f"{CATALYST}.plans.logical.CompoundBody"
SCRIPT_STATEMENTS = Method(SCRIPT, "collection", SEQ)
STATEMENT = f"{CATALYST}.plans.logical.SingleStatement"
STATEMENT_PLAN = Method(STATEMENT, "parsedPlan", LOGICAL_PLAN)
ORIGIN = f"{CATALYST}.trees.Origin"
STATEMENT_ORIGIN = Method(STATEMENT, "origin", ORIGIN)
ORIGIN_START = Method(ORIGIN, "startIndex", OPTION)
ORIGIN_STOP = Method(ORIGIN, "stopIndex", OPTION)
ORIGIN_TEXT = Method(ORIGIN, "sqlText", OPTION)
VIEW_QUERY_TEXT = Method(f"{EXECUTION}.command.CreateViewCommand", "originalText", OPTION)
INSERT = f"{CATALYST}.plans.logical.InsertIntoStatement"
INSERT_TABLE = Method(INSERT, "table", LOGICAL_PLAN)
INSERT_QUERY = Method(INSERT, "query", LOGICAL_PLAN)
INSERT_OVERWRITES = Method(INSERT, "overwrite", "boolean")
INSERT_COLUMNS = Method(INSERT, "userSpecifiedCols", SEQ)
INSERT_PARTITION = Method(INSERT, "partitionSpec", MAP)
TABLE_NAME = Method(f"{CATALYST}.analysis.UnresolvedRelation", "multipartIdentifier", SEQ)
SET_ACTIVE = Static(CLASSIC_SESSION, "setActiveSession", "void", (f"{SQL}.SparkSession",))
GET_ACTIVE = Static(CLASSIC_SESSION, "getActiveSession", OPTION)
CLEAR_ACTIVE = Static(CLASSIC_SESSION, "clearActiveSession", "void")
MAP_IS_EMPTY = Method(MAP, "isEmpty", "boolean")
DATASET = f"{SQL}.classic.Dataset"
DATASET_OF = Static(DATASET, "ofRows", DATASET, (CLASSIC_SESSION, LOGICAL_PLAN))

# ---- plans

ANALYZED = Method(f"{EXECUTION}.QueryExecution", "analyzed", LOGICAL_PLAN)
TO_RDD = Method(f"{EXECUTION}.QueryExecution", "toRdd", "org.apache.spark.rdd.RDD")
PARTITIONS = Method("org.apache.spark.rdd.RDD", "getNumPartitions", "int")
EXECUTED_PLAN = Method(f"{EXECUTION}.QueryExecution", "executedPlan", SPARK_PLAN)
OPTIMIZED = Method(f"{EXECUTION}.QueryExecution", "optimizedPlan", LOGICAL_PLAN)
CHECK_FOR_STREAMING = Static(
    f"{CATALYST}.analysis.UnsupportedOperationChecker",
    "checkForStreaming",
    "void",
    (LOGICAL_PLAN, OUTPUT_MODE),
)
APPEND = Static(OUTPUT_MODE, "Append", OUTPUT_MODE)
UPDATE = Static(OUTPUT_MODE, "Update", OUTPUT_MODE)
COMPLETE = Static(OUTPUT_MODE, "Complete", OUTPUT_MODE)

INCREMENTAL_EXECUTION = f"{STREAMING}.runtime.IncrementalExecution"
PLAN_INCREMENTALLY = Static(
    INCREMENTAL_EXECUTION,
    "<init>",
    INCREMENTAL_EXECUTION,
    (
        CLASSIC_SESSION,
        LOGICAL_PLAN,
        OUTPUT_MODE,
        STRING,  # the checkpoint's location
        "java.util.UUID",  # of the query
        "java.util.UUID",  # of the run
        "long",  # the batch
        OPTION,  # offsets of the batch before
        f"{STREAMING}.checkpointing.OffsetSeqMetadataBase",
        f"{STREAMING}.runtime.WatermarkPropagator",
        "boolean",  # is it the first batch: then schemas of state are written
        "scala.collection.mutable.Map",  # checkpoint ids of state stores
        "scala.collection.mutable.Map",  # schemas of state
        "scala.Enumeration$Value",  # how transformWithState emits
        "boolean",  # is it the last batch of its trigger
    ),
)
NO_CHECKPOINT_IDS = Static(
    INCREMENTAL_EXECUTION, "$lessinit$greater$default$12", "scala.collection.mutable.Map"
)
NO_STATE_SCHEMAS = Static(
    INCREMENTAL_EXECUTION, "$lessinit$greater$default$13", "scala.collection.mutable.Map"
)
DEFAULT_EMISSION = Static(
    INCREMENTAL_EXECUTION, "$lessinit$greater$default$14", "scala.Enumeration$Value"
)
OFFSETS_FROM_JSON = Static(
    f"{STREAMING}.checkpointing.OffsetSeqMetadata",
    "apply",
    f"{STREAMING}.checkpointing.OffsetSeqMetadata",
    (STRING,),
)
NO_WATERMARKS = Static(
    f"{STREAMING}.runtime.WatermarkPropagator", "noop", f"{STREAMING}.runtime.WatermarkPropagator"
)
RANDOM_UUID = Static("java.util.UUID", "randomUUID", "java.util.UUID")
NOTHING = Static(OPTION, "empty", OPTION)

CLONE_SESSION = Method(CLASSIC_SESSION, "cloneSession", CLASSIC_SESSION)
SESSION_SETTINGS = Method(CLASSIC_SESSION, "conf", f"{SQL}.RuntimeConfig")
SET = Method(f"{SQL}.RuntimeConfig", "set", "void", (STRING, STRING))

# ---- nodes of plans

TREE = f"{CATALYST}.trees.TreeNode"
TO_JSON = Method(TREE, "toJSON", STRING)
CHILDREN = Method(TREE, "children", SEQ)
LEAVES = Method(TREE, "collectLeaves", SEQ)
PLAN_ORIGIN = Method(TREE, "origin", ORIGIN)
PLAN_OUTPUT = Method(f"{CATALYST}.plans.QueryPlan", "output", SEQ)
PROJECTIONS = Method(f"{SQL}.execution.ExpandExec", "projections", SEQ)
CTE_DEFINED = Method(f"{CATALYST}.plans.logical.CTERelationDef", "id", "long")
CTE_NAMED = Method(f"{CATALYST}.plans.logical.CTERelationRef", "cteId", "long")
IS_STREAMING = Method(LOGICAL_PLAN, "isStreaming", "boolean")
REFRESH = Method(LOGICAL_PLAN, "refresh", "void")

COLUMN_METADATA = Method(
    f"{CATALYST}.expressions.NamedExpression", "metadata", f"{SQL}.types.Metadata"
)
HAS_METADATA = Method(f"{SQL}.types.Metadata", "contains", "boolean", (STRING,))

AGGREGATE = f"{CATALYST}.plans.logical.Aggregate"
GROUPING = Method(AGGREGATE, "groupingExpressions", SEQ)
AGGREGATED = Method(AGGREGATE, "aggregateExpressions", SEQ)
AGGREGATE_FILTER = Method(f"{CATALYST}.expressions.aggregate.AggregateExpression", "filter", OPTION)
LOGICAL_JOIN_CONDITION = Method(f"{CATALYST}.plans.logical.Join", "condition", OPTION)
REFERENCES = Method(f"{CATALYST}.expressions.Expression", "references", COLUMN_SET_OF)
OUTPUT_SET = Method(f"{CATALYST}.plans.QueryPlan", "outputSet", COLUMN_SET_OF)
SUBSET_OF = Method(COLUMN_SET_OF, "subsetOf", "boolean", (COLUMN_SET_OF,))

STATE_INFO = Method(f"{STREAMING}.operators.stateful.StatefulOperator", "stateInfo", OPTION)
STATE_OPERATOR_ID = Method(
    f"{STREAMING}.operators.stateful.StatefulOperatorStateInfo", "operatorId", "long"
)
STATE_PARTITIONS = Method(
    f"{STREAMING}.operators.stateful.StatefulOperatorStateInfo", "numPartitions", "int"
)

JOIN = f"{STREAMING}.operators.stateful.join"
JOIN_PREDICATES = f"{JOIN}.StreamingSymmetricHashJoinHelper$JoinStateWatermarkPredicates"
WATERMARK_PREDICATES = Method(
    f"{JOIN}.StreamingSymmetricHashJoinExec", "stateWatermarkPredicates", JOIN_PREDICATES
)
LEFT_PREDICATE = Method(JOIN_PREDICATES, "left", OPTION)
RIGHT_PREDICATE = Method(JOIN_PREDICATES, "right", OPTION)

JOIN_CONDITIONS = f"{JOIN}.StreamingSymmetricHashJoinHelper$JoinConditionSplitPredicates"
JOIN_CONDITION = Method(f"{JOIN}.StreamingSymmetricHashJoinExec", "condition", JOIN_CONDITIONS)
FULL_CONDITION = Method(JOIN_CONDITIONS, "full", OPTION)
COLUMN_SET = Static(COLUMN_SET_OF, "apply", COLUMN_SET_OF, (ATTRIBUTE,))
STATE_WATERMARK = Static(
    f"{CATALYST}.analysis.StreamingJoinHelper",
    "getStateValueWatermark",
    OPTION,
    (COLUMN_SET_OF, COLUMN_SET_OF, OPTION, OPTION),
)

BASE_AGGREGATES = Method(f"{EXECUTION}.aggregate.BaseAggregateExec", "aggregateExpressions", SEQ)
AGGREGATE_ATTRIBUTES = Method(
    f"{EXECUTION}.aggregate.BaseAggregateExec", "aggregateAttributes", SEQ
)
OWN_BUFFERS = Method(f"{EXECUTION}.aggregate.BaseAggregateExec", "aggregateBufferAttributes", SEQ)
GROUPED = Method(f"{EXECUTION}.aggregate.BaseAggregateExec", "groupingExpressions", SEQ)
ONLY_CHILD = Method(f"{CATALYST}.trees.UnaryLike", "child", f"{CATALYST}.trees.TreeNode")
SORT_AGGREGATE = Static(
    f"{EXECUTION}.aggregate.SortAggregateExec",
    "<init>",
    f"{EXECUTION}.aggregate.SortAggregateExec",
    (
        OPTION,  # how its input is to lie
        "boolean",  # is it of a stream
        OPTION,  # in how many partitions
        SEQ,  # keys
        SEQ,  # functions
        SEQ,  # columns of their results
        "int",  # the place of the first buffer in a row
        SEQ,  # columns that it hands on
        SPARK_PLAN,
    ),
)
SCAN = f"{EXECUTION}.RDDScanExec"
PARTITIONING = f"{CATALYST}.plans.physical.Partitioning"
SCAN_OF_ROWS = Static(
    SCAN,
    "<init>",
    SCAN,
    (
        SEQ,  # columns
        "org.apache.spark.rdd.RDD",
        STRING,  # its name
        PARTITIONING,
        SEQ,  # its order
        OPTION,  # of a stream
    ),
)
ANY_PARTITIONING = Static(SCAN, "$lessinit$greater$default$4", PARTITIONING)
ANY_ORDER = Static(SCAN, "$lessinit$greater$default$5", SEQ)
EXECUTE = Method(SPARK_PLAN, "execute", "org.apache.spark.rdd.RDD")
AGGREGATE_FUNCTION = Method(
    f"{CATALYST}.expressions.aggregate.AggregateExpression",
    "aggregateFunction",
    f"{CATALYST}.expressions.aggregate.AggregateFunction",
)
AGGREGATE_BUFFERS = Method(
    f"{CATALYST}.expressions.aggregate.AggregateFunction", "aggBufferAttributes", SEQ
)

# ---- a batch that runs

EXPRESSION = f"{CATALYST}.expressions.Expression"
DATA_TYPE = f"{SQL}.types.DataType"
REFERENCE = "java.util.concurrent.atomic.AtomicReference"
HOLDER = Static(REFERENCE, "<init>", REFERENCE, (OBJECT,))
HOLD = Method(REFERENCE, "set", "void", (OBJECT,))
LITERAL = f"{CATALYST}.expressions.Literal"
LITERAL_OF = Static(LITERAL, "fromObject", LITERAL, (OBJECT,))
TYPE_OF_DDL = Static(DATA_TYPE, "fromDDL", DATA_TYPE, (STRING,))
CALL = f"{CATALYST}.expressions.objects.Invoke"
INVOKE = Static(
    CALL,
    "<init>",
    CALL,
    (
        EXPRESSION,  # the target
        STRING,  # the method
        DATA_TYPE,  # of the answer
        SEQ,  # arguments
        SEQ,  # their types
        "boolean",  # a null argument gives null
        "boolean",  # the answer may be null
        "boolean",  # the same each time
    ),
)
COLUMN_OF = Static(f"{SQL}.classic.ExpressionUtils", "column", f"{SQL}.Column", (EXPRESSION,))
EXPRESSION_OF = Static(
    f"{SQL}.classic.ExpressionUtils", "expression", EXPRESSION, (f"{SQL}.Column",)
)
UNSAFE_ROW = f"{CATALYST}.expressions.UnsafeRow"
OBJECT_TYPE = Static(
    f"{SQL}.types.ObjectType", "<init>", f"{SQL}.types.ObjectType", ("java.lang.Class",)
)
FIND_CLASS = Static("java.lang.Class", "forName", "java.lang.Class", (STRING,))
NEW_ARRAY = Static("java.lang.reflect.Array", "newInstance", OBJECT, ("java.lang.Class", "int"))
STRUCT = f"{SQL}.types.StructType"
SCHEMA = Method(DATASET, "schema", STRUCT)
FRAME_OF_ROWS = Method(
    CLASSIC_SESSION,
    "internalCreateDataFrame",
    DATASET,
    ("org.apache.spark.rdd.RDD", STRUCT, "boolean"),
)
STREAM_MANAGER = f"{SQL}.classic.StreamingQueryManager"
STREAMS = Method(CLASSIC_SESSION, "streams", STREAM_MANAGER)
FIND_STREAM = Method(STREAM_MANAGER, "get", f"{SQL}.classic.StreamingQuery", (STRING,))
EXECUTION_OF = Method(
    f"{STREAMING}.runtime.StreamingQueryWrapper",
    "streamingQuery",
    f"{STREAMING}.runtime.StreamExecution",
)
LAST_EXECUTION = Method(
    f"{STREAMING}.runtime.StreamExecution", "lastExecution", INCREMENTAL_EXECUTION
)
OBSERVED = Method(f"{EXECUTION}.QueryExecution", "observedMetrics", MAP)
ROW_LONG = Method(f"{SQL}.Row", "getLong", "long", ("int",))

TIME_NODE = f"{CATALYST}.plans.logical.EventTimeWatermark"
TIME_EXEC = f"{STREAMING}.operators.stateful.EventTimeWatermarkExec"
TIMES_HELD = f"{STREAMING}.operators.stateful.EventTimeStatsAccum"
TIMES_SEEN = f"{STREAMING}.operators.stateful.EventTimeStats"
TIME_NODE_ID = Method(TIME_NODE, "nodeId", "java.util.UUID")
TIME_EXEC_ID = Method(TIME_EXEC, "nodeId", "java.util.UUID")
TIME_DELAY = Method(TIME_EXEC, "delayMs", "long")
TIMES = Method(TIME_EXEC, "eventTimeStats", TIMES_HELD)
TIMES_VALUE = Method(TIMES_HELD, "value", TIMES_SEEN)
TIMES_ADD = Method(TIMES_HELD, "add", "void", ("long",))
TIMES_COUNT = Method(TIMES_SEEN, "count", "long")
TIMES_MAX = Method(TIMES_SEEN, "max", "long")

# ---- state

STATE_REWRITER = f"{EXECUTION}.streaming.state.StateRewriter"
REWRITER = Static(
    STATE_REWRITER,
    "<init>",
    STATE_REWRITER,
    (
        f"{SQL}.SparkSession",
        "long",  # the batch whose state is read
        "long",  # the batch whose state is written
        STRING,  # where it is written: operators, schemas and the batch's offsets lie there
        "org.apache.hadoop.conf.Configuration",
        OPTION,  # where it is read
        OPTION,  # of a function from rows to rows
        OPTION,  # of the texts of the checkpoint
    ),
)
REWRITE = Method(STATE_REWRITER, "run", OPTION)

# ---- a batch without rows

ONE_WATERMARK = Static(
    f"{STREAMING}.runtime.UseSingleWatermarkPropagator",
    "<init>",
    f"{STREAMING}.runtime.UseSingleWatermarkPropagator",
)
LOCAL_ROWS = f"{CATALYST}.plans.logical.LocalRelation"
LOCAL_RELATION = Static(LOCAL_ROWS, "<init>", LOCAL_ROWS, (SEQ, SEQ, "boolean", OPTION))
WITH_CHILDREN = Method(TREE, "withNewChildren", TREE, (SEQ,))
SEQ_OF = Static("org.apache.spark.api.python.PythonUtils", "toSeq", SEQ, ("java.util.List",))
RDD_COUNT = Method("org.apache.spark.rdd.RDD", "count", "long")
NODE_METRICS = Method(SPARK_PLAN, "metrics", MAP)
METRIC_VALUE = Method(f"{EXECUTION}.metric.SQLMetric", "value", "long")
COORDINATOR = f"{EXECUTION}.streaming.state.StateStoreCoordinatorRef"
STATE_COORDINATOR = Method(
    f"{SQL}.classic.StreamingQueryManager", "stateStoreCoordinator", COORDINATOR
)
FORGET_STORES = Method(COORDINATOR, "deactivateInstances", "void", ("java.util.UUID",))
MUTABLE_MAP = "scala.collection.mutable.Map"
LONG = Static("java.lang.Long", "valueOf", "java.lang.Long", (STRING,))
MAP_PUT = Method(MUTABLE_MAP, "put", OPTION, (OBJECT, OBJECT))

# ---- sources

V2_SOURCE = f"{CATALYST}.streaming.StreamingRelationV2"
V2_FORMAT = Method(V2_SOURCE, "sourceName", STRING)
V2_OPTIONS = Method(V2_SOURCE, "extraOptions", f"{SQL}.util.CaseInsensitiveStringMap")
OPTION_VALUE = Method(f"{SQL}.util.CaseInsensitiveStringMap", "get", STRING, (OBJECT,))
V1_SOURCE = f"{STREAMING}.runtime.StreamingRelation"
V1_NAME = Method(V1_SOURCE, "sourceName", STRING)
SOURCE_NAME = Method(
    f"{CATALYST}.streaming.HasStreamingSourceIdentifyingName",
    "sourceIdentifyingName",
    f"{CATALYST}.streaming.StreamingSourceIdentifyingName",
)
GIVEN_NAME = Method(f"{CATALYST}.streaming.StreamingSourceIdentifyingName", "nameOpt", OPTION)
BATCH_RELATION = Method(
    f"{EXECUTION}.datasources.LogicalRelation", "relation", f"{SQL}.sources.BaseRelation"
)
FILE_RELATION = f"{EXECUTION}.datasources.HadoopFsRelation"
FILE_INDEX = Method(FILE_RELATION, "location", f"{EXECUTION}.datasources.FileIndex")
FILE_OPTIONS = Method(FILE_RELATION, "options", MAP)
ROOT_PATHS = Method(f"{EXECUTION}.datasources.FileIndex", "rootPaths", SEQ)

# ---- Hadoop

HADOOP = "org.apache.hadoop"
HADOOP_SETTINGS = Method(
    f"{SQL}.internal.SessionState",
    "newHadoopConfWithOptions",
    f"{HADOOP}.conf.Configuration",
    (MAP,),
)
NEW_HADOOP_SETTINGS = Method(
    f"{SQL}.internal.SessionState", "newHadoopConf", f"{HADOOP}.conf.Configuration"
)
PATH = f"{HADOOP}.fs.Path"
FILE_SYSTEM = Method(
    PATH, "getFileSystem", f"{HADOOP}.fs.FileSystem", (f"{HADOOP}.conf.Configuration",)
)
FILE_STATUS = Method(f"{HADOOP}.fs.FileSystem", "getFileStatus", f"{HADOOP}.fs.FileStatus", (PATH,))

# ---- Scala and Java

SEQ_SIZE = Method(SEQ, "size", "int")
SEQ_GET = Method(SEQ, "apply", OBJECT, ("int",))
IS_DEFINED = Method(OPTION, "isDefined", "boolean")
SOME = Static("scala.Some", "<init>", "scala.Some", (OBJECT,))
OPTION_GET = Method(OPTION, "get", OBJECT)
TO_LIST = Method(OPTION, "toList", "scala.collection.immutable.List")
MAP_GET = Method(MAP, "get", OPTION, (OBJECT,))
MAP_TO_LIST = Method(MAP, "toList", "scala.collection.immutable.List")
PAIR_FIRST = Method("scala.Tuple2", "_1", OBJECT)
PAIR_SECOND = Method("scala.Tuple2", "_2", OBJECT)
CLASS_OF = Method(OBJECT, "getClass", "java.lang.Class")
CLASS_NAME = Method("java.lang.Class", "getName", STRING)
TEXT = Method(OBJECT, "toString", STRING)


def session_of(spark: SparkSession) -> JavaObject:
    """Return the JVM's session."""
    return spark._jsparkSession  # noqa: SLF001 - the way in


def dataset_of(frame: DataFrame) -> JavaObject:
    """Return the JVM's frame."""
    return frame._jdf  # noqa: SLF001 - the way in


def jvm_rdd(rdd: RDD[Any]) -> JavaObject:
    """Return the JVM's RDD."""
    return rdd._jrdd.rdd()  # noqa: SLF001 - the way in


class PythonWorker(NamedTuple):
    """With what a Python worker is started, as PYTHON_FUNCTION takes it."""

    environment: JavaObject
    includes: JavaObject
    executable: str
    version: str
    broadcasts: JavaObject  # none
    accumulator: JavaObject


def worker_of(spark: SparkSession) -> PythonWorker:
    """Return with what PySpark starts workers. One that differs is another worker."""
    context, client = spark.sparkContext, _client_of(spark)
    return PythonWorker(
        MapConverter().convert(context.environment, client),
        ListConverter().convert(context._python_includes, client),  # noqa: SLF001 - the way in
        context.pythonExec,
        context.pythonVer,
        ListConverter().convert([], client),
        context._javaAccumulator,  # noqa: SLF001 - the way in
    )


def _client_of(spark: SparkSession) -> GatewayClient:
    return spark.sparkContext._gateway._gateway_client  # noqa: SLF001 - the way in


def process_of_jvm() -> Popen[bytes] | None:
    """Return the process of the JVM, where PySpark has started it; also of one that has ended."""
    return getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - the way in


def take_calls(spark: SparkSession) -> None:
    """Let the JVM call functions of this process."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # noqa: SLF001 - the way in


def analyzed_plan(frame: DataFrame) -> JavaObject:
    """Return the analyzed logical plan of a frame, which is what a query is started with."""
    return ANALYZED(execution_of(frame))


def execution_of(frame: DataFrame) -> JavaObject:
    """Return how Spark runs a frame: once, however often it is asked for rows."""
    return frame._jdf.queryExecution()  # noqa: SLF001 - the way in


def expression_of(spark: SparkSession, column: Column) -> JavaObject:
    """Return what a column computes."""
    return EXPRESSION_OF(spark, column._jc)  # noqa: SLF001 - the way in


def count_partitions(frame: DataFrame) -> int:
    """Return how many tasks compute a frame. Requires: no shuffle in it that is not planned yet."""
    return int(PARTITIONS(TO_RDD(frame._jdf.queryExecution())))  # noqa: SLF001 - the way in


def array_of(spark: SparkSession, kind: str, items: Sequence[object]) -> JavaObject:
    """Return an array of Java's. `kind`: the class of its items."""
    made = NEW_ARRAY(spark, FIND_CLASS(spark, kind), len(items))
    for place, each in enumerate(items):
        made[place] = each
    return made


def items(sequence: JavaObject) -> Iterator[JavaObject]:
    """Yield the items of a Scala sequence."""
    for index in range(SEQ_SIZE(sequence)):
        yield SEQ_GET(sequence, index)


def class_name(target: JavaObject) -> str:
    """Return the last part of the name of an object's class."""
    return str(CLASS_NAME(CLASS_OF(target))).rpartition(".")[2]
