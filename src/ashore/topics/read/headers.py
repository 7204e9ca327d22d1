"""Headers of a record, as Python's Kafka client has them.

What it promises: what the client cannot read is reported, and leaves no error behind.
"""

from operator import methodcaller

from confluent_kafka import Message

Header = tuple[str, bytes | None]
# Where a key is not UTF-8 the client returns a list, and leaves an error behind. A plain call would
# let it pass, to be raised by whatever comes next; calls from C look for it.
_ask_headers = methodcaller("headers")


def read_headers(message: Message) -> list[Header] | None:
    """Return the headers of a record; None: the client cannot read them.

    It requires keys in UTF-8, and takes each to end at its first NUL.
    """
    try:
        return list(_ask_headers(message) or [])
    except (UnicodeDecodeError, SystemError):
        return None
