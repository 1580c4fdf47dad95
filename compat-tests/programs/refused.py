"""What a call of the Python package refuses, for programs that print it."""

from pslite import errors


def refused(call):
    """Which exception it raises, and its text."""
    try:
        call()
    except errors.PsliteError as error:
        return [type(error).__name__, str(error)]
    return None
