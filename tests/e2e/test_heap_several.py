# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""heap of several processes, against what the garbage collector of each lists."""
import json
import subprocess

import pytest

from harness import Process
from test_heap import await_rest, counts, heap

pytestmark = pytest.mark.beside

# A pre-fork server: each worker says how many objects of each type its collector lists.
SERVER = """
import gc, json, os, sys
class Order(object): pass
class Item(object): pass
workers = []
for n in range(1, 4):
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        orders = [Order() for i in range(1000 * n)]
        items = [Item() for i in range(10 * n)]
        gc.collect()
        found = {}
        for one in gc.get_objects():
            name = type(one).__name__
            if name in ("Order", "Item"):
                found[name] = found.get(name, 0) + 1
        os.write(theirs, json.dumps(found).encode())
        os.close(theirs)
        os.read(0, 1)
        os._exit(0)
    os.close(theirs)
    workers.append((pid, json.loads(os.read(ours, 4096).decode())))
print("ready", flush=True)
print(json.dumps(workers), flush=True)
os.read(0, 1)
"""


@pytest.fixture
def server(python):
    with Process([python, "-c", SERVER]) as target:
        workers = dict(json.loads(target.read_line()))
        for pid in [target.pid, *workers]:
            await_rest(pid)
        yield target, workers


def check(found, workers):
    for pid, truth in workers.items():
        one = next(p for p in found["processes"] if p["pid"] == pid)
        assert one["complete"]
        assert {name: counts(one).get(name, 0) for name in truth} == truth


@pytest.mark.few_pythons
def test_children(server):
    target, workers = server
    result = heap("-p", target.pid, "--children", "--json")
    assert result.returncode == 0, result
    found = json.loads(result.stdout)
    assert {p["pid"] for p in found["processes"]} == {target.pid, *workers}
    check(found, workers)


@pytest.mark.few_pythons
def test_several(server):
    _, workers = server
    result = heap("-p", ",".join(map(str, workers)), "--json")
    assert result.returncode == 0, result
    found = json.loads(result.stdout)
    assert [p["pid"] for p in found["processes"]] == list(workers)
    check(found, workers)


@pytest.mark.few_pythons
def test_table(server):
    """The sum of all workers, and the one that has most."""
    target, workers = server
    result = heap("-p", target.pid, "--children", "--all")
    assert result.returncode == 0, result
    lines = [line.split() for line in result.stdout.decode().splitlines()]
    order = next(line for line in lines if line and line[-1] == "Order")
    assert int(order[0].replace(",", "")) == sum(w["Order"] for w in workers.values())
    largest = max(workers, key=lambda pid: workers[pid]["Order"])
    assert str(largest) in order


def test_one_process_only(any_python):
    with Process([any_python, "-c", SERVER]) as target:
        for option in ("--every", 1), ("--for", 2), ("--referrers", "Order"), ("--diff", "/dev/null"):
            result = heap("-p", target.pid, "--children", *option)
            assert result.returncode == 2 and b"one process" in result.stderr, option


def test_wrapper(any_python):
    """Of several, too, what a wrapper stands for is read; and once."""
    with Process(["sh", "-c", '"$0" -c "$1"; true', any_python, SERVER]) as target:
        workers = dict(json.loads(target.read_line()))
        worker = next(iter(workers))
        result = heap("-p", "%d,%d,%d" % (target.pid, worker, worker), "--json")
        assert result.returncode == 0, result
        parent, found = json.loads(result.stdout)["processes"]
        assert parent["pid"] not in (target.pid, *workers) and found["pid"] == worker


def test_one_that_cannot_be_read(any_python):
    """The others are shown."""
    with Process([any_python, "-c", SERVER]) as target, subprocess.Popen(["sleep", "1000"]) as other:
        target.read_line()
        result = heap("-p", "%d,%d" % (other.pid, target.pid), "--json")
        other.kill()
        assert result.returncode == 1 and b"it is not Python" in result.stderr
        assert [p["pid"] for p in json.loads(result.stdout)["processes"]] == [target.pid]
