"""Cases of a parametrized test, some of which are left to a slower run."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def but(mark: pytest.MarkDecorator, cases: Iterable[Any], is_kept: Callable[..., bool]) -> list:
    """Return all cases, marked but for those that are kept. A tuple has a value a parameter."""
    tuples = (case if type(case) is tuple else (case,) for case in cases)
    return [pytest.param(*case, marks=[] if is_kept(*case) else mark) for case in tuples]
