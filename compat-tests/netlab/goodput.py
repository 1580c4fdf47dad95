"""Measures what a lab's links carry: payload of plain TCP, by the receiver's clock.

    goodput.py serve ADDRESS PORT FLOWS SECONDS [WINDOW]
                                        takes FLOWS connections; after SECONDS says, as a line of
                                        JSON, how many Mbit/s came in over all of them in each
                                        window of that many seconds (default: one window). The first
                                        window begins LEAD seconds after all have come: slow start,
                                        and the bucket's first burst, are over
    goodput.py send PORT ADDRESS...     sends to all of them at once until they close; ends then
    goodput.py hear ADDRESS PORT        prints every datagram, by UDP, with the address it came from
    goodput.py say ADDRESS PORT TEXT    sends one datagram

Every process ends itself after LIMIT seconds, whatever happens.
"""

import json
import selectors
import signal
import socket
import sys
import time

LEAD = 0.7
LIMIT = 120
BLOCK = 1 << 20


def serve(address, port, flows, seconds, window=None):
    flows, seconds = int(flows), float(seconds)
    window = float(window or seconds)
    listener = socket.create_server((address, int(port)), backlog=256)
    print("ready", flush=True)
    with selectors.DefaultSelector() as selector:
        for _ in range(flows):
            connection, _ = listener.accept()
            selector.register(connection, selectors.EVENT_READ)
        _count(selector, LEAD)
        rates = []
        while len(rates) < round(seconds / window):
            size, took = _count(selector, window)
            rates.append(size * 8 / took / 1e6)
    print(json.dumps({"mbit": rates}), flush=True)


def _count(selector, seconds):
    """Reads for that long: bytes, and the seconds that it was."""
    memory = bytearray(BLOCK)
    begin = now = time.monotonic()
    size = 0
    while now < begin + seconds:
        for key, _ in selector.select(begin + seconds - now):
            size += key.fileobj.recv_into(memory)
        now = time.monotonic()
    return size, now - begin


def send(port, *addresses):
    with selectors.DefaultSelector() as selector:
        for address in addresses:
            connection = socket.create_connection((address, int(port)))
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_WRITE)
        memory = bytes(BLOCK)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    key.fileobj.send(memory)
                except BlockingIOError:
                    pass
                except ConnectionError:
                    selector.unregister(key.fileobj)


def hear(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, int(port)))
        print("ready", flush=True)
        while True:
            text, peer = sock.recvfrom(BLOCK)
            print(peer[0], text.decode(), flush=True)


def say(address, port, text):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(text.encode(), (address, int(port)))


if __name__ == "__main__":
    signal.alarm(LIMIT)
    {"serve": serve, "send": send, "hear": hear, "say": say}[sys.argv[1]](*sys.argv[2:])
