"""What a test run builds once for all of its processes (built.py)."""

import multiprocessing
import time

import pytest

import built
import kept


@pytest.fixture(autouse=True)
def run_folder(tmp_path, monkeypatch):
    """As if each test were a run of its own."""
    monkeypatch.setenv(kept.RUN, str(tmp_path / "run"))


def write(path):
    path.write_text("made")


def never(path):
    pytest.fail("it is there")


def test_it_is_made_once():
    first = built.once(write, "a", ["-O1"])
    assert first.read_text() == "made" and built.once(never, "a", ["-O1"]) == first


def test_what_differs_is_made_again():
    paths = {built.once(write, name, flags) for name in "ab" for flags in ([], ["-O1"])}
    assert len(paths) == 4


def test_what_failed_is_tried_again():
    def fails(path):
        path.write_text("half of it")
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        built.once(fails, "a")
    assert built.once(write, "a").read_text() == "made"


def slow(path):
    with open(path.with_name("makers"), "a") as makers:
        makers.write("x")
    time.sleep(0.5)
    path.write_text("made")


def ask(answers):
    path = built.once(slow, "a")
    answers.put((path.read_text(), path.with_name("makers").read_text()))


def test_of_several_processes_one_makes_it():
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    processes = [context.Process(target=ask, args=(answers,)) for _ in range(4)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=20) for _ in processes] == [("made", "x")] * 4
    for process in processes:
        process.join(20)
