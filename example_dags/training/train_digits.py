"""Trains a small network on handwritten digits, with as many ranks as Trainer starts.

The data set ships inside scikit-learn. Every rank holds a part of it and works out a gradient; rank 0 averages the
gradients of all ranks, over the network, and sends the average back. After each epoch rank 0 writes a checkpoint, and
a run that finds one goes on from it.

Trainer's torch policy says who is who: ``PET_NNODES``, ``PET_NODE_RANK``, ``PET_MASTER_ADDR`` and ``PET_MASTER_PORT``.
``DISPATCH_EPOCH`` rises with every execution of the job: the fence lets only the newest one write checkpoints, and an
older one stops there. An image that has no package ``airflow_dispatch`` needs a copy of that one file, and ``import
fence``.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from airflow_dispatch import fence

Array = NDArray[np.float64]
Parameters = list[Array]

HIDDEN = 64
RENDEZVOUS_SECONDS = 60.0
FENCED_OUT = 76
"""Exit code of an execution whose checkpoint folder a newer one has claimed; ``fence.sh`` has the same."""


class Ranks:
    """All ranks of this job; their gradients meet at rank 0."""

    def __init__(self) -> None:
        self.world = int(os.environ.get("PET_NNODES", "1"))
        self.rank = int(os.environ.get("PET_NODE_RANK", "0"))
        self._address = os.environ.get("PET_MASTER_ADDR", "127.0.0.1"), int(os.environ.get("PET_MASTER_PORT", "29500"))
        # Keeps ranks of different jobs apart; it is no secret.
        self._key = os.environ.get("DISPATCH_JOB_ID", "digits").encode()
        self._peers: list[Connection] = []

    def meet(self) -> None:
        """Connects all ranks with rank 0; the last one may take a while to start."""
        if self.rank == 0:
            with Listener(self._resolved(), authkey=self._key) as listener:
                self._peers = [listener.accept() for _ in range(self.world - 1)]
        else:
            self._peers = [self._dial()]

    def average(self, gradient: Array) -> Array:
        """The mean of all ranks' gradients."""
        if self.world == 1:
            return gradient
        if self.rank > 0:
            self._peers[0].send(gradient)
            mean: Array = self._peers[0].recv()
            return mean
        mean = (gradient + sum(peer.recv() for peer in self._peers)) / self.world
        for peer in self._peers:
            peer.send(mean)
        return mean

    def _resolved(self) -> tuple[str, int]:
        host, port = self._address
        deadline = time.monotonic() + RENDEZVOUS_SECONDS
        while True:
            try:
                return socket.gethostbyname(host), port
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _dial(self) -> Connection:
        deadline = time.monotonic() + RENDEZVOUS_SECONDS
        while True:
            try:
                return Client(self._resolved(), authkey=self._key)
            except ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


class Checkpoints:
    """A folder that belongs to one execution at a time: the newest that has claimed it."""

    def __init__(self, folder: Path) -> None:
        self._fence = fence.claim(folder)
        self._file = folder / "checkpoint.npz"

    def load(self) -> tuple[int, Parameters] | None:
        """The number of epochs trained, and the parameters."""
        if not self._file.exists():
            return None
        with np.load(self._file) as stored:
            return int(stored["epochs"]), [stored[f"p{index}"] for index in range(4)]

    def save(self, epochs: int, parameters: Parameters) -> None:
        """Writes a checkpoint in one step, unless the folder is a newer execution's by now."""
        arrays = {f"p{index}": value for index, value in enumerate(parameters)}
        with self._fence.saving(self._file.name) as partial:
            np.savez(partial, allow_pickle=False, epochs=np.array(epochs), **arrays)


def fresh_parameters(inputs: int, classes: int) -> Parameters:
    """The same on every rank."""
    random = np.random.default_rng(0)
    return [
        random.normal(0, inputs**-0.5, (inputs, HIDDEN)),
        np.zeros(HIDDEN),
        random.normal(0, HIDDEN**-0.5, (HIDDEN, classes)),
        np.zeros(classes),
    ]


def predict(parameters: Parameters, images: Array) -> tuple[Array, Array]:
    """Activations of the hidden layer, and the classes' probabilities."""
    hidden = np.maximum(images @ parameters[0] + parameters[1], 0)
    scores = hidden @ parameters[2] + parameters[3]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def gradient(parameters: Parameters, images: Array, labels: NDArray[np.int64]) -> tuple[Array, float]:
    """The gradient of the mean cross-entropy, all parameters in one vector, and that mean."""
    hidden, odds = predict(parameters, images)
    rows = np.arange(len(labels))
    loss = float(-np.log(odds[rows, labels] + 1e-12).mean())
    odds[rows, labels] -= 1
    odds /= len(labels)
    back = (odds @ parameters[2].T) * (hidden > 0)
    parts = (images.T @ back, back.sum(axis=0), hidden.T @ odds, odds.sum(axis=0))
    return np.concatenate([part.ravel() for part in parts]), loss


def step(parameters: Parameters, flat: Array, rate: float) -> None:
    """Moves the parameters against a flat gradient."""
    start = 0
    for values in parameters:
        np.subtract(values, rate * flat[start : start + values.size].reshape(values.shape), out=values)
        start += values.size


def batches(count: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Indices of one epoch's batches, in an order of that epoch."""
    order = np.random.default_rng(seed).permutation(count)
    for start in range(0, count - size + 1, size):
        yield order[start : start + size]


def main() -> None:
    """Trains, and prints what a person watching wants to see."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds to wait after each epoch, to watch it happen")
    parser.add_argument("--fail-at", type=int, help="exit with code 3 after this epoch, on the last rank")
    options = parser.parse_args()

    ranks = Ranks()
    data = load_digits()
    images, labels = data.data / 16.0, data.target
    held_out = len(images) // 5
    test_images, test_labels = images[:held_out], labels[:held_out]
    mine = slice(held_out + ranks.rank, None, ranks.world)
    images, labels = images[mine], labels[mine]

    checkpoints = None
    if ranks.rank == 0 and "CHECKPOINTS" in os.environ:
        checkpoints = Checkpoints(Path(os.environ["CHECKPOINTS"]))
    print(f"rank {ranks.rank} of {ranks.world}: {len(images)} images", flush=True)
    ranks.meet()

    parameters = fresh_parameters(images.shape[1], len(data.target_names))
    first = 0
    stored = checkpoints.load() if checkpoints else None
    if stored is not None:
        first, parameters = stored
        print(f"resuming after epoch {first}", flush=True)
    # All ranks go on from where rank 0 is.
    state = np.concatenate([[float(first)], *(values.ravel() for values in parameters)])
    state = ranks.average(state if ranks.rank == 0 else np.zeros_like(state)) * ranks.world
    first = round(state[0])
    step(parameters, np.concatenate([values.ravel() for values in parameters]) - state[1:], 1.0)

    steps = len(labels) // 32
    steps = int(ranks.average(np.array([float(steps)]))[0])
    for epoch in range(first + 1, options.epochs + 1):
        losses = []
        for _, batch in zip(range(steps), batches(len(labels), 32, epoch), strict=False):
            flat, loss = gradient(parameters, images[batch], labels[batch])
            step(parameters, ranks.average(flat), 0.3)
            losses.append(loss)
        print(f"epoch {epoch}/{options.epochs}  loss {np.mean(losses):.3f}", flush=True)
        if checkpoints:
            checkpoints.save(epoch, parameters)
        if epoch == options.fail_at and ranks.rank == ranks.world - 1:
            print("told to fail: exit code 3", file=sys.stderr, flush=True)
            sys.exit(3)
        time.sleep(options.pause)

    if ranks.rank == 0:
        found = predict(parameters, test_images)[1].argmax(axis=1)
        print(f"accuracy {np.mean(found == test_labels):.3f} on {len(test_labels)} images never trained on", flush=True)


if __name__ == "__main__":
    try:
        main()
    except fence.FencedOut as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(FENCED_OUT)
