"""Whether a batch of a query reads on in the history that was landed: asked before it runs.

What it is: `QueryLeaders`, the leader epochs of the topic partitions that a query reads. Spark
plans the offsets of a batch without them, and keeps what it has fetched beyond a batch for the
next ones, for as long as a run of the query lasts.
What it promises: no batch follows records that the topic no longer has. A range is
recorded with a leader only if that leader has all of it, before any of it is read, and was the
leader when the run began: else what is read may be what another one had. The rules are those of
`model/histories.py`.
"""

from collections.abc import Iterable, Mapping

from ashore.errors import BatchFailed
from ashore.log.fold import Fold
from ashore.log.plan_batch import ShardOffsets, WentBack, leaders_of
from ashore.log.positions import ShardKey, ShardRange, StreamShard
from ashore.topics.loop.histories import Histories
from ashore.topics.loop.joins import shards_of, went_back
from ashore.topics.read.base import Source

Leaders = tuple[tuple[ShardKey, int], ...]


class QueryLeaders:
    """Asks for leaders, at the start of a query and before each batch. Used by one thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._histories = Histories(source)
        self._at_begin: dict[StreamShard, int] = {}  # of this run

    def begin_run(self) -> None:
        """Forget the leaders of the run before: nothing that it has fetched is used any more."""
        self._at_begin = {}

    def check(self, fold: Fold) -> None:
        """Raise HistoryTruncated or OffsetsWentBack where a partition was cut below what was read.

        What a broker that lags behind may say by mistake: see `look_again`. Raises SourceError.
        """
        self._check_landed(fold, self._read(fold.current()))

    def begin_batch(self, fold: Fold, ranges: Iterable[ShardRange]) -> Leaders:
        """Return the leaders under which the ranges of a batch are read.

        Requires: nothing of the batch has been read yet. Raises as `check`, also where a range ends
        above what a partition holds; BatchFailed where a leader has changed since the run began:
        the query has to be started again.
        """
        read = list(ranges)
        offsets = self._read({*fold.current(), *(each.key for each in read)})
        self._check_landed(fold, offsets)
        for each in read:
            if offsets[each.key].end < each.offsets.end:
                raise went_back(WentBack(each.key, each.offsets.end, offsets[each.key].end))
        leaders = leaders_of(sorted(each.key for each in read), offsets)
        self._require_same(leaders)
        return leaders

    def _read(self, keys: Iterable[ShardKey]) -> dict[ShardKey, ShardOffsets]:
        ordered = sorted(keys)
        found = self._source.read_offsets(sorted(set(shards_of(ordered)))) if ordered else {}
        return {key: found[StreamShard(key.stream, key.shard)] for key in ordered}

    def _check_landed(self, fold: Fold, offsets: Mapping[ShardKey, ShardOffsets]) -> None:
        landed = fold.current()
        for key, state in landed.items():
            if offsets[key].end < state.next:
                raise went_back(WentBack(key, state.next, offsets[key].end))
        self._histories.check(fold, {key: offsets[key] for key in landed})

    def _require_same(self, leaders: Leaders) -> None:
        for key, leader in leaders:
            shard = StreamShard(key.stream, key.shard)
            before = self._at_begin.setdefault(shard, leader)
            if before != leader:
                raise BatchFailed(
                    f"{key.stream}/{key.shard} has a new leader: the query is restarted, to "
                    "discard what it has prefetched from the old one",
                )
