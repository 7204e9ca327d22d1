"""What a verification could not compare: a source that is away, and what of a lake is unreadable.

What it is: `ask_source`, one question to the source, and `name_unread`, for directories and files.
What it promises: reads only. A comparison that was not made is reported as that.
What it must not know: verdicts.
"""

from collections.abc import Iterable, Iterator, Mapping

from ashore.control.verify.ledger import Ledger, LoggedFile
from ashore.control.verify.result import NotChecked
from ashore.control.verify.verdict import table_of_path
from ashore.errors import SourceError
from ashore.protocol.names import plain_source
from ashore.protocol.positions import ShardKey
from ashore.sources.base import Source, StreamShard


def ask_source(source: Source, ledger: Ledger, keys: Iterable[ShardKey]) -> list[NotChecked]:
    """Ask the source for the offsets of the shards that the log has from it.

    Returns what could not be compared since the source does not answer.
    """
    current = {
        key
        for key in keys
        if plain_source(key.source) == source.name
        and ledger.generations.get((key.source, key.stream), (0, ""))[0] == key.generation
    }
    if not current:
        return []
    try:
        streams = source.describe_streams(sorted({key.stream for key in current}))
        shards = {
            StreamShard(key.stream, key.shard)
            for key in current
            if (info := streams.get(key.stream)) is not None
            and info.stream_id == ledger.generations[key.source, key.stream][1]
            and key.shard in info.shards
        }
        if shards:
            source.read_offsets(sorted(shards))
    except SourceError as error:
        return [NotChecked("", "Kafka", error.message)]
    return []


def name_unread(
    directories: Mapping[str, str],
    files: Iterable[tuple[LoggedFile, str]],
    table_of: Mapping[str, str],
) -> Iterator[NotChecked]:
    """Yield what of the lake could not be listed or read, each with the reason."""
    for path, reason in sorted(directories.items()):
        yield NotChecked(table_of_path(path, table_of), path, reason)
    for file, reason in files:
        yield NotChecked(file.table, file.final, reason)
