"""The times that tables hold: the years 1 to 9999, in UTC.

What it is: the first and the last of them, in the units in which times are counted.
What it promises: every reader that Ashore writes for, and Python itself, has such a time.
"""

FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999
FIRST_US = FIRST_MS * 1_000
LAST_US = LAST_MS * 1_000 + 999
_MS_PER_DAY = 86_400_000
FIRST_DAY = FIRST_MS // _MS_PER_DAY
LAST_DAY = LAST_MS // _MS_PER_DAY
