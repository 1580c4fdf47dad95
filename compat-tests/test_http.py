"""What nodes answer over HTTP (PSLITE_HTTP, docs/watch.md), asked by raw sockets of real nodes."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from concurrent import futures
from pathlib import Path

import pytest

import harness
from elastic_job import pslite
from harness import NATIVE, OURS, Cluster
from raw_http import HOST, Stream, all_of, answer, ask, connect, get, listens, said, until

#: Most of the time passes in waiting (pytest.ini).
pytestmark = pytest.mark.waits

LIBRARY = {"scheduler": NATIVE, "server": NATIVE, "worker": OURS}
#: As in src/web.
CALLERS, FOLLOWERS, SAY = 32, 16, 5


def alone(setting, library=NATIVE, **more):
    """A scheduler that waits for nodes."""
    return Cluster("nothing.py", roles=("scheduler",), library={"scheduler": library},
                   env={"PSLITE_HTTP": setting, **more})


@pytest.fixture(scope="module")
def scheduler():
    port = harness.free_port()
    with alone(port) as cluster:
        cluster.start()
        listens(port)
        yield port


@pytest.fixture(scope="module")
def job():
    """A job that trains, in which all nodes answer; and their ports by name."""
    names = ["scheduler", "server0", "server1", "worker0", "worker1"]
    ports = {name: harness.free_port() for name in names}
    with Cluster("elastic.py", ("dist_sync", "none", 3000, 0.05, "small"), library=LIBRARY,
                 env={"PS_VERBOSE": 1},
                 node_env={name: {"PSLITE_HTTP": port} for name, port in ports.items()}) as cluster:
        cluster.start()
        assert cluster.nodes["worker0"].wait_for("round 1\n", 60), cluster.describe()
        yield cluster, ports


def threads(pid):
    return [Path(path, "comm").read_text().strip() for path in Path(f"/proc/{pid}/task").iterdir()]


def listening(pid):
    """How many TCP ports a process listens at."""
    sockets = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(row.split()[3] == "0A" and f"socket:[{row.split()[9]}]" in sockets for row in rows)


# ---- what is where


def test_every_node_says_whether_it_is_well_and_the_scheduler_has_the_page(job):
    cluster, ports = job
    for name, port in ports.items():
        assert get(port, "/healthz") == get(port, "/livez") == "ok\n"
        assert get(port, "/readyz") == "ready\n", name
        is_scheduler = name == "scheduler"
        for target in ("/", "/page.css", "/draw.js", "/page.js", "/icon.svg", "/api/status",
                       "/api/events", "/api/events?since=3"):
            status, _, body = ask(port, target)
            assert status == (200 if is_scheduler else 404), (name, target, body)
            assert is_scheduler or "at its scheduler" in body
    shown = json.loads(get(ports["scheduler"], "/api/status"))
    told = json.loads(pslite(cluster, "status", "--json").stdout)
    for key in ("scheduler", "phase", "workers", "servers", "epoch"):
        assert shown[key] == told[key]
    nodes = [[{key: node[key] for key in ("role", "rank", "id", "address", "state")}
              for node in status["nodes"]] for status in (shown, told)]
    assert nodes[0] == nodes[1] and len(nodes[0]) == 4


def test_answers_keep_the_page_safe(scheduler):
    for target in ("/", "/page.js", "/api/status", "/healthz", "/nothing"):
        _, fields, body = ask(scheduler, target)
        policy = fields["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'"), policy
        assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert fields["X-Content-Type-Options"] == "nosniff"
        assert fields["X-Frame-Options"] == "DENY"
        assert fields["Cache-Control"] == "no-store" and fields["Connection"] == "close"
        assert int(fields["Content-Length"]) == len(body.encode())
        assert not [field for field in fields if field.startswith("Access-Control")]
    types = {target: ask(scheduler, target)[1]["Content-Type"].split(";")[0]
             for target in ("/", "/page.css", "/page.js", "/icon.svg", "/api/status")}
    assert list(types.values()) == ["text/html", "text/css", "text/javascript", "image/svg+xml",
                                    "application/json"]


def test_a_node_is_ready_when_the_job_is_complete():
    ports = [harness.free_port(), harness.free_port()]
    with Cluster("nothing.py", roles=("scheduler", "server"), servers=1, library=LIBRARY,
                 node_env={"scheduler": {"PSLITE_HTTP": ports[0]},
                           "server": {"PSLITE_HTTP": ports[1]}}) as cluster:
        cluster.start()
        for port in ports:
            listens(port)
        assert get(ports[0], "/readyz") == "ready\n"
        status, _, why = until(lambda: [found for found in [ask(ports[1], "/readyz")]
                                        if "1 of 1 servers are here" in found[2]])[0]
        assert status == 503 and why.startswith("the job is not complete: "), why
        assert "0 of 2 workers are here" in why, why


def test_a_server_that_is_drained_says_so():
    port = harness.free_port()
    with Cluster("elastic.py", ("dist_sync", "none", 3000, 0.05), library=LIBRARY,
                 env={"PS_VERBOSE": 1, "PSLITE_ELASTIC": 1, "PSLITE_REPLICAS": 0},
                 node_env={"server0": {"PSLITE_HTTP": port}}) as cluster:
        cluster.start()
        assert cluster.nodes["worker0"].wait_for("round 1\n", 60), cluster.describe()
        server = cluster.nodes["server0"]
        rank = re.search(r"this is server (\d)", server.output)[1]
        assert get(port, "/readyz") == "ready\n"
        # It may be so for less time than an answer is kept.
        said = set()

        def has_left():
            said.add(ask(port, "/readyz")[::2])
            return server.poll()
        with futures.ThreadPoolExecutor() as beside:
            drained = beside.submit(pslite, cluster, "drain", f"server:{rank}")
            until(lambda: server.poll() or has_left())
            assert drained.result().returncode == 0, drained
        assert said <= {(200, "ready\n"), (503, "this server is being emptied\n"),
                        (503, "this server was emptied, and has left the job\n"),
                        (503, "this node ends\n")}, said


# ---- what is refused


@pytest.mark.parametrize("status,request_bytes", [
    (421, said("/api/status", host="evil.example")),
    (421, said("/", host="127.0.0.1.evil.example:9400")),
    (400, b"GET / HTTP/1.1\r\n\r\n"),
    (400, said("/", fields="Host: localhost\r\n")),
    (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    (400, said("http://localhost/")),
    (400, said("/api/live?since=x")),
    (400, said("/", method="POST", fields="Transfer-Encoding: chunked\r\n", body="0\r\n\r\n")),
    (400, said("/", method="POST", fields="Content-Length: 1\r\nContent-Length: 1\r\n", body="a")),
    (404, said("/../etc/passwd")),
    (405, said("/", method="POST", fields="Content-Length: 3\r\n", body="abc")),
    (405, said("/", method="DELETE")),
    (405, said("/", method="OPTIONS")),
    (413, said("/", method="POST", fields="Content-Length: 4097\r\n")),
    (431, said("/", fields=f"X: {'a' * 9000}\r\n")),
    (431, said("/", fields="X: a\r\n" * 100)),
    (431, b"GET /" + b"a" * 100_000),
    (505, b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n"),
])
def test_what_is_no_proper_request_is_refused(scheduler, status, request_bytes):
    with connect(scheduler) as connection:
        connection.sendall(request_bytes)
        found, _, body = answer(connection)
        assert (found, body[-1]) == (status, "\n"), (request_bytes[:80], found, body)
    # It goes on.
    assert get(scheduler, "/healthz") == "ok\n"


def test_this_host_may_be_named_in_any_usual_way(scheduler):
    # `ssh -L` gives another port.
    for host in (f"127.0.0.1:{scheduler}", "localhost", "LOCALHOST:8080", "[::1]:80"):
        assert ask(scheduler, "/", host=host)[0] == 200, host
    status, fields, body = ask(scheduler, "/api/status", method="HEAD")
    assert (status, body) == (200, "") if fields["Content-Length"] == "0" else status == 200


def test_who_says_a_request_too_slowly_is_told_so(scheduler):
    with connect(scheduler) as slow, connect(scheduler) as silent:
        began = time.monotonic()
        for byte in said("/")[:8]:
            slow.send(bytes([byte]))
            time.sleep(0.1)
        status, _, _ = answer(slow)
        assert status == 408 and time.monotonic() - began >= SAY - 1
        assert all_of(silent) == b"", "a browser's spare connection is closed without a word"


def test_there_is_room_for_32_and_for_16_that_stay():
    port = harness.free_port()
    with alone(port) as cluster:
        cluster.start()
        listens(port)
        streams = [Stream(port) for _ in range(FOLLOWERS)]
        assert all(stream.next("status")["phase"] == "forming" for stream in streams)
        status, fields, body = ask(port, "/api/live")
        assert (status, body) == (503, "too many pages are open: close one of them\n"), body

        def is_full():
            """Those who say nothing are sent away after a while, so all come in one go."""
            rest = [connect(port) for _ in range(CALLERS - FOLLOWERS)]
            with connect(port) as connection:
                connection.sendall(said("/healthz"))
                status = answer(connection)[0]
            for connection in rest:
                connection.close()
            return status == 503
        until(is_full)
        for stream in streams:
            stream.close()
        listens(port)
        assert "connections over HTTP were refused" in cluster.nodes["scheduler"].err


# ---- as it goes on


def test_a_stream_tells_the_status_when_it_differs(job):
    stream = Stream(job[1]["scheduler"])
    assert re.fullmatch("[0-9a-f]{16}", stream.next("life")["life"])
    first = stream.next("status")
    assert first["phase"] == "running"
    for _ in range(4):
        last = stream.next("status")
        assert last != first
        first = last
    stream.close()


def test_the_end_of_a_node_ends_its_thread_and_frees_its_port():
    port = harness.free_port()
    with Cluster("counted.py", library=LIBRARY,
                 node_env={"scheduler": {"PSLITE_HTTP": port}}) as cluster:
        cluster.spawn("scheduler")
        listens(port)
        stream = Stream(port)
        for role in ("server", "worker"):
            for index in range(2):
                cluster.spawn(role, index)
        # It looks at the processes while they run; what the stream says waits in the socket.
        cluster.wait()
        stream.next("end")
        stream.close()
    cluster.check()
    assert "could not be accepted" not in cluster.describe()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((HOST, port))


# ---- the setting


def test_without_the_setting_there_is_neither_thread_nor_socket():
    counts = []
    for setting in ("", "0"):
        with alone(setting) as cluster:
            cluster.start()
            node = cluster.nodes["scheduler"]
            until(lambda: "pslite-clock" in threads(node.pid) or None)
            if setting:
                assert node.wait_for("answers at http://127.0.0.1:"), cluster.describe()
                until(lambda: "pslite-http" in threads(node.pid))
            else:
                assert "pslite-http" not in threads(node.pid)
                assert "http" not in node.err, cluster.describe()
            counts.append(listening(node.pid))
    assert counts[1] == counts[0] + 1, counts


@pytest.mark.parametrize("setting", ["0.0.0.0:9400", "10.1.2.3:9400-9409", "myhost:0"])
def test_what_others_could_reach_is_refused_at_the_start(setting):
    with alone(setting) as cluster:
        cluster.start()
        assert cluster.wait(), cluster.describe()
        node = cluster.nodes["scheduler"]
        assert node.returncode == 2 and f"PSLITE_HTTP={setting} would show" in node.err, node.err
        assert "ssh -L" in node.err and "choose 127.0.0.1:" in node.err, node.err


def test_a_port_that_is_taken_is_said_with_who_has_it():
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with alone(port) as cluster:
            cluster.start()
            assert cluster.wait(), cluster.describe()
            text = cluster.nodes["scheduler"].err
            assert f"PSLITE_HTTP: cannot listen on 127.0.0.1:{port}: " in text, text
            assert f"by pid {os.getpid()} (" in text and "or 0 for any" in text, text
        # Of a range the first free one is taken.
        with alone(f"{port}-{port + 20}") as cluster:
            cluster.start()
            node = cluster.nodes["scheduler"]
            assert node.wait_for("answers at http://127.0.0.1:"), cluster.describe()
            found = int(re.search(r"answers at http://127.0.0.1:(\d+)/", node.err)[1])
            assert port < found <= port + 20
            listens(found)


def test_a_child_has_neither_the_thread_nor_the_sockets():
    port = harness.free_port()
    with Cluster("fork.py", ("all",), servers=1, library=OURS,
                 node_env={"worker0": {"PSLITE_HTTP": port}}) as cluster:
        cluster.start()
        listens(port)
        # One connection stands while children are made.
        with connect(port) as connection:
            connection.send(b"GET")
            cluster.wait()
    cluster.check()
    for result in cluster.results:
        assert result["found"]["descriptors"] == ["[]", 0], cluster.describe()
        assert result["found"]["subprocess"] == "[]", cluster.describe()


# ---- pslite run


def run(*options, **more):
    """`pslite run` of a job whose processes do nothing; its output, and where the page is."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(harness.FOREIGN)}
    command = [harness.PROGRAM, "run", "-n", "1", "-s", "1", *options, "--library",
               harness.LIBRARY, "--", "sleep", "60"]
    process = subprocess.Popen(list(map(str, command)), env={**env, **more}, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return process


def stop(process):
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    process.wait(60)
    return rest


def watched(process):
    """The port in the line that says where the page is."""
    for line in process.stderr:
        found = re.fullmatch(r"pslite: watch this job at http://127.0.0.1:(\d+)/ .*\n", line)
        if found:
            return int(found[1])
    raise AssertionError("no such line")


def test_pslite_run_says_where_the_page_is():
    process = run("--native-scheduler", "--native-servers")
    try:
        port = watched(process)
        assert until(lambda: ask(port, "/")[0] == 200)
        assert json.loads(get(port, "/api/status"))["phase"] == "forming"
    finally:
        rest = stop(process)
    assert "watch this job" not in rest, rest


def test_pslite_run_takes_the_port_that_was_set():
    port = harness.free_port()
    process = run("--native-scheduler", "--native-servers", PSLITE_HTTP=str(port))
    try:
        assert watched(process) == port
        note = process.stderr.readline()
        assert f"PSLITE_HTTP=127.0.0.1:{port} has one free port" in note, note
        assert until(lambda: ask(port, "/")[0] == 200)
    finally:
        stop(process)


def test_with_any_port_all_nodes_of_pslite_run_answer():
    process = run("--native-scheduler", "--native-servers", "--env", "PSLITE_HTTP=0")
    try:
        port = watched(process)
        until(lambda: ask(port, "/")[0] == 200)
        for line in process.stderr:
            found = re.search(r"\[server 0\].* answers at http://127.0.0.1:(\d+)/", line)
            if found:
                break
        assert int(found[1]) != port
        assert get(int(found[1]), "/healthz") == "ok\n"
    finally:
        stop(process)
