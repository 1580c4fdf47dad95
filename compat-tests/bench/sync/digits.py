"""What is trained: scikit-learn's digits, a network of 2410 weights, real gradients (digits.c).

1500 images are for training, 297 for the test. A worker has a part of the former: drawn evenly, or
uneven in its classes (Dirichlet).
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache" / "bench"
SOURCE = HERE / "digits.c"
# -march=native: a step takes 6 us and not 20, and a search takes millions. So the last bits depend
# on the machine.
FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
TEST_IMAGES, CLASSES, INPUTS, UNITS = 297, 10, 64, 32
BATCH = 16
# How the images are put in order before they are divided.
ORDER = 7


class Digits:
    """Images and labels, and the functions of digits.c."""

    def __init__(self):
        images, labels = pictures()
        order = np.random.RandomState(ORDER).permutation(len(labels))
        images = np.ascontiguousarray(images[order].reshape(-1, INPUTS) / 16, np.float32)
        labels = np.ascontiguousarray(labels[order], np.int32)
        self.images, self.labels = images[TEST_IMAGES:].copy(), labels[TEST_IMAGES:].copy()
        self._test = images[:TEST_IMAGES].copy(), labels[:TEST_IMAGES].copy()
        code = self._code = ctypes.CDLL(str(library()))
        at, number, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
        code.digits_steps.argtypes = (at, at, number, at, number, at, at, real, real)
        code.digits_gradient.argtypes = (at, at, number, at, at, at)
        code.digits_loss.argtypes = (at, at, at, number, ctypes.POINTER(number))
        code.digits_loss.restype = real
        self._images, self._labels = address(self.images), address(self.labels)
        self.weights = code.digits_weights()

    def begin(self, seed):
        """Weights with which a job begins."""
        draw = np.random.RandomState(seed)
        first = draw.randn(INPUTS * UNITS) * np.sqrt(2 / INPUTS)
        second = draw.randn(UNITS * CLASSES) * np.sqrt(2 / UNITS)
        return np.concatenate([first, np.zeros(UNITS), second,
                               np.zeros(CLASSES)]).astype(np.float32)

    def divide(self, workers, alpha, draw):
        """Numbers of each worker's images. alpha: None for even parts; else the parameter of the
        Dirichlet distribution by which each class is divided. Who would have less than a batch gets
        a batch of any images."""
        if alpha is None:
            return np.array_split(draw.permutation(len(self.labels)), workers)
        parts = [[] for _ in range(workers)]
        for kind in range(CLASSES):
            of_kind = draw.permutation(np.flatnonzero(self.labels == kind))
            ends = np.cumsum(draw.dirichlet([alpha] * workers)) * len(of_kind)
            for part, some in zip(parts, np.split(of_kind, ends.astype(int)[:-1])):
                part.extend(some)
        return [np.array(part) if len(part) > BATCH else draw.randint(0, len(self.labels), BATCH)
                for part in parts]

    def step(self, weights, speed, steps, which, rate, momentum):
        """So many steps of SGD, in place. speed and which are addresses: of the momentum, and of
        int32, BATCH numbers of images for each step."""
        self._code.digits_steps(address(weights), speed, steps, which, BATCH, self._images,
                                self._labels, rate, momentum)

    def gradient(self, weights, which):
        """The mean gradient of these images."""
        which = np.ascontiguousarray(which, np.int32)
        found = np.empty(self.weights, np.float32)
        self._code.digits_gradient(address(weights), address(which), len(which), self._images,
                                   self._labels, address(found))
        return found

    def loss(self, weights):
        """(mean loss, accuracy) on the images of the test."""
        images, labels = self._test
        right = ctypes.c_int()
        loss = self._code.digits_loss(address(weights), address(images), address(labels),
                                      len(labels), ctypes.byref(right))
        return loss, right.value / len(labels)


def pictures():
    """Images and labels as scikit-learn has them. They are kept as a file: to import scikit-learn
    takes longer than all the rest that a worker does before its first step."""
    path = CACHE / "digits.npz"
    if not path.is_file():
        from sklearn.datasets import load_digits
        found = load_digits()
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            made = Path(folder) / path.name
            np.savez(made, images=found.images, labels=found.target)
            made.replace(path)
    kept = np.load(path)
    return kept["images"], kept["labels"]


def address(array):
    """Of a contiguous array's first element."""
    return array.__array_interface__["data"][0]


@lru_cache(maxsize=1)
def digits():
    """That of this process."""
    return Digits()


def library():
    """The compiled digits.c; made if it is not there yet."""
    compiler = os.environ.get("CC", "gcc")
    text = SOURCE.read_bytes() + " ".join((compiler, *FLAGS)).encode()
    path = CACHE / f"digits-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if path.is_file():
        return path
    if not shutil.which(compiler.split()[0]):
        sys.exit(f"bench sync: needs a C compiler, and there is no {compiler} "
                 "(Debian: apt-get install gcc)")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        made = Path(folder) / "digits.so"
        subprocess.run([*compiler.split(), *FLAGS, "-o", made, SOURCE, "-lm"], check=True)
        made.replace(path)
    return path
