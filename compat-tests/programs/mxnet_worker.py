"""pslite.mxnet: a worker with the stock wheel, preloaded or not.

    mxnet_worker.py CASE        prints one line of JSON with what it saw
"""

import copy
import json
import pickle
import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import pslite.mxnet as bps
from common import data, digest, mapped
from halving import Halving
from pslite import node
from refused import refused

CASE = sys.argv[1]
BATCH = 8


def network(seed):
    mx.random.seed(seed)
    net = gluon.nn.Sequential(prefix=f"net{seed}_")
    with net.name_scope():
        net.add(gluon.nn.Dense(12, activation="relu", in_units=6), gluon.nn.Dense(2, in_units=12))
    net.initialize(mx.init.Xavier())
    return net


def backward(net, x, y):
    with autograd.record():
        loss = gluon.loss.L2Loss()(net(mx.nd.array(x)), mx.nd.array(y))
    loss.backward()


def batch(step, rank):
    return data((BATCH, 6), 100 * step + rank), data((BATCH, 2), 100 * step + rank + 50)


def weights(net):
    return [each.data().asnumpy() for each in net.collect_params().values()]


def furthest(left, right):
    return max(float(abs(a - b).max()) for a, b in zip(left, right))


def whole(net, optimizer, settings, changes, steps=6):
    """The same training in this process alone, on the batches of all workers."""
    trainer = gluon.Trainer(net.collect_params(), optimizer, settings, kvstore=None)
    for step in range(steps):
        if step in changes:
            trainer.set_learning_rate(changes[step])
        parts = [batch(step, rank) for rank in range(bps.size())]
        backward(net, *(np.concatenate(each) for each in zip(*parts)))
        trainer.step(BATCH * bps.size())
    return weights(net)


def distributed_trainer():
    """Equal to one process with the whole batch, also after a change of the learning rate."""
    settings = {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.01}
    # Worker 1's parameters are what all begin with.
    net = network(1 if bps.rank() == 1 else 7)
    trainer = bps.DistributedTrainer(net.collect_params(), "sgd", settings, root_rank=1)
    for step in range(6):
        if step == 3:
            trainer.set_learning_rate(0.01)
        backward(net, *batch(step, bps.rank()))
        trainer.step(BATCH)
    return furthest(weights(net), whole(network(1), "sgd", settings, {3: 0.01}))


def distributed_optimizer():
    """In a loop of one's own, over two updates at a time, and through pickle."""
    optimizer = bps.DistributedOptimizer(mx.optimizer.Adam(learning_rate=0.1))
    again = pickle.loads(pickle.dumps(copy.copy(optimizer)))
    updater = mx.optimizer.get_updater(optimizer)
    mine = [mx.nd.ones((3,)), mx.nd.ones((2, 2))]
    for step in range(3):
        gradients = [mx.nd.array(data(each.shape, 10 * step + bps.rank())) for each in mine]
        updater([0, 1], gradients, mine)
    alone = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.1))
    theirs = [mx.nd.ones((3,)), mx.nd.ones((2, 2))]
    for step in range(3):
        means = [mx.nd.array(sum(data(each.shape, 10 * step + rank) for rank in range(bps.size()))
                             / bps.size()) for each in theirs]
        alone([0, 1], means, theirs)
    optimizer.set_learning_rate(0.5)
    off = furthest([each.asnumpy() for each in mine], [each.asnumpy() for each in theirs])
    return {"off": off, "again": type(again.inner).__name__, "rate": optimizer.inner.lr,
            "known": optimizer.learning_rate}


def sums():
    """push_pull and broadcast_parameters, of arrays on one and two devices."""
    tensor = mx.nd.arange(4) * (bps.rank() + 1)
    out = mx.nd.zeros((4,))
    mean = bps.push_pull(tensor, out, name="t")
    assert mean is out
    kept = tensor.asnumpy().tolist()
    total = bps.push_pull(tensor, average=False).asnumpy().tolist()
    host = bps.push_pull(np.full(3, bps.rank(), "float64")).tolist()
    array = mx.nd.full((2,), 5 + bps.rank())
    bps.broadcast_parameters({"a": array}, root_rank=1)
    first = array.asnumpy().tolist()
    array[:] = 8 + bps.rank()
    bps.broadcast_parameters({"a": array, "b": mx.nd.ones((1,))})
    return {"mean": out.asnumpy().tolist(), "kept": kept, "total": total, "host": host,
            "first": first, "second": array.asnumpy().tolist()}


def summing():
    """Servers sum: all that needs no optimizer at them."""
    before = [refused(bps.rank), refused(lambda: bps.DistributedTrainer({}, "sgd"))]
    bps.init()
    bps.init()
    found = {"before": before, "rank": bps.rank(), "size": bps.size(),
             "local": [bps.local_rank(), bps.local_size()],
             "current": node.current().rank, "trainer": distributed_trainer(),
             "optimizer": distributed_optimizer(), "sums": sums()}
    # By its name, with one device and with two, and the optimizer in the worker.
    found["devices"] = by_name([mx.cpu(0), mx.cpu(1)])
    found["again"] = refused(lambda: by_name([mx.cpu(0)]))
    found["wrong"] = wrong_sums()
    kv = mx.kv.create("pslite")
    kv._store._agreement.back = True
    found["back"] = refused(lambda: kv.broadcast(77, mx.nd.ones((2,)), mx.nd.ones((2,))))
    bps.shutdown()
    bps.shutdown()
    found["after"] = refused(bps.size)
    return found


def by_name(devices):
    """gluon.Trainer(kvstore="pslite"), against one device and the whole batch."""
    settings = {"learning_rate": 0.1}
    net = network(20)
    net.initialize(mx.init.Constant(0.1), ctx=devices, force_reinit=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd", settings, kvstore="pslite",
                            update_on_kvstore=False)
    half = BATCH // len(devices)
    x, y = batch(0, bps.rank())
    with autograd.record():
        losses = [gluon.loss.L2Loss()(net(mx.nd.array(x[i * half:][:half], ctx=device)),
                                      mx.nd.array(y[i * half:][:half], ctx=device))
                  for i, device in enumerate(devices)]
    autograd.backward(losses)
    trainer.step(BATCH * bps.size())
    alone = network(21)
    alone.initialize(mx.init.Constant(0.1), force_reinit=True)
    return furthest(weights(net), whole(alone, "sgd", settings, {}, steps=1))


def wrong_sums():
    sparse = gluon.nn.Embedding(4, 2, sparse_grad=True)
    sparse.initialize()
    late = gluon.nn.Dense(2)
    late.initialize()
    return {
        "integers": refused(lambda: bps.push_pull(mx.nd.ones((2,), dtype="int32"))),
        "size": refused(lambda: bps.push_pull(mx.nd.ones((5,)), name="t")),
        "out": refused(lambda: bps.push_pull(mx.nd.ones((4,)), mx.nd.ones((5,)), name="t")),
        "sparse": refused(lambda: bps.push_pull(mx.nd.ones((4, 1)).tostype("row_sparse"))),
        "gradient": refused(lambda: bps.DistributedTrainer(sparse.collect_params(), "sgd")),
        "root": refused(lambda: bps.broadcast_parameters({"a": mx.nd.ones((2,))}, 2)),
        "deferred": refused(lambda: bps.broadcast_parameters(late.collect_params())),
        **came_back(network(1).collect_params()),
    }


def came_back(params):
    """What a worker is told that took the place of one that died."""
    known = node.Node.is_recovery
    node.Node.is_recovery = True
    try:
        return {"trainer": refused(lambda: bps.DistributedTrainer(params, "sgd")),
                "wrapped": refused(lambda: bps.DistributedOptimizer(mx.optimizer.SGD())),
                "values": refused(lambda: bps.broadcast_parameters(params))}
    finally:
        node.Node.is_recovery = known


def rated(net):
    """Multipliers of gluon's parameters."""
    net[0].bias.lr_mult, net[1].weight.wd_mult = 3.0, 0.0
    return net


def schedule():
    return {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.1,
            "lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.05)}


def updating():
    """Servers update: by the name, with a scheduler and multipliers of parameters."""
    kv = mx.kv.create("dist_sync_pslite")
    net = rated(network(3))
    trainer = gluon.Trainer(net.collect_params(), "sgd", schedule(), kvstore="pslite")
    for step in range(6):
        backward(net, *batch(step, kv.rank))
        trainer.step(BATCH * kv.num_workers)
    alone = whole(rated(network(3)), "sgd", schedule(), {})
    plain = whole(network(3), "sgd", {**schedule(), "lr_scheduler": None}, {})
    return {"off": furthest(weights(net), alone), "far": furthest(weights(net), plain),
            "wrong": wrong_updates(kv, net, trainer)}


def wrong_updates(kv, net, trainer):
    one = mx.nd.ones((2,))
    found = {
        "scheduler": refused(lambda: change(trainer.optimizer, "lr_scheduler", None, trainer, net)),
        "rate": refused(lambda: change(trainer.optimizer, "lr", 0.5, trainer, net)),
        "multiplier": refused(lambda: change(net[0].weight, "lr_mult", 2.0, trainer, net)),
        "save": refused(lambda: trainer.save_states("states")),
        "load": refused(lambda: trainer.load_states("states")),
        "compress": refused(lambda: kv.set_gradient_compression({"type": "2bit"})),
        "rows": refused(lambda: kv.row_sparse_pull(0, one, row_ids=one)),
        "sum": refused(lambda: bps.push_pull(one)),
        "twice": refused(lambda: kv.init(0, one)),
        "mixed": refused(lambda: kv.init("zero", one)),
        "none": refused(lambda: kv.pull(99, one)),
        "negative": refused(lambda: kv.pull(-1, one)),
        "counts": refused(lambda: kv.push([0, 1], [one])),
        "kind": refused(lambda: kv.push(0, np.ones(2, "float32"))),
        "shape": refused(lambda: kv.push(0, one)),
        "dtype": refused(lambda: kv.pull(0, net[0].weight.data().astype("float64"))),
        "text": refused(lambda: kv.set_optimizer("sgd")),
        "class": refused(lambda: kv.set_optimizer(Halving())),
    }
    backward(net, *batch(9, kv.rank))
    trainer.step(BATCH * kv.num_workers)
    return found


def change(owner, name, value, trainer, net):
    """A step after a change that servers do not learn of; takes it back."""
    before = getattr(owner, name)
    backward(net, *batch(8, bps.rank()))
    setattr(owner, name, value)
    try:
        trainer.step(BATCH * bps.size())
    finally:
        setattr(owner, name, before)


def pushes():
    """push does not wait, and its values may be changed at once; workers push in any order."""
    kv = mx.kv.create("pslite")
    kv.init(["a", "b"], [mx.nd.zeros((2,)), mx.nd.zeros((3,))])
    for key, shape in (("a", 2), ("b", 3)) if kv.rank else (("b", 3), ("a", 2)):
        value = mx.nd.full((shape,), kv.rank + 1)
        kv.push(key, value)
        value[:] = 77
    out = [mx.nd.zeros((2,)), [mx.nd.zeros((3,)), mx.nd.zeros((3,), ctx=mx.cpu(1))]]
    kv.pull(["a", "b"], out)
    found = [out[0].asnumpy().tolist(), *(each.asnumpy().tolist() for each in out[1])]
    kv.pushpull(["b", "a"], [[mx.nd.ones((3,)), mx.nd.ones((3,), ctx=mx.cpu(1))], mx.nd.ones((2,))],
                out=[out[1], out[0]])
    found += [out[1][1].asnumpy().tolist(), out[0].asnumpy().tolist()]
    kv._barrier()
    return {"found": found, "type": kv.type, "capable": kv.is_capable("optimizer"),
            "fitted": fitted(kv.rank)}


def fitted(rank):
    """Module.fit by the name, on other data and from other weights at each worker."""
    mx.random.seed(rank)
    train = mx.io.NDArrayIter(data((32, 6), rank), (data((32,), rank + 5) > 0).astype("float32"),
                              batch_size=BATCH, label_name="softmax_label")
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="one")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(symbol, name="softmax"), context=mx.cpu())
    module.fit(train, num_epoch=2, kvstore="pslite", initializer=mx.init.Xavier())
    arguments, _ = module.get_params()
    return digest([arguments[name] for name in sorted(arguments)])


def differing():
    """Each worker means something else by what it does. What it is told."""
    bps.init()
    return {"told": refused(lambda: DIFFERING[sys.argv[2]](bps.rank()))}


def other_keys(rank):
    kv = mx.kv.create("pslite")
    kv.init(["b", "a"] if rank else ["a", "b"], [mx.nd.zeros((2,))] * 2)
    kv.pushpull("a", mx.nd.ones((2,)))


def other_trainer(rank):
    bps.DistributedTrainer(network(1).collect_params(), "sgd", {"learning_rate": 0.1 + rank})


def other_change(rank):
    net = network(1)
    trainer = bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for step in range(3):
        if step == 2 and rank == 0:
            trainer.set_learning_rate(0.5)
        backward(net, *batch(step, rank))
        trainer.step(BATCH)


def other_batch(rank):
    net = network(1)
    trainer = bps.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    backward(net, *batch(0, rank))
    trainer.step(BATCH + rank)


def other_wrapped(rank):
    updates(bps.DistributedOptimizer(mx.optimizer.SGD(learning_rate=0.1 + rank)))


def other_wrapped_change(rank):
    optimizer = bps.DistributedOptimizer(mx.optimizer.SGD(learning_rate=0.1))
    updates(optimizer)
    if rank == 0:
        optimizer.set_learning_rate(0.5)
    updates(optimizer)


def updates(optimizer):
    """A step of two parameters, one after the other, as Module makes it."""
    updater = mx.optimizer.get_updater(optimizer)
    for index in range(2):
        updater(index, mx.nd.ones((2,)), mx.nd.ones((2,)))


DIFFERING = {
    "wrapped": other_wrapped,
    "wrapped change": other_wrapped_change,
    "names": lambda rank: bps.push_pull(mx.nd.ones((2,)), name="yx"[rank]),
    "keys": other_keys,
    "optimizer": lambda rank: mx.kv.create("pslite").set_optimizer(
        mx.optimizer.SGD(learning_rate=0.1 + rank)),
    "trainer": other_trainer,
    "change": other_change,
    "batch": other_batch,
}


def preloaded():
    """MXNet's own kvstore: its node is this process's."""
    before = refused(node.current)
    kv = mx.kv.create("dist_sync")
    own = node.current()
    kv.init(1, mx.nd.ones((1000,)))
    kv.pushpull(1, mx.nd.ones((1000,)), out=mx.nd.zeros((1000,)))
    mx.nd.waitall()
    sent = sum(each["value"] for each in own.metrics()["metrics"]
               if each["name"] == "messages" and each["direction"] == "sent"
               and each["kind"] in ("push", "push-pull"))
    own.barrier("workers")
    bps.init()
    given = refused(lambda: bps.init(PSLITE_ELASTIC="1"))
    found = {"before": before, "given": given, "sent": sent,
             "rank": [own.rank, kv.rank, bps.rank()],
             "workers": [own.num_workers, kv.num_workers], "role": own.role,
             "same": own is node.current(), "local": [bps.local_rank(), bps.local_size()],
             "store": refused(lambda: mx.kv.create("pslite")),
             "libps": mapped("libps.so")}
    bps.shutdown()
    own.close()
    found["closed"] = refused(lambda: own.rank)
    out = mx.nd.zeros((1000,))
    kv.pull(1, out)
    found["goes on"] = [float(out.sum().asscalar()), node.current().rank == kv.rank]
    lent = node.current()
    del kv
    found["after"] = [refused(node.current), refused(lambda: lent.rank)]
    return found


def doubled():
    """A process is one worker: MXNet's own ps-lite would ask for the place of another one."""
    bps.init(workers=np.int64(2))
    net = network(1)
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync")
    names = ("dist_sync", "Dist_Async", "dist_device_sync")
    return {
        "kvstores": [refused(lambda name=name: mx.kv.create(name)) for name in names],
        "trainer": refused(trainer._init_kvstore),
        "types": [mx.kv.create("local").type, mx.kv.create("pslite").type],
        "other": [refused(lambda: bps.init(workers=3)), refused(lambda: bps.init(rank=1))],
        "same": [refused(bps.init), refused(lambda: bps.init(workers=2))],
        "sum": bps.push_pull(mx.nd.ones((2,)), average=False).asnumpy().tolist(),
    }


def beside():
    """The other way round: MXNet's own ps-lite was first."""
    kv = mx.kv.create("dist_sync")
    found = [refused(bps.init), refused(lambda: mx.kv.create("pslite"))]
    kv.init(1, mx.nd.ones((2,)))
    out = mx.nd.zeros((2,))
    kv.pull(1, out)
    return {"refused": found, "out": out.asnumpy().tolist()}


def late():
    """Parameters whose shapes the first batch tells, beside some that are known; rates and keys of
    numpy."""
    bps.init()
    net = gluon.nn.Sequential(prefix="late_")
    with net.name_scope():
        net.add(gluon.nn.Dense(3, activation="relu"), gluon.nn.Dense(2, in_units=3))
    net.initialize(mx.init.Constant(0.1 * (bps.rank() + 1)))
    trainer = bps.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": np.float32(0.1)}, root_rank=np.int64(1))
    shapes = [each.shape for each in net.collect_params().values()]
    for step in range(3):
        backward(net, *batch(step, bps.rank()))
        trainer.step(BATCH)
        if step == 0:
            first = digest([mx.nd.array(each) for each in weights(net)])
    kv = mx.kv.create("pslite")
    kv.init(np.int64(4), mx.nd.zeros((2,)))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=np.float32(0.5), wd=np.float64(0)))
    out = mx.nd.zeros((2,))
    kv.pushpull(4, mx.nd.ones((2,)), out=out, priority=np.int32(-1))
    last = digest([mx.nd.array(each) for each in weights(net)])
    return {"shapes": shapes, "first": first, "last": last, "stepped": out.asnumpy().tolist()}


def early():
    """Worker 1 makes fewer calls than the others, and ends as if all were well."""
    bps.init()
    for _ in range(2 if bps.rank() == 1 else 4):
        bps.push_pull(mx.nd.ones((2,)), name="t")
    return {"rank": bps.rank()}


def main():
    found = globals()[CASE]()
    print(json.dumps({**found, "pslite": mapped("libpslite_mxnet")}), flush=True)


if __name__ == "__main__":
    main()
