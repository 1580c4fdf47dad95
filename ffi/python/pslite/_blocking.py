"""Calls of the library that block, so that Ctrl-C is heard: on a thread of their own."""

import threading
from typing import Callable, List, Optional

from . import _library

#: Seconds between two looks whether a signal came.
LOOK = 0.05


def run(call: Callable[[], int], stop: Callable[[], None], joins: bool = True) -> None:
    """Runs `call`, which gives a status, and raises what that says.

    On the main thread a signal's handler runs meanwhile. If that raises, as Ctrl-C does, `stop` is
    called, which has to end the call; the exception goes on when it has ended. Without `joins` it
    goes on at once, and nobody waits for the call any more.
    """
    if threading.current_thread() is not threading.main_thread():
        _library.check(call())
        return
    over = threading.Event()
    failed: List[Optional[BaseException]] = [None]

    def work() -> None:
        try:
            # The text of a failure belongs to the thread of the call.
            _library.check(call())
        except BaseException as error:
            failed[0] = error
        finally:
            over.set()

    thread = threading.Thread(target=work, name="pslite call", daemon=True)
    thread.start()
    try:
        while not over.wait(LOOK):
            pass
    except BaseException:
        stop()
        if joins:
            thread.join()
        raise
    thread.join()
    if failed[0] is not None:
        raise failed[0]
