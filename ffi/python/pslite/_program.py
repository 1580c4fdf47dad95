"""The command `pslite` of the wheel: the program that is inside it."""

import os
import sys
from pathlib import Path
from typing import NoReturn

PROGRAM = Path(__file__).resolve().parent / "pslite"


def main() -> NoReturn:
    """Becomes the program."""
    try:
        os.execv(PROGRAM, [sys.argv[0], *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"pslite: {PROGRAM}: {error.strerror}. This package was installed without the program; "
            "install the wheel that scripts/wheel builds, or run cargo build --release and use "
            "target/release/pslite"
        )
