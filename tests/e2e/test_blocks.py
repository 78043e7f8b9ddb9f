# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Blocks of the C library's allocator (-e alloc, memory --level blocks): which function allocated how many, of how many bytes,
and which of them are left, against what a C library that the program calls did."""
import json
import math
import os
import re
import subprocess
import sys

import pytest

import harness
import pprof_read
from harness import PROGRAMS, Process, Profiler, poll

MIB = 1 << 20
STEP = 16384
IN_USE, ALLOCATED = ("inuse_space", "inuse_objects"), ("alloc_space", "alloc_objects")

pytestmark = pytest.mark.skipif(
    not re.search(r"^alloc.* yes$", subprocess.run([harness.PYPERF, "-e", "help"], capture_output=True, text=True).stdout, re.M),
    reason="this kernel has no sessions of uprobes")


WINDOW = "until a window has ended"


class Blocks:
    """A run of the program: what each of its functions allocated, by value."""

    def __init__(self, python, directory, *calls, options=("-e", "alloc:10000"), step=STEP):
        library = harness.compile_c(directory / "blocks.so", "blocks.c", "-shared", "-fPIC")
        self.path = directory / "blocks.pb.gz"
        with Process([python, PROGRAMS / "blocks.py", library]) as target:
            profiler = Profiler(*options, "-v", "-o", self.path, "-c", step, "-p", target.pid)
            profiler.wait_said("the profile begins")
            for call in calls:
                if call == WINDOW:
                    poll(profiler.windows, "a window")
                    continue
                target.process.stdin.write(call.encode() + b"\n")
                assert target.read_line() == b"done\n"
            profiler.interrupt_group()
            self.result = profiler.wait().ok()
            self.windows = len(profiler.windows())
        self.profile = pprof_read.read(self.path)
        counters = self.result.counters
        assert counters["complete"] >= 0.995 * counters["user_stacks"] > 0, counters

    def sums(self, names, function):
        """Of a Python function."""
        of = [s for s in self.profile["samples"] if any(f["func"] == function for f in s["stack"])]
        return [sum(s["values"].get(name, 0) for s in of) for name in names]


def about(cnt, size, step=STEP):
    """Bytes and blocks: five standard errors of what is drawn with the probability 1 - exp(-size / step)."""
    chance = -math.expm1(-size / step)
    error = 5 * math.sqrt(cnt * (1 - chance) / chance) + 0.01 * cnt + 1
    return [pytest.approx(cnt * size, abs=error * size), pytest.approx(cnt, abs=error)]


def amount(text):
    number, unit = re.fullmatch(r"([0-9.]+) (B|KiB|MiB|GiB)", text).groups()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def test_a_leak_of_large_and_small_blocks(any_python, directory):
    """What is left of each, whatever else came and went."""
    run = Blocks(any_python, directory, "large 100 %d" % MIB, "small 1000000 64", "churn 100000 1000", step=512 << 10)
    assert run.sums(IN_USE, "large") == about(100, MIB, 512 << 10)
    assert run.sums(IN_USE, "small") == about(1000000, 64, 512 << 10)
    assert run.sums(IN_USE, "churn") == [0, 0]
    assert run.sums(ALLOCATED, "churn") == about(100000, 1000, 512 << 10)


def test_each_call(any_python, directory):
    """Once, also where the C library calls its own malloc(); what was freed, or resized, is not in use."""
    run = Blocks(any_python, directory, "freed 20000 4096", "zeroed 20000 4096", "aligned 5000 4096", "resized 20000 4096")
    assert run.sums(IN_USE, "zeroed") == about(20000, 4096)
    assert run.sums(IN_USE, "aligned") == about(5000, 4096)
    assert run.sums(IN_USE, "resized") == about(20000, 4096)
    assert run.sums(ALLOCATED, "resized") == [about(80000, 4096)[0], about(60000, 4096)[1]]
    assert run.sums(IN_USE, "freed") == [0, 0]
    assert run.sums(ALLOCATED, "freed") == about(20000, 4096)


def test_a_filter_of_system_calls(any_python, directory):
    """The process goes on: its filter does not see the system call of a return; or nothing is sampled."""
    library = harness.compile_c(directory / "blocks.so", "blocks.c", "-shared", "-fPIC")
    with Process([any_python, PROGRAMS / "blocks.py", library]) as target:
        target.process.stdin.write(b"confine\n")
        assert target.read_line() == b"done\n"
        profiler = Profiler("-e", "alloc", "-v", "-o", directory / "x.pb.gz", "-p", target.pid)
        said = lambda: "the profile begins" in profiler.read(profiler.err)
        harness.poll(lambda: said() or profiler.process.poll() is not None, "a beginning")
        target.process.stdin.write(b"leak 20 %d\n" % MIB)
        assert target.read_line() == b"done\n"
        if profiler.process.poll() is None:
            profiler.interrupt_group()
        result = profiler.wait()
    assert target.process.returncode == 0
    if result.status == 0:
        assert result.counters["counted"] >= 20 and pprof_read.read(directory / "x.pb.gz")["totals"]["inuse_objects"] > 10
    else:
        assert "has a seccomp filter" in result.stderr


@pytest.mark.skipif(not harness.find_go(), reason="go is not installed")
def test_go_tool_pprof(any_python, directory):
    run = Blocks(any_python, directory, "leak 10 %d" % MIB)
    for value, words in (("inuse_space", "10MB"), ("inuse_objects", "10"), ("alloc_space", "10MB"), ("alloc_objects", "10")):
        text = subprocess.run([harness.find_go(), "tool", "pprof", "-top", "-cum", "-sample_index=" + value, run.path],
                              capture_output=True, text=True, check=True).stdout
        assert "Type: " + value in text
        assert re.search(r"\b%s +[0-9.]+%% +leak$" % words, text, re.M), text


def test_memory_says_it(any_python, directory):
    """The first line, and the function that has what is left."""
    options = ("memory", "--level", "blocks", "--max-slowdown", "10000")
    run = Blocks(any_python, directory, "leak 64 %d" % MIB, "churn 1000 65536", options=options)
    first = run.result.stdout.split("\n")[0]
    words = r"Allocated (.*?) in [0-9.]+ s, of which (.*?) \+/- (.*?) are in use; one sample every 16.0 KiB\. Resident memory \+"
    allocated, left, error = map(amount, re.match(words, first).groups())
    assert allocated == pytest.approx(126.5 * MIB, rel=0.1), first
    assert left == pytest.approx(64 * MIB, rel=0.03) and error < MIB, first
    assert re.search(r"% of the memory in use is in leak ", run.result.stdout)


def test_the_peak(any_python, directory):
    """What was in use at the highest resident memory, though it is freed at the end."""
    library = harness.compile_c(directory / "blocks.so", "blocks.c", "-shared", "-fPIC")
    path = directory / "blocks.pb.gz"
    with Process([any_python, PROGRAMS / "blocks.py", library]) as target:
        call = lambda line: (target.process.stdin.write(line + b"\n"), target.read_line())
        profiler = Profiler("memory", "--level", "blocks", "--max-slowdown", "10000", "-v", "-c", STEP, "-o", path, "-p", target.pid)
        profiler.wait_said("the profile begins")
        rss = lambda: int((harness.Path("/proc") / str(target.pid) / "statm").read_text().split()[1]) * 4096
        call(b"filled 400 262144")
        high = rss()
        poll(lambda: any(int(kib) << 10 >= high - MIB for kib in re.findall(r"peak (\d+) KiB", profiler.read(profiler.err))), "the peak")
        call(b"dropped")
        call(b"small 1000 1024")
        profiler.interrupt_group()
        result = profiler.wait().ok()
    samples = pprof_read.read(path)["samples"]
    sums = lambda value, function: sum(s["values"].get(value, 0) for s in samples if any(f["func"] == function for f in s["stack"]))
    assert sums("peak_space", "filled") == about(400, 262144)[0] and not sums("peak_space", "small")
    assert sums("inuse_space", "filled") == 0 and sums("inuse_space", "small") == about(1000, 1024)[0]
    words = r"Peak (.*?) after [0-9.]+ s, (.*?) more than at the beginning; (.*?) \+/- (.*?) was allocated meanwhile and in use, " \
            r"(\d+)% under filled \(blocks\.py:\d+\) -> "
    whole, _, used, _, share = re.match(words, result.stdout.split("\n")[1]).groups()
    assert amount(whole) == pytest.approx(high, rel=0.03) and amount(used) == pytest.approx(100 * MIB, rel=0.06) and int(share) > 90


def traced(python):
    """What tracemalloc says, in a run of its own."""
    with Process([python, PROGRAMS / "allocating.py", "trace"]) as target:
        target.process.stdin.write(b"\n")
        return json.loads(target.read_line())


def found_in(python, truth, directory):
    """What memory says of the program, by the functions that `truth` names."""
    path = directory / "memory.pb.gz"
    with Process([python, PROGRAMS / "allocating.py"]) as target:
        profiler = Profiler("memory", "--level", "blocks", "--max-slowdown", "10000", "-v", "-c", STEP, "-o", path,
                            "-p", target.pid)
        profiler.wait_said("the profile begins")
        target.process.stdin.write(b"\n")
        target.read_line()
        profiler.interrupt_group()
        profiler.wait().ok()
    found = {}
    for sample in pprof_read.read(path)["samples"]:
        function = next((f["func"] for f in sample["stack"] if f["func"] in truth), None)
        found[function] = found.get(function, 0) + sample["values"].get("inuse_space", 0)
    return found


MEMRAY = """
import json, sys, memray
sums = {}
for record in memray.FileReader(sys.argv[1]).get_high_watermark_allocation_records(merge_threads=True):
    for function, _, _ in record.stack_trace():  # innermost first; a generator is part of its function
        if function in ("parse", "index", "render", "passing"):
            sums[function] = sums.get(function, 0) + record.size
            break
print(json.dumps(sums))
"""


def test_agrees_with_memray(any_python, directory):
    """memray runs the program itself, in a second run: the same three functions have most at its peak, in the same order, and each
    its bytes within three standard errors. PYPERF_TEST_MEMRAY names a Python that has it."""
    has = lambda python: python and subprocess.run([python, "-c", "import memray"], capture_output=True).returncode == 0
    python = next(filter(has, (os.environ.get("PYPERF_TEST_MEMRAY"), any_python, sys.executable)), None)
    if not python:
        pytest.skip("memray is not installed")
    capture = directory / "memray.bin"
    subprocess.run([python, "-m", "memray", "run", "-q", "-o", capture, PROGRAMS / "allocating.py"], input=b"\n\n", check=True,
                   capture_output=True)
    truth = json.loads(subprocess.run([python, "-c", MEMRAY, capture], capture_output=True, check=True).stdout)
    found = found_in(python, truth, directory)
    most = lambda sums: sorted((f for f in sums if f), key=sums.get, reverse=True)[:3]
    assert most(found) == most(truth) == ["parse", "index", "render"], (found, truth)
    for function in most(truth):
        error = 3 * math.sqrt(truth[function] * STEP) + 0.01 * truth[function]
        assert found[function] == pytest.approx(truth[function], abs=error), (found, truth)


def test_agrees_with_tracemalloc(any_python, directory):
    """The same three functions have most, in the same order, and each its bytes within three standard errors. tracemalloc slows
    the program down and has to be started in it; so it sees a second run."""
    truth = traced(any_python)
    found = found_in(any_python, truth, directory)
    most = lambda sums: sorted((f for f in sums if f), key=sums.get, reverse=True)[:3]
    assert most(found) == most(truth) == ["parse", "index", "render"], (found, truth)
    for function in most(truth):
        # Of bytes that are drawn every STEP; a block's header, and what tracemalloc counts besides, is 1%.
        error = 3 * math.sqrt(truth[function] * STEP) + 0.01 * truth[function]
        assert found[function] == pytest.approx(truth[function], abs=error)
    assert found.get("passing", 0) < MIB


def test_too_dear(any_python, directory):
    """More calls than the budget allows: the level is growth, and the first line says so. record refuses."""
    library = harness.compile_c(directory / "blocks.so", "blocks.c", "-shared", "-fPIC")
    with Process([any_python, PROGRAMS / "blocks.py", library]) as target:
        target.process.stdin.write(b"churn 1000000000000 64\n")
        result = Profiler("memory", "--level=blocks", "--max-slowdown", "5", "-d", "0.5", "-p", target.pid).wait()
        refused = harness.profile("-e", "alloc:5", "-d", "0.5", "-p", target.pid)
        target.process.kill()
    assert result.status == 0, result.stderr
    assert result.stdout.startswith("Growth, as blocks would slow the process down by too much. Resident memory"), result.stdout
    assert refused.status == 1 and re.search(r"times a second: .* by [0-9]+% of the CPU time, more than 5% "
                                              r"\(-e alloc:[0-9]+, or --max-slowdown [0-9]+ of memory, allows", refused.stderr), refused.stderr


def test_dear_later(any_python, directory):
    """An idle process that begins to allocate: the breakpoints go, and what was found is shown."""
    library = harness.compile_c(directory / "blocks.so", "blocks.c", "-shared", "-fPIC")
    with Process([any_python, PROGRAMS / "blocks.py", library]) as target:
        profiler = Profiler("-e", "alloc:5", "-v", "-o", directory / "x.pb.gz", "-p", target.pid)
        profiler.wait_said("the profile begins")
        target.process.stdin.write(b"leak 20 %d\n" % MIB)
        assert target.read_line() == b"done\n"
        target.process.stdin.write(b"churn 1000000000000 64\n")
        profiler.wait_said("more than 5%. The results are those up to then")
        profiler.interrupt_group()
        profiler.wait().ok()
        target.process.kill()
    assert pprof_read.read(directory / "x.pb.gz")["totals"]["inuse_objects"] > 10


@pytest.mark.parametrize("args, words", [
    (("memory", "-p", "1", "--level", "all"), "--level must be growth or blocks"),
    (("memory", "-p", "1", "--level"), "--level must be growth or blocks"),
    (("memory", "-p", "1", "--max-slowdown", "x"), "must be a number"),
    (("memory", "--level", "blocks", "--", "true"), "name one with -p"),
    (("-e", "alloc:x", "-p", "1"), "must be alloc or alloc:PERCENT"),
    (("-e", "alloc", "-F", "10", "-p", "1"), "is sampled by bytes"),
    (("-e", "alloc", "-c", str(1 << 31), "-p", "1"), "at most"),
    (("-e", "alloc,growth", "-p", "1"), "at most 4 values"),
])
def test_wrong_lines(args, words):
    result = subprocess.run([harness.PYPERF, *args], capture_output=True, text=True)
    assert result.returncode == 2 and words in result.stderr, result


def way(names):
    """Of a stack, outermost first: the functions of `many`."""
    return " ".join(name for name in names if name in ("many", "turn", "left", "right"))


def test_later_windows(any_python, directory):
    """A table that gets half full but not full: windows end while blocks come, each stack is whole, and blocks of an earlier
    window stay in use."""
    blocks = Blocks(any_python, directory, "large 100 65536", "many 3000 65536", WINDOW, "small 100 65536",
                    options=("-v", "-e", "alloc:10000", "--map-entries", 2048))
    assert blocks.windows >= 2 and not blocks.result.counters["lost_chunks_full"]
    assert blocks.sums(IN_USE, "large") == about(100, 65536)
    assert blocks.sums(IN_USE, "small") == about(100, 65536)
    ways = [way(f["func"] for f in reversed(s["stack"])) for s in blocks.profile["samples"] if any(f["func"] == "turn" for f in s["stack"])]
    assert len(set(ways)) > 256
    assert not [w for w in ways if not re.fullmatch(r"many turn( (left|right) turn)*", w)], ways[:3]
