"""The Kafka client: how it is set up, and how it is asked.

What it is: the settings that every connection has, and one way to ask with a deadline.
What it promises: a passing error (a leader that moves, a connection that breaks) is asked again
until the deadline; this is the one place that repeats, and whatever is asked here may be asked
twice. The library writes nothing to the terminal: what it says goes to logging, at DEBUG.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ashore.base.clock import Clock, SystemClock
from ashore.topics.read.failures import PASSING, TIMED_OUT, Complaints, explain_kafka_error
from ashore.topics.read.reader_options import OptionProblem, options_invalid, translate_options

T = TypeVar("T")

PAUSE_S = 0.1  # between two attempts
# The first attempt is short, so that a refused login is reported soon; each later one is twice as
# long, so that a slow cluster gets the time it needs.
ATTEMPT_S = 3.0
ATTEMPT_S_MIN = 0.2  # what an attempt gets close to the deadline

# Settings that name a file, and the options that they come from.
FILES = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.keystore.location": "ssl.keystore.location",
}

_log = logging.getLogger(__name__)


class _QuietLog:
    """Where librdkafka logs to: its complaints are causes of errors, not news for a terminal."""

    def log(self, _level: int, text: str, *arguments: object) -> None:
        _log.debug(text, *arguments)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster and how to talk to it."""

    bootstrap_servers: str  # brokers to begin with
    settings: Mapping[str, str] = field(repr=False)  # of librdkafka; some are secret
    timeout_s: float  # how long a call may take, passing errors included
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def of(cls, bootstrap_servers: str, options: Mapping[str, str], timeout_s: float) -> "Cluster":
        """Return the cluster that a job file describes.

        Raises JobFileInvalid, also where a file that the options name cannot be read.
        """
        settings = translate_options(options)
        if problems := list(_unreadable(settings)):
            raise options_invalid(problems)
        return cls(bootstrap_servers, settings, timeout_s)

    def open_admin(self) -> "Admin":
        """Open a client for questions. Raises JobFileInvalid if the settings do not hold."""
        complaints = Complaints()
        settings = {**self._all_settings({}), "error_cb": complaints.note}
        with self._settings_checked():
            return Admin(self, AdminClient(settings, logger=_QuietLog()), complaints)

    def open_client(self, complaints: Complaints, settings: Mapping[str, str]) -> Consumer:
        """Open a consumer of Python's client. Raises JobFileInvalid."""
        complete = {**self._all_settings(settings), "error_cb": complaints.note}
        with self._settings_checked():
            return Consumer(complete, logger=_QuietLog())

    def _all_settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return what librdkafka is to be set up with; `settings` beside the cluster's own."""
        return {
            "client.id": "ashore",
            **self.settings,
            "bootstrap.servers": self.bootstrap_servers,
            "allow.auto.create.topics": "false",
            **settings,
        }

    @contextmanager
    def _settings_checked(self) -> Iterator[None]:
        """Within it a client is opened: raises JobFileInvalid if its settings do not hold."""
        try:
            yield
        except KafkaException as error:
            problem = OptionProblem("", error.args[0].str(), "correct this option")
            raise options_invalid([problem]) from None


def _unreadable(settings: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield options whose files cannot be read: what TLS libraries say names neither."""
    if not settings.get("security.protocol", "").upper().endswith("SSL"):
        return  # no reader opens them
    for name, option in FILES.items():
        path = settings.get(name)
        if path is None or (name == "ssl.ca.location" and Path(path).is_dir()):
            continue
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            yield OptionProblem(
                option,
                f"{path} cannot be read on this machine: {error.strerror}",
                "correct the path, or put the file on every machine that runs tasks",
            )


@dataclass(frozen=True, slots=True)
class Admin:
    """An open client for questions. Several threads may ask."""

    cluster: Cluster
    client: AdminClient
    complaints: Complaints

    def ask(self, call: Callable[[AdminClient, float], T]) -> T:
        """Return what `call` answers; it is given the client and the seconds that it may take.

        Repeats passing errors until the cluster's timeout. Raises SourceError.
        """
        clock, timeout_s = self.cluster.clock, self.cluster.timeout_s
        deadline_s = clock.monotonic_s() + timeout_s
        attempt_s = ATTEMPT_S
        self.client.poll(0)  # takes what the library has logged since the last call
        self.complaints.clear()
        while True:
            left_s = deadline_s - clock.monotonic_s()
            try:
                return call(self.client, max(min(left_s, attempt_s), ATTEMPT_S_MIN))
            except KafkaException as failure:
                error = failure.args[0]
            except TimeoutError:
                error = KafkaError(TIMED_OUT)
            self.client.poll(0)  # hands what the connection complained of to the complaints
            is_late = clock.monotonic_s() + PAUSE_S >= deadline_s
            if is_late or error.code() not in PASSING or self.complaints.is_final:
                raise explain_kafka_error(
                    error, self.complaints, self.cluster.bootstrap_servers, timeout_s
                )
            attempt_s *= 2
            clock.sleep(PAUSE_S)


def wait_for(answer: "Future[T]", timeout_s: float) -> T:
    """Return the library's answer. Its own deadline is `timeout_s`; this one is behind it."""
    return answer.result(timeout_s + 1)
