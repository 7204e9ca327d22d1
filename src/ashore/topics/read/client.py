"""The Kafka client: how it is set up, asked and polled, and what its errors mean.

What it is: the settings that every connection has, and those of each of Ashore's readers; one way
to ask with a deadline, one to poll; the memory of what a connection complained of, and the map from
the library's errors to Ashore's.
What it promises: a passing error (a leader that moves, a connection that breaks) is asked again
until the deadline; this is the one place that repeats, and whatever is asked here may be asked
twice. A failure that passes is waited out in polling, too; the end of a partition, and a position
that it does not have, are answers there. A call that timed out is reported by its cause where the
connection gave one: a refused login, a failed TLS handshake, a broker that is not there. Headers
that the client cannot read are reported, and leave no error behind. The library writes nothing to
the terminal: what it says goes to logging, at DEBUG.
"""

# ruff: noqa: SLF001 -- the library's names for its own errors, as against the broker's, begin so

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from ashore.base.clock import Clock, SystemClock
from ashore.errors import SourceError, SourceUnreachable
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

POLL_S = 0.5

Header = tuple[str, bytes | None]
# Where a key is not UTF-8 the client returns a list, and leaves an error behind. A plain call would
# let it pass, to be raised by whatever comes next; calls from C look for it.
_ask_headers = methodcaller("headers")

# What Ashore's readers set, below the options of a job file: a table for each reader.
# `Cluster.open_client` adds the job's options and refuses those that are Ashore's own.
READING = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
}

# Lands ranges of offsets: `reading`.
RANGES = {
    **READING,
    "group.id": "ashore",  # the client requires one; nothing is committed
    "enable.auto.offset.store": "false",
    "fetch.wait.max.ms": "20",  # the range is all there: nothing to wait for
    "fetch.queue.backoff.ms": "10",  # the default, a second at a full queue, is 7 times slower
    "queued.max.messages.kbytes": f"{16 << 10}",  # fetched ahead: what a range's end throws away
}

# Reads the first record after an offset: `histories`.
HISTORIES = {
    **READING,
    "group.id": "ashore-histories",
    # A first record, or the end, is answer enough: what comes with it is dropped. A broker returns
    # a batch that is larger than this of the first partition of a fetch only, so that partitions
    # that have answered are not fetched again.
    "queued.min.messages": "1",
    "fetch.message.max.bytes": f"{64 << 10}",
    "fetch.queue.backoff.ms": "10",
}

# Reads ranges again, message by message, to compare them: `kafka.PlainReader`.
VERIFICATION = {
    **READING,
    "group.id": "ashore-verify",
    # Ranges are short, and what is fetched beyond their ends is fetched for nothing.
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "4096",
}

BAD_COMPRESSION = KafkaError._BAD_COMPRESSION
NO_LEADERS = KafkaError._NOENT
OFFSET_OUT_OF_RANGE = KafkaError._AUTO_OFFSET_RESET
PARTITION_END = KafkaError._PARTITION_EOF
TIMED_OUT = KafkaError._TIMED_OUT

# A topic that does not exist, and what is also said of one whose leaders are not known yet.
ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})
MAYBE_ABSENT = ABSENT | {NO_LEADERS, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}

# What a leader says to a client that knows an older one, or the same of an older epoch.
OLD_LEADER = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)

UNREACHABLE = frozenset(
    {
        TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
PASSING = UNREACHABLE | {
    NO_LEADERS,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._WAIT_CACHE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
LOGIN_REFUSED = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
NOT_ALLOWED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)

# Of a consumer that joins no group: the library looks for the coordinator of one all the same.
HARMLESS = PASSING | {KafkaError.GROUP_AUTHORIZATION_FAILED}

# What librdkafka says of a listener without a login, and of one without TLS, which closes in the
# midst of the handshake: by the moment of it the library sees that it failed or only that it ended.
_NO_SASL = re.compile(r"handshake failed: .*supported mechanisms:\s*$")
_NO_TLS = re.compile(
    r"connecting to a PLAINTEXT broker listener\?|Disconnected: .* in state SSL_HANDSHAKE\)"
)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Complaints:
    """What a connection complained of lately: the cause behind a call that timed out."""

    login: str = ""
    tls: str = ""
    last: str = ""

    @property
    def is_final(self) -> bool:
        """Whether another attempt is of no use."""
        return bool(self.login or self.tls)

    def note(self, error: KafkaError) -> None:
        """Take an error that belongs to no call."""
        if error.code() in LOGIN_REFUSED:
            self.login = error.str()
        elif error.code() == KafkaError._SSL:
            self.tls = error.str()
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:  # it only counts, and hides the cause
            self.last = error.str()

    def begin(self) -> None:
        """Begin a new call: it may log in, but what kept the one before waiting may be the cause.

        The library complains once of a broker that it cannot reach, and not again until it tries to
        connect, which may be after this call.
        """
        self.login = self.tls = ""

    def clear(self) -> None:
        """Forget all: the cluster has answered."""
        self.login = self.tls = self.last = ""


def explain_kafka_error(
    error: KafkaError, complaints: Complaints, servers: str, timeout_s: float
) -> SourceError:
    """Return the error of Ashore that means `error`, after a call of `timeout_s` to `servers`."""
    code = error.code()
    complaint = _first((complaints.login, complaints.tls, complaints.last, error.str()))
    no_sasl = _NO_SASL.search(_short(complaint))
    if no_sasl or _NO_TLS.search(complaint):
        return SourceError(
            f"Kafka at {servers} does not speak {'SASL' if no_sasl else 'TLS'} at this port:"
            f" {_short(complaint)}",
            hint="write the port of a listener that does, or correct security.protocol in"
            " source.kafka.options",
        )
    if complaints.login or code in LOGIN_REFUSED:
        return SourceError(
            f"Kafka at {servers} refuses the login: {_short(complaints.login, error.str())}",
            hint="check sasl.mechanism and sasl.jaas.config in source.kafka.options",
        )
    if complaints.tls or code == KafkaError._SSL:
        return SourceError(
            f"no TLS connection to Kafka at {servers}: {_short(complaints.tls, error.str())}",
            hint="check the ssl options and security.protocol in source.kafka.options",
        )
    if code in NOT_ALLOWED:
        return SourceError(
            f"Kafka at {servers} denies access: {error.str()}",
            hint="grant the job's user Describe and Read on its topics, and Read on its "
            "commit_group",
        )
    if code in UNREACHABLE:
        return SourceUnreachable(
            f"no broker of {servers} answers within {timeout_s:g} s:"
            f" {_short(complaints.last, error.str())}",
            hint="check that the broker runs, and source.kafka.bootstrap_servers"
            " and security.protocol in source.kafka.options",
        )
    return SourceError(f"Kafka at {servers}: {error.name()}: {error.str()}")


def _short(*reasons: str) -> str:
    """Return the first reason there is, without what the library says of its own threads."""
    reason = _first(reasons)
    return reason.rpartition("/bootstrap: ")[2].partition(" (after ")[0]


def _first(reasons: Iterable[str]) -> str:
    return next(filter(None, reasons), "")


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
        self.complaints.begin()
        while True:
            left_s = deadline_s - clock.monotonic_s()
            try:
                answer = call(self.client, max(min(left_s, attempt_s), ATTEMPT_S_MIN))
            except KafkaException as failure:
                error = failure.args[0]
            except TimeoutError:
                error = KafkaError(TIMED_OUT)
            else:
                self.complaints.clear()
                return answer
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


def next_answer(
    cluster: Cluster, consumer: Consumer, complaints: Complaints, deadline_s: float
) -> Message:
    """Return a record, or what says that a partition ends here or is out of range.

    Raises SourceError where none has come by `deadline_s` of the cluster's clock.
    """
    while True:
        message = consumer.poll(POLL_S)
        error = KafkaError(TIMED_OUT) if message is None else message.error()
        is_answer = error is None or error.code() in (PARTITION_END, OFFSET_OUT_OF_RANGE)
        if message is not None and is_answer:
            return message
        is_harmless = message is None or (error is not None and error.code() in HARMLESS)
        if not is_harmless or cluster.clock.monotonic_s() >= deadline_s:
            raise explain_kafka_error(
                error, complaints, cluster.bootstrap_servers, cluster.timeout_s
            )


def read_headers(message: Message) -> list[Header] | None:
    """Return the headers of a record; None: the client cannot read them.

    It requires keys in UTF-8, and takes each to end at its first NUL.
    """
    try:
        return list(_ask_headers(message) or [])
    except (UnicodeDecodeError, SystemError):
        return None
