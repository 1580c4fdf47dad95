"""BytePS jobs on this machine: the trees that scripts/byteps-tree builds, and clusters of their
processes."""

import sys

import harness
from harness import PYTHON, ROOT, Cluster

FOLDER = ROOT / "compat-tests/byteps"


def tree(kind):
    """The built tree of BytePS over its own ps-lite ("stock") or over this repository ("ours")."""
    return ROOT / ".cache/byteps" / kind


class Job(Cluster):
    """`library` says whose tree each role runs. args: those of byteps/job.py."""

    def __init__(self, *args, library=harness.OURS, **more):
        super().__init__(FOLDER / "job.py", args,
                         command=[str(FOLDER / "node.sh"), *map(str, args)],
                         library=library, **more)

    def environment(self, role, index, more=None):
        env = super().environment(role, index, more)
        env.pop("LD_PRELOAD", None)
        sockets = self.folder / f"{role}{index}"
        sockets.mkdir(exist_ok=True)
        env.update({
            "PYTHONPATH": str(tree(self.library_of(role, index))),
            "BYTEPS_PYTHON": str(PYTHON),
            "BYTEPS_LOCAL_RANK": "0",
            "BYTEPS_LOCAL_SIZE": "1",
            # A job of one worker uses servers, too.
            "BYTEPS_FORCE_DISTRIBUTED": "1",
            "BYTEPS_SOCKET_PATH": str(sockets),
            "BYTEPS_SERVER_ENGINE_THREAD": "2",
            "BYTEPS_LOG_LEVEL": "WARNING",
        })
        if role == "worker":
            env["DMLC_WORKER_ID"] = str(index)
        return env

    def check(self):
        """Fails unless every process ended by itself with exit 0 and every worker has a result."""
        for node in self.nodes.values():
            assert not node.hung and node.returncode == 0, self.describe()
        assert all(node.result for node in self.workers), self.describe()
        return self


def main():
    """python byteps_jobs.py stock|ours WORKERS SERVERS TIMEOUT sums|rounds ...: one run, told as it
    went."""
    kind, workers, servers, timeout, *args = sys.argv[1:]
    job = Job(*args, library=kind, workers=int(workers), servers=int(servers),
              timeout=float(timeout)).run()
    print(job.describe())
    for result in job.results:
        if result:
            print(f"worker {result['rank']}: {len(result['wrong'])} of {result['checked']} wrong, "
                  f"{result['wrong'][:3]}")


if __name__ == "__main__":
    main()
