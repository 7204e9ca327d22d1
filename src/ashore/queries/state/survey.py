"""A checkpoint looked through: all its files, and which of them one batch needs.

What it is: `take_survey`: `plan_required` over a storage.
What it promises: reads only: a listing of each directory, a few small files and the first
bytes of changes of format 2, several at a time.
Where a running Spark deletes old files meanwhile, it may raise PathMissing: look again.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.log import names
from ashore.queries.state.changelogs import HEAD_BYTES, LZ4, codec_of, find_gaps, list_continuing
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import WORKERS, CheckpointFile, list_files
from ashore.queries.state.layout import BatchPath, CheckpointPath, QueryPath, StatePath
from ashore.queries.state.required_files import Required, list_done, plan_required


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
    place = describe_place(checkpoint)
    require_checkpoint(checkpoint, place)
    files = list_files(checkpoint)
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
    required = plan_required(files, chosen, lambda some: read_files(checkpoint, some), place)
    _require_lineages(checkpoint, required, place)
    offsets = (each.of for each in files)
    planned = max(
        each.batch for each in offsets if isinstance(each, BatchPath) and each.log == "offsets"
    )
    return Survey(checkpoint, tuple(files), tuple(done), planned, required)


def _require_lineages(checkpoint: Checkpoint, required: Required, place: str) -> None:
    """Raise where a change of format 2 continues a file that is not in its chain.

    Spark would refuse to load the store: it looks for no older snapshot than the change names.
    """
    if codec_of(required.offsets) != LZ4:
        return

    def read_head(last: StatePath) -> bytes:
        path = names.join(checkpoint.path, last.path)
        return checkpoint.storage.read(path, 0, HEAD_BYTES)

    for last, gap in find_gaps(list_continuing(required), read_head):
        if gap != last:
            raise CheckpointUnfit(
                f"{place}/{gap.path} is missing: {last.path} continues it",
                hint="choose another batch with --batch, or restore the file",
                why="missing",
            )


def require_checkpoint(checkpoint: Checkpoint, place: str) -> None:
    """Raise CheckpointUnfit where there is none. Another directory may be large: it is not listed.

    Raises StorageError.
    """
    if checkpoint.storage.stat(names.join(checkpoint.path, QueryPath().path)) is not None:
        return
    found = checkpoint.storage.stat(checkpoint.path)
    what = "there is no file `metadata` in it" if found else "it does not exist"
    raise CheckpointUnfit(
        f"{place} is not a checkpoint of Spark: {what}",
        hint="name the directory that Spark's option checkpointLocation names",
        why="no_checkpoint",
    )


def read_files(checkpoint: Checkpoint, paths: Sequence[CheckpointPath]) -> list[bytes]:
    """Return what files hold, in their order. Raises StorageError."""
    places = [names.join(checkpoint.path, each.path) for each in paths]
    if len(places) == 1:
        return [checkpoint.storage.read(places[0])]
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(checkpoint.storage.read, places))


def describe_place(checkpoint: Checkpoint) -> str:
    """Return where a checkpoint is, for messages: a path on this machine, or an address."""
    return checkpoint.uri.removeprefix("file://")
