# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Events that are no clock: counts against programs whose number of them is known; the unit in every output; samples
handled as in NMI context; too many samples."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import pprof_read
from harness import Profiler, Target, certain, find_go, profile, profile_work, spend, total
from probe_runs import libc_of
from test_formats import validate

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "programs/events.py"
PAGES, SLEEPS, TIMES = 3000, 300, 60


def line_of(mark):
    return next(n for n, text in enumerate(PROGRAM.read_text().split("\n"), 1)
                if "# " + mark in text)


def count_in(stacks, function, mark):
    """Of the stacks whose innermost Python function is this one; each must stand on the marked line."""
    found = [s for s in stacks if s.leaf() and s.leaf().name == function]
    lines = {s.leaf().line for s in found}
    assert lines <= {line_of(mark), line_of(mark) - 1}, lines
    return found, total(found)


def run_program(python, *options, times):
    """It begins when the profiler samples and knows the process: of a command, the first faults are not Python's yet."""
    with Target(python, PROGRAM.name, PAGES, SLEEPS, times, "wait") as target:
        profiler = Profiler("-v", *options, "-p", target.pid)
        profiler.wait_sampling()
        target.process.stdin.write(b"go\n")
        assert target.read_line() == b"done\n"
        profiler.interrupt_group()
        return profiler.wait().ok()


def run(python, event, *options, times=1):
    return run_program(python, "-f", "-e", event, *options, times=times)


def test_each_page_fault(any_python):
    result = run(any_python, "page-faults", "-c", 1)
    found, faults = count_in(result.stacks, "touch", "FAULT")
    assert PAGES <= faults <= 1.02 * PAGES + 8
    assert total(result.stacks) >= result.counters["counted"]


def test_each_context_switch(any_python):
    result = run(any_python, "context-switches", "-c", 1)
    found, switches = count_in(result.stacks, "switch", "SWITCH")
    assert 0.9 * SLEEPS <= switches <= 3 * SLEEPS  # a busy machine preempts as well
    asleep = [s for s in found if "hrtimer_nanosleep" in [f.name for f in s.kernel()]
              or "do_nanosleep" in [f.name for f in s.kernel()]]
    if not pathlib.Path("/proc/kallsyms").read_text(errors="replace").startswith("0000000000000000"):
        assert total(asleep) >= 0.9 * SLEEPS


def test_many_events_per_sample(any_python):
    """Fewer samples, the same sum: what a sample is worth comes from the kernel."""
    result = run(any_python, "page-faults", "-c", 37, times=TIMES)
    _, faults = count_in(result.stacks, "touch", "FAULT")
    assert result.counters["counted"] < 0.1 * TIMES * PAGES
    assert 0.98 * TIMES * PAGES <= faults <= 1.02 * TIMES * PAGES


def faults_of_all():
    """By the kernel's own count."""
    return int(re.search(r"^pgfault (\d+)$", pathlib.Path("/proc/vmstat").read_text(), re.M)[1])


def test_events_by_frequency(any_python):
    """With -F a sample is worth what the event has counted since the last one. The sum of all is the kernel's, but for those
    behind the last sample of each CPU."""
    with Target(any_python, PROGRAM.name, PAGES, 0, TIMES, "wait") as target:
        profiler = Profiler("-v", "-f", "-a", "-e", "page-faults", "-F", 500)
        profiler.wait_sampling()  # the process is known by then, and none of its samples is left out
        before = faults_of_all()
        target.process.stdin.write(b"go\n")
        assert target.read_line() == b"done\n"
        profiler.interrupt_group()
        result = profiler.wait().ok()
        true = faults_of_all() - before
    assert result.counters["counted"] < 0.1 * true
    with certain():
        assert total(result.stacks) <= true + 1000, (total(result.stacks), true)
    assert total(result.stacks) >= 0.6 * PAGES * TIMES, (total(result.stacks), true)


def test_bursts_by_frequency(any_python):
    """Nor are there ever more than there were when they come in bursts: the kernel expects far too many then."""
    for _ in range(8):
        before = faults_of_all()
        result = profile("-f", "-e", "page-faults", "-F", 500, "--", any_python, PROGRAM, 50, 0, 400).ok()
        true = faults_of_all() - before
        with certain():
            assert total(result.stacks) <= true, (total(result.stacks), true)


def test_unit_in_all_outputs(any_python, tmp_path):
    outputs = [tmp_path / name for name in ("x.txt", "x.pb.gz", "x.json", "x.svg", "x.html",
                                            "x.speedscope.json", "x.folded")]
    options = [arg for path in outputs for arg in ("-o", path)]
    result = run(any_python, "page-faults", "-c", 10, *options)
    sum_ = total(result.stacks)
    counted = result.counters["counted"]
    text = (tmp_path / "x.txt").read_text()
    assert re.search(r"{:,} page faults in {:,} samples".format(sum_, counted), " ".join(text.split()))
    assert "CPU s" not in text and "\nFunctions by page faults: own" in text
    assert re.search(r"^\d+% of the page faults are in touch \(", text, re.M)
    document = json.loads((tmp_path / "x.json").read_text())
    assert (document["event"], document["period"], document["frequency_hz"]) == ("page-faults", 10, 0)
    assert (document["events"], document["samples"]) == (sum_, counted)
    assert sum(s["events"] for s in document["stacks"]) == sum_
    assert sum(s["samples"] for s in document["stacks"]) == counted
    assert sum(p["events"] for p in document["processes"]) == sum_
    validate(HERE.parent.parent / "docs/profile.schema.json", tmp_path / "x.json")
    pprof = pprof_read.read(tmp_path / "x.pb.gz")
    assert pprof["types"] == ["samples/count", "page-faults/count"]
    assert pprof["totals"] == {"samples": counted, "page-faults": sum_}
    assert (pprof["default_type"], pprof["period_type"], pprof["period"]) == \
        ("page-faults", "page-faults/count", 10)
    assert "page faults" in (tmp_path / "x.svg").read_text()
    assert '"many":"page faults"' in (tmp_path / "x.html").read_text()
    assert json.loads((tmp_path / "x.speedscope.json").read_text())["profiles"][0]["unit"] == "none"
    # Read again, the same report.
    again = subprocess.run([str(HERE.parent.parent / ".output/pyperf-bpf"), "report", "-v", tmp_path / "x.pb.gz"],
                           stdout=subprocess.PIPE, check=True, universal_newlines=True)
    assert again.stdout == text


def several(python, directory, *options):
    names = ("x.txt", "x.pb.gz", "x.json", "x.folded", "faults.folded")
    outputs = [arg for name in names[:-1] for arg in ("-o", directory / name)]
    return run_program(python, "-F", 999, *options, *outputs, times=20)


def folded(path):
    return [(line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1]))
            for line in path.read_text().splitlines()]


def test_two_events_at_once(any_python, tmp_path):
    """Each is counted as if it were alone: faults against the program's own number, and none of them is in the time."""
    result = several(any_python, tmp_path, "-e", "cpu-clock,page-faults", "-c", 1)
    counters = result.counters
    document = json.loads((tmp_path / "x.json").read_text())
    validate(HERE.parent.parent / "docs/profile.schema.json", tmp_path / "x.json")
    clock, faults = document["values"]
    assert (clock["name"], faults["name"], faults["period"]) == ("cpu-clock", "page-faults", 1)
    assert clock["samples"] + faults["samples"] == counters["counted"]
    touched = [s for s in document["stacks"] if s.get("value") == 1 and
               any(document["frames"][f].get("function") == "touch" for f in s["frames"])]
    assert 20 * PAGES <= sum(s["total"] for s in touched) <= 1.02 * 20 * PAGES + 200
    assert sum(s["samples"] for s in document["stacks"] if "value" not in s) == clock["total"]
    lines = {frame.get("line") for s in touched for frame in (document["frames"][f] for f in s["frames"])
             if frame.get("function") == "touch"}
    assert lines <= {line_of("FAULT"), line_of("FAULT") - 1}
    pprof = pprof_read.read(tmp_path / "x.pb.gz")
    assert pprof["types"] == ["samples/count", "cpu/nanoseconds", "page-faults-samples/count",
                              "page-faults/count"]
    assert pprof["totals"]["page-faults"] == faults["total"]
    assert pprof["totals"]["samples"] == clock["total"]
    text = (tmp_path / "x.txt").read_text()
    assert "\nFunctions by own time" in text and "\nFunctions by page faults: own" in text
    assert text.count("\nSamples\n") == 1 and "not in this profile" not in text
    assert sum(n for _, n in folded(tmp_path / "x.folded")) == clock["total"]


def report(*args):
    return subprocess.run([str(HERE.parent.parent / ".output/pyperf-bpf"), "report", *map(str, args)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def test_several_values_are_read_again(any_python, tmp_path):
    several(any_python, tmp_path, "-e", "page-faults,cpu-clock,context-switches")
    again = report("-v", "-o", tmp_path / "y.pb.gz", "-o", tmp_path / "y.json", tmp_path / "x.pb.gz")
    assert again.returncode == 0 and again.stdout == (tmp_path / "x.txt").read_text()
    assert json.loads((tmp_path / "y.json").read_text())["values"] == \
        json.loads((tmp_path / "x.json").read_text())["values"]
    assert pprof_read.read(tmp_path / "y.pb.gz")["totals"] == pprof_read.read(tmp_path / "x.pb.gz")["totals"]
    values = {v["name"]: v["total"] for v in json.loads((tmp_path / "x.json").read_text())["values"]}
    assert list(values) == ["page-faults", "cpu-clock", "context-switches"]
    for name in values:
        one = report("-f", "--value", name, tmp_path / "x.pb.gz")
        assert sum(int(line.rsplit(" ", 1)[1]) for line in one.stdout.splitlines()) == values[name]
    refused = report("--value", "cycles", tmp_path / "x.pb.gz")
    assert refused.returncode == 1 and not refused.stdout
    assert "it has page-faults, cpu-clock, context-switches" in refused.stderr


GO_HEAP = """package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [][]byte

func keep(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 1<<20))
	}
}

func main() {
	runtime.MemProfileRate = 1
	keep(10)
	runtime.GC()
	f, _ := os.Create(os.Args[1])
	pprof.WriteHeapProfile(f)
	f.Close()
}
"""


@pytest.mark.skipif(not find_go(), reason="go is not installed")
def test_heap_profile_of_go(tmp_path):
    """All columns of a profile that has no samples: shown, and converted without a loss."""
    (tmp_path / "heap.go").write_text(GO_HEAP)
    # With the cache that has the library since `go tool pprof` was built: compiling it anew takes a minute.
    environment = dict(os.environ, GOFLAGS="-mod=mod", GO111MODULE="off")
    subprocess.run([find_go(), "run", tmp_path / "heap.go", tmp_path / "heap.pb.gz"], check=True,
                   env=environment, timeout=300)
    before = pprof_read.read(tmp_path / "heap.pb.gz")
    text = report("-o", tmp_path / "again.pb.gz", tmp_path / "heap.pb.gz")
    assert text.returncode == 0, text.stderr
    assert "main.keep" in text.stdout and "BYTES" in text.stdout
    after = pprof_read.read(tmp_path / "again.pb.gz")
    assert sorted(after["types"]) == sorted(before["types"]) and len(after["types"]) == 4
    assert after["totals"] == before["totals"]
    assert (before["default_type"], before["types"][-1]) == ("", "inuse_space/bytes")  # the last, then
    assert after["default_type"] == "inuse_space"
    kept = report("-f", "--value", "inuse_space", tmp_path / "heap.pb.gz").stdout.splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in kept if "main.keep" in line) >= 10 << 20


@pytest.mark.skipif(not find_go(), reason="go is not installed")
def test_go_reads_the_unit(any_python, tmp_path):
    result = run(any_python, "page-faults", "-c", 10, "-o", tmp_path / "x.pb.gz")
    top = subprocess.run([find_go(), "tool", "pprof", "-top", tmp_path / "x.pb.gz"],
                         stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    assert "Type: page-faults" in top
    assert "of %d total" % total(result.stacks) in top


@pytest.mark.parametrize("options, message", [
    (("-e", "page-fault"), "no such event; did you mean page-faults? -e help lists all"),
    (("-e", "wal"), "did you mean wall?"),
    (("-e", "zzzz"), "no such event; -e help lists them"),
    (("-c", "100"), "is sampled by time"),
    (("-e", "page-faults", "-c", "0"), "events per sample"),
    (("-e", "page-faults", "-c", "1", "-F", "9"), "exclude each other"),
    (("-e", "cpu-clock,,page-faults"), "no such event"),
    (("-e", "page-faults,minor-faults,major-faults,cpu-clock,task-clock"), "at most 4 values")])
def test_usage(options, message):
    result = profile(*options, "-d", 1)
    assert result.status == 2 and message in result.stderr and len(result.messages) == 1


def test_list(any_python):
    """One event a line, on stdout; each is one that -e takes, and says truly whether it can be sampled here."""
    result = profile("-e", "help", "-d", 1)
    assert (result.status, result.stderr) == (0, "")
    header, *rows = [re.split(r"  +", line) for line in result.stdout.splitlines()]
    assert header == ["EVENT", "UNIT", "WHAT IS COUNTED", "HERE"]
    here = {name: missing == "yes" for name, unit, counts, missing in rows}
    assert list(here)[0] == "cpu-clock" and here["cpu-clock"] and here["page-faults"] and "cycles" in here
    libc = libc_of(os.getpid())
    assert "uprobe:PATH:PLACE" in here and "alloc[:PERCENT]" in here
    for name in here:
        if "PROBE" in name or "ADDRESS" in name:
            continue  # need a file with static probes, an object: test_probes, test_refcount
        event = name.replace("PATH", libc).replace("PLACE", "getppid").replace("[:PERCENT]", "")
        event = event.replace("C:NAME", "sched:sched_process_fork")
        with contextlib.ExitStack() as stack:
            # Breakpoints at malloc() are set in processes that are named; the others take the whole machine.
            whom = ("-a",) if event != "alloc" else ("-p", stack.enter_context(Target(any_python, "spinner.py", "spin")).pid)
            status = profile("-e", event, "-d", 0.1, *whom).status
        assert (status == 0) == here[name], name
        said = profile("-e", event, "-F", 9, "-c", 1).stderr
        every = name.startswith(("uprobe", "tracepoint"))
        assert ("every hit" if every else "is sampled by bytes" if event == "alloc" else "exclude each other") in said, said


def test_no_counter():
    """Where there is a PMU, the event works, in NMI; where there is none, one message says so."""
    result = profile("-e", "cycles", "-d", 0.2, "-a")
    if os.path.exists("/sys/bus/event_source/devices/cpu"):
        return result.ok()
    said = [line for line in result.messages if "cycles" in line]
    assert result.status == 1 and len(said) == 1
    assert "-e cycles: this machine has no counter for it" in said[0] and "-e cpu-clock" in said[0]


@pytest.mark.parametrize("program", ["nesting.py", "threads.py"])
def test_as_in_nmi(any_python, program):
    """What a sample may not insert goes another way, once; stacks are the same, and most are hits after all."""
    with Target(any_python, program) as target:
        result = profile_work(target.pid, 1, "--nmi")
    c = result.counters
    assert 0 < c["note_handed_over"] < c["counted"], c
    assert not result.sum_of("lost_"), c
    result.complete()


def test_too_many_samples_are_slowed(any_python, real_time):
    """Samples of deep stacks: fewer are taken, they count for more, and it is said each time."""
    with Target(any_python, "deep.py", "python", 600, prefix=real_time) as target:
        # All of one CPU: on a busy machine it has too little of any to be too much.
        os.sched_setaffinity(target.pid, {max(os.sched_getaffinity(0))})
        profiler = Profiler("-v", "-f", "-F", 40000, "-p", target.pid)
        profiler.wait_said("sampling continues at 1/")
        spend(target.pid, 0.2)
        profiler.interrupt_group()
        result = profiler.wait().ok()
    c = result.counters
    said = [line for line in result.messages if "sampling continues at 1/" in line]
    assert len(said) == c["note_rate_lowered"] > 0
    assert total(result.stacks) > c["counted"]
