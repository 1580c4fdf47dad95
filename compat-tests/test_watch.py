"""`pslite status --watch` on a terminal: what is seen, and that nothing stays behind."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import harness

LIMIT = 30


class Terminal:
    """The program on a terminal of its own, beside a scheduler whose job does not begin."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        port = str(harness.free_port())
        words = ["-n", "1", "-s", "1", "--host", "127.0.0.1", "--port", port]
        self.scheduler = subprocess.Popen([harness.PROGRAM, "scheduler", *words],
                                          stderr=subprocess.DEVNULL)
        self.stack.callback(self.end, self.scheduler)
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        # A new one has no rows and no columns.
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        # A session of its own, whose terminal this is: else its end is told to nobody.
        self.program = subprocess.Popen(
            ["setsid", "--ctty", harness.PROGRAM, "status", "--watch", "0.1",
             "--scheduler", f"127.0.0.1:{port}"],
            stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        self.stack.callback(self.end, self.program)
        self.seen = b""
        return self

    def __exit__(self, *_):
        self.stack.close()

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    def read(self, what):
        """Reads until that was drawn."""
        until = time.monotonic() + LIMIT
        while what not in self.seen:
            assert time.monotonic() < until, self.seen[-2000:]
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(BlockingIOError):
                    self.seen += os.read(self.master, 65536)


def test_a_key_leaves_and_the_terminal_is_given_back():
    with Terminal() as terminal:
        terminal.read(b"forming")
        os.write(terminal.master, b"q")
        # The other screen, which keeps what was there before, is left.
        terminal.read(b"\x1b[?1049l")
        assert terminal.program.wait(LIMIT) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_gives_the_terminal_back(number):
    with Terminal() as terminal:
        terminal.read(b"forming")
        terminal.program.send_signal(number)
        terminal.read(b"\x1b[?1049l")
        assert terminal.program.wait(LIMIT) == 128 + number


def test_it_ends_with_its_terminal():
    with Terminal() as terminal:
        terminal.read(b"forming")
        os.close(terminal.master)
        assert terminal.program.wait(LIMIT) != 0
