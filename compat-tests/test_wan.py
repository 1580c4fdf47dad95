"""scripts/bench wan: what it takes from MXNet and from its scheduler, and what its tables say."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import STOCK

sys.path.insert(0, str(Path(__file__).parent / "bench"))
import tensors  # noqa: E402
import wan  # noqa: E402
import wan_report  # noqa: E402

SITES = [f"site{number}" for number in range(9)]


@pytest.mark.parametrize("divisor", wan.DIVISORS.values())
@pytest.mark.parametrize("count", [1, 2, 9])
def test_every_byte_has_a_server(divisor, count):
    placed = wan.placed(divisor, SITES[:count])
    assert [sum(size for _, size in parts) for parts in placed] == [
        4 * size for size in tensors.part(divisor)]
    # MXNet cuts from a million numbers on, here a million by the divisor: of ResNet-50 the last
    # stage's 9 large convolutions and the classifier.
    cut = [parts for parts in placed if len(parts) > 1]
    assert len(cut) == (0 if count == 1 else 10) and {len(parts) for parts in cut} <= {count}
    for parts in cut:
        assert [site for site, _ in parts] == SITES[:count]
        assert max(size for _, size in parts) - min(size for _, size in parts) <= 4
    # (key * 9973) % servers: with nine, 9973 leaves 1.
    assert count != 9 or all(parts[0][0] == SITES[key % 9] for key, parts in enumerate(placed)
                             if len(parts) == 1)


def test_ranks_are_read_from_what_the_scheduler_says(tmp_path):
    said = tmp_path / "0.err"
    said.write_text("".join(
        f"[01:55:54] ../3rdparty/ps-lite/src/van.cc:70: assign rank={number} to node role={role}, "
        f"ip=10.77.0.{host}, port=4{number}, is_recovery=0\n"
        for number, role, host in ((9, "worker", 3), (12, "server", 1), (8, "server", 2),
                                   (10, "server", 2))))
    cluster = SimpleNamespace(logs=lambda: [said])
    hosts = {name: SimpleNamespace(address=f"10.77.0.{number}")
             for number, name in enumerate("abc", 1)}
    assert wan.by_rank(cluster, SimpleNamespace(hosts=hosts)) == ["b", "b", "a"]


def found(took):
    one = {"placement": "best", "servers": ["site8"], "rounds": {STOCK: [took, took + 2]},
           "model": 100.0, "overlapped": 70.0, "unequal": (90.0, 94.0, 97.0)}
    wire = [{"link": "a to b", "set": 10.0, "mbit": 9.5}, {"link": "b to a", "set": 5.0,
                                                         "mbit": 4.0},
            {"link": "b to c", "set": None, "mbit": 900.0}]
    return [{"seed": 3, "wire": wire, "placements": [one]}]


def test_the_table_marks_what_does_not_hold():
    good, bad = wan_report.text(found(110)), wan_report.text(found(118))
    row = "| 3 | best (site8) | 110.0, 112.0 | 100.0 | 1.11 | 90.0 to 97.0, mean 94.0 | 1.18 |"
    assert row + " 70.0 |" in good
    assert "| 3 | best (site8) | 118.0, 120.0 | 100.0 | 1.19, **does not hold** |" in bad
    assert "| 3 | 5.0 to 10.0 | 0.800 | b to a | 0.875 | 0.950 |" in good
    assert [bar.holds for each in (110, 118, 80, 86) for bar in wan_report.bars(found(each))] == [
        True, False, False, True]


def test_what_trees_gain_stands_beside_stock():
    measured = found(110)
    one = measured[0]["placements"][0]
    one.update(placement="site1", servers=["site1"])
    one["rounds"]["packed"] = [11.0, 12.0]
    text = wan_report.text(measured)
    assert "| stock by packed |" in text
    assert "| 3 | site1 | 110.0, 112.0 | 11.0, 12.0 | **9.7** | 100.0 |" in text
    assert [(bar.wanted, bar.holds) for bar in wan_report.bars(measured)[1:]] == [
        ("at least 5", True), ("at least 9", True)]
    one["rounds"]["packed"] = [15.0]
    assert [bar.holds for bar in wan_report.bars(measured)[1:]] == [True, False]


@pytest.mark.parametrize("words, said", [
    (["--seeds", "x"], "numbers with commas"), (["--rounds", "0"], "at least 1"),
    (["--set", "X"], "NAME=VALUE"), (["--graph", "nofile"], "nor a file"),
    (["--scale", "0"], "no scale"), (["--placements", "site10"], "no site 'site10'")])
def test_bad_options_are_refused(words, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["wan", "--stock-only", *words])
    monkeypatch.setattr(wan, "raise_on_signals", lambda: None)
    try:
        code = wan.main()
    except SystemExit as left:
        code = left.code
    assert code == 2 and said in capsys.readouterr().err
