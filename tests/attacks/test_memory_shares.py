# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Sampled pages and blocks have tables. A tenant fills them, beside a program of another user that says itself what it did."""
import os
import re
import subprocess

import pytest

import harness
import pprof_read
from conftest import NEIGHBOUR
from test_attacks import BPFTOOL, tables_of

MIB = 1 << 20
ROOM = 65536  # entries of each table
PAGE = os.sysconf("SC_PAGE_SIZE")
BLOCK = 512
# As many as that are sampled with the probability 0.63 each: more than there is room for.
MUCH = 2 * ROOM


def tell(process, *words):
    process.process.stdin.write((" ".join(map(str, words)) + "\n").encode())


def said(process):
    return process.read_line().decode().strip()


def has_counters(result, report):
    """What was refused has a counter, a message and a line of the report."""
    assert result.counters["note_memory_full"] > 0, result.counters
    assert re.search(r"\d sampled (pages|blocks) found no room: they count as", result.stderr), result.stderr
    text = " ".join(report.read_text().split())
    assert "sampled pages or blocks of memory that found no room in their table" in text, text


def grown_by(stacks, function):
    return sum(s.count for s in stacks if any(f.name == function for f in s.frames))


def test_pages(ground):
    """What was there before is known, and what comes after finds room: no page that is given back counts as growth."""
    report = ground.path / "x.txt"
    with ground.start("pages.py") as tenant, ground.start(
            "growing.py", "hold:8", "pause:0", "freed:8", "keep:8", "drop:0", uid=NEIGHBOUR) as neighbour:
        run = harness.Profiler("-v", "-f", "-e", "growth", "-c", PAGE, "-o", report,
                               "-p", "%d,%d" % (tenant.pid, neighbour.pid))
        harness.poll(lambda: harness.holds_tracepoint(run, "rss_stat"), "the profiler to count")
        tell(neighbour, "go")
        assert said(neighbour) == "pause"
        tell(tenant, MUCH * PAGE // MIB)
        assert said(tenant) == "done"
        tell(neighbour, "go")
        grown = int(said(neighbour))
        run.interrupt_group()
        result = run.wait().ok()
    assert grown == pytest.approx(8 * MIB, abs=MIB), grown
    assert grown_by(result.stacks, "keep") == pytest.approx(8 * MIB, abs=MIB)
    for function in "hold", "freed":
        assert grown_by(result.stacks, function) < MIB, (function, grown_by(result.stacks, function))
    has_counters(result, report)


def has_sessions():
    known = subprocess.run([harness.PYPERF, "-e", "help"], capture_output=True, text=True, check=True).stdout
    return re.search(r"^alloc.* yes$", known, re.M)


def in_use(path, function):
    return sum(s["values"].get("inuse_objects", 0) for s in pprof_read.read(path)["samples"]
               if any(f["func"] == function for f in s["stack"]))


def test_blocks(ground):
    """What was there before is known, and what comes after finds room: no block that is kept counts as freed."""
    if not has_sessions():
        pytest.skip("this kernel has no sessions of uprobes")
    report, path = ground.path / "x.txt", ground.path / "x.pb.gz"
    library = harness.compile_c(ground.path / "blocks.so", "blocks.c", "-shared", "-fPIC")
    with ground.start("blocks.py", library) as tenant, ground.start(
            "blocks.py", library, uid=NEIGHBOUR) as neighbour:
        run = harness.Profiler("-v", "-e", "alloc:10000", "-c", BLOCK, "-o", report, "-o", path,
                               "-p", "%d,%d" % (tenant.pid, neighbour.pid))
        run.wait_said("the profile begins")
        for process, *words in ((neighbour, "small", 4000, BLOCK), (tenant, "leak", MUCH, BLOCK),
                                (neighbour, "zeroed", 4000, BLOCK)):
            tell(process, *words)
            assert said(process) == "done"
        run.interrupt_group()
        result = run.wait().ok()
    for function in "small", "zeroed":
        assert in_use(path, function) == pytest.approx(4000, abs=400), function
    has_counters(result, report)


def entries(run, table, shares):
    """How many there are, and how many the users have, in sum and each."""
    tables = tables_of(run, table, shares)
    taken, _, *of = tables[shares][0][1]
    return len(tables[table]), taken, sum(of)


def holds_more(run, target, names):
    """Some blocks of the window at hand, after a few more; in vain when the window ends meanwhile."""
    tell(target, "small", 100, BLOCK)
    assert said(target) == "done"
    found = entries(run, *names)
    return found[0] > 0 and len(set(found)) == 1


@pytest.mark.skipif(not BPFTOOL, reason="no bpftool")
@pytest.mark.parametrize("event", ["growth", "alloc:10000"])
def test_room_comes_back(ground, event):
    """What is freed, and what a window has had when it ends, is not charged to its user any more."""
    if event != "growth" and not has_sessions():
        pytest.skip("this kernel has no sessions of uprobes")
    if event == "growth":
        names, target = ("pages", "page_shares"), ground.start(
            "growing.py", "many:24", "churn:64", "pause:0", uid=NEIGHBOUR)
        lines = ["go"]
    else:
        names, target = ("blocks", "block_shares"), ground.start(
            "blocks.py", harness.compile_c(ground.path / "blocks.so", "blocks.c", "-shared", "-fPIC"), uid=NEIGHBOUR)
        # Larger ones are taken for dear, and after two seconds of them nothing is sampled any more.
        lines = ["many 3000 %d" % (4 * PAGE), "freed 3000 %d" % BLOCK, "small 3000 %d" % BLOCK]
    with target:
        run = harness.Profiler("-v", "-e", event, "-c", PAGE, "--map-entries", 2048, "-p", target.pid)
        try:
            if event == "growth":
                harness.poll(lambda: harness.holds_tracepoint(run, "rss_stat"), "the profiler to count")
            else:
                run.wait_said("the profile begins")
            for line in lines:
                tell(target, line)
                assert said(target) in ("pause", "done")
            harness.poll(run.windows, "a window")
            # None, if all were of windows that have ended.
            harness.poll(lambda: len(set(entries(run, *names))) == 1, "equal numbers of %s" % (names,))
            if event != "growth":
                harness.poll(lambda: holds_more(run, target, names), "equal numbers of %s, of some" % (names,))
        finally:
            run.process.kill()
            run.wait()
