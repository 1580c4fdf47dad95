"""pslite.lbbsp: workers that share batches, without MXNet.

    lbbsp_worker.py CASE        prints one line of JSON with its rank and what it saw

Where a case reports times, they are made up from SPEED: samples per second of each rank.
"""

import json
import os
import signal
import sys
import threading
import time

import numpy as np

from pslite import errors, job, lbbsp
from pslite.lbbsp import _session
from pslite.node import Node
from pslite.store import Store
from refused import refused

CASE = sys.argv[1]
SPEED = (100.0, 300.0, 200.0)
FEATURES, CLASSES, SAMPLES, TOTAL = 12, 4, 300, 48


def problem(dtype):
    """Samples of four classes, the same at every worker."""
    chance = np.random.RandomState(1)
    labels = chance.randint(CLASSES, size=SAMPLES)
    centers = chance.randn(CLASSES, FEATURES)
    return (centers[labels] + chance.randn(SAMPLES, FEATURES)).astype(dtype), labels


def loss_and_gradient(weight, rows, labels):
    """Sums over the rows: softmax regression."""
    scores = rows @ weight
    scores -= scores.max(axis=1, keepdims=True)
    odds = np.exp(scores)
    odds /= odds.sum(axis=1, keepdims=True)
    hit = odds[np.arange(len(rows)), labels]
    odds[np.arange(len(rows)), labels] -= 1
    return -np.log(hit).sum(), rows.T @ odds


def trained(node, store, name, rule, dtype):
    """The losses of two epochs, and the sizes of this worker's batches."""
    rows, labels = problem(dtype)
    weight = np.zeros((FEATURES, CLASSES), dtype)
    sums = np.zeros(weight.size + 1, dtype)
    store.init(name, sums)
    losses, sizes = [], []
    with lbbsp.Session(node, length=SAMPLES, total=TOTAL, rule=rule, measure="reports", seed=3,
                       name=name) as session:
        for _ in range(2):
            for batch in session:
                at = np.asarray(batch.indices)
                loss, gradient = loss_and_gradient(weight, rows[at], labels[at])
                # All of it is said: what the machine does besides must not decide the sizes.
                session.report(batch.size / SPEED[node.rank], cpu=1.0, memory=1.0)
                sums[:-1], sums[-1] = gradient.ravel(), loss
                store.push_pull(name, sums).wait()
                losses.append(float(sums[-1]) / batch.total)
                weight -= dtype(0.5) * sums[:-1].reshape(weight.shape) / dtype(batch.total)
                sizes.append(batch.size)
    return losses, sizes


def losses(node):
    """BSP and LB-BSP with the same samples: by (type, rule)."""
    found = {}
    with Store(node) as store:
        for dtype in (np.float64, np.float32):
            for rule in ("fixed", "cpu", "cpu-last", "gpu"):
                name = f"{np.dtype(dtype).name} {rule}"
                found[name] = trained(node, store, name, rule, dtype)
    return found


def pushes(node):
    """The library measures: from the end of one exchange until the last push of the next one."""
    with Store(node) as store:
        arrays = [np.zeros(5, "float32") for _ in range(3)]
        with lbbsp.Session(node, length=6000, total=60) as session:
            for key, array in enumerate(arrays):
                store.init(str(key), array)
            sizes = []
            for batch in session:
                handles = []
                for key, array in enumerate(arrays):
                    time.sleep(batch.size / SPEED[node.rank] / 6)
                    handles.append(store.push_pull(str(key), array))
                for handle in handles:
                    handle.wait()
                sizes.append(batch.size)
                if batch.iteration == 14:
                    break
            return {"sizes": sizes, "progress": session.progress}


def loaders(node):
    """What is taken ahead, orders, and the ends of epochs."""
    found = {}
    with lbbsp.Session(node, length=50, total=20, prefetch=4, rule="fixed", last="wrap",
                       seed=9, name="a") as session:
        sampler = session.batches()
        epochs = []
        for _ in range(2):
            taken = []
            for number, indices in enumerate(sampler):
                taken.append(indices)
                session.report(0.01)
            epochs.append(taken)
            assert number + 1 == len(sampler) == 3
        found["epochs"] = epochs
    plain = {"length": 50, "total": 20, "rule": "fixed"}
    with lbbsp.Session(node, shuffle=False, name="b", **plain) as session:
        found["plain"] = [list(batch.indices) for batch in reported(session)]
    with lbbsp.Session(node, order=lambda epoch: range(49, -1, -1), name="c", **plain) as session:
        found["order"] = [list(batch.indices) for batch in reported(session)]
    return found


def reported(session):
    for batch in session:
        session.report(0.01)
        yield batch


def bad_input(node):
    good = {"length": 100, "total": 20, "rule": "fixed"}
    worker = node.rank

    def opened(**options):
        return refused(lambda: lbbsp.Session(node, **{**good, **options}).close())

    found = {
        "rule": opened(rule="fast"),
        "last": opened(last="keep"),
        "total": opened(total=101),
        "few": opened(total=1),
        "negative": opened(total=-1),
        "rank": opened(rank=9),
        "name": opened(name="x" * 200),
        "nul": opened(name="a\0b"),
        "max": opened(max=0),
        "epochs": opened(rule="dealt", epochs=0),
    }
    node.barrier("workers")
    # Two workers that do not agree: the second one is told.
    if worker == 1:
        node.barrier("workers")
    session = None
    try:
        session = lbbsp.Session(node, **{**good, "total": 20 + worker}, name="agree")
        found["agree"] = None
    except errors.PsliteError as error:
        found["agree"] = [type(error).__name__, str(error)]
    if worker == 0:
        found["alone"] = refused(lambda: session.next(0.2))
        found["twice"] = opened(name="agree")
        node.barrier("workers")
    node.barrier("workers")
    if session:
        # A thread that waits hears of it.
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(refused(session.next)))
        thread.start()
        time.sleep(0.2)
        session.close()
        thread.join(10)
        found["waiting"] = waiting[0]
        found["closed"] = refused(session.next)
        session.close()
    with lbbsp.Session(node, **good, name="order") as session:
        found["early"] = refused(lambda: session.report(1.0))
        batch = session.next()
        found["future"] = refused(lambda: session.report(1.0, iteration=batch.iteration + 1))
        session.report(1.0)
        session.report(1.0, iteration=batch.iteration)
        node.barrier("workers")
    found["after"] = refused(lambda: lbbsp.DataIter(session, np.zeros(3), np.zeros(3)))
    return found


def orders(node):
    """What must be equal, and is not: who comes second is told. And a job that goes on."""
    good = {"length": 100, "total": 20, "rule": "fixed"}
    worker, found = node.rank, {}

    def second(name, first, other):
        """Worker 1 opens it after worker 0, with other arguments."""
        session = lbbsp.Session(node, name=name, **good, **first) if worker == 0 else None
        node.barrier("workers")
        if worker == 1:
            found[name] = refused(lambda: lbbsp.Session(node, name=name, **good, **other).close())
        node.barrier("workers")
        if session:
            session.close()

    second("shuffle", {}, {"shuffle": False})
    second("order", {"order": lambda _: range(100)}, {"order": lambda _: range(99, -1, -1)})
    second("own", {"seed": 3}, {"seed": 3, "order": lambda _: range(100)})
    second("begin", {"epoch": 2}, {"epoch": 2, "iteration": 1})
    second("prefetch", {"prefetch": 3}, {"prefetch": 4})
    # Epoch 1 differs. Nobody hears of it before its first samples are asked for.
    with lbbsp.Session(node, name="later", **good,
                       order=lambda epoch: range(100)[::1 - 2 * epoch * worker]) as session:
        for batch in session:
            list(batch.indices)
            session.report(0.1)
        batch = session.next(10)
        if worker == 0:
            found["first"] = list(batch.indices)
        node.barrier("workers")
        if worker == 1:
            list(batch.indices)
            session.report(0.1)
            found["later"] = refused(lambda: session.next(30))
        node.barrier("workers")
    # Worker 0 skips what worker 1 computes.
    with lbbsp.Session(node, name="skips", **good) as session:
        if worker == 0:
            session.set_epoch(1)
            found["waits"] = refused(lambda: session.next(1.5))
        node.barrier("workers")
        if worker == 1:
            def compute():
                for _ in range(4):
                    session.next(30)
                    session.report(0.1)

            found["skips"] = refused(compute)
        node.barrier("workers")
    return found


def unreported(node):
    """Batches are dealt, and nobody reports them."""
    _session._LONG = 1.0
    with lbbsp.Session(node, length=100, total=20, rule="dealt", epochs=1, prefetch=2) as session:
        sizes = []

        def computed():
            for batch in session:
                sizes.append(batch.size)

        return {"refused": refused(computed), "sizes": sizes}


def interrupted(node):
    """Ctrl-C leaves a wait, and the session goes on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with lbbsp.Session(node, length=100, total=20, rule="fixed") as session:
        first = [session.next(), session.next()]
        begin = []

        def interrupt():
            time.sleep(0.3)
            begin.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        try:
            session.next()
            raise AssertionError("it did not wait")
        except KeyboardInterrupt:
            late = time.monotonic() - begin[0]
        node.barrier("workers")
        for batch in first:
            session.report(0.1, iteration=batch.iteration)
        return {"late": late, "next": session.next(10).iteration}


def interrupted_opening(node):
    """Worker 0 has closed the session and opens it again, while worker 1 is in it: it waits, and
    Ctrl-C leaves that wait."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    good = {"length": 100, "total": 20, "rule": "fixed"}
    session = lbbsp.Session(node, **good)
    session.next()
    found = {}
    node.barrier("workers")
    if node.rank == 0:
        session.close()
        begin = []

        def interrupt():
            time.sleep(0.5)
            begin.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        try:
            lbbsp.Session(node, **good)
            raise AssertionError("it did not wait")
        except KeyboardInterrupt:
            found["late"] = time.monotonic() - begin[0]
        node.barrier("workers")
    else:
        node.barrier("workers")
        session.report(0.1)
        time.sleep(0.5)  # The other one opens it again meanwhile, and waits for this.
        found["others"] = session.next(10).iteration
        session.close()
    with lbbsp.Session(node, **good) as session:
        found["next"] = session.next(10).iteration
        node.barrier("workers")
    return found


def ended(node):
    """All batches were dealt: a loop ends, and so does a generator of the user's."""

    def mine():
        while True:
            yield session.next()

    found = {"sizes": []}
    with lbbsp.Session(node, length=20, total=8, rule="dealt", epochs=2) as session:
        try:
            for batch in mine():
                found["sizes"].append(batch.size)
                assert (batch.workers, batch.weight, batch.scale) == (1, 1.0, 1.0)
                session.report()
        except errors.NoMoreBatches:
            found["over"] = True
        found["again"] = refused(session.next)
        found["left"] = len(list(session))
    return found


def own_reports(node):
    """What the worker reports is not measured besides, though it pushes."""
    with Store(node) as store:
        array = np.zeros(5, "float32")
        store.init("a", array)
        with lbbsp.Session(node, length=600, total=60, prefetch=7) as session:
            found = []
            for batch in session:
                store.push_pull("a", array).wait()
                if batch.iteration in (4, 9):
                    session.report(0.1, iteration=batch.iteration)
                found.append(session.progress[1])
            return found


def epochs(node):
    """The library measures. Worker 0 validates between two epochs, and nothing else takes time
    that differs."""
    with Store(node) as store:
        array = np.zeros(5, "float32")
        store.init("a", array)
        sizes = []
        with lbbsp.Session(node, length=300, total=60, rule="cpu-last") as session:
            for _ in range(4):
                for batch in session:
                    time.sleep(0.1)
                    store.push_pull("a", array).wait()
                    sizes.append(batch.size)
                if node.rank == 0:
                    time.sleep(1.5)
        return sizes


def one_dies(node):
    """Worker 2 dies, and another process takes its place. The others go on until they have shared
    iterations with that."""
    seen, workers = [], []
    with lbbsp.Session(node, length=100, total=20, rule="fixed") as session:
        while 2 not in workers or workers[-10:] != 10 * [3]:
            for batch in session:
                seen.append([batch.iteration, batch.size, batch.workers, batch.scale])
                workers.append(batch.workers)
                computed(node, session, batch)
    return seen


def computed(node, session, batch):
    """Worker 2 dies after its fourth batch."""
    time.sleep(0.05)
    session.report(0.05)
    if node.rank == 2 and batch.iteration == 3:
        time.sleep(0.5)  # What it has said reaches the scheduler.
        os.kill(os.getpid(), signal.SIGKILL)


def takes_its_place(node):
    """The epoch of a process that comes later ends with that of the others."""
    seen = []
    with lbbsp.Session(node, length=100, total=20, rule="fixed") as session:
        for _ in range(6):
            epoch = []
            for batch in session:
                epoch.append(batch.iteration)
                time.sleep(0.05)
                session.report(0.05)
            seen.append(epoch)
    return seen


def one_closes(node):
    """Worker 2 dies, worker 0 closes the session, and worker 1 stays in it until all is done."""
    with lbbsp.Session(node, length=100, total=20, rule="fixed") as session:
        while True:
            batch = session.next()
            computed(node, session, batch)
            if node.rank == 0 and batch.workers == 2 or is_done():
                break
    print("closed", flush=True)
    while not is_done():
        time.sleep(0.05)


def is_done():
    """The test has seen enough."""
    return os.path.exists("done")


def comes_too_late(node):
    """A worker has closed the session."""
    good = {"length": 100, "total": 20, "rule": "fixed"}
    begin = time.monotonic()
    found = refused(lambda: lbbsp.Session(node, **good))
    seconds = time.monotonic() - begin
    with lbbsp.Session(node, name="another", members=1, rank=0, **good) as session:
        return {"refused": found, "seconds": seconds, "size": session.next(10).size}


def dealt(node):
    """Worker 1 dies with two batches that it has not reported."""
    seen = []
    with lbbsp.Session(node, length=100, total=8, rule="dealt", epochs=2, prefetch=1) as session:
        for _ in range(3):
            for batch in session:
                seen.append([batch.epoch, *batch.indices])
                time.sleep(0.03)
                if node.rank == 1 and len(seen) == 4:
                    print(json.dumps([node.rank, seen[:-1]]), flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)
                session.report()
        return seen


def status(node):
    """As an operator sees it."""
    with lbbsp.Session(node, length=4800, total=48, rule="cpu-last") as session:
        for batch in session:
            session.report(batch.size / SPEED[node.rank])
            if batch.iteration == 10:
                break
        node.barrier("workers")
        root = f"127.0.0.1:{os.environ['DMLC_PS_ROOT_PORT']}"
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = job.status(root).raw["sessions"]
            if found and found[0]["iteration"] == 11:
                break
            time.sleep(0.05)
        node.barrier("workers")
        return found[0]


def main():
    role = os.environ["DMLC_ROLE"]
    if role != "worker":
        return job.serve_scheduler() if role == "scheduler" else job.serve_server()
    with Node() as node:
        print(json.dumps([node.rank, globals()[CASE](node)]), flush=True)


if __name__ == "__main__":
    main()
