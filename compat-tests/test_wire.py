"""Fields of the metadata that a reader does not know are skipped: by the wheel, and by ours.

That is what the extension fields (100 and above, docs/wire.md) rest on, and what later versions may
rest on with ours. The peer here is a worker made of pyzmq alone; scheduler and server are real
ones. It runs a whole job, once without and once with further fields in every message and on every
level, and must get the same answers.
"""

import struct
import time

import pytest
import zmq

import harness
from harness import OURS, STOCK

LIMIT = 30  # seconds for one answer: the first comes when both processes have imported mxnet

# Roles, commands and groups of the wire (message.h:66, message.h:123, base.h:20).
WORKER = 1
ADD_NODE, BARRIER = 2, 3
ALL, WORKERS = 7, 4
UNSET = 2**31 - 1
# Commands of MXNet's server (kvstore_dist_server.h:45).
STOP_SERVER, SYNC_MODE = 2, 3
# Types of data frames (message.h:13): uint64, what stock calls char, int32.
FRAME_TYPES = bytes([8, 11, 3])


# ---- protobuf ------------------------------------------------------------------------------------

def varint(number):
    number &= 2**64 - 1
    out = bytearray()
    while True:
        out.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
        if not number:
            return bytes(out)


def field(number, value):
    """A varint, or with bytes a length-delimited field."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def fixed(number, value):
    """A field of four or eight bytes."""
    return varint(number << 3 | (5 if len(value) == 4 else 1)) + value


def parse(data):
    """{number: [values]}; a length-delimited value stays bytes."""
    at, fields = 0, {}

    def read_varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(data):
        key = read_varint()
        assert key & 7 in (0, 2), f"the answer has a field of wire type {key & 7}"
        value = read_varint()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        fields.setdefault(key >> 3, []).append(value)
    return fields


# ---- what is added to every message --------------------------------------------------------------

NOTHING = {"meta": b"", "control": b"", "node": b""}

# What ours sends itself, with values as in a job between nodes of ours.
OUR_FIELDS = {
    "meta": (field(100, 7) + field(101, b"the request failed")
             + field(102, field(2, 16) + field(3, 32))
             + field(103, field(1, 3) + field(2, 9)) + field(110, 1)),
    "control": (field(100, field(1, 3) + field(2, 9) + field(3, 0) + field(4, b"text"))
                + field(101, 9) + field(102, field(1, 1) + field(2, 5)
                                          + field(33, field(1, 1) + field(2, 1)))
                + field(110, field(1, b"NAME") + field(2, b"value"))),
    "node": field(100, 1) + field(101, 2**64 - 1) + field(104, 3),
}

# What nobody sends today: every wire type but groups, nested, repeated, the highest number there
# is.
LATER_FIELDS = dict.fromkeys(NOTHING, b"".join([
    field(109, 1), field(111, 2**64 - 1), field(112, b""), field(107, b"\xff" * 300),
    field(106, field(1, 5) + field(2, field(3, b"deeper"))), field(106, b"\x08\x01"),
    fixed(107, b"\0\1\2\3"), fixed(108, b"\0\1\2\3\4\5\6\7"),
    field(1000, -1), field(2**29 - 1, b"last"),
]))


# ---- the peer ------------------------------------------------------------------------------------

class Peer:
    """The only worker of a job. `extra` is put before and behind what a stock worker would send."""

    def __init__(self, port, extra):
        self.extra = extra
        self.context = zmq.Context()
        self.inbox = self.context.socket(zmq.ROUTER)
        self.inbox.setsockopt(zmq.LINGER, 0)
        self.port = self.inbox.bind_to_random_port("tcp://127.0.0.1")
        self.scheduler_port = port
        self.peers = {1: self._connect(port, None)}
        self.time = 0
        #: What came, as comparable values, in the order in which it was waited for.
        self.answers = []
        self._waiting = []

    def close(self):
        for peer in self.peers.values():
            peer.close(0)
        self.inbox.close(0)
        self.context.term()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def _connect(self, port, identity):
        peer = self.context.socket(zmq.DEALER)
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.SNDTIMEO, 1000 * LIMIT)
        if identity:
            peer.setsockopt(zmq.IDENTITY, identity)
        peer.connect(f"tcp://127.0.0.1:{port}")
        return peer

    def _wrap(self, level, data):
        return self.extra[level] + data + self.extra[level]

    def _send(self, to, frames=(), head=UNSET, body=b"", control=b"", customer=0, app=None,
              request=1, push=0, simple=0, pull=0):
        """In the order of the fields in which stock writes them."""
        meta = field(1, head)
        if body:
            meta += field(2, body)
        if control:
            meta += field(3, self._wrap("control", control))
        meta += field(4, request) + field(5, push) + field(6, simple)
        if app is not None:
            meta += field(7, app)
        meta += field(8, self.time)
        if frames:
            meta += field(9, FRAME_TYPES[:len(frames)])
        meta += field(10, customer) + field(12, pull) + field(13, 0)
        self.peers[to].send_multipart([self._wrap("meta", meta), *frames])
        self.time += 1
        return self.time - 1

    def _receive(self, wanted):
        """The next message for which `wanted(fields)` holds; others wait. Recorded."""
        limit = time.monotonic() + LIMIT
        while True:
            for message in self._waiting:
                if wanted(message[1]):
                    self._waiting.remove(message)
                    self.answers.append(comparable(message))
                    return message
            left = limit - time.monotonic()
            assert left > 0 and self.inbox.poll(1000 * left), (
                f"no answer within {LIMIT} s; before it came {self.answers}")
            sender, meta, *frames = self.inbox.recv_multipart()
            self._waiting.append((sender, parse(meta), frames))

    def register(self):
        node = (field(1, WORKER) + field(2, UNSET) + field(3, b"127.0.0.1") + field(4, self.port)
                + field(5, 0) + field(10, 0))
        self._send(1, control=field(1, ADD_NODE) + field(2, self._wrap("node", node)),
                   customer=UNSET, request=0)
        control = parse(self._receive(is_control(ADD_NODE))[1][3][0])
        nodes = [parse(node) for node in control[2]]
        (self.id,) = [n[2][0] for n in nodes if n[4][0] == self.port]
        (server,) = [n for n in nodes if n[1][0] == 0]
        self.server = server[2][0]
        identity = b"ps%d" % self.id
        self.peers[1].close()
        self.peers[1] = self._connect(self.scheduler_port, identity)
        self.peers[self.server] = self._connect(server[4][0], identity)

    def barrier(self, group):
        self._send(1, control=field(1, BARRIER) + field(3, group), app=0)
        self._receive(is_control(BARRIER))

    def command(self, head, body=b""):
        time = self._send(self.server, head=head, body=body, app=0, simple=1)
        self._receive(is_answer(time))

    def push(self, key, values):
        frames = [struct.pack("<Q", key), values, struct.pack("<i", len(values))]
        self._receive(is_answer(self._send(self.server, frames, head=0, app=0, push=1)))

    def pull(self, key):
        frames = [struct.pack("<Q", key), b""]
        answer = self._receive(is_answer(self._send(self.server, frames, head=0, app=0, pull=1)))
        assert answer[2][0] == frames[0]
        return answer[2][1]


def is_control(command):
    return lambda fields: 3 in fields and parse(fields[3][0])[1][0] == command


def is_answer(time):
    return lambda fields: 3 not in fields and fields[4] == [0] and fields[8] == [time]


def comparable(message):
    """A message without what may differ: ports, the scheduler's clock, fields of ours, and how many
    zeros are in front of the id in the name of the connection (docs/wire.md).

    Stock leaves the group of a barrier's answer and the customer of the scheduler's entry
    uninitialised.
    """
    sender, fields, frames = message
    meta = {number: values for number, values in fields.items() if number < 100 and number != 3}
    control = []
    if 3 in fields:
        # The scheduler counts its own messages.
        del meta[8]
        parts = parse(fields[3][0])
        # Servers and workers are sorted by their ports; the scheduler comes last.
        nodes = [comparable_node(parse(node)) for node in parts.get(2, [])]
        control = [parts[1], sorted(nodes[:-1], key=repr) + nodes[-1:]]
    assert sender.startswith(b"ps"), sender
    return int(sender[2:]), meta, control, frames


def comparable_node(fields):
    unlike = (4, 10) if fields[2] == [1] else (4,)
    return {number: values
            for number, values in fields.items() if number < 100 and number not in unlike}


def job(extra, scheduler, server):
    """A whole job with the peer as its only worker; what it was answered."""
    library = {"scheduler": scheduler, "server": server}
    first, second = (struct.pack("<4f", *numbers) for numbers in ((1, 2, 3, 4), (5, 6, 7, 8)))
    with harness.Cluster("nothing.py", workers=1, servers=1, library=library,
                         roles=("scheduler", "server")) as cluster:
        cluster.start()
        with Peer(cluster.port, extra) as peer:
            try:
                peer.register()
                peer.barrier(ALL)
                peer.push(3, first)  # the first push of a key initialises it
                assert peer.pull(3) == first
                for node in cluster.nodes.values():
                    node.poll()  # Which library it has; at the end it may be too late to look.
                peer.command(SYNC_MODE)
                peer.push(3, second)
                assert peer.pull(3) == second
                peer.barrier(WORKERS)
                peer.command(STOP_SERVER)
                peer.barrier(ALL)
            except (AssertionError, OSError) as error:
                cluster.stop()
                raise AssertionError(f"{error!r}\n{cluster.describe()}") from error
            assert cluster.wait(20), cluster.describe()
            answers = peer.answers
    cluster.check()
    for node in cluster.nodes.values():
        assert not any(word in node.err for word in ("dropped", "malformed")), cluster.describe()
    return answers


_plain = {}


def plain(scheduler, server):
    if (scheduler, server) not in _plain:
        _plain[scheduler, server] = job(NOTHING, scheduler, server)
    return _plain[scheduler, server]


def test_stock_skips_the_fields_that_ours_sends():
    answers = job(OUR_FIELDS, STOCK, STOCK)
    assert answers == plain(STOCK, STOCK)
    # Registration, three barriers, two commands, two pushes, two pulls.
    assert len(answers) == 10


@pytest.mark.parametrize("scheduler,server",
                         [(STOCK, STOCK), (OURS, OURS), (STOCK, OURS), (OURS, STOCK)])
def test_fields_of_later_versions_are_skipped(scheduler, server):
    assert job(LATER_FIELDS, scheduler, server) == plain(scheduler, server)


def test_ours_answers_a_stranger_as_stock_does():
    assert plain(OURS, OURS) == plain(STOCK, STOCK)


def test_what_is_added_does_reach_the_parser():
    """The control. Of a field that is there several times protobuf takes the last one: with a known
    number in the same place the answer is another."""
    with harness.Cluster("nothing.py", workers=1, servers=1, library=STOCK,
                         roles=("scheduler", "server")) as cluster:
        cluster.start()
        with Peer(cluster.port, {**NOTHING, "node": field(10, 5)}) as peer:
            peer.register()
            (answer,) = peer.answers
    (entry,) = [node for node in answer[2][1] if node[2] == [peer.id]]
    assert entry[10] == [5], answer
