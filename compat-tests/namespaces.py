"""Network namespaces that stand for hosts, for tests of addresses. (The lab's networks, which have
rates and delays, are in `netlab`.)"""

import contextlib
import os
import shutil
import subprocess

import pytest

#: The program, with its path: processes without Python have no PATH in a test's environment.
IP = shutil.which("ip")


def ip(*words):
    subprocess.run([IP, *words], check=True, timeout=20, capture_output=True, text=True)


@contextlib.contextmanager
def hosts(*kinds):
    """The names of new namespaces, one for each kind, with a loopback and nothing else. Skips the
    test where there can be none."""
    if os.geteuid() != 0 or not IP:
        pytest.skip("network namespaces need root and the program ip")
    made = []
    try:
        for kind in kinds:
            name = f"pslite-{os.getpid()}-{kind}"
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
            made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in made:
            subprocess.run([IP, "netns", "del", name], timeout=20, check=False)


def connect(one, nic, other, peer):
    """A cable between two interfaces that are not there yet, each of a host."""
    ip("-n", one, "link", "add", nic, "type", "veth", "peer", "name", peer, "netns", other)


def give(host, nic, address=None):
    """The interface has that address, if there is one, and is up."""
    if address:
        ip("-n", host, "addr", "add", f"{address}/24", "dev", nic)
    ip("-n", host, "link", "set", nic, "up")
