"""File descriptors: how many a peer costs, and what a node does whose limit is low."""

import ctypes
import os
import resource
import socket
import subprocess

import pytest

import harness
from harness import NATIVE, OURS, Cluster

LIBRARIES = {"scheduler": NATIVE, "server": NATIVE, "worker": OURS}


def limited(option, count):
    """A command that lowers a limit of what it runs: `-Sn` the soft one, `-n` both, as `ulimit` has
    it."""
    return lambda role: ["/bin/sh", "-c", f'ulimit {option} {count} && exec "$@"', "sh"]


def job(servers, timeout=60, **options):
    return Cluster("descriptors.py", library=LIBRARIES, workers=1, servers=servers, timeout=timeout,
                   **options)


def of(cluster, role):
    return max(count for name, count in cluster.results[0]["descriptors"] if name == role)


# What src/node/descriptors.rs reckons with: at most six for each peer.
@pytest.mark.parametrize("transport, each", [("zmq", 2), ("tcp", 4), ("shm", 6)])
def test_what_a_peer_costs(transport, each):
    env = {"PSLITE_TRANSPORT": transport}
    few, many = (job(servers, env=env).run().check() for servers in (1, 4))
    assert of(many, "worker") - of(few, "worker") <= 3 * each, (few.results, many.results)
    assert of(many, "scheduler") - of(few, "scheduler") <= 3 * 2, (few.results, many.results)
    assert of(many, "worker") <= 48 + 2 + 4 * each, many.results


def test_a_low_soft_limit_is_raised():
    """A worker has more than 32 open; without room it would wait for ever."""
    cluster = job(4, prefix=limited("-Sn", 32)).run().check()
    assert of(cluster, "worker") > 32, cluster.results


def test_too_low_a_hard_limit_is_said_at_the_start():
    cluster = job(4, timeout=30, roles=("worker",), prefix=limited("-n", 64)).run()
    worker = cluster.nodes["worker0"]
    assert not worker.hung and worker.returncode != 0, worker.describe()
    assert ("more file descriptors here" in worker.output
            and "may have 64" in worker.output), worker.describe()
    assert "raise the hard limit to" in worker.output, worker.describe()


# Nobody else has it, so that the limit counts what is started here: not a test beside this one.
SOMEBODY = 60_000 + os.getpid() % 4000


LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER_NAMESPACE = 0x10000000  # CLONE_NEWUSER (linux/sched.h)


def somebody(processes):
    """Becomes a user who may have so many threads. Without root: the same user in a namespace of
    its own, since the limit counts those of one namespace (Linux 5.14 and later)."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(SOMEBODY)
        os.setuid(SOMEBODY)
    elif LIBC.unshare(NEW_USER_NAMESPACE) != 0:
        raise OSError(ctypes.get_errno(), "no user namespace, and not root")
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))


@pytest.mark.waits
@pytest.mark.parametrize("command", (
    ["scheduler"], ["server"], ["status", "--scheduler", "127.0.0.1:PORT", "--timeout", "0.1"]))
def test_no_room_for_threads_is_an_error(command):
    """From one thread to more than are needed: libzmq never ends the process."""
    env = {"DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1", "DMLC_PS_ROOT_URI": "127.0.0.1",
           "PSLITE_START_TIMEOUT": "0.1", "PSLITE_REPORT_INTERVAL": "0"}
    said = []
    # Somebody listens, or `status` ends before it needs a thread; and answers nothing.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [word.replace("PORT", port) for word in command]
        look_for_room(command, env, said)
    assert said[0] and not said[-1], said


def look_for_room(command, env, said):
    """Runs it with ever more room."""
    for count in range(1, 13):
        env["DMLC_PS_ROOT_PORT"] = str(harness.free_port())
        done = subprocess.run(
            [harness.PROGRAM, *command], capture_output=True, text=True, timeout=60, env=env,
            cwd="/", preexec_fn=lambda count=count: somebody(count))
        assert done.returncode == 2, (count, done.returncode, done.stderr)
        said.append("thread" in done.stderr)
        assert said[-1] or "answer" in done.stderr or "START_TIMEOUT" in done.stderr, done.stderr
    assert "raise the limit" not in done.stderr, done.stderr
