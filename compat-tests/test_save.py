"""`pslite save`: the global model of a job that runs, from outside."""

import subprocess
import sys

import numpy as np
import pytest

import harness
from cases import SMALL_BOUND
from harness import NATIVE, OURS, STOCK, Cluster
from test_python_kv import ENVIRONMENT, PACKAGE

sys.path.insert(0, str(PACKAGE))

saved = harness.program("saved")
rounds = harness.program("saved_rounds")


def save(port, file, *more):
    return subprocess.run([harness.PROGRAM, "save", f"127.0.0.1:{port}", str(file), *more],
                          capture_output=True, text=True, timeout=120)


def all_say(running, word):
    for worker in running.workers:
        assert worker.wait_for(f"{word}\n", 60), running.describe()


def go(running, name):
    (running.folder / name).touch()


@pytest.mark.parametrize("kind,env", (("sync", {}), ("sync", {"PSLITE_ELASTIC": 1}), ("store", {}),
                                      ("store", {"PSLITE_ELASTIC": 0})))
def test_a_model_has_the_names_shapes_and_types_of_its_arrays(tmp_path, kind, env):
    nodes = {"scheduler": {"PSLITE_SYNC": "fedavg:steps=2"}} if kind == "sync" else {}
    with Cluster("saved.py", (kind,), library={"scheduler": NATIVE, "server": NATIVE,
                                               "worker": STOCK},
                 env={**ENVIRONMENT, **env}, node_env=nodes, timeout=60) as running:
        running.start()
        all_say(running, "empty")
        file = tmp_path / "model.npz"
        early = save(running.port, file)
        assert early.returncode == 2 and "the servers have no values yet" in early.stderr, early
        assert list(tmp_path.iterdir()) == [], "nothing is left of it"
        go(running, "begin")
        all_say(running, "ready")
        done = save(running.port, file)
        assert done.returncode == 0, done.stderr
        go(running, "go")
        assert running.wait(), running.describe()
        running._read_all()
    assert all(node.returncode == 0 for node in running.nodes.values()), running.describe()
    assert f"{len(saved.ARRAYS)} arrays, {4 * saved.BIG + 24 + 8 + 10} bytes" in done.stdout
    found = np.load(file)
    assert sorted(found) == sorted(saved.ARRAYS)
    for name, array in saved.ARRAYS.items():
        # Two steps of 1 and of 2; or the sum of two workers.
        wanted = array + np.array(3, array.dtype) if kind == "sync" else (
            2 * (array + np.array(1.5, array.dtype)))
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        if name == "half":
            assert np.allclose(found[name], wanted, atol=0.01), found[name]
        else:
            assert np.array_equal(found[name], wanted), name


@pytest.mark.waits
@pytest.mark.parametrize("sync", ("nbsync", None))
def test_keys_of_a_script_are_saved_while_it_trains(tmp_path, sync):
    """Of a kvstore, which has numbers; servers are in front of MXNet's own."""
    nodes = {"scheduler": {"PSLITE_SYNC": sync}} if sync else {}
    with Cluster("exchange.py", ("train", 100, 0.02), library=OURS, env=SMALL_BOUND,
                 node_env=nodes) as running:
        running.start()
        assert running.nodes["worker0"].wait_for("step 10\n", 90), running.describe()
        for _ in range(3):
            file = tmp_path / "model.npz"
            done = save(running.port, file)
            assert done.returncode == 0, done.stderr + running.describe()
            found = np.load(file)
            assert {name: found[name].shape for name in found} == {"key 3": (10,),
                                                                    "key 8": (1200,)}
            assert all((found[name] < 0).all() for name in found), found
        assert running.wait(), running.describe()
        running._read_all()
    assert all(node.returncode == 0 for node in running.nodes.values()), running.describe()


@pytest.mark.waits
def test_a_model_is_whole_while_a_server_is_emptied_and_goes(tmp_path):
    library = {"scheduler": OURS, "server": NATIVE, "worker": OURS}
    with Cluster("exchange.py", ("train", 200, 0.02), library=library, env=SMALL_BOUND) as running:
        running.start()
        assert running.nodes["worker0"].wait_for("step 10\n", 90), running.describe()
        scheduler = ["--scheduler", f"127.0.0.1:{running.port}"]
        with subprocess.Popen([harness.PROGRAM, "drain", "server:1", *scheduler, "--wait", "60"],
                              stdout=subprocess.DEVNULL) as drain:
            count = 0
            while drain.poll() is None or count < 3:
                file = tmp_path / "model.npz"
                done = save(running.port, file)
                assert done.returncode == 0, done.stderr + running.describe()
                found = np.load(file)
                assert {name: found[name].shape for name in found} == {"key 3": (10,),
                                                                        "key 8": (1200,)}
                assert all((found[name] < 0).all() for name in found), found
                count += 1
        assert drain.returncode == 0, running.describe()
        assert running.wait(), running.describe()
        running._read_all()
    assert all(node.returncode == 0 for node in running.nodes.values()), running.describe()


def rounds_of(workers, file):
    """After which round all workers had what is in a file, to the bit: of each small array one, and
    of the big one those of its parts."""
    # One may take a step more before it ends.
    seen = list(zip(*(worker.result["rounds"] for worker in workers)))
    assert all(one == other for one, other in seen), "workers differ"
    found = np.load(file)
    assert sorted(found) == sorted([*rounds.NAMES, rounds.BIG])
    numbers = []
    for name in rounds.NAMES:
        after = [one[name] for one, _ in seen]
        assert rounds.digest(found[name]) in after, f"{file}: no worker ever had this {name}"
        numbers.append(after.index(rounds.digest(found[name])) + 1)
    parts = np.unique(found[rounds.BIG]) / rounds.EACH
    assert (parts == parts.round()).all(), parts
    return [*numbers, *parts.astype(int).tolist()]


def saved_while_emptied(running, tmp_path, number, files):
    """Empties a server, and saves one file after the other until it is empty. The last one may be
    there later than that: how long a file takes beside a move is up to the machine."""
    scheduler = ["--scheduler", f"127.0.0.1:{running.port}"]
    with subprocess.Popen([harness.PROGRAM, "drain", f"server:{number}", *scheduler, "--wait",
                           "60"], stdout=subprocess.DEVNULL) as drain:
        while drain.poll() is None:
            file = tmp_path / f"{len(files)}.npz"
            done = save(running.port, file)
            assert done.returncode == 0, done.stderr + running.describe()
            files.append(file)
    assert drain.returncode == 0, running.describe()


@pytest.mark.waits
@pytest.mark.parametrize("when", ("rest", "train"))
def test_what_is_saved_while_pieces_move_is_what_all_workers_have(tmp_path, when):
    """At the end of a round, and while they train; then what is kept apart may be a round apart,
    but each is what all workers had."""
    files = []
    with Cluster("saved_rounds.py", (when, 0.01), servers=4, timeout=120,
                 library={"scheduler": NATIVE, "server": NATIVE, "worker": STOCK},
                 env=ENVIRONMENT,
                 node_env={"scheduler": {"PSLITE_SYNC": "fedavg:steps=1"}}) as running:
        running.start()
        all_say(running, "rest" if when == "rest" else "step 5")
        for number in (3, 2, 1):
            saved_while_emptied(running, tmp_path, number, files)
        go(running, "go")
        assert running.wait(), running.describe()
        running._read_all()
    assert all(node.returncode == 0 for node in running.nodes.values()), running.describe()
    assert len(files) >= 3, "a file was begun while each of the servers was emptied"
    seen = [rounds_of(running.workers, file) for file in files]
    if when == "rest":
        assert all(set(each) == {rounds.REST} for each in seen), seen
    else:
        assert all(min(later) >= min(earlier) > 0 for earlier, later in zip(seen, seen[1:])), seen


def test_where_nobody_answers_it_says_so(tmp_path):
    done = save(harness.free_port(), tmp_path / "model.npz", "--timeout", "2")
    assert done.returncode == 2 and "no scheduler at" in done.stderr, done
    wrong = save("x", tmp_path / "model.npz")
    assert wrong.returncode == 2 and "write it as HOST:PORT" in wrong.stderr
