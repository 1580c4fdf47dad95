"""Where the processor's time goes in steps of mx.kv: by role, and by what the code is for.

    python compat-tests/bench/mxprofile.py shm resnet50            needs `perf`, and the right to
      use it
    python compat-tests/bench/mxprofile.py tcp keys --steps 60 --sgd --symbols 30

KIND is stock, zmq, tcp or shm; the set of tensors is one of mxkv.py. Milliseconds of processor time
for each step, all processes of a role together, from samples of the instruction that was running.
Being watched costs time: the steps are slower than those of `run.py`. The gradients that each step
begins with are made outside the time that mxkv.py measures; they stand apart. Environment: as
compat-tests/harness.py.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from cluster import KINDS, LIBRARY, Cluster  # noqa: E402
from harness import PYTHON  # noqa: E402

MXKV = Path(__file__).resolve().parent / "mxkv.py"
LIMIT = 300
# Samples of a second of processor time.
RATE = 1997
# The first one whose pattern is found in "symbol (file)" is what a sample is for. Those of the
# kernel come only where the file is the kernel.
PURPOSES = (
    ("page faults", True,
     r"clear_page|page_fault|handle_mm|alloc_pages|folio|zap_|unmap|rmqueue|lru_|pte_|"
     r"memcg|charge|free_unref|frozen_pages|get_page_from_freelist|vma|mas_|mtree"),
    ("copies in the kernel", True,
     r"copy_user|_copy_to_iter|_copy_from_iter|rep_movs|copyin|copyout"),
    ("waking, sleeping", True,
     r"futex|schedule|wake_up|try_to_wake|ttwu|epoll|ep_|eventfd|switch|enqueue_|"
     r"dequeue_|pick_|select_task|update_curr|update_load|idle|psi_|smp_call|"
     r"_raw_spin_unlock_irq|ipi"),
    ("sockets", True,
     r"tcp_|skb|sock|inet|ip_|net_|netif|napi|loopback|bbr|nf_|ipv4|sendmsg|recvmsg|dev_|"
     r"softirq|iov_iter|check_object_size"),
    ("rest of the kernel", True, r"."),
    ("made outside the time", False,
     r"op_with_req<mxnet::op::(mshadow_op::identity|mxnet_op::set_to_int)"),
    ("looking before sleep", False, r"spin::Spin"),
    ("sums", False, r"kernels::|pulp::|part::add_two|ElementwiseSum|ReduceSum"),
    ("optimizer", False, r"optimizer::|SGD"),
    ("copies", False,
     r"memmove|memcpy|memory::SharedMemory|ring::Ring(Reader|Writer)|Channel::pump"),
    ("waking, sleeping", False, r"pthread_(cond|mutex)|epoll|__lll_|\[vdso\]"),
    ("libzmq", False, r"\bzmq::"),
    ("rest of the library", False, re.escape(LIBRARY.name)),
    ("MXNet, Python", False, r"."),
)
# The name of a sample's thread, its process, an address, and "symbol (file)".
LINE = re.compile(r"^\s*(?P<thread>\S.*?)\s+(?P<pid>\d+)\s+[0-9a-f]+\s+(?P<what>.*)$")


def purpose(what):
    in_kernel = "([kernel" in what
    return next(name for name, kernel, pattern in PURPOSES
                if kernel == in_kernel and re.search(pattern, what))


def samples(data):
    """(process, thread, "symbol (file)") of each sample."""
    out = subprocess.run(["perf", "script", "-i", data, "-F", "comm,pid,ip,sym,dso"], check=True,
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         timeout=LIMIT).stdout
    lines = filter(None, map(LINE.match, out.splitlines()))
    return [(int(line["pid"]), line["thread"], line["what"]) for line in lines]


def switches(pids):
    """How often threads of these processes went to sleep so far."""
    total = 0
    for pid in pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(),
                                   re.M)[1])
    return total


def record(cluster, command, data):
    """Runs a command while the processes are watched; each worker's answer."""
    pids = [pid for some in cluster.pids().values() for pid in some]
    perf = subprocess.Popen(["perf", "record", "-q", "-F", str(RATE), "-o", data, "-p",
                             ",".join(map(str, pids))], stdin=subprocess.DEVNULL)
    try:
        time.sleep(1)  # until it watches
        return cluster.ask(command)
    finally:
        perf.send_signal(2)
        perf.wait(60)


def table(title, counts, unit, rows):
    """Of a counter for each role, the rows that are more than noise."""
    print(f"\n| {title} | {' | '.join(f'{role}s' for role in counts)} |\n|---|---|---|")
    for row in rows:
        cells = [counter[row] * unit for counter in counts.values()]
        if any(cell >= 0.05 for cell in cells):
            print(f"| {row} | {' | '.join(f'{cell:.1f}' for cell in cells)} |")
    print("| all | "
          f"{' | '.join(f'{sum(counter.values()) * unit:.1f}' for counter in counts.values())} |")


def report(options, found, roles, answers, slept):
    steps, unit = options.steps, 1e3 / RATE / options.steps
    purposes, threads, symbols = ({role: Counter() for role in roles} for _ in range(3))
    role_of = {pid: role for role, pids in roles.items() for pid in pids}
    for pid, thread, what in found:
        if pid in role_of:
            name = thread if thread.startswith("pslite") else "of MXNet"
            purposes[role_of[pid]][purpose(what)] += 1
            threads[role_of[pid]][f"{name}: {purpose(what)}"] += 1
            symbols[role_of[pid]][f"{purpose(what):22} {name:14} {what[:110]}"] += 1
    speed = sum(answer["seconds"] for answer in answers) / len(answers) / steps
    print(f"{options.kind}, {options.tensors}{', SGD' if options.sgd else ''}: {1e3 * speed:.1f} "
          f"ms a step (watched); threads went to sleep {slept / steps:.0f} times a step")
    title = "ms of processor time a step"
    table(title, purposes, unit, dict.fromkeys(name for name, _, _ in PURPOSES))
    if options.threads:
        table(title, threads, unit,
              sorted({row for counter in threads.values() for row in counter}))
    for role in roles if options.symbols else ():
        print(f"\n{role}s:")
        for text, count in symbols[role].most_common(options.symbols):
            print(f"{count * unit:8.2f}  {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("tensors", choices=["resnet50", "keys", "large"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sgd", action="store_true", help="with an optimizer on the servers")
    parser.add_argument("--symbols", type=int, default=0, metavar="N",
                        help="and the N dearest symbols")
    parser.add_argument("--threads", action="store_true", help="and by thread")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Cluster(
            [PYTHON, "-u", str(MXKV), str(LIMIT)], 2, 2, options.kind) as cluster:
        data = f"{folder}/perf.data"
        if options.sgd:
            cluster.ask("sgd")
        cluster.ask(f"{options.tensors} 2")
        roles = cluster.pids()
        pids = [pid for some in roles.values() for pid in some]
        before = switches(pids)
        answers = record(cluster, f"{options.tensors} {options.steps}", data)
        slept = switches(pids) - before
        found = samples(data)
        cluster.end()
    report(options, found, roles, answers, slept)


if __name__ == "__main__":
    main()
