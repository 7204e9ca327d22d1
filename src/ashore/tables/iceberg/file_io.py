"""Metadata files of Iceberg on the storage of a lake.

What it is: pyiceberg's `FileIO` over `Storage`, so that any lake is reached in the same way.
What it promises: a file is created whole or not at all, and none is overwritten; each call has the
storage's deadline.
"""

import io
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from ashore.base.unique import unique
from ashore.errors import PathExists, PathMissing, StorageError
from ashore.storage.base import Storage

_LAKE = "ashore.lake"


class Lake:
    """A lake whose files a catalog reads and writes: alive as long as the catalog is used."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._token = unique()
        _LAKES[self._token] = self

    @property
    def properties(self) -> dict[str, str]:
        """The properties by which pyiceberg makes a `StorageFileIO` of this lake."""
        return {"py-io-impl": f"{__name__}.{StorageFileIO.__name__}", _LAKE: self._token}

    @property
    def root(self) -> str:
        """The address of the lake's root, with a slash at its end."""
        return self.storage.describe().rstrip("/") + "/"

    def path(self, location: str) -> str | None:
        """Return where a file is in the lake, or None if it is outside, however it is spelled.

        Writers in Java say `file:/lake` or `/lake` for `file:///lake`, and `s3a:` for `s3:`.
        """
        plain = re.sub(r"^s3[an]:", "s3:", re.sub(r"^(file:)?/+", "file:///", location))
        return plain.removeprefix(self.root) if plain.startswith(self.root) else None


# pyiceberg makes its files' class by name, from properties, which are text.
_LAKES: WeakValueDictionary[str, Lake] = WeakValueDictionary()


class StorageFileIO(FileIO):
    """Files of one lake. Made by pyiceberg, from the properties of a `Lake`."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__(dict(properties))
        self._lake = _LAKES[properties[_LAKE]]
        self._storage = self._lake.storage

    def new_input(self, location: str) -> InputFile:
        """See FileIO. Raises StorageError for a file outside of the lake."""
        return _Input(location, self._storage, self._path(location))

    def new_output(self, location: str) -> OutputFile:
        """See FileIO. Raises StorageError for a file outside of the lake."""
        return _Output(location, self._storage, self._path(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: what a commit has written may be part of a table, whatever its answer was."""
        raise StorageError(f"{location} is not deleted: a snapshot may name it")

    def _path(self, location: str) -> str:
        path = self._lake.path(location)
        if path is None:
            raise StorageError(
                f"{location} is outside of the lake {self._lake.root}",
                hint="tables of a job are below its lake: give the table that location",
            )
        return path


class _Input(InputFile):
    def __init__(self, location: str, storage: Storage, path: str) -> None:
        super().__init__(location)
        self._storage = storage
        self._path = path

    def __len__(self) -> int:
        found = self._storage.stat(self._path)
        if found is None:
            raise FileNotFoundError(self.location)
        return found.size

    def exists(self) -> bool:
        return self._storage.stat(self._path) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - see InputFile
        try:
            return io.BytesIO(self._storage.read(self._path))
        except PathMissing as error:
            raise FileNotFoundError(self.location) from error


class _Output(OutputFile):
    def __init__(self, location: str, storage: Storage, path: str) -> None:
        super().__init__(location)
        self._storage = storage
        self._path = path

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._storage, self._path)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002 - never done
        return _Created(self._storage, self._path)


class _Created(io.BytesIO):
    """Bytes that become a file when they are closed, unless writing them has failed."""

    def __init__(self, storage: Storage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            try:
                self._storage.create(self._path, data)
            except PathExists as error:
                raise FileExistsError(self._path) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            super().close()
