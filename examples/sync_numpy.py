"""Weights that the program steps itself, in numpy: scikit-learn's digits on several workers that
exchange what they have changed (pslite.sync).

    PSLITE_SYNC=fedavg:steps=8 pslite run -n 2 -s 1 --native-scheduler --native-servers -- \\
        python examples/sync_numpy.py

With PSLITE_SYNC=nbsync the same program computes while its changes travel. The three lines that it
needs have a mark. The rest is a net of two layers with a momentum of its own, as in any program
of numpy. Every worker takes every n-th image.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

from pslite import sync
from pslite.node import Node

CLASSES, HIDDEN, TEST_IMAGES = 10, 64, 297


def load(seed):
    digits = load_digits()
    order = np.random.RandomState(seed).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16).astype("float32"), digits.target[order]
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES],
                                                          labels[:TEST_IMAGES])


def initial(seed):
    chance, sizes = np.random.RandomState(seed), (64, HIDDEN, CLASSES)
    net = {}
    for layer, (before, after) in enumerate(zip(sizes, sizes[1:])):
        scale = np.sqrt(2 / before)
        net[f"weight{layer}"] = chance.normal(0, scale, (before, after)).astype("float32")
        net[f"bias{layer}"] = np.zeros(after, "float32")
    return net


def forward(net, images):
    hidden = np.maximum(images @ net["weight0"] + net["bias0"], 0)
    return hidden, hidden @ net["weight1"] + net["bias1"]


def gradients(net, images, labels):
    hidden, scores = forward(net, images)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    out = chances / len(labels)
    back = (out @ net["weight1"].T) * (hidden > 0)
    return {"weight1": hidden.T @ out, "bias1": out.sum(axis=0),
            "weight0": images.T @ back, "bias0": back.sum(axis=0)}


def accuracy(net, images, labels):
    return float((forward(net, images)[1].argmax(axis=1) == labels).mean())


def train(node, options):
    (images, labels), test = load(options.seed)
    images, labels = (part[node.rank::node.num_workers] for part in (images, labels))
    net = initial(options.seed + node.rank)
    velocity = {name: np.zeros_like(array) for name, array in net.items()}
    with sync.Exchange(node, net) as exchange:                                             # (1)
        begun = accuracy(net, *test)
        for epoch in range(options.epochs):
            order = np.random.RandomState(1000 * options.seed + epoch).permutation(len(labels))
            for at in range(0, len(labels) - options.batch + 1, options.batch):
                rows = order[at:at + options.batch]
                for name, gradient in gradients(net, images[rows], labels[rows]).items():
                    velocity[name] = 0.9 * velocity[name] - options.lr * gradient
                    net[name] += velocity[name]
                exchange.step()                                                            # (2)
        counts = exchange.counts
        # What this worker has is its own, until all wait for each other.
        exchange.finish()                                                                  # (3)
        print(f"worker {node.rank}: {exchange.mode}; {counts.iterations} iterations, {counts.sent} "
              f"rounds, accuracy {begun:.4f}, then {accuracy(net, *test):.4f}; weights sum up to "
              f"{sum(float(array.sum()) for array in net.values())!r}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="images per worker and iteration")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    with Node() as node:
        train(node, options)


if __name__ == "__main__":
    main()
