# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Arguments of probes: which hits count (if), how much (sum), and how often what was there (hist). The program knows what it called with what."""
import json
import os
import subprocess

import pytest

from conftest import INTERPRETERS
from harness import PYPERF, Profiler, Target, profile
from probe_runs import hits_of, libc_of
from test_probes import COLLECT, with_probes  # noqa: F401: a fixture

pytestmark = pytest.mark.beside

# The sizes are such that nobody else asks for them.
CALLS = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def big():
    for i in range(100): libc.free(libc.malloc(61000001 + i))
def middle():
    for i in range(50): libc.free(libc.malloc(33000001))
def sessions():
    for i in range(-50, 50): libc.getsid(i)
big(); middle(); sessions()
"""
BIG, MIDDLE = [61000001 + i for i in range(100)], [33000001] * 50


@pytest.fixture(scope="module")
def plain_python():
    if "system" not in INTERPRETERS:
        pytest.skip("the system has no Python")
    return INTERPRETERS["system"]


def sums(path, names, value=0):
    """What counts under functions of the program."""
    document = json.loads(path.read_text())
    found = dict.fromkeys(names, 0)
    for stack in document["stacks"]:
        functions = {document["frames"][f].get("function") for f in stack["frames"]}
        for name in names:
            found[name] += hits_of(stack) * (name in functions and stack.get("value", 0) == value)
    return document, found


@pytest.mark.parametrize("words, big, middle", [
    ("if arg1 > 33000000", 100, 50),
    ("if arg1 > 33000000 and arg1 != 33000001", 100, 0),
    ("if arg1 >= 0x3a2c941 and arg1<61000004", 3, 0),
    ("if arg1 > 33000001", 100, 0),
    ("if arg1 >= 33000001 and arg1 < 61000001", 0, 50),
    ("if arg1 == 33000001", 0, 50),
    ("if (uint32)arg1 <= 33000001 and arg1 >= 33000000", 0, 50),
    ("sum arg1 if arg1 > 33000000", sum(BIG), sum(MIDDLE)),
    ("sum arg1 bytes if arg1 > 33000000", sum(BIG), sum(MIDDLE)),
    ("if arg1 > 61000000 sum arg1", sum(BIG), 0),
])
def test_sizes(plain_python, tmp_path, words, big, middle):
    path = tmp_path / "x.json"
    result = profile("-e", "uprobe:%s:malloc %s" % (libc_of(os.getpid()), words), "-o", path, "--", plain_python, "-c", CALLS).ok()
    document, found = sums(path, ["big", "middle"])
    assert not result.counters.get("lost_busy")
    assert found == {"big": big, "middle": middle}
    counters = result.counters
    assert counters["filtered_condition"] > 0
    assert counters["delivered"] == sum(n for c, n in counters.items() if c == "counted" or c.startswith(("filtered_", "lost_")))


def test_condition_that_is_never_true(plain_python):
    event = "uprobe:%s:getsid if arg1 == 77" % libc_of(os.getpid())
    assert "The condition (if) was true of no hit." in profile("-e", event, "--", plain_python, "-c", CALLS).stdout


def test_several_of_one_function(plain_python, tmp_path):
    """Each has its own rule, and a name that tells it."""
    place = "uprobe:%s:getsid" % libc_of(os.getpid())
    path = tmp_path / "x.json"
    events = ["if (int32)arg1 < 0", "if (int32)arg1 >= 0", "sum (uint32)arg1 if (uint32)arg1 < 1000"]
    profile("-e", ",".join("%s %s" % (place, e) for e in events), "-o", path, "--", plain_python, "-c", CALLS).ok()
    document, below = sums(path, ["sessions"], 0)
    assert (below["sessions"], sums(path, ["sessions"], 1)[1]["sessions"]) == (50, 50)
    assert sums(path, ["sessions"], 2)[1]["sessions"] == sum(range(50))
    assert len({v["name"] for v in document["values"]}) == 3


def test_amounts_are_bounded(plain_python, tmp_path):
    """An argument may be anything; one hit is not worth more than a terabyte."""
    program = "import ctypes\ndef huge():\n  for _ in range(3): ctypes.CDLL(None).labs(ctypes.c_long(-5))\nhuge()\n"
    path = tmp_path / "x.json"
    result = profile("-e", "uprobe:%s:labs sum arg1" % libc_of(os.getpid()), "-o", path, "--", plain_python, "-c", program).ok()
    assert sums(path, ["huge"])[1]["huge"] == 3 << 40
    assert result.counters["note_amount_cut"] == 3


@pytest.mark.parametrize("words, old, young", [
    ("if arg1 == 2", 30, 0),
    ("if arg1 < 2", 0, 20),
    ("sum arg1", 60, 0),
])
def test_static_probe(with_probes, tmp_path, words, old, young):  # noqa: F811
    """The note of gc__start says where the generation is."""
    path = tmp_path / "x.json"
    profile("-e", "usdt:%s:python:gc__start %s" % (with_probes, words), "-o", path, "--", with_probes, "-c", COLLECT).ok()
    assert sums(path, ["collect_all", "collect_young"])[1] == {"collect_all": old, "collect_young": young}


# ---- trace -e ------------------------------------------------------------------------------------

def trace(*args):
    done = subprocess.run([PYPERF, "trace", "-q", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    return done


def test_histogram(plain_python):
    """Sizes that nobody else asks for, each in its power of two; what the program does not do is not there."""
    event = "uprobe:%s:malloc hist arg1 if arg1 > 33000000" % libc_of(os.getpid())
    done = trace("--json", "--force", "-e", event, "-e", event.split(" ")[0], "--", plain_python, "-c", CALLS)
    assert done.returncode == 0, done.stderr
    hist, count = map(json.loads, done.stdout.splitlines())
    assert hist["hist"] == [{"from": 1 << 24, "to": (1 << 25) - 1, "hits": 50}, {"from": 1 << 25, "to": (1 << 26) - 1, "hits": 100}]
    assert hist["hits"] == 150 and hist["sum"] == sum(BIG) + sum(MIDDLE) and hist["final"]
    assert count["hits"] == hist["hits"] + hist["not_counted"] and "sum" not in count
    text = trace("--force", "-e", event, "--", plain_python, "-c", CALLS).stdout
    assert "150 hits" in text and "|@@@@@@@@@@@@@@@@@@@@@@@@|" in text


def test_histogram_of_a_static_probe(with_probes):  # noqa: F811
    """Of the generation, once in each half of the program's two functions."""
    event = "usdt:%s:python:gc__start hist arg1" % with_probes
    done = trace("--json", "-e", event, "--", with_probes, "-c", COLLECT)
    base = trace("--json", "-e", event, "--", with_probes, "-c", "import gc; gc.disable()")
    young, old = ({h["from"]: h["hits"] for h in json.loads(d.stdout)["hist"]} for d in (done, base))
    assert young[2] - old[2] == 30 and young[0] - old.get(0, 0) == 20


def test_trace_of_a_process(plain_python, tmp_path):
    """Of this one alone, and by its root; Ctrl-C ends it, and a picture each interval comes meanwhile."""
    with Target(plain_python, "probed.py", 1, 2) as target:
        event = "uprobe:%s:getppid" % libc_of(target.pid)
        tracer = Profiler("trace", "--json", "-i", "0.1", "-e", event, "-p", target.pid, glue=False)
        tracer.wait_said("counting hits")
        target.process.stdin.write(b"1000\n")
        json.loads(target.read_line())
        os.getppid()
        tracer.interrupt_group()
        result = tracer.wait()
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.status == 0 and lines[-1]["hits"] == 1000 and lines[-1]["final"]
    assert not any(line["final"] for line in lines[:-1])


@pytest.mark.parametrize("args, words", [
    (["-e", "cpu-clock"], "must be uprobe:PATH:PLACE or usdt:PATH:PROVIDER:NAME"),
    (["-e", "uprobe:/bin/sh:main hist arg7"], "only arg1 to arg6"),
    (["-e", "uprobe:/bin/sh:main", "--hist"], "-e counts hits of probes"),
    (["-e", "uprobe:/bin/sh:main"] * 5, "at most 4 probes"),
])
def test_wrong_trace(args, words):
    done = trace(*args, "--", "true")
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("event, words", [
    ("uprobe:/bin/sh:main when arg1 > 5", "'when': must be if, sum or hist"),
    ("uprobe:/bin/sh:main if arg1 => 5", "'=>': must be =="),
    ("uprobe:/bin/sh:main sum arg7", "only arg1 to arg6"),
    ("uprobe:/bin/sh:main hist arg1", "'hist' is of pyperf-bpf trace"),
])
def test_wrong_words(event, words):
    result = subprocess.run([PYPERF, "-q", "-e", event, "--", "true"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                            universal_newlines=True)
    assert result.returncode == 2 and words in result.stderr and result.stderr.count("\n") == 1, result.stderr


def test_wrong_argument_of_a_static_probe(with_probes):  # noqa: F811
    done = profile("-e", "usdt:%s:python:gc__start if arg9 > 1" % with_probes, "--", with_probes, "-c", "")
    assert done.status == 1 and "arg9: the probe has fewer arguments" in done.stderr
