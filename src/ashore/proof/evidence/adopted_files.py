"""The files that a job took over with a table, from a writer that was there before it.

What it is: lists, `<lake>/.ashore/<job>/_adopted-<unique>.json`, each with a checksum.
What it promises: they show verification which files without an entry are not orphans. Landing
never reads them: its log has a `join` with the policy `adopted`.
"""

import re
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.errors import LogDamaged
from ashore.log import names
from ashore.log.entries import FORMAT_VERSION, EntryInvalid, read_checksummed, write_checksummed
from ashore.storage.base import Storage

_NAME = re.compile(r"_adopted-[0-9a-f]{16,64}\.json")


@dataclass(frozen=True, slots=True)
class AdoptedFiles:
    """The files of one table that were there when it was adopted."""

    format_version: int
    table: str
    by: str  # who wrote them: `Spark query`, `Connect sink`
    files: tuple[str, ...]  # paths in the lake
    checksum: str


def adopted_path(job: str, token: str) -> str:
    """Return the path of a new list. `token` is used once."""
    return names.join(names.job_directory(job), f"_adopted-{token}.json")


def write_adopted(table: str, by: str, files: tuple[str, ...]) -> bytes:
    """Return the bytes of a list."""
    return write_checksummed(
        {"format_version": FORMAT_VERSION, "table": table, "by": by, "files": list(files)}
    )


def read_adopted(storage: Storage, job: str) -> dict[str, str]:
    """Return each adopted file with its table. Raises LogDamaged for a list that is not one."""
    found: dict[str, str] = {}
    for each in storage.list(names.job_directory(job)):
        if not _NAME.fullmatch(names.leaf(each.path)):
            continue
        try:
            adopted = codec.decode(AdoptedFiles, dict(read_checksummed(storage.read(each.path))))
        except (EntryInvalid, Malformed) as error:
            hint = "restore the list of adopted files from a backup"
            raise LogDamaged(f"{each.path}: {error}", hint=hint, path=each.path) from None
        found |= dict.fromkeys(adopted.files, adopted.table)
    return found
