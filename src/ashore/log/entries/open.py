"""`open`: a writer takes the slice over.

What it promises: epochs are the writers of a slice in their order, 1, 2, 3 ... (I4). It closes
nothing: what is unclosed stays so, and is the new writer's to finish (I5).
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.base import codec
from ashore.log.effects import Closing
from ashore.log.fold import Changes, Fold
from ashore.log.rules import require


@dataclass(frozen=True, slots=True)
class Open:
    """A writer takes the slice over. Closes nothing.

    `looks_back`: after each append the writer looks whether its number was archived before. So the
    `open` that comes after its entries may be removed: where it frees the number that this writer
    tries next, this writer notices.
    """

    kind: ClassVar[str] = "open"
    host: str
    process: int
    version: str
    looks_back: bool = codec.added(default=False)


def fold_open(fold: Fold, epoch: int, closing: Closing | None) -> Changes:
    """Return what an `open` changes in the fold. Raises Refused."""
    require(epoch == fold.epoch + 1, f"epoch {epoch} opened after epoch {fold.epoch}")
    require(closing is None, "it closes something")
    return {"epoch": epoch}
