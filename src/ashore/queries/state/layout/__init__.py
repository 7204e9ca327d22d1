"""The grammar of Spark's checkpoints: every path and every file that Ashore reads or writes there.

What it is: typed values for paths (`paths`), for the text files of a query (`logs`), and for what
operators, schemas and snapshots say of state (`state_files`), each with its parser, and its writer
where one is needed.
What it promises: pure; the one place of this grammar. Parsing is total: any path gives a value,
whatever is not known an `UnknownPath`; any bytes give a value or CheckpointUnfit, which names the
file and what is wrong with it. A value keeps all that its file says: written again, a file of Spark
4.2 is the same, byte for byte.

    metadata                        {"id": "<query id>"}
    offsets/<batch>                 the batch is planned
    commits/<batch>                 the batch is done
    sources/<source>/...            a source's own, by its number or name: files that were seen
    state/<operator>/               of one stateful operator
        _metadata/metadata          its name and its stores
        _metadata/v2/<batch>        the same for a join of form 3 and transformWithState, from that
                                    batch on
        _stateSchema/<store>/<batch>_<id>           the schema of such a store, from that batch on
        <partition>/                the store of a partition; several have a directory each,
                                    `<partition>/<store>/`, with the same in it
            _metadata/schema        its keys and values; in partition 0 only
            <version>.changelog     RocksDB: what batch <version> - 1 has changed
            <version>.zip           RocksDB: a snapshot, which is all that the store holds, but
            tables SSTs/<table>.sst        RocksDB: tables, which the snapshots after them share
            <version>.delta         HDFSBackedStateStoreProvider: what a batch has changed
            <version>.snapshot      HDFSBackedStateStoreProvider: all that the store holds
            <version>_<id>.<kind>   the same in format 2, whose commits name the ids
            <version>_<id>.<kind>.crc               its checksum, which Spark writes in format 2
    ashore-version-<version>.json   Ashore's: the entry of the log that says what the job is
    ashore-migration-<epoch>.json   Ashore's: the migration that has rewritten the state
    .<name>.crc, .<name>.<id>.tmp   checksums of a local file system, files that are being written

A file of `offsets` or `commits` is lines of text: the version, then JSON, on one line each.

    offsets/7     v1                                      v2, where sources have names
                  {"batchWatermarkMs":0,                  ... "sourceMetadataInfo":{}}
                   "batchTimestampMs":1795248000000,      orders:{"orders":{"0":9}}
                   "conf":{"spark.sql.shuffle.partitions":"32", ...}}
                  {"clicks":{"0":5,"1":7}}                clicks:-
                  -                                       a source that has no offset yet
    commits/7     v1
                  {"nextBatchWatermarkMs":1795247990000}
                  v2                                      in format 2: ids by operator, partition
                  {"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["<id>"],["<id>"]]}}

In `offsets` of v1 a source is known by its place in the plan. The end of a source is its own JSON;
that of Kafka is an offset for each topic partition: the one that comes next. Of what `conf` says
Spark takes these settings, not the session's, when it continues.
"""

from ashore.queries.state.layout.logs import (
    HINT,
    PARTITIONS,
    PROVIDER,
    UNSAFE_ROW,
    CommitFile,
    Ends,
    KafkaEnd,
    OffsetsFile,
    QueryFile,
    Settings,
    SourceEnd,
    Wrong,
    parse_kafka,
    write_kafka,
)
from ashore.queries.state.layout.paths import (
    OPERATOR_DIRECTORIES,
    SOURCES,
    STATE,
    TABLES,
    BatchLog,
    BatchPath,
    CheckpointPath,
    ChecksumPath,
    HiddenPath,
    MigrationPath,
    OperatorPath,
    QueryPath,
    SchemaPath,
    SourcePath,
    StateKind,
    StatePath,
    Store,
    StoreSchemaPath,
    TablePath,
    UnknownPath,
    VersionPath,
    find_migration,
    is_number,
    is_store,
    parse_path,
)
from ashore.queries.state.layout.state_files import (
    OperatorFile,
    SchemaField,
    SnapshotFile,
    StoreInfo,
    StoreSchema,
    parse_schemas,
    schema_names,
    with_nulls,
)

__all__ = [
    "HINT",
    "OPERATOR_DIRECTORIES",
    "PARTITIONS",
    "PROVIDER",
    "SOURCES",
    "STATE",
    "TABLES",
    "UNSAFE_ROW",
    "BatchLog",
    "BatchPath",
    "CheckpointPath",
    "ChecksumPath",
    "CommitFile",
    "Ends",
    "HiddenPath",
    "KafkaEnd",
    "MigrationPath",
    "OffsetsFile",
    "OperatorFile",
    "OperatorPath",
    "QueryFile",
    "QueryPath",
    "SchemaField",
    "SchemaPath",
    "Settings",
    "SnapshotFile",
    "SourceEnd",
    "SourcePath",
    "StateKind",
    "StatePath",
    "Store",
    "StoreInfo",
    "StoreSchema",
    "StoreSchemaPath",
    "TablePath",
    "UnknownPath",
    "VersionPath",
    "Wrong",
    "find_migration",
    "is_number",
    "is_store",
    "parse_kafka",
    "parse_path",
    "parse_schemas",
    "schema_names",
    "with_nulls",
    "write_kafka",
]
