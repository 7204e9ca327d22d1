"""A checkpoint looked through: all its files, and which of them one batch needs.

What it is: `take_survey`: `plan_required` over a storage.
What it promises: reads only: a listing of each directory, a few small files and the first
bytes of changes of format 2, several at a time.
Where a running Spark deletes old files meanwhile, it may raise PathMissing: look again.
"""

from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.queries.state.changelogs import HEAD_BYTES, LZ4, codec_of, find_gaps, list_continuing
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import BatchLog, QueryPath, StatePath
from ashore.queries.state.required_files import Required, list_batches, list_done, plan_required


@dataclass(frozen=True, slots=True)
class Survey:
    """What a checkpoint holds, and what one of its batches needs.

    Arguments:
        checkpoint: that was looked through.
        files: all that are there, sorted by path.
        done: the batches that are done and whose offsets are kept, sorted.
        planned: the last batch that has offsets.
        required: what the batch needs that was asked for.

    """

    checkpoint: Checkpoint
    files: tuple[CheckpointFile, ...]
    done: tuple[int, ...]
    planned: int
    required: Required


def take_survey(checkpoint: Checkpoint, batch: int | None = None) -> Survey:
    """Look through a checkpoint.

    Arguments:
        checkpoint: of Ashore, or of any query of Spark.
        batch: that is done; without it, the newest one.

    Raises CheckpointUnfit where there is none, where it does not keep the batch, or where a file
    that the batch needs is missing or damaged; StorageError.

    """
    place = checkpoint.place
    require_checkpoint(checkpoint)
    files = checkpoint.list_files()
    done = list_done(files)
    if not done or (batch is not None and batch not in done):
        kept = f"batches {done[0]} to {done[-1]}" if done else "no finished batch"
        other = "" if batch is None else f", not batch {batch}"
        raise CheckpointUnfit(
            f"the checkpoint {place} has {kept}{other}",
            hint=f"choose one of batches {done[0]} to {done[-1]}"
            if done
            else "run the query first",
            why="forgotten" if done else "empty_checkpoint",
        )
    chosen = done[-1] if batch is None else batch
    required = plan_required(files, chosen, checkpoint.read_all, place)
    _require_lineages(checkpoint, required)
    planned = list_batches(files)[BatchLog.OFFSETS][-1]
    return Survey(checkpoint, tuple(files), tuple(done), planned, required)


def _require_lineages(checkpoint: Checkpoint, required: Required) -> None:
    """Raise where a change of format 2 continues a file that is not in its chain.

    Spark would refuse to load the store: it looks for no older snapshot than the change names.
    """
    if codec_of(required.offsets) != LZ4:
        return

    def read_head(last: StatePath) -> bytes:
        return checkpoint.read(last.path, 0, HEAD_BYTES)

    for last, gap in find_gaps(list_continuing(required), read_head):
        if gap != last:
            raise CheckpointUnfit(
                f"{checkpoint.place}/{gap.path} is missing: {last.path} continues it",
                hint="choose another batch with --batch, or restore the file",
                why="missing",
            )


def require_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise CheckpointUnfit where there is none. Another directory may be large: it is not listed.

    Raises StorageError.
    """
    if checkpoint.stat(QueryPath().path) is not None:
        return
    what = "there is no file `metadata` in it" if checkpoint.stat() else "it does not exist"
    raise CheckpointUnfit(
        f"{checkpoint.place} is not a checkpoint of Spark: {what}",
        hint="name the directory that Spark's option checkpointLocation names",
        why="no_checkpoint",
    )
