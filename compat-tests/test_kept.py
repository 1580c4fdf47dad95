"""What runs keep for each other (kept.py): each result once, never a damaged one, and never one of
a program, of arguments or of a machine that are others by now."""

import json
import multiprocessing
import os
import shutil
import time

import pytest

import cases
import harness
import kept
from kept import Kept

DAY = 24 * 3600


def never():
    pytest.fail("it is there")


def test_a_result_is_made_once(tmp_path):
    store = Kept(tmp_path / "there")
    assert store.value("a", lambda: b"one\ntwo\n") == b"one\ntwo\n"
    assert store.value("a", never) == b"one\ntwo\n"
    assert Kept(tmp_path / "there").value("a", never) == b"one\ntwo\n"
    assert store.value("b", lambda: b"") == b"" and store.value("b", never) == b""


def test_a_result_that_cannot_be_made_is_not_there(tmp_path):
    store = Kept(tmp_path)
    with pytest.raises(ZeroDivisionError):
        store.value("a", lambda: 1 // 0)
    assert store.get("a") is None and store.value("a", lambda: b"1") == b"1"


@pytest.mark.parametrize("damage", [
    lambda whole: b"", lambda whole: whole[:-1], lambda whole: whole[:20],
    lambda whole: whole + b"1", lambda whole: whole[:-1] + b"x", lambda whole: b"\xff" + whole[1:],
    lambda whole: whole.partition(b"\n")[2]],
    ids=["empty", "end", "digest", "more", "value", "no-text", "no-digest"])
def test_a_damaged_result_is_made_anew(tmp_path, damage):
    store = Kept(tmp_path)
    store.value("a", lambda: b"right")
    path, = tmp_path.glob("*.kept")
    path.write_bytes(damage(path.read_bytes()))
    assert store.get("a") is None
    assert store.value("a", lambda: b"anew") == b"anew" and store.value("a", never) == b"anew"


def make_slowly(folder, made):
    """What each of several processes does: notes that it made the result."""
    def make():
        with open(made, "a") as file:
            file.write("made\n")
        time.sleep(0.3)
        return b"x" * 100_000
    assert Kept(folder).value("a", make) == b"x" * 100_000


def test_of_several_processes_one_makes_it(tmp_path):
    folder, made = tmp_path / "kept", tmp_path / "made"
    context = multiprocessing.get_context("fork")
    all_of_them = [context.Process(target=make_slowly, args=(folder, made)) for _ in range(6)]
    for process in all_of_them:
        process.start()
    for process in all_of_them:
        process.join(60)
    assert [process.exitcode for process in all_of_them] == [0] * 6
    assert made.read_text() == "made\n"


def die_in_it(folder):
    def make():
        # As if it were killed while it writes.
        (folder / f"a.{os.getpid()}.part").write_bytes(b"half")
        os._exit(9)
    Kept(folder).value("a", make)


def test_a_process_that_dies_in_it_leaves_no_result_and_no_lock(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=die_in_it, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 9 and len(list(tmp_path.glob("*.part"))) == 1
    assert Kept(tmp_path).value("a", lambda: b"whole") == b"whole"


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_what_is_old_and_what_a_dead_process_left_goes(tmp_path):
    store = Kept(tmp_path, age_max=10 * DAY)
    for key in ("old", "used", "young"):
        store.value(key, lambda: b"1")
    left = [tmp_path / "x.1.part", tmp_path / "x.2.part", tmp_path / "gone.lock"]
    for path in left:
        path.touch()
    for name, days in (("old.kept", 11), ("used.kept", 11), ("young.kept", 9), ("x.1.part", 2),
                       ("x.2.part", 0.5), ("gone.lock", 2)):
        age(tmp_path / name, days * DAY)
    # Use makes it young.
    store.value("used", never)
    store.value("new", lambda: b"1")
    assert {path.name for path in tmp_path.glob("*.kept")} == {"used.kept", "young.kept",
                                                               "new.kept"}
    assert [path.exists() for path in left] == [False, True, False]


def test_no_more_bytes_than_are_allowed(tmp_path):
    store = Kept(tmp_path, bytes_max=1000)
    for number in range(4):
        store.value(f"{number}", lambda: b"x" * 200)
        age(tmp_path / f"{number}.kept", 100 - number)
    # Three of some 265 bytes.
    assert sorted(path.name[0] for path in tmp_path.glob("*.kept")) == ["1", "2", "3"]
    # What is larger than all that may be kept, is, until the next comes.
    store.value("large", lambda: b"x" * 2000)
    assert [path.name for path in tmp_path.glob("*.kept")] == ["large.kept"]
    store.value("small", lambda: b"x")
    assert [path.name for path in tmp_path.glob("*.kept")] == ["small.kept"]


# ---- keys ----------------------------------------------------------------------------------------


class Asked:
    """A store that only hears the keys."""

    def __init__(self):
        self.keys = []

    def value(self, key, make):
        self.keys.append(key)
        return json.dumps([[0, "digest"]]).encode()


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The store that is asked; programs and machine may be changed."""
    store = Asked()
    programs = tmp_path / "programs"
    shutil.copytree(harness.PROGRAMS, programs, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(harness, "PROGRAMS", programs)
    monkeypatch.setattr(kept, "of_stock", lambda: store)
    return store


def key_now(asked):
    assert cases.stock_digests("dist_sync") == {0: "digest"}
    return asked.keys[-1]


# push_pull.py imports common.py; the scheduler may be server.py.
@pytest.mark.parametrize("program, counts", [
    ("push_pull.py", True), ("common.py", True), ("server.py", True), ("row_sparse.py", False)])
def test_a_changed_program_has_another_key(asked, program, counts):
    before = key_now(asked)
    assert key_now(asked) == before
    path = harness.PROGRAMS / program
    path.write_text(path.read_text() + "\n# changed\n")
    assert (key_now(asked) != before) == counts


def test_a_file_of_the_harness_counts(asked, monkeypatch, tmp_path):
    before = key_now(asked)
    changed = tmp_path / "harness.py"
    with open(harness.__file__) as now:
        changed.write_text(now.read() + "\n# changed\n")
    monkeypatch.setattr(harness, "__file__", str(changed))
    assert key_now(asked) != before


def test_arguments_settings_and_sizes_count(asked):
    def run(*args, **options):
        cases.stock_run("elastic.py", *args, **options)
    run("sgd", 60)
    run("adam", 60)
    run("sgd", 61)
    run("sgd", 60, servers=3)
    run("sgd", 60, env={"MXNET_KVSTORE_BIGARRAY_BOUND": "1"})
    run("sgd", 60, env={"MXNET_KVSTORE_BIGARRAY_BOUND": "2"})
    cases.stock_run("slow.py", "sgd", 60)
    for name in cases.CASES:
        cases.stock_digests(name)
    cases.stock_digests("dist_sync", workers=3)
    assert len(set(asked.keys)) == len(asked.keys) == 8 + len(cases.CASES)
    run("sgd", 60)
    assert asked.keys[-1] == asked.keys[0]


def test_the_machine_counts(asked, monkeypatch):
    def changed(place):
        other = json.loads(json.dumps(kept.machine()))
        name, index = place if isinstance(place, tuple) else (place, None)
        if index is None:
            other[name] = "other"
        else:
            other[name][index] = "other"
        return other
    before = key_now(asked)
    places = list(kept.machine()) + [("python", i) for i in range(len(kept.machine()["python"]))]
    assert {"python", "processor"} < set(kept.machine()) and len(places) >= 10
    seen = {before}
    for place in places:
        other = changed(place)
        with monkeypatch.context() as patch:
            patch.setattr(kept, "machine", lambda other=other: other)
            seen.add(key_now(asked))
    # The lists of a machine's parts differ each from the other.
    assert len(seen) == 1 + len(places)
    assert key_now(asked) == before


def test_the_machine_says_what_computes():
    version, libc, packages, files, library, size = kept.machine()["python"]
    assert version.startswith("3.") and libc[0] == "glibc"
    assert packages["mxnet"] and packages["numpy"]
    assert "libmxnet.so,sha256=" in files["mxnet"] and "sha256=" in files["numpy"]
    assert library.endswith("libmxnet.so") and size > 10**6
    assert any("flags" in line or "Features" in line for line in kept.machine()["processor"])


def test_headers_of_c_programs_count(tmp_path):
    (tmp_path / "a.cc").write_text('#include <b.h>\n#include "c.h"\n')
    (tmp_path / "b.h").write_text("not ours")
    (tmp_path / "c.h").write_text('  #  include "d.h"\n#include "elsewhere.h"\n')
    (tmp_path / "d.h").write_text('#include "c.h"\n')
    assert set(kept.texts(tmp_path / "a.cc")) == {"a.cc", "c.h", "d.h"}


# ---- switches ------------------------------------------------------------------------------------

@pytest.mark.parametrize("variables, builds, stock", [
    ({}, True, True), ({"PSLITE_TEST_CACHE": "0"}, False, False),
    ({"PSLITE_TEST_CACHE": "1"}, True, True), ({kept.STOCK_ANEW: "1"}, True, False)],
    ids=["on", "off", "said", "full"])
def test_where_results_are_kept(monkeypatch, variables, builds, stock):
    run = os.environ[kept.RUN]
    monkeypatch.delenv("PSLITE_TEST_CACHE", raising=False)
    monkeypatch.delenv(kept.STOCK_ANEW, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(kept.of_builds().folder) == (str(kept.FOLDER) if builds else run)
    assert str(kept.of_stock().folder) == (str(kept.FOLDER) if stock else run)


def test_a_full_run_computes_what_stock_does_anew(pytestconfig):
    assert (kept.STOCK_ANEW in os.environ) == pytestconfig.getoption("--full")
