"""Trains a small convolutional network on scikit-learn's digits, data-parallel over a kvstore.

An ordinary MXNet program: nothing in it knows which library moves the gradients.

    python train_digits.py [--kvstore dist_sync] [--epochs 5] [--optimizer adam] [--json FILE]

Every worker takes every n-th image of the training set, so all take the same number of steps. All
seeds are fixed: with two workers (two summands commute) two runs end with the same bits.
"""

import argparse
import hashlib
import json
import time

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from sklearn.datasets import load_digits

CLASSES = 10
TEST_IMAGES = 297


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvstore", default="dist_sync")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=50, help="images per worker and step")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", help="rank 0 writes what it measured to this file")
    return parser.parse_args()


def build():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=1),
            gluon.nn.MaxPool2D(2),
            gluon.nn.Conv2D(32, 3, padding=1, activation="relu", in_channels=16),
            gluon.nn.Flatten(),
            gluon.nn.Dense(128, activation="relu", in_units=32 * 4 * 4),
            gluon.nn.Dense(CLASSES, in_units=128))
    return net


def load(seed):
    digits = load_digits()
    order = np.random.RandomState(seed).permutation(len(digits.target))
    images = (digits.images[order] / 16).astype("float32")[:, None]
    labels = digits.target[order].astype("float32")
    return ((images[TEST_IMAGES:], labels[TEST_IMAGES:]),
            (images[:TEST_IMAGES], labels[:TEST_IMAGES]))


def accuracy(net, images, labels):
    answers = net(mx.nd.array(images)).asnumpy().argmax(axis=1)
    return float((answers == labels).mean())


def main():
    args = parse()
    # In a scheduler or server process `import mxnet` never returned: from here on it is a worker.
    kv = mx.kv.create(args.kvstore)
    train, test = load(args.seed)
    images, labels = (part[kv.rank::kv.num_workers] for part in train)
    steps = len(train[1]) // kv.num_workers // args.batch_size

    mx.random.seed(args.seed)
    net = build()
    net.initialize(mx.init.Xavier())
    options = {"learning_rate": args.lr}
    if args.optimizer == "sgd":
        options["momentum"] = 0.9
    trainer = gluon.Trainer(net.collect_params(), args.optimizer, options, kvstore=kv)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()

    epochs = []
    begin = time.time()
    for epoch in range(args.epochs):
        order = np.random.RandomState(1000 * args.seed + epoch).permutation(len(labels))
        for step in range(steps):
            rows = order[step * args.batch_size:(step + 1) * args.batch_size]
            x, y = mx.nd.array(images[rows]), mx.nd.array(labels[rows])
            with autograd.record():
                loss = loss_function(net(x), y)
            loss.backward()
            trainer.step(args.batch_size * kv.num_workers)
        # Without this, what is queued when the interpreter exits is never sent.
        mx.nd.waitall()
        epochs.append({"accuracy": accuracy(net, *test), "seconds": time.time() - begin})
        if kv.rank == 0:
            print("epoch {}: accuracy {:.4f} after {:.2f} s".format(
                epoch + 1, epochs[-1]["accuracy"], epochs[-1]["seconds"]), flush=True)

    sha = hashlib.sha256()
    for name, parameter in sorted(net.collect_params().items()):
        sha.update(parameter.data().asnumpy().tobytes())
    print("rank {}: weights {}".format(kv.rank, sha.hexdigest()), flush=True)
    if kv.rank == 0 and args.json:
        with open("/proc/self/maps") as maps:
            pslite = "libpslite_mxnet" in maps.read()
        with open(args.json, "w") as file:
            json.dump({"weights": sha.hexdigest(), "epochs": epochs, "pslite": pslite,
                       "workers": kv.num_workers, "seconds": time.time() - begin}, file)
    mx.nd.waitall()


if __name__ == "__main__":
    main()
