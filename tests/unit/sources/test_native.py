"""The native consumer's own parts: what can be seen without a broker."""

import shutil

import numpy as np
import pytest

from ashore.errors import JobFileInvalid
from ashore.sources.client import Cluster
from ashore.sources.consumer import is_native, native, open_consumer
from ashore.sources.failures import Complaints


def test_where_there_is_a_compiler_the_native_consumer_is_there() -> None:
    assert is_native() or shutil.which("cc") is None


@pytest.mark.parametrize("is_native", [True, False])
def test_settings_that_do_not_hold_are_refused(is_native: bool) -> None:
    cluster = Cluster("127.0.0.1:1", {}, 1.0)
    with pytest.raises(JobFileInvalid, match=r"fetch\.wait\.max\.ms"):
        open_consumer(cluster, Complaints(), {"fetch.wait.max.ms": "soon"}, native=is_native)


def test_rows_are_cut_where_their_bytes_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BATCH_BYTES", 10)
    rows = np.zeros(6, native.ROW)
    rows["value_size"] = [4, 4, 4, 30, 1, 9]
    rows["key_size"] = [1, 1, 0, 0, 0, 0]

    pieces = [each["value_size"].tolist() for each in native._pieces(rows)]

    assert pieces == [[4, 4], [4], [30], [1, 9]]
