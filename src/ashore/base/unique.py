"""Names that are used once.

What it promises: 64 bits from the operating system a name, never a counter or an attempt number,
so that a call which is applied late or twice cannot hit a name that another writer uses.
"""

import secrets
from collections.abc import Callable

Entropy = Callable[[], str]


def unique() -> str:
    """Return 16 lower-case hexadecimal digits from the operating system."""
    return secrets.token_hex(8)
