"""The native consumer's own parts: what can be seen without a broker."""

import shutil

import numpy as np
import pyarrow as pa
import pytest

from ashore.errors import JobFileInvalid
from ashore.sources.client import Cluster
from ashore.sources.consumer import is_native, native, open_consumer
from ashore.sources.failures import Complaints
from ashore.sources.fetched import FETCHED, to_times


def test_where_there_is_a_compiler_the_native_consumer_is_there() -> None:
    assert is_native() or shutil.which("cc") is None


@pytest.mark.parametrize("is_native", [True, False])
def test_settings_that_do_not_hold_are_refused(is_native: bool) -> None:
    cluster = Cluster("127.0.0.1:1", {}, 1.0)
    with pytest.raises(JobFileInvalid, match=r"fetch\.wait\.max\.ms"):
        open_consumer(cluster, Complaints(), {"fetch.wait.max.ms": "soon"}, native=is_native)


def test_kafkas_times_are_those_of_a_calendar_or_null() -> None:
    """What is far out must not wrap round to a time that is plausible."""
    known = [0, -1, -62_135_596_800_000, 253_402_300_799_999, 1_795_219_200_123]
    beyond = [-62_135_596_800_001, 253_402_300_800_000, -(10**14), -(10**17), 10**17]
    beyond += [-(2**63), 2**63 - 1]
    found = to_times(np.array([*known, *beyond], np.int64))
    assert found.type == FETCHED.field("timestamp").type
    assert found.view(pa.int64()).to_pylist() == [1000 * each for each in known] + [None] * 7
    assert to_times(np.array(known, np.int64)).null_count == 0


def test_rows_are_cut_where_their_bytes_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BATCH_BYTES", 10)
    sizes = np.array([5, 5, 4, 30, 1, 9])

    pieces = [sizes[each].tolist() for each in native._pieces(sizes)]

    assert pieces == [[5, 5], [4], [30], [1, 9]]
