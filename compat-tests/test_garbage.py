"""What comes to a port from strangers: stock dies of it; ours drops it, says so, and goes on."""

import random
import re
import socket

import harness
from harness import OURS, STOCK, Cluster
from programs.ports import listening_ports
from test_failures import STOCK_LIMIT, failed


def hostile_frames():
    """Multipart messages as a peer might send them that is broken, foreign or hostile."""
    rng = random.Random(5)
    yield [b""]
    yield [b"\xff" * 4]
    yield [b"\x00" * 64, b"", b""]
    yield [b"GET / HTTP/1.1\r\n\r\n"]
    yield [bytes(rng.randrange(256) for _ in range(200)) for _ in range(4)]
    yield [b"\x08\x01" * 1000]
    # A length-delimited field (2: body) that claims 2 GB; then one cut short.
    yield [b"\x12\xff\xff\xff\xff\x07abc"]
    yield [b"\x12\x10abc"]

    def data_message(app, customer, timestamp, frames, push=1, request=1):
        meta = bytes([0x08, 0, 0x20, request, 0x28, push, 0x30, 0, 0x38, app, 0x40]) + timestamp
        return [meta + bytes([0x4a, 2, 8, 11, 0x50, customer, 0x60, 1 - push, 0x68, 0]), *frames]

    key = (3).to_bytes(8, "little")
    # A push whose keys are no multiple of 8 bytes; one whose lens do not fit; one without frames;
    # one whose lens are negative; one frame too many; an array that nobody has.
    yield data_message(0, 0, b"\x00", [b"abc", b"d", b"efghi"])
    yield data_message(0, 0, b"\x00", [key, b"four", b"\xff\xff\xff\x7f"])
    yield data_message(0, 0, b"\x00", [])
    yield data_message(0, 0, b"\x00", [key, b"four", b"\xff\xff\xff\xff"])
    yield data_message(0, 0, b"\x00", [key, b"four", b"\x04\0\0\0", b"more", b"more"])
    yield data_message(0, 0, b"\x00", [b"\xff" * 8, b""], push=0)
    # Responses to requests that nobody made; applications and customers that nobody has.
    yield data_message(0, 0, b"\xff\xff\xff\xff\x07", [key, b"four"], request=0)
    yield data_message(0, 0, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", [key, b""], request=0)
    yield data_message(99, 0, b"\x00", [key, b""])
    yield data_message(0, 99, b"\x00", [key, b""])
    # Commands: terminate, unknown, barriers of groups that do not exist, an acknowledgement.
    yield [b"\x1a\x02\x08\x01"]
    yield [b"\x1a\x02\x08\x7f"]
    yield [b"\x1a\x05\x08\x03\x18\x8f\x4e\x20\x01"]
    yield [b"\x1a\x04\x08\x03\x18\x00\x20\x01"]
    yield [b"\x1a\x05\x08\x04\x20\xff\x01"]
    # A registration without a node, one of a node with a role that does not exist.
    yield [b"\x1a\x02\x08\x02"]
    yield [b"\x1a\x08\x08\x02\x12\x04\x08\x63\x10\x63"]
    for _ in range(40):
        yield [bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
               for _ in range(rng.randrange(1, 6))]


def attack(ports):
    """Garbage to every port, raw and inside ZMTP, with identities of strangers and of members."""
    import zmq
    anything = bytes(random.Random(6).choices(range(256), k=999))
    for port in ports:
        for blob in (b"", b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, anything):
            with socket.create_connection(("127.0.0.1", port), 5) as raw:
                raw.sendall(blob)
    context = zmq.Context()
    try:
        for port in ports:
            for identity in (None, b"ps12345", b"ps9", b"psx", b"ps99999999999999999999",
                             b"a" * 255):
                peer = context.socket(zmq.DEALER)
                peer.setsockopt(zmq.LINGER, 500)
                peer.setsockopt(zmq.SNDTIMEO, 2000)
                if identity:
                    peer.setsockopt(zmq.IDENTITY, identity)
                peer.connect(f"tcp://127.0.0.1:{port}")
                for frames in hostile_frames():
                    peer.send_multipart(frames)
                peer.close()
    finally:
        context.term()


def attacked(library, limit):
    with Cluster("slow.py", args=[60, 0.05], library=library) as cluster:
        cluster.start()
        assert cluster.nodes["worker0"].wait_for("round 3", 40), cluster.describe()
        ports = sorted({p for n in cluster.nodes.values() for p in listening_ports(n.pid)})
        assert len(ports) >= 5, ports
        attack(ports)
        cluster.wait(limit)
    return cluster


def test_stock_dies_of_garbage():
    assert failed(attacked(STOCK, STOCK_LIMIT))


def test_garbage_is_dropped_with_a_warning():
    cluster = attacked(OURS, 60).check()
    assert cluster.digests == harness.run("slow.py", 60, 0.01, library=OURS).digests
    for node in cluster.nodes.values():
        warnings = [line for line in node.err.splitlines()
                    if re.search("drop|malform|garbage", line)]
        assert 1 <= len(warnings) <= 60, (len(warnings), node.describe())
