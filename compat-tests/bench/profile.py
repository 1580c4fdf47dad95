"""Where the processor's time goes in steps of mx.kv: by role, and by what the code is for.

    python compat-tests/bench/profile.py shm resnet50            needs `perf`, and the right to use it
    python compat-tests/bench/profile.py tcp keys --steps 60 --sgd --symbols 30

KIND is stock, zmq, tcp or shm; the set of tensors is one of mxkv.py. Milliseconds of processor time for each
step, all processes of a role together, from samples of the instruction that was running. The gradients that
each step begins with are made outside the time that mxkv.py measures; they stand apart.
Environment: as compat-tests/harness.py.
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
# The first one whose pattern is found in "symbol (file)" is what a sample is for.
PURPOSES = (
    ("gradients are made", r"_identity_with_cast|set_to_int|_set_value|SetValue|fill"),
    ("looking before sleep", r"spin::Spin|Spin>?::until"),
    ("sums", r"kernels::|sum::|add_two|ElementwiseSum|ReduceSum|elemwise_sum|mshadow::op::plus"),
    ("optimizer", r"optimizer|sgd|SGD"),
    ("page faults", r"clear_page|page_fault|handle_mm|alloc_pages|folio|zap_|unmap|rmqueue|lru_|pte_|"
                    r"memcg|charge|free_unref|__mod_.*state|get_page_from_freelist|vma|mas_|mtree"),
    ("copies in the kernel", r"copy_user|_copy_to_iter|_copy_from_iter|rep_movs|copyin|copyout|skb_copy_data"),
    ("copies", r"memmove|memcpy|memory::SharedMemory|ring::Ring(Reader|Writer)|copy_nonoverlapping"),
    ("waking, sleeping", r"futex|schedule|wake_up|try_to_wake|ttwu|epoll|ep_|eventfd|switch_to|enqueue_|"
                         r"dequeue_|pick_|select_task|update_curr|update_load|pthread_(cond|mutex)|idle|"
                         r"context_switch|finish_task|__lll_|do_wait|psi_|smp_call|ipi|reschedule"),
    ("sockets", r"tcp_|skb|sock|inet|ip_|__ip|net_|netif|napi|loopback|bbr|nf_|ipv4|sendmsg|recvmsg|"
                r"__dev_|dev_|softirq|release_sock|lock_sock|import_iovec|iov_iter"),
    ("rest of the kernel", r"\(\[kernel|\[vdso\]"),
    ("libzmq", r"\bzmq::"),
    ("rest of the library", re.escape(LIBRARY.name)),
    ("MXNet, Python", r"."),
)
LINE = re.compile(r"^\s*(?P<pid>\d+)\s+[0-9a-f]+\s+(?P<what>.*)$")


def purpose(what):
    return next(name for name, pattern in PURPOSES if re.search(pattern, what))


def samples(data):
    """(process, "symbol (file)") of each sample."""
    out = subprocess.run(["perf", "script", "-i", data, "-F", "pid,ip,sym,dso"], check=True, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT).stdout
    return [(int(match["pid"]), match["what"]) for match in map(LINE.match, out.splitlines()) if match]


def switches(pids):
    """How often threads of these processes went to sleep so far."""
    total = 0
    for pid in pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.M)[1])
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


def report(options, found, roles, answers, slept):
    steps = options.steps
    times, symbols = {role: Counter() for role in roles}, {role: Counter() for role in roles}
    role_of = {pid: role for role, pids in roles.items() for pid in pids}
    for pid, what in found:
        if pid in role_of:
            times[role_of[pid]][purpose(what)] += 1
            symbols[role_of[pid]][what] += 1
    ms = 1e3 / RATE / steps
    speed = sum(answer["seconds"] for answer in answers) / len(answers) / steps
    print(f"{options.kind}, {options.tensors}{', SGD' if options.sgd else ''}: {1e3 * speed:.1f} ms a step "
          f"(watched); threads went to sleep {slept / steps:.0f} times a step")
    print(f"\n| ms of processor time a step | {' | '.join(f'{role}s' for role in roles)} |\n|---|---|---|")
    for name, _ in PURPOSES:
        cells = [times[role][name] * ms for role in roles]
        if any(cell >= 0.05 for cell in cells):
            print(f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} |")
    print(f"| all | {' | '.join(f'{sum(times[role].values()) * ms:.1f}' for role in roles)} |")
    for role in roles if options.symbols else ():
        print(f"\n{role}s:")
        for what, count in symbols[role].most_common(options.symbols):
            print(f"{count * ms:8.2f}  {purpose(what):22} {what[:120]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("tensors", choices=["resnet50", "keys", "large"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sgd", action="store_true", help="with an optimizer on the servers")
    parser.add_argument("--symbols", type=int, default=0, metavar="N", help="and the N dearest symbols")
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
