"""Whether what was landed is still what a topic partition holds: asked before planning.

What it is: `Histories`, which asks the source where a partition has got another leader since its
last range was planned. A leader that lacked records (an unclean election) may have cut the
partition below that, and what has grown since would be read on from the next offset.
What it promises: a position whose history was cut is refused, never read on from. Where the leader
is the same, or the log knows none (it is older, or offsets were skipped), nothing is asked.
"""

from collections.abc import Iterable, Mapping, Sequence

from ashore.errors import HistoryTruncated
from ashore.log.fold import Fold
from ashore.log.names import parse_insert, parse_query_source
from ashore.log.plan_batch import Logged, ShardOffsets, find_doubtful
from ashore.log.positions import ShardKey, StreamShard
from ashore.topics.read.source import Position, Source


class Histories:
    """Asks once for each position and leader. Used by one thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._confirmed: dict[ShardKey, tuple[int, int | None]] = {}

    def check(self, fold: Fold, offsets: Mapping[ShardKey, ShardOffsets]) -> None:
        """Raise HistoryTruncated where a shard was cut below what was landed; SourceError.

        Arguments:
            fold: of the slice's log.
            offsets: of shards, as the source has just returned them; none of them ends below what
                was landed, or begins above.

        """
        found = self.find((fold.shards[key] for key in sorted(offsets)), offsets)
        for state, reason in found.items():
            raise history_truncated(state.key, state.next, reason, len(found))

    def find(
        self, landed: Iterable[Logged], offsets: Mapping[ShardKey, ShardOffsets]
    ) -> dict[Logged, str]:
        """Return the shards that were cut below what was landed, and why. Raises SourceError.

        A shard whose next offset the source does not have is left out: it is reported elsewhere.
        """
        doubtful = {
            each: (each.next, offsets[each.key].leader_epoch)
            for each in find_doubtful(landed, offsets)
        }
        questions = [each for each, at in doubtful.items() if self._confirmed.get(each.key) != at]
        found = find_truncated(self._source, questions)
        self._confirmed |= {each.key: doubtful[each] for each in questions if each not in found}
        return found


def find_truncated(source: Source, landed: Sequence[Logged]) -> dict[Logged, str]:
    """Return the shards whose history was cut below what was landed, with the reason."""
    found: dict[Logged, str] = {}
    rest = [each for each in landed if each.leader_epoch is not None]
    while rest:  # a query may read one shard twice, up to different offsets: one a question
        questions = {StreamShard(each.key.stream, each.key.shard): each for each in reversed(rest)}
        truncated = source.find_truncated(
            {
                shard: Position(each.next, each.leader_epoch)
                for shard, each in questions.items()
                if each.leader_epoch is not None
            }
        )
        found |= {questions[shard]: reason for shard, reason in truncated.items()}
        rest = [each for each in rest if each not in questions.values()]
    return found


def history_truncated(
    key: ShardKey, next_offset: int, reason: str, shards: int = 1
) -> HistoryTruncated:
    """Return the error of a shard whose history was cut; one of a number of `shards`."""
    more = f", and {shards - 1} more" if shards > 1 else ""
    of_query = parse_query_source(key.source)
    table = f" --table {_filled_by(of_query.slice)}" if of_query else ""
    return HistoryTruncated(
        f"{key} was truncated below offset {next_offset}, the next to read, and has other records "
        f"below it than those that were landed{more}: {reason}",
        hint="nothing was read; did an unclean leader election lose records? To keep what was "
        f"landed and continue at {next_offset}: ashore skip JOB.yaml "
        f"{key.stream}/{key.shard} "
        f'--to {next_offset}{table} --why "..."',
        stream=key.stream,
        shard=str(key),
        next=next_offset,
    )


def _filled_by(insert: str) -> str:
    """Return what the INSERT of a name fills, as a command line says it."""
    target = parse_insert(insert)
    found = [*target.tables, *([target.topic] if target.topic else [])]
    return found[0] if len(found) == 1 else "TABLE"
