"""Write docs/images: a part of what `make docs` runs."""

import sys

from .every import PICTURES, TARGET, render_files
from .shapes import find_faults


def main() -> int:
    """Write the pictures; none where one of them could not be read."""
    faults = [f"{each.name}: {fault}" for each in PICTURES for fault in find_faults(each)]
    if faults:
        print("\n".join(faults))
        return 1
    for name, text in render_files().items():
        (TARGET / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
