# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The reference count of one object (-e refcount, memory --refcount): who took how many references and dropped how many, against
sys.getrefcount() and what a C extension does that forgets to drop some."""
import json
import re
import subprocess

import pytest

import harness
from harness import PROGRAMS, Process, Profiler
from test_heap import await_rest, counts, heap_json

pytestmark = [pytest.mark.beside, pytest.mark.skipif(
    not re.search(r"^refcount.* yes$", subprocess.run([harness.PYPERF, "-e", "help"], capture_output=True, text=True).stdout,
                  re.M), reason="this machine has no watchpoints")]


@pytest.fixture(name="summing")
def summing_program(any_python, directory):
    include = subprocess.run([any_python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                             capture_output=True, text=True, check=True).stdout.strip()
    harness.compile_c(directory / "fastsum.so", "fastsum.c", "-shared", "-fPIC", "-g", "-fno-omit-frame-pointer", "-I" + include)
    return [any_python, PROGRAMS / "sums.py", directory]


def order_of(target):
    """The address of one that the queue holds."""
    await_rest(target.pid)
    return hex(heap_json(target.pid, "--referrers", "Order")["referrers"]["held_objects"][0])


def tell(target, line):
    target.process.stdin.write(b"%s\n" % line)
    return int(target.read_line())


def watch(target, addr, lines, *options):
    profiler = Profiler(*options, "-v", "-p", target.pid)
    profiler.wait_said("the profile begins")
    said = [tell(target, line) for line in lines]
    profiler.interrupt_group()
    return profiler.wait().ok(), said


def rows(text):
    """{function: (taken, dropped, left, all of the line)}"""
    found = re.findall(r"^ +([0-9,]+) +([0-9,]+) +([-+0-9]+)  (.*)$", text, re.M)
    return {re.split(r" -> ", f)[-1].split(" (")[0]: (*(int(n.replace(",", "")) for n in (t, d, l)), f) for t, d, l, f in found}


def line_of(words):
    lines = (PROGRAMS / "fastsum.c").read_text().split("\n")
    return 1 + next(i for i, line in enumerate(lines) if words in line)


def test_the_line_that_leaks(summing, directory):
    """From the first question to the last: heap says which type grows and which objects nobody holds, refcount which line in C
    took references without dropping them. Exactly, also in a thread that begins meanwhile."""
    with Process(summing) as target:
        tell(target, b"3")
        addr = order_of(target)
        result, said = watch(target, addr, [b"40", b"thread"], "memory", "--refcount", addr)
        tell(target, b"end")
        await_rest(target.pid)
        assert counts(heap_json(target.pid))["Order"] == 100
        unheld = heap_json(target.pid, "--referrers", "Order")["referrers"]
        assert unheld["unheld"] == 50 and len(unheld["unheld_objects"]) == len(unheld["held_objects"]) == 5
    assert said[1] - said[0] in (0, 10)  # the first of the queue may be another one
    first = result.stdout.split("\n")[0]
    taken, dropped = re.match(r"([0-9,]+) references were taken, ([0-9,]+) dropped: 50 more", first).groups()
    assert int(taken.replace(",", "")) - int(dropped.replace(",", "")) == 50
    found = rows(result.stdout)
    assert found["total"][:3] == (50, 0, 50), found
    assert "refresh (sums.py:" in found["total"][3] and "total (fastsum.c:%d)" % line_of("the leak") in found["total"][3], found
    assert found["count"][:3] == (50, 50, 0), found
    counters = result.counters
    assert counters["delivered"] == counters["counted"] == counters["complete"] > 100, counters


def test_at_rest(summing):
    with Process(summing) as target:
        result, _ = watch(target, order_of(target), [], "memory", "--refcount", order_of(target))
    assert result.stdout.startswith("The reference count did not change.\n"), result.stdout


def test_freed(summing, directory):
    """What the memory is used for after that is not the object's."""
    with Process(summing) as target:
        addr = order_of(target)
        result, _ = watch(target, addr, [b"end", b"end"], "-e", "refcount:" + addr, "-f")
    assert "the object was freed" in result.stderr
    assert result.counters["delivered"] == result.counters["counted"] <= 4, result.counters


def test_too_dear(any_python, directory):
    """A count that changes all the time: it stops by itself, and the process goes on."""
    code = """
import sys
class A: pass
a = A()
print('ready', flush=True)
print(hex(id(a)), flush=True)
for line in sys.stdin:
    while True: b = a; b = None
"""
    with Process([any_python, "-c", code]) as target:
        addr = target.read_line().decode().strip()
        profiler = Profiler("-e", "refcount:" + addr, "-v", "-o", directory / "x.json", "-p", target.pid)
        profiler.wait_said("the profile begins")
        target.process.stdin.write(b"\n")
        profiler.wait_said("times a second, and each change costs a trap: stopped")
        profiler.interrupt_group()
        profiler.wait().ok()
        assert target.process.poll() is None
        target.process.kill()


@pytest.mark.parametrize("args, status, words", [
    (("memory", "-p", "1", "--refcount", "12"), 2, "must be refcount:0xADDRESS"),
    (("memory", "-p", "1", "--refcount", "0x13"), 2, "must be refcount:0xADDRESS"),
    (("memory", "-p", "1", "--refcount"), 2, "must be refcount:0xADDRESS"),
    (("memory", "-p", "1", "--refcount", "0x10", "--level", "blocks"), 2, "goes with neither"),
    (("memory", "--refcount", "0x10", "--", "true"), 2, "name one with -p"),
    (("-e", "refcount:0x1000", "-d", "1", "-p", "self"), 1, "cannot be read"),
])
def test_wrong_lines(args, status, words, any_python):
    with Process([any_python, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"]) as target:
        args = [str(target.pid) if a == "self" else a for a in args]
        result = subprocess.run([harness.PYPERF, *args], capture_output=True, text=True)
    assert result.returncode == status and words in result.stderr, result
