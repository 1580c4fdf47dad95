"""HTTP by raw sockets, so that a test says each byte: what test_http.py and test_page.py share."""

import json
import socket
import time

import harness

HOST = "127.0.0.1"


def connect(port, timeout=20):
    return socket.create_connection((HOST, port), timeout=harness.PATIENCE * timeout)


def said(target, method="GET", host="localhost", fields="", body=""):
    """A request as bytes."""
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n{body}".encode()


def all_of(connection):
    """All that comes until the other side ends."""
    found = b""
    while True:
        part = connection.recv(65536)
        if not part:
            return found
        found += part


def answer(connection):
    """Status, fields and body of what comes."""
    head, _, body = all_of(connection).partition(b"\r\n\r\n")
    if not head:
        raise ConnectionError("it ended without an answer")
    lines = head.decode().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:])
    assert "Content-Length" in fields or "stream" in fields["Content-Type"], fields
    return int(lines[0].split()[1]), fields, body.decode()


def ask(port, target="/", **how):
    with connect(port) as connection:
        connection.sendall(said(target, **how))
        return answer(connection)


def get(port, target):
    """The body of what must be there."""
    status, _, body = ask(port, target)
    assert status == 200, (target, status, body)
    return body


def until(what, seconds=30):
    """What `what` returns as soon as that is something; a port may not be listened at yet."""
    limit, last = harness.patient(seconds), None
    while time.monotonic() < limit:
        try:
            last = what()
            if last:
                return last
        except OSError as error:
            last = error
        time.sleep(0.05)
    raise AssertionError(last)


def listens(port):
    return until(lambda: ask(port, "/healthz")[0] == 200)


class Stream:
    """What /api/live tells."""

    def __init__(self, port, since=0):
        self.connection = connect(port, 30)
        self.connection.sendall(said(f"/api/live?since={since}"))
        self.rest = b""
        head = self.part(b"\r\n\r\n").decode()
        assert head.startswith("HTTP/1.1 200") and "text/event-stream" in head, head

    def part(self, end=b"\n\n"):
        while end not in self.rest:
            more = self.connection.recv(65536)
            assert more, "the stream ended"
            self.rest += more
        found, _, self.rest = self.rest.partition(end)
        return found

    def next(self, kind):
        """The data of the next message of that kind."""
        while True:
            lines = self.part().decode().splitlines()
            if f"event: {kind}" in lines:
                return json.loads("".join(line[6:] for line in lines if line.startswith("data: ")))

    def close(self):
        self.connection.close()
