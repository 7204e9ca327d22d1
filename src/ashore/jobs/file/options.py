"""Options of the Kafka client, by the names of the Java client.

What it promises: an option that would change what is read, from where, or whether what is written
is durable, is refused; only the mapping's own lookup shows secret values.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ashore.base.suggest import suggest
from ashore.jobs.file.values import MASK, TEXT_MAP_FORM, EnvText, JsonForm, ValueRefused
from ashore.jobs.kafka_options import (
    LIBRDKAFKA_NAMES,
    OWNED_OPTIONS,
    OWNED_PRODUCER_OPTIONS,
    PRODUCER_OPTIONS,
    SECRET_NAME,
    SECURITY,
)


def _option_name(name: str, owned: Mapping[str, str]) -> str:
    bare = name.removeprefix("kafka.")
    folded = {each.casefold(): reason for each, reason in owned.items()}
    reason = folded.get(bare.casefold())
    if reason is not None:
        raise ValueRefused(f"{bare} cannot be set: {reason}", "remove it")
    if name != bare:
        raise ValueRefused("options have no prefix `kafka.` here", f"write {bare}")
    if bare in LIBRDKAFKA_NAMES:
        what = f"{bare} is a name of librdkafka: options have the names of the Java client"
        raise ValueRefused(what, f"write {LIBRDKAFKA_NAMES[bare]}")
    if not re.fullmatch(r"\S+", name):
        raise ValueRefused("an option's name has no spaces", "write it as the Java client does")
    return name


class KafkaOptions(Mapping[str, str]):
    """Java client names to their real values, secrets replaced.

    Lookup and iteration give real values; `repr`, `str`, dumps and digests give `shown`.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, EnvText] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, name: str) -> str:
        return self._entries[name].reveal()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown()!r})"

    @staticmethod
    def check_name(name: str) -> str:
        """Return the name of an option. Raises ValueRefused where it is not one to set."""
        return _option_name(name, OWNED_OPTIONS)

    @property
    def secret_names(self) -> frozenset[str]:
        """Names whose values may not be shown: from the environment, or secret by their name."""
        return frozenset(
            name
            for name, value in self._entries.items()
            if value.has_variables or SECRET_NAME.search(name.casefold())
        )

    def shown(self) -> dict[str, str]:
        """Return what may be printed: variables by name, other secrets as `***`."""
        secret = self.secret_names
        return {
            name: str(value) if name not in secret or _is_only_variables(value) else MASK
            for name, value in self._entries.items()
        }

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        entries = handler.generate_schema(
            dict[Annotated[str, AfterValidator(cls.check_name)], EnvText]
        )
        return core_schema.no_info_after_validator_function(
            cls, entries, serialization=core_schema.plain_serializer_function_ser_schema(cls.shown)
        )


class ProducerOptions(KafkaOptions):
    """Options of the producer, none of which decides whether a record is there."""

    __slots__ = ()

    @staticmethod
    def check_name(name: str) -> str:
        """Return the name of an option. Raises ValueRefused where it is not one to set."""
        _option_name(name, OWNED_PRODUCER_OPTIONS)
        if name.startswith(SECURITY):
            raise ValueRefused(
                f"{name} is the same for reading and writing", "write it in source.kafka.options"
            )
        if name not in PRODUCER_OPTIONS:
            others = f"the options are {', '.join(PRODUCER_OPTIONS)}"
            instead = suggest(name, PRODUCER_OPTIONS, others)
            raise ValueRefused(f"{name} is not an option of the producer", instead)
        return name


_NOT_OWNED = {"not": {"enum": sorted(OWNED_OPTIONS)}}
OPTIONS_FORM = JsonForm({**TEXT_MAP_FORM.node, "propertyNames": _NOT_OWNED})
_KNOWN = {"enum": sorted(PRODUCER_OPTIONS)}
PRODUCER_FORM = JsonForm({**TEXT_MAP_FORM.node, "propertyNames": _KNOWN})


def _is_only_variables(value: EnvText) -> bool:
    return re.fullmatch(r"(\$\{\w+\})+", str(value)) is not None
