"""A worker of BytePS's MXNet plugin: sums tensors over all workers and says how many sums were
wrong.

    python job.py sums ROUNDS              each type, tensors of 1 to 3,000,001 elements
    python job.py rounds ROUNDS ELEMENTS   rounds on one key without a pause, another value in each
    python job.py keys ROUNDS KEYS PACE END
                                           rounds on several keys, with a pause of so many
                                           milliseconds after each; says "round N" when all workers
                                           have it. The last one is that in which a worker finds a
                                           file END; if there were so many before, none of them
                                           counts

The last line of standard output is a JSON object. Exit code 0 also if sums were wrong: the caller
decides.
"""

import json
import os
import sys
import time

import byteps.mxnet as bps
import byteps.mxnet.ops as ops
import mxnet as mx
import numpy as np

# This function of the plugin gives nothing back, but its caller checks what happens to be in the
# register.
ops.MXNET_LIB_CTYPES.byteps_mxnet_declare_tensor.restype = lambda _: 0

TYPES = ("float32", "float64", "int32")
#: Up to three parts of BYTEPS_PARTITION_BYTES (4,096,000 bytes) for 4 bytes an element, and an odd
#: rest.
SIZES = (1, 2, 1023, 65_536, 1_000_003, 3_000_001)


def values(rank, number, elements, dtype):
    """What a worker puts in. Small whole numbers: sums are exact in every type."""
    return ((np.arange(elements) + 7 * number) % 1000 * (rank + 1) + 13 * number).astype(dtype)


def expected(number, elements, dtype):
    workers = int(os.environ["DMLC_NUM_WORKER"])
    return sum(values(rank, number, elements, dtype) for rank in range(workers))


def push_pull(tensor, name):
    bps.byteps_push_pull(tensor, name=name, is_average=False)
    tensor.wait_to_read()


def sums(count):
    wrong = []
    for dtype in TYPES:
        for elements in SIZES:
            name = f"{dtype}_{elements}"
            bps.byteps_declare_tensor(name)
            for number in range(count):
                tensor = mx.nd.array(values(bps.rank(), number, elements, dtype), dtype=dtype)
                push_pull(tensor, name)
                if not np.array_equal(tensor.asnumpy(), expected(number, elements, dtype)):
                    wrong.append(f"{name} round {number}")
    return {"checked": count * len(TYPES) * len(SIZES), "wrong": wrong}


def rounds(count, elements):
    bps.byteps_declare_tensor("key")
    workers = int(os.environ["DMLC_NUM_WORKER"])
    wrong = []
    for number in range(count):
        tensor = mx.nd.full((elements,), (number + 1) * (bps.rank() + 1), dtype="float32")
        push_pull(tensor, "key")
        seen = tensor.asnumpy()
        want = (number + 1) * workers * (workers + 1) // 2
        if not (seen == want).all():
            wrong.append([number, want, sorted(map(float, np.unique(seen)))[:4]])
        # For runs that never end.
        print(f"after round {number + 1}: {len(wrong)} wrong", file=sys.stderr, flush=True)
    return {"checked": count, "wrong": wrong}


def keys(count, number_of_keys, pace, end):
    names = [f"key{key}" for key in range(number_of_keys)]
    for name in [*names, "end"]:
        bps.byteps_declare_tensor(name)
    wrong = []
    for number in range(count):
        # All end after the same round: who sees the file tells it in a sum.
        ends = mx.nd.array([os.path.exists(end)], dtype="float32")
        # From a few bytes to two parts.
        tensors = [mx.nd.array(values(bps.rank(), number + key, 5 + 200_000 * key, "float32"))
                   for key in range(number_of_keys)]
        for name, tensor in zip(names, tensors):
            bps.byteps_push_pull(tensor, name=name, is_average=False)
        bps.byteps_push_pull(ends, name="end", is_average=False)
        for key, tensor in enumerate(tensors):
            if not np.array_equal(tensor.asnumpy(),
                                  expected(number + key, 5 + 200_000 * key, "float32")):
                wrong.append(f"{names[key]} round {number}")
        print(f"round {number}", flush=True)
        if ends.asnumpy()[0] > 0:
            return {"checked": (number + 1) * number_of_keys, "wrong": wrong}
        time.sleep(pace / 1000)
    return {"checked": 0, "wrong": wrong}


def main():
    bps.init()
    words = (int(word) if word.isdigit() else word for word in sys.argv[2:])
    result = {"sums": sums, "rounds": rounds, "keys": keys}[sys.argv[1]](*words)
    print(json.dumps({"rank": bps.rank(), "size": bps.size(), **result}), flush=True)
    bps.shutdown()


main()
