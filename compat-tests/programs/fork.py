"""Processes that a worker makes while it has a kvstore. The result says what each of them found.

Arguments: `all`, or `outlive`: a child stays, and then the test kills the worker.
"""

import gc
import multiprocessing
import os
import subprocess
import sys
import time

import numpy as np
from common import finish, note

# A child that should end at once and does not is a failure, not a reason to wait.
CHILD_LIMIT = 30
SHAPE = (7,)


def square(number):
    """What processes of `multiprocessing` compute."""
    return number * number


def our_descriptors(but=()):
    """Sockets, eventfds and epolls of this process except for the application's, and memory of the
    library.

    Eventfds and epolls have no names: they are told by their numbers.
    """
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith("anon_inode:[event"):
            target += f" as {name}"
        if (target not in but
                and ("event" in target or target.startswith("socket:[")
                     or "memfd:pslite" in target)):
            found.append(target)
    return found


def wait(child):
    """The exit code of a child: negative is a signal, None that it had to be killed."""
    limit = time.monotonic() + CHILD_LIMIT
    while time.monotonic() < limit:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def ask(question):
    """Forks; what `question` answers or raises in the child, and the child's exit code."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = question()
        except Exception as error:  # The text is what the test is about.
            answer = error
        os.write(writing, str(answer).encode()[-4000:])
        os._exit(0)
    os.close(writing)
    code = wait(child)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode(), code


def load(loader):
    """All that a DataLoader gives, as one sum."""
    return float(sum(batch.sum().asscalar() for batch in loader))


class Worker:
    def __init__(self):
        import mxnet as mx
        self.mx = mx
        dataset = mx.gluon.data.ArrayDataset(np.arange(16, dtype="float32"))
        self.loader = lambda: mx.gluon.data.DataLoader(dataset, batch_size=4, num_workers=2)
        self.before = self.loader()
        self.found = {"dataloader idle": load(self.before)}
        self.foreign = our_descriptors()
        self.kv = mx.kv.create("dist_sync")
        self.kv.init(3, mx.nd.zeros(SHAPE))
        self.values = []

    def step(self, name, value=None):
        """Keeps what a child found; then a round, which shows that the job goes on."""
        self.found[name] = value
        self.kv.push(3, self.mx.nd.ones(SHAPE) * (self.kv.rank + len(self.values)))
        out = self.mx.nd.zeros(SHAPE)
        self.kv.pull(3, out=out)
        out.wait_to_read()
        self.values.append(out)

    def pull(self):
        out = self.mx.nd.zeros(SHAPE)
        self.kv.pull(3, out=out)
        out.wait_to_read()
        return "no error"

    def push(self):
        self.kv.push(3, self.mx.nd.ones(SHAPE))
        self.mx.nd.waitall()
        return "no error"

    def barrier(self):
        self.kv._barrier()
        return "no error"

    def another(self):
        self.mx.kv.create("dist_sync")
        return "no error"

    def forget(self):
        del self.kv
        return "forgotten"

    def nested(self):
        return ask(self.pull)[0]

    def leave(self, how):
        child = os.fork()
        if child:
            return wait(child)
        how(0)

    def everything(self):
        self.step("start")
        self.step("parent's descriptors", len(our_descriptors(self.foreign)))
        self.step("descriptors", ask(lambda: our_descriptors(self.foreign)))
        for name in ("pull", "push", "barrier", "another", "nested", "forget"):
            self.step(name, ask(getattr(self, name)))
        self.step("os._exit", self.leave(os._exit))
        for method in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                self.step(method, pool.map(square, range(4)))
        self.step("dataloader before", load(self.before))
        self.step("dataloader after", load(self.loader()))
        code = "import fork; print(fork.our_descriptors())"
        done = subprocess.run([sys.executable, "-c", code], close_fds=False, check=True, text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": ""})
        self.step("subprocess", done.stdout.strip())
        # Not while a pool lives: test_fork.py says why.
        self.before = None
        gc.collect()
        child = os.fork()
        if child == 0:
            sys.exit(0)
        self.step("sys.exit", wait(child))

    def outlive(self):
        self.step("start")
        if self.kv.rank == 0:
            child = os.fork()
            if child == 0:
                # Long enough for the test, and no longer if the test is killed.
                time.sleep(60)
                os._exit(0)
            note(f"child {child}")
        else:
            note("ready")
        time.sleep(1)
        self.step("after the kill")
        time.sleep(40)
        self.step("never")


def main():
    worker = Worker()
    if sys.argv[1] == "outlive":
        worker.outlive()
    worker.everything()
    finish(worker.kv, worker.values, found=worker.found, pid=os.getpid())


if __name__ == "__main__":
    main()
