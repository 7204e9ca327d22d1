"""Which reader reads, and what of a job's servers the native one understands."""

import pytest

from ashore.topics.read import native
from ashore.topics.read.client import Cluster
from ashore.topics.read.native import Choice, choose_reader
from ashore.topics.read.reading import KafkaAddress


@pytest.mark.parametrize(
    ("servers", "why_not"),
    [
        ("kafka-1:9092, kafka-2:9093", ""),
        ("kafka", ""),  # librdkafka's default port
        ("PLAINTEXT://kafka:9092", ""),
        ("[::1]:9092", ""),
        ("kafka:http", "kafka:http is not "),
        ("kafka:70000", "kafka:70000 is not "),
    ],
)
def test_servers_are_named_as_librdkafka_takes_them(
    servers: str, why_not: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "load_module", lambda: native)  # any module: nothing is read
    choice = choose_reader(Cluster.of(servers, {}, 1.0))
    assert (choice.is_raw, bool(choice.why_not)) == (not why_not, bool(why_not))
    assert choice.why_not.startswith(why_not)


def test_without_the_module_librdkafka_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "ashore-native is not installed (pip install ashore-native)"
    monkeypatch.setattr(native, "why_not_native", lambda: reason)
    assert choose_reader(Cluster.of("kafka:9092", {}, 1.0)) == Choice(False, reason)


def test_a_job_that_wants_python_or_has_options_only_librdkafka_has_is_told_so() -> None:
    assert KafkaAddress("kafka:9092", {}, reader="python").describe_reader() == "python"
    racked = KafkaAddress("kafka:9092", {"client.rack": "a"}).describe_reader()
    plain = KafkaAddress("kafka:9092", {}).describe_reader()
    if native.why_not_native():
        assert plain.startswith("python, as ")
        assert racked == plain
    else:
        assert plain.startswith("native, ")
        assert racked.startswith(f"{plain}; librdkafka reads: ")
