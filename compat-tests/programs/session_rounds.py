"""Workers that share batches, for tests that disturb them, without MXNet.

    session_rounds.py EPOCHS LENGTH TOTAL PACE

Says "round N" as it goes, and prints one line of JSON: the samples of each epoch. PACE: seconds
that a batch takes. What is reported is made up, so that sizes depend on no clock.
"""

import json
import os
import sys
import time

from pslite import job, lbbsp
from pslite.node import Node

EPOCHS, LENGTH, TOTAL = map(int, sys.argv[1:4])
PACE = float(sys.argv[4])
SPEED = (100.0, 300.0, 200.0)


def train(node):
    epochs = []
    with lbbsp.Session(node, length=LENGTH, total=TOTAL, rule="gpu", measure="reports",
                       seed=3) as session:
        done = 0
        for _ in range(EPOCHS):
            samples = []
            for batch in session:
                samples.extend(int(index) for index in batch.indices)
                time.sleep(PACE)
                session.report(batch.size / SPEED[node.rank])
                done += 1
                print(f"round {done}", flush=True)
            epochs.append(samples)
    return epochs


def main():
    role = os.environ["DMLC_ROLE"]
    if role != "worker":
        return job.serve_scheduler() if role == "scheduler" else job.serve_server()
    with Node() as node:
        print(json.dumps({"rank": node.rank, "epochs": train(node)}), flush=True)


if __name__ == "__main__":
    main()
