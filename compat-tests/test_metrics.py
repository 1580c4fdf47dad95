"""What PSLITE_METRICS writes about a job whose messages are known (programs/counted.py)."""

import json

import pytest

import harness
from harness import NATIVE, OURS

ROUNDS = 10
VALUE_BYTES = 50 * 20 * 4
DATA = ("push", "pull", "push-pull")
NODES = ["scheduler", "server0", "server1", "worker0", "worker1"]


def run(env, args=()):
    """The lines of each node, by its name."""
    with harness.Cluster("counted.py", args=args,
                         library={"scheduler": OURS, "server": [NATIVE, OURS], "worker": OURS},
                         env={"PSLITE_METRICS": "%r.jsonl:0.02", **env}) as cluster:
        cluster.start()
        cluster.wait()
        files = {path.stem: path.read_text() for path in cluster.folder.glob("*.jsonl")}
    cluster.check()
    assert sorted(files) == NODES, (sorted(files), cluster.describe())
    return {name: [json.loads(line) for line in text.splitlines()] for name, text in files.items()}


def total(line, name, field="value", **labels):
    """The sum over the samples with that name and those labels; a label may be a tuple of
    values."""
    def fits(sample):
        return all(sample.get(label) in (value if isinstance(value, tuple) else (value,))
                   for label, value in labels.items())
    return sum(sample[field]
               for sample in line["metrics"] if sample["name"] == name and fits(sample))


@pytest.mark.parametrize("transport,carrier", [("auto", "shm"), ("tcp", "tcp"), ("zmq", "zmq")])
def test_the_numbers_of_a_known_job(transport, carrier):
    lines = run({"PSLITE_TRANSPORT": transport, "PSLITE_ELASTIC": "0"})
    last = {name: all_of_it[-1] for name, all_of_it in lines.items()}
    workers, servers = NODES[3:], NODES[1:3]

    for name, line in last.items():
        assert name in (line["role"], f"{line['role']}{line['rank']}"), line

    for worker in workers:
        inits = int(worker == "worker0")
        mine = last[worker]
        sent = {kind: total(mine, "messages", direction="sent", kind=kind) for kind in DATA}
        assert sent == {"push": ROUNDS + inits, "pull": ROUNDS, "push-pull": 0}, mine
        assert total(mine, "bytes", direction="sent", kind="push") >= VALUE_BYTES * sent["push"]
        # Every request was answered, and every answer timed.
        for kind in ("push", "pull"):
            assert total(mine, "request_time", "count", kind=kind) == sent[kind], mine
        # Both ends have counted the same.
        for server in servers:
            theirs = last[server]
            for name in ("messages", "bytes"):
                for kind in (*DATA, "command", "response"):
                    for one, other in (("sent", "received"), ("received", "sent")):
                        here = total(mine, name, peer=server, kind=kind, direction=one)
                        there = total(theirs, name, peer=worker, kind=kind, direction=other)
                        assert here == there, (name, kind, one, worker, server, mine, theirs)

    for server in servers:
        requests = total(last[server], "messages", direction="received", kind=DATA)
        assert total(last[server], "store_time", "count", kind=DATA) == requests, last[server]
    served = sum(total(last[server], "store_time", "count", kind="push") for server in servers)
    assert served == 2 * ROUNDS + 1

    # The data took one way, and it is named.
    for worker in workers:
        for server in servers:
            data = total(last[worker], "bytes", peer=server, direction="sent", kind=DATA)
            carried = {way: total(last[worker], "carried_bytes", peer=server, direction="sent",
                                  carrier=way)
                       for way in ("shm", "tcp", "zmq")}
            assert carried[carrier] >= data, (carried, data)
            others = {"shm", "tcp"} - {carrier}
            assert not any(carried[way] for way in others), carried


@pytest.mark.parametrize("env", [
    {"PSLITE_TRANSPORT": "shm"}, {"PSLITE_TRANSPORT": "tcp"},
    {"PSLITE_ELASTIC": "1", "PSLITE_REPLICAS": "0"}, {"PSLITE_ELASTIC": "1"},
], ids=lambda env: "-".join(env.values()))
def test_values_come_with_the_answers_to_pushes(env):
    """Where keys may move: after the first round no worker asks for what it pulls."""
    lines = run(env)
    for worker in NODES[3:]:
        sent = {kind: total(lines[worker][-1], "messages", direction="sent", kind=kind)
                for kind in DATA}
        inits = int(worker == "worker0")
        assert sent == {"push": ROUNDS + inits, "pull": 1, "push-pull": 0}, lines[worker][-1]


@pytest.mark.parametrize("env,lands", [
    ({"PSLITE_TRANSPORT": "tcp"}, True),
    ({"PSLITE_TRANSPORT": "tcp", "PSLITE_CONNECTIONS": "3"}, True),
    ({"PSLITE_TRANSPORT": "tcp", "PSLITE_ELASTIC": "1"}, True),
    ({"PSLITE_TRANSPORT": "shm"}, False),
    ({"PSLITE_TRANSPORT": "zmq"}, False),
], ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "")
def test_pulled_values_are_copied_only_where_they_must_be(env, lands):
    """4.8 MB, cut over both servers. Over TCP they are received where MXNet wants them."""
    rows = 60_000
    lines = run(env, [rows])
    for worker in NODES[3:]:
        copied = total(lines[worker][-1], "pulls_copied_bytes")
        assert copied == (0 if lands else ROUNDS * rows * 20 * 4), lines[worker][-1]


def test_lines_come_at_the_interval_and_only_grow():
    lines = run({})
    for name in NODES[3:]:
        assert len(lines[name]) >= 2, lines[name]
        times = [line["uptime"] for line in lines[name]]
        assert times == sorted(times)
        for metric in ("messages", "bytes"):
            numbers = [total(line, metric) for line in lines[name]]
            assert numbers == sorted(numbers), (name, metric, numbers)
