"""The Python package against careless programs: arguments that mean nothing, what is done twice or
forgotten, starts that fail, numbers of numpy."""

import json
import subprocess

import pytest

import harness
from harness import NATIVE, STOCK, Cluster
from test_python_kv import ENVIRONMENT


def run(case, **options):
    """What each worker saw. A job that waits for ever fails here."""
    library = {"scheduler": NATIVE, "server": STOCK, "worker": STOCK}
    made = Cluster("careless.py", args=[case], library=library, timeout=60, whole=True,
                   env={**ENVIRONMENT, **options.pop("env", {})}, **options).run()
    for node in made.nodes.values():
        assert node.returncode == 0 and not node.hung, made.describe()
    return [json.loads(worker.out.splitlines()[-1]) for worker in made.workers]


def test_start_and_with():
    for found in run("twice"):
        assert found["same"]
        assert found["closed"][0] == found["stopped"][0] == "ClosedError", found
        assert "was stopped" in found["stopped"][1]


def test_a_node_closes_its_store():
    for found in run("unclosed"):
        assert found["out"] == [2, 2, 2] and found["closed"], found


def test_a_store_after_its_end():
    for found in run("closed"):
        for name in ("init", "push", "pull", "push_pull", "unknown", "set_optimizer", "node"):
            assert found[name] and found[name][0] == "ClosedError", (name, found)
        assert "the store is closed" in found["push"][1]
        assert found["again"][0] == "InvalidArgument" and "had a Store" in found["again"][1]


def test_a_second_store_and_one_that_fails():
    for found in run("second"):
        assert found["early"][0] == "NotStarted", found
        assert found["taken"][0] == "InvalidArgument" and "customer=1" in found["taken"][1], found
        assert found["failed"] == ["RemoteError", "the server has no room"]
        assert found["second"][0] == "InvalidArgument" and "has a Store" in found["second"][1]
        assert "exists already in this node" in found["worker"][1], found
        assert found["out"] == [2, 2] and found["left"] == 0, found


def test_numbers_of_numpy():
    for found in run("numbers"):
        assert found["weight"] == [0, 0, 0] and found["dead"] == [] and found["status"] == 2, found
        for name, text in {"priority": "2147483647", "fraction": "integer", "timeout": "'soon'",
                           "nan": "nan", "rank": "not -1", "dead": "seconds",
                           "customer": "customer", "rate": "learning_rate"}.items():
            kind, said = found["wrong"][name]
            assert kind == "InvalidArgument" and text in said, (name, said)
        assert found["keys"] == [[1, "uint64"], [1, "uint64"], [2, "uint64"], [1, "uint64"],
                                 [3, "uint64"]], found
        kinds = [each[0] for each in found["bad keys"]]
        assert kinds == ["DtypeError", "DtypeError", "DtypeError", "InvalidArgument"], found


# ---- without a cluster ---------------------------------------------------------------------------

def python(code, timeout=60, **env):
    return subprocess.run([harness.PYTHON, "-c", code], capture_output=True, text=True,
                          timeout=timeout,
                          env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1", **env})


REFUSED = """
from pslite import errors, job
from pslite.node import Node
JOB = dict(root="127.0.0.1:9", workers=1, servers=1)
def says(call, *parts):
    try:
        call()
    except errors.InvalidArgument as error:
        assert all(part in str(error) for part in parts), error
    else:
        raise AssertionError(parts)
says(lambda: Node("worker", rank=1, timeout=3, **JOB), "no argument 'rank'", "docs/env.md")
says(lambda: Node("worker", PSLITE_ELASTIK=1, **JOB), "did you mean PSLITE_ELASTIC?")
says(lambda: Node("worker", DMLC_NUM_WORKERS=1), "did you mean DMLC_NUM_WORKER?")
says(lambda: Node("worker", PSLITE_LIBRARY="/x.so"), "no argument 'PSLITE_LIBRARY'")
says(lambda: Node("worker", **{"PSLITE_\\udc80": 1}), "no argument")
says(lambda: Node("worker", DMLC_ROLE="server"), "DMLC_ROLE", "'worker'", "'server'", "twice")
says(lambda: Node(root="a:1", DMLC_PS_ROOT_PORT=2), "'1'", "'2'")
says(lambda: job.serve_server(timeout=3, **JOB), "no argument 'timeout'")
says(lambda: job.serve_scheduler(PSLITE_JOURNALS="f", **JOB), "PSLITE_JOURNAL?")
Node("worker", DMLC_NUM_WORKER=1, DMLC_ROLE="worker", PORT=9, **JOB)
"""


def test_arguments_that_mean_nothing():
    done = python(REFUSED)
    assert done.returncode == 0, done.stderr


@pytest.mark.waits
def test_nothing_is_left_of_a_start_that_failed():
    done = subprocess.run(
        [harness.PYTHON, str(harness.PROGRAMS / "failed_starts.py")], capture_output=True,
        text=True, timeout=300, env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    kinds = {"late worker": "Timeout", "late scheduler": "Timeout", "busy port": "AddressError",
             "no such host": "AddressError", "no port in the range": "AddressError",
             "bad setting": "ConfigError", "stopped": "Stopped"}
    assert found.keys() == kinds.keys()
    for name, kind in kinds.items():
        case = found[name]
        assert case["text"][0] == kind and case["kinds"] == 1, (name, case)
        assert case["after"] == case["before"] == case["dropped"], (name, case)
        assert case["again"] == case["text"], (name, case)


#: Kinds of jobs, by what is set.
AFTER = {"static": {"PSLITE_ELASTIC": "0"}, "moves": {}, "copies": {"PSLITE_ELASTIC": "1"},
         "exchange": {"PSLITE_SYNC": "nbsync:momentum=0"}}
#: With copies, only the death of a worker ends the job.
ENDS = [(kind, victim) for kind in AFTER for victim in ("server1", "worker1", "scheduler")
        if kind != "copies" or victim == "worker1"]


@pytest.mark.parametrize("kind,victim", ENDS)
def test_what_is_asked_after_the_job_has_failed(kind, victim):
    """A request that begins after the worker was told of the failure fails too, whatever it is."""
    library = {"scheduler": NATIVE, "server": NATIVE, "worker": STOCK}
    with Cluster("after_failure.py", library=library, timeout=60, whole=True,
                 env={**ENVIRONMENT, **AFTER[kind]}) as job:
        job.start()
        assert job.nodes["worker0"].wait_for("ready", 40), job.describe()
        job.nodes[victim].kill()
        others = [worker.name for worker in job.workers if worker.name != victim]
        assert job.wait(60, others), job.describe()
        for name in others:
            found = json.loads(job.nodes[name].out.splitlines()[-1])
            assert found["ended"], job.describe()
            for call, said in found["calls"].items():
                assert said, (call, job.describe())
                assert said[0] in ("PeerLost", "RemoteError") and "lost" in said[1], (call, said)


ALONE = """
from pslite import errors
from pslite.node import Node
for _ in range(3):
    try:
        with Node("worker", root="127.0.0.1:9", workers=1, servers=1, host="127.0.0.1",
                  PSLITE_START_TIMEOUT="0.1", PSLITE_REPORT_INTERVAL="0"):
            pass
    except errors.Timeout:
        pass
"""
VAIN = {"PSLITE_ELASTIK": "1", "PS_RESEND_TIMEOUT": "50", "PSLITE_TEST_X": "1",
        "DMLC_WORKER_ID": "3"}


def once(text, told="PSLITE_ELASTIC"):
    """Both are said, each once."""
    lines = [line for line in text.splitlines() if "no effect" in line]
    assert len(lines) == 2, text
    assert f"did you mean {told}?" in lines[0] and "PS_RESEND_TIMEOUT=50" in lines[1], text


def test_variables_that_mean_nothing_are_said_once_in_python():
    done = python(ALONE, **VAIN)
    assert done.returncode == 0, done.stderr
    once(done.stderr)


@pytest.mark.parametrize("words", (["scheduler"], ["server"]))
def test_variables_that_mean_nothing_are_said_once_by_the_program(words):
    job = {"DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1", "DMLC_PS_ROOT_URI": "127.0.0.1",
           "DMLC_PS_ROOT_PORT": str(harness.free_port()), "PSLITE_START_TIMEOUT": "0.1"}
    done = subprocess.run([harness.PROGRAM, *words], capture_output=True, text=True, timeout=60,
                          env={**job, **VAIN})
    assert done.returncode == 2 and "PSLITE_START_TIMEOUT" in done.stderr, done.stderr
    once(done.stderr)


def test_a_misspelt_name_is_said_before_the_error_that_follows():
    done = subprocess.run([harness.PROGRAM, "scheduler", "-s", "1", "--host", "127.0.0.1", "--port",
                           "9"], capture_output=True, text=True, timeout=60,
                          env={"DMLC_NUM_WORKERS": "1"})
    assert done.returncode == 2 and "DMLC_NUM_WORKER is not set" in done.stderr, done.stderr
    assert "did you mean DMLC_NUM_WORKER?" in done.stderr
    done = subprocess.run([harness.PROGRAM, "tunnel"], capture_output=True, text=True, timeout=60,
                          env={"PSLITE_TUNNEL": "7000"})
    assert done.returncode == 2 and "did you mean PSLITE_TUNNELS?" in done.stderr, done.stderr


def test_variables_that_mean_nothing_are_said_once_under_preload():
    made = Cluster("nothing.py", library=harness.OURS, timeout=60, workers=1, servers=1,
                   env=VAIN).run().check()
    for node in made.nodes.values():
        once(node.err)


