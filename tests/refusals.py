"""What a storage that cannot be used answers to each kind of call."""

import pytest

from ashore.errors import PathExists, PathMissing, StorageError
from ashore.storage.base import Storage


def refusals_of(storage: Storage) -> list[StorageError]:
    """Return the errors of a storage that refuses all calls; fail where one is an answer."""
    found = []
    for attempt in (
        lambda: storage.create("a", b""),
        lambda: storage.stat("a"),
        lambda: storage.list("a"),
        lambda: storage.read("a"),
    ):
        with pytest.raises(StorageError) as caught:
            attempt()
        assert not isinstance(caught.value, PathMissing | PathExists)
        found.append(caught.value)
    return found
