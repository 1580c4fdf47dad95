"""The harness itself: what it starts it ends."""

import signal

from harness import PYTHON, STOCK, Cluster


def test_a_node_that_lives_is_ended_though_its_output_was_read():
    command = [PYTHON, "-c", "import time; print('here', flush=True); time.sleep(600)"]
    with Cluster("sleep", command=command, library=STOCK, roles=("worker",), workers=1) as job:
        job.start()
        node = job.nodes["worker0"]
        assert node.wait_for("here"), job.describe()
        job._read_all()
        assert job.nodes["worker0"].out == "here\n" and not node.poll()
    assert node.returncode == -signal.SIGKILL
    assert job.nodes["worker0"].out == "here\n"
