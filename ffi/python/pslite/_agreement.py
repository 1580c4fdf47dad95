"""What all workers have to say alike: servers compare it (src/core/store/agreement.rs), and a
worker goes on when all have said the same.

Messages are protobuf (src/core/wire/agreement.rs), written and read here byte by byte: texts and
numbers are all they have.
"""

import hashlib
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from . import _library, errors

__all__ = ["Agreement"]

#: The command (src/core/store/command/head.rs). Servers that do not know it answer without a body.
HEAD = 100
#: Seconds between two questions: the first, and the longest.
_FIRST, _LONGEST = 0.002, 0.1
_AGREED, _WAITS, _DIFFERS, _AGAIN = 1, 2, 3, 4
_WARNING = 1
#: Letters of a subject or a value that are sent.
_TEXT_MAX = 500


class _Answer(NamedTuple):
    state: int
    text: str
    makes_keys: bool


class Agreement:
    """What one store says, step by step. Of one thread at a time.

    command: sends one to all servers, and gives the bodies of their answers. back: this worker took
    the place of one that died, so it says what the others have said before. stall_report: what
    PSLITE_STALL_REPORT says, if it is set.
    """

    def __init__(self, command: Callable[[int, bytes], List[bytes]], back: bool,
                 stall_report: Optional[str]) -> None:
        self._command = command
        self._limit = _seconds(stall_report)
        self.back = back
        #: Steps that all have done.
        self._done = 0
        self._differs = False
        #: Some server compares. Known after the first step.
        self.compares = True
        #: The first push of a key by this worker makes the key, and counts nowhere.
        self.makes_keys = False

    def say(self, facts: Dict[str, str], *, makes: bool = False) -> None:
        """Returns when all workers have said the same. Of each subject, what is said of it. makes:
        arrays, whose values the worker of rank 0 has sent before.

        Raises WorkersDiffer, with what they say.
        """
        step, full = self._done + 1, True
        begun = time.monotonic()
        pause, due = _FIRST, begun + self._limit
        while True:
            # One that came back always says all: nobody keeps what it said.
            full = full or self.back
            found = self._ask(step, facts if full else {}, repeated=not full, makes=makes)
            if not found:
                return
            if any(each.state == _AGREED for each in found):
                self._done = step
                return
            full = any(each.state == _AGAIN for each in found)
            now = time.monotonic()
            if now >= due:
                text = "; ".join(sorted({each.text for each in found if each.text}))
                _say(f"{text}: {now - begun:.0f} s so far")
                due = now + 2 * (now - begun)
            time.sleep(pause)
            pause = min(_LONGEST, 1.5 * pause)

    def knows(self, facts: Dict[str, str]) -> bool:
        """True if the others have said that before; of a worker that came back. Does not wait."""
        return any(each.state == _AGREED for each in self._ask(0, facts))

    def stands(self) -> None:
        """This worker waits for a round. Raises WorkersDiffer if that waits for somebody who waits
        for this worker in a later step."""
        self._ask(self._done, {}, stands=True)

    def close(self) -> None:
        """This worker says nothing more. After a difference the others hear of that instead."""
        if not self._differs:
            self._ask(self._done, {}, closes=True)

    def _ask(self, step: int, facts: Dict[str, str], *, repeated: bool = False,
             closes: bool = False, stands: bool = False, makes: bool = False) -> List[_Answer]:
        body = b"".join((
            _number(1, step), *(_bytes(2, _text(1, _short(subject)) + _text(2, _short(value)))
                                for subject, value in facts.items()),
            _number(3, self.back), _number(4, repeated), _number(5, closes), _number(6, stands),
            _number(8, makes)))
        bodies = self._command(HEAD, body)
        self.compares = bool(bodies)
        found = [_answer(each) for each in bodies]
        self.makes_keys = any(each.makes_keys for each in found)
        for each in found:
            if each.state == _DIFFERS:
                self._differs = True
                raise errors.WorkersDiffer(each.text)
        return found


def _short(text: str) -> str:
    """A long text by its begin and its hash: servers take 4096 bytes."""
    if len(text) <= _TEXT_MAX:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"{text[:_TEXT_MAX // 2]}... (hash {digest[:16]})"


def _seconds(stall_report: Optional[str]) -> float:
    """After how long a wait is said, as the library reads it."""
    try:
        seconds = float(stall_report or 10)
    except ValueError:
        seconds = 10.0
    return seconds if seconds > 0 else float("inf")


def _say(text: str) -> None:
    _library.get().pslite_log(_WARNING, text.encode("utf-8", "replace"))


def _answer(body: bytes) -> _Answer:
    state, text, makes_keys = 0, "", False
    for field, value in _fields(body):
        if field == 1 and isinstance(value, int):
            state = value
        elif field == 2 and isinstance(value, bytes):
            text = value.decode("utf-8", "replace")
        elif field == 3:
            makes_keys = bool(value)
    return _Answer(state, text, makes_keys)


# ---- protobuf ------------------------------------------------------------------------------------

def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value)) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode("utf-8", "replace"))


def _fields(body: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """Numbers and texts; what is malformed ends it."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while at < len(body):
            byte = body[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        return number

    while at < len(body):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            yield tag >> 3, body[at:at + size]
            at += size
        else:
            return
