"""Options of the Java client, in the words of the driver's client.

What it is: one translation. Spark's reader takes the Java names of the job file as they are; the
driver's client (librdkafka) has other names for some options and no counterpart for others.
What it promises: pure. An option that decides whom one trusts or who one is gets translated or
refused, never left out. A value that may be secret is in no message.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ashore.base.suggest import suggest
from ashore.errors import JobFileInvalid
from ashore.jobs.kafka_options import OWNED_OPTIONS

SAME = frozenset(
    {
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
    }
)
RENAMED: Mapping[str, str] = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
# They tune the reader of the landing path, which is not this client, or choose among what OpenSSL
# negotiates by itself. Leaving them out changes neither what is read nor who is trusted.
JAVA_ONLY = frozenset(
    {
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
SASL = frozenset({"sasl.jaas.config", "sasl.mechanism"})
TLS = frozenset(
    {
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
# Settings of librdkafka that the native reader has too, or does without: it compares every CRC,
# keeps no idle connection, and chooses its pauses. Any other is for librdkafka to follow.
RAW = frozenset(
    {
        "check.crcs",
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.password",
        "sasl.username",
        "socket.connection.setup.timeout.ms",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
    }
)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN_MODULES: Mapping[str, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
RAW_VALUES: Mapping[str, frozenset[str]] = {
    "client.dns.lookup": frozenset({"use_all_dns_ips"}),
    "sasl.mechanism": frozenset(LOGIN_MODULES),
    "security.protocol": frozenset(PROTOCOLS),
    "ssl.endpoint.identification.algorithm": frozenset({"https", "none"}),
}

_OWNED = {name.casefold(): reason for name, reason in OWNED_OPTIONS.items()}
_JAAS_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"';=]+)"""
_JAAS = re.compile(
    rf"\s*(?P<module>[\w.$]+)\s+required(?P<options>(?:\s+\w+\s*=\s*{_JAAS_VALUE})*)\s*;\s*",
    re.DOTALL,
)
_JAAS_OPTION = re.compile(rf"(\w+)\s*=\s*({_JAAS_VALUE})", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """An option that cannot be used, and what to write instead. No name: one of the options."""

    option: str
    message: str
    instead: str

    @property
    def key(self) -> str:
        """Return the key in the job file."""
        return f"source.kafka.options.{self.option}".removesuffix(".")

    def __str__(self) -> str:
        return f"{self.key}: {self.message}\n    {self.instead}"


@dataclass(slots=True)
class _Translation:
    """What has been said so far, and what could not be said."""

    options: Mapping[str, str]
    settings: dict[str, str] = field(default_factory=dict)
    problems: list[OptionProblem] = field(default_factory=list)

    def refuse(self, option: str, message: str, instead: str) -> None:
        self.problems.append(OptionProblem(option, message, instead))


def translate_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the driver's client that say what `options` say.

    Raises JobFileInvalid with all problems at once.
    """
    done = _Translation(options)
    steps: tuple[Callable[[_Translation], None], ...] = (
        _translate_plain,
        _translate_sasl,
        _translate_truststore,
        _translate_keystore,
        _translate_endpoint,
    )
    for step in steps:
        step(done)
    if done.problems:
        raise options_invalid(done.problems)
    return done.settings


def why_not_raw(settings: Mapping[str, str]) -> str:
    """Return why the native reader cannot follow settings of `translate_options`, or nothing."""
    java_names = {ours: java for java, ours in RENAMED.items()}
    for name, value in settings.items():
        if name in RAW:
            continue
        if name not in RAW_VALUES:
            return f"it does not support {java_names.get(name, name)}"
        if value not in RAW_VALUES[name] and value.upper() not in RAW_VALUES[name]:
            return f"it does not support {name}: {value}"
    return ""


def options_invalid(problems: list[OptionProblem]) -> JobFileInvalid:
    """Return the error that lists all problems, one paragraph each."""
    return JobFileInvalid(
        "\n".join(["the Kafka client cannot use these options:", *map(str, problems)]),
        hint="correct source.kafka.options and start again",
        problems=[
            {"key": each.key, "message": each.message, "instead": each.instead} for each in problems
        ],
    )


def _translate_plain(done: _Translation) -> None:
    for name, value in done.options.items():
        owned = _OWNED.get(name.casefold())
        if owned is not None:
            done.refuse(name, f"it cannot be set: {owned}", "remove it")
        elif name == "security.protocol" and value.upper() not in PROTOCOLS:
            done.refuse(name, "unknown protocol", f"write one of {', '.join(PROTOCOLS)}")
        elif name in SAME:
            done.settings[name] = value
        elif name in RENAMED:
            # The Java client's -1, the system's own buffer, is 0 here.
            is_default = name.endswith(".buffer.bytes") and value == "-1"
            done.settings[RENAMED[name]] = "0" if is_default else value
        elif name not in JAVA_ONLY | SASL | TLS:
            known = sorted({*SAME, *RENAMED, *JAVA_ONLY, *SASL, *TLS})
            instead = suggest(name, known, "remove it")
            done.refuse(name, "the Kafka client of the driver does not support it", instead)


def _translate_sasl(done: _Translation) -> None:
    options = done.options
    if not options.get("security.protocol", "").upper().startswith("SASL"):
        return
    mechanism = options.get("sasl.mechanism", "GSSAPI")
    module = LOGIN_MODULES.get(mechanism)
    if module is None:
        known = ", ".join(LOGIN_MODULES)
        done.refuse(
            "sasl.mechanism",
            f"the Kafka client of the driver does not support {mechanism}",
            f"write one of {known}, or use TLS client certificates",
        )
        return
    login = parse_jaas(options.get("sasl.jaas.config", ""))
    if login is None or login.module != module or not {"username", "password"} <= set(login.values):
        done.refuse(
            "sasl.jaas.config",
            f"it has no user and password for {mechanism}",
            f'write {module} required username="..." password="...";',
        )
        return
    if login.values.get("tokenauth", "false") != "false":
        done.refuse(
            "sasl.jaas.config",
            "the Kafka client of the driver does not support delegation tokens",
            "remove tokenauth and set a user",
        )
    done.settings["sasl.mechanism"] = mechanism
    done.settings["sasl.username"] = login.values["username"]
    done.settings["sasl.password"] = login.values["password"]


@dataclass(frozen=True, slots=True)
class Login:
    """A login entry of the Java client. Its values are secret."""

    module: str
    values: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> Login | None:
    """Return the login entry that `text` holds, or None if it is not one `required` entry."""
    match = _JAAS.fullmatch(text)
    if match is None:
        return None
    pairs = _JAAS_OPTION.findall(match["options"])
    return Login(match["module"], {name: _unquote(value) for name, value in pairs})


def _unquote(value: str) -> str:
    if value[0] not in "\"'":
        return value
    return re.sub(
        r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), value[1:-1], flags=re.DOTALL
    )


def _translate_truststore(done: _Translation) -> None:
    options = done.options
    kind = options.get("ssl.truststore.type", "JKS").upper()
    if "ssl.truststore.certificates" in options:
        done.settings["ssl.ca.pem"] = options["ssl.truststore.certificates"]
    elif "ssl.truststore.location" in options and kind == "PEM":
        done.settings["ssl.ca.location"] = options["ssl.truststore.location"]
    elif "ssl.truststore.location" in options:
        done.refuse(
            "ssl.truststore.location",
            f"a truststore of type {kind} can be read by Java only",
            "export its certificates (keytool -list -rfc -keystore FILE > ca.pem), name that file "
            "and add ssl.truststore.type: PEM",
        )


def _translate_keystore(done: _Translation) -> None:
    options, settings = done.options, done.settings
    kind = options.get("ssl.keystore.type", "JKS").upper()
    location = options.get("ssl.keystore.location")
    if "ssl.key.password" in options:
        settings["ssl.key.password"] = options["ssl.key.password"]
    if "ssl.keystore.key" in options:
        settings["ssl.key.pem"] = options["ssl.keystore.key"]
        if "ssl.keystore.certificate.chain" in options:
            settings["ssl.certificate.pem"] = options["ssl.keystore.certificate.chain"]
    elif location is not None and kind == "PEM":
        settings["ssl.key.location"] = settings["ssl.certificate.location"] = location
    elif location is not None and kind == "PKCS12":
        settings["ssl.keystore.location"] = location
        settings["ssl.keystore.password"] = options.get("ssl.keystore.password", "")
    elif location is not None:
        done.refuse(
            "ssl.keystore.location",
            f"a keystore of type {kind} can be read by Java only",
            "convert it (keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 "
            "-deststoretype PKCS12), name that file and add ssl.keystore.type: PKCS12",
        )


def _translate_endpoint(done: _Translation) -> None:
    name = "ssl.endpoint.identification.algorithm"
    if name in done.options:
        done.settings[name] = done.options[name] or "none"  # Java: empty switches it off
