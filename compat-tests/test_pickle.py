"""The pickle reader of the native server, on pickles made by the real mxnet, and on hostile ones.

`programs/pickles.py` makes the pickles in a process of its own, with what each one holds; the
program `examples/read_pickle.rs` reads them. Nothing here imports mxnet.
"""

import json
import os
import pickle
import struct
import subprocess

import pytest

import harness


@pytest.fixture(scope="session")
def reader():
    """Builds the program; a function from pickles to what it says of each."""
    harness.build_examples()

    def read(pickles):
        data = b"".join(struct.pack("<I", len(p)) + p for p in pickles)
        done = subprocess.run([harness.example("read_pickle")], input=data, timeout=60,
                              stdout=subprocess.PIPE, check=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(pickles)
        return answers

    return read


@pytest.fixture(scope="session")
def made():
    """Pickles made with the wheel: by name, its bytes and what it holds."""
    done = subprocess.run([harness.PYTHON, harness.PROGRAMS / "pickles.py"], timeout=90,
                          stdout=subprocess.PIPE, check=True)
    cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
    return {c["name"]: (bytes.fromhex(c["pickle"]), c["holds"]) for c in cases}


def test_everything_that_mxnet_registers(reader, made):
    """Every optimizer with every scheduler and every argument, in every protocol."""
    assert len(made) > 500, "the program made too few"
    answers = reader([data for data, _ in made.values()])
    for (name, (_, holds)), answer in zip(made.items(), answers):
        assert answer == {"ok": holds}, name


class Call:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def hostile():
    """By name: a pickle, and what its refusal must say."""
    sgd = b"cmxnet.optimizer.optimizer\nSGD\n"
    cases = {}
    for protocol in range(6):
        for function in (os.system, eval, exec, subprocess.Popen, getattr, __import__):
            call = Call(function, "touch hacked")
            # Protocols 0 to 2 write Python 2's names of modules.
            told = f".{function.__name__}, which is not on the list"
            cases[f"{function.__name__} {protocol}"] = pickle.dumps(call, protocol), told
            cases[f"{function.__name__} {protocol} in a dict"] = (
                pickle.dumps({"lr": [call]}, protocol), told)
    cases.update({
        "bytes": (pickle.dumps(b"abc", 4), "bytes"),
        "set": (pickle.dumps({1}, 4), "EMPTY_SET"),
        "persistent id": (b"Pid\n.", "PERSID"),
        "binary persistent id": (b"NQ.", "BINPERSID"),
        "extension 1": (b"\x82\x01.", "EXT1"),
        "extension 2": (b"\x83\x01\x00.", "EXT2"),
        "extension 4": (b"\x84\x01\x00\x00\x00.", "EXT4"),
        "instance": (b"(ios\nsystem\n.", "os.system"),
        "a known class, called": (sgd + b")R.", "calls mxnet.optimizer.optimizer.SGD"),
        "a method of a known class": (
            b"\x80\x04\x8c\x19mxnet.optimizer.optimizer\x8c\x0aSGD.update\x93.",
            "names mxnet.optimizer.optimizer.SGD.update"),
        "pickle.loads through a known module": (
            b"cmxnet.optimizer.optimizer\npickle.loads\n.", "pickle.loads"),
        "setting the module's state": (b"cmxnet.optimizer.optimizer\nos\n}b.",
                                       "names mxnet.optimizer.optimizer.os"),
        "state of the class itself": (sgd + b"}b.", "attributes of an object"),
        "an NDArray": (b"cmxnet.ndarray.ndarray\nNDArray\n.", "mxnet.ndarray.ndarray.NDArray"),
        "codec with code": (b"c_codecs\nencode\nVa\nVrot13\n\x86R.", "calls _codecs.encode"),
        "deep lists": (b"]" * 100_000 + b"a" * 99_999 + b".", "values in each other"),
        "deep tuples": (b"N" + b"\x85" * 1_000_000 + b".", "values in each other"),
        "deep marks": (b"(" * 2_000_000 + b".", "marks"),
        "cycle": (b"]q\x00h\x00a.", "contains itself"),
        "shared lists, 10 to the 20th": (
            b"](NNNNNNNNNNeq\x00" + b"".join(
                b"](" + bytes([0x68, i]) * 10 + bytes([0x65, 0x71, i + 1]) for i in range(20))
            + b".", "used more than once"),
        "huge memo": (b"Np999999999999\n.", "memos"),
        "huge binary memo": (b"Nr\xff\xff\xff\xff.", "memos"),
        "memo never written": (b"g5\n.", "memo 5"),
        "int of 100000 digits": (b"I" + b"9" * 100_000 + b"\n.", "more than 64 bits"),
        "2 to the 63rd": (pickle.dumps(1 << 63, 2), "more than 64 bits"),
        "long of negative length": (b"\x8b\xff\xff\xff\xff.", "malformed integer"),
        "long of 2 GB": (b"\x8b\xff\xff\xff\x7f.", "bytes of one text"),
        "text of 4 GB": (b"X\xff\xff\xff\xff.", "bytes of one text"),
        "bytes of 2 to the 64th": (b"\x8e" + b"\xff" * 8 + b".", "bytes of one text"),
        "numpy object scalar": (
            b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n(VO8\nI00\nI01\ntR.", "type O8"),
        "unknown protocol": (b"\x80\x09N.", "protocol 9"),
        "unknown opcode": (b"\xfe.", "unknown opcode 0xfe"),
        "empty": (b"", "cut off"),
        "no end": (b"N", "cut off"),
        "nothing on the stack": (b".", "more values than it has"),
    })
    return cases


def test_hostile_pickles_are_refused_by_name(reader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cases = hostile()
    answers = reader([data for data, _ in cases.values()])
    for (name, (_, told)), answer in zip(cases.items(), answers):
        assert told in answer.get("error", ""), (name, told, answer)
    assert list(tmp_path.iterdir()) == [], "something was run"


def test_the_hostile_pickles_are_real(tmp_path, monkeypatch):
    """Python runs what the reader refuses: otherwise the test above would prove nothing."""
    monkeypatch.chdir(tmp_path)
    data, _ = hostile()["system 0"]
    pickle.loads(data)
    assert (tmp_path / "hacked").exists()
