# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""pyperf-bpf report: what record wrote, and what other tools write, without privileges."""
import collections
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness
from harness import NATIVE, Target, parse_folded, total
from terminal import Terminal

pytestmark = pytest.mark.beside

# A frame of the interpreter's own file, or of the C library where a thread begins.
INTERPRETER_RE = re.compile(r" \[(lib)?python[0-9][^]]*\]$|^(_start|__libc_start\w*|start_thread|__?clone3?) \[")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

GO_PROGRAM = """package main

import (
	"os"
	"runtime/pprof"
)

//go:noinline
func spin(n int) (x uint32) {
	for i := 0; i < n; i++ {
		x = x*31 + uint32(i)
	}
	return
}

func main() {
	f, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(f)
	var x uint32
	for i := 0; i < 60; i++ {
		x += spin(20000000)
	}
	pprof.StopCPUProfile()
	f.Close()
	if x == 1 {
		os.Exit(1)
	}
}
"""


SORT_AND_HASH = """
import hashlib, time
def sorts(numbers):
    numbers.sort()
def hashes():
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 20000)
numbers = [n * 7919 % 100003 for n in range(100003)]
end = time.time() + 1
while time.time() < end:
    sorts(list(numbers))
    hashes()
"""


def report(*args, status=0, prefix=(), **kwargs):
    done = subprocess.run([*prefix, harness.PYPERF, "report", *map(str, args)], text=True,
                          capture_output=True, timeout=60, **kwargs)
    assert done.returncode == status, done
    return done


@pytest.fixture(scope="module")
def recorded(any_python, tmp_path_factory):
    """A directory with one run in all formats that record has: x.pb.gz, x.txt, x.folded."""
    out = tmp_path_factory.mktemp("recorded")
    # Everyone may read the program, wherever the checkout is: a report shows lines of source.
    with tempfile.TemporaryDirectory(prefix="pyperf-e2e-") as programs:
        os.chmod(programs, 0o755)
        for name in "spinner.py", "common.py":
            shutil.copy(harness.PROGRAMS / name, programs)
        with Target(any_python, Path(programs, "spinner.py"), "spin_it") as target:
            harness.profile("-d", "1", "-F", 999, "-p", target.pid, "--threads", "-o",
                            out / "x.pb.gz", "-o", out / "x.txt", "-o", out / "x.folded").ok()
        yield out


def test_round_trip(recorded, directory):
    report("--glue", "-v", recorded / "x.pb.gz", "-o", directory / "x.txt", "-o", directory / "x.folded", "-o",
           directory / "x.pb.gz")
    for name in "x.txt", "x.folded", "x.pb.gz":
        assert (directory / name).read_bytes() == (recorded / name).read_bytes(), name
    assert report("--glue", "-f", recorded / "x.folded").stdout == (recorded / "x.folded").read_text()
    shown = report("-f", recorded / "x.pb.gz").stdout
    (directory / "shown.folded").write_text(shown)
    assert report("-f", recorded / "x.folded").stdout == report("-f", directory / "shown.folded").stdout == shown


def glue_free(text, **kwargs):
    """[(texts of frames that are Python or of no interpreter's file, samples)], with frames of the kernel."""
    return sorted((s.comm, s.tid or 0, tuple(f.text for f in s.frames
                                             if f.kind != NATIVE or not INTERPRETER_RE.search(f.text)),
                   s.count) for s in parse_folded(text, **kwargs))


def summed(stacks):
    sums = collections.Counter()
    for *key, count in stacks:
        sums[tuple(key)] += count
    return sums


def test_glue(python, directory):
    """What is left out is the interpreter's code and nothing else, of any build; a method that sorts has its name."""
    out = directory / "x.pb.gz"
    assert harness.profile("-F", 999, "-o", out, "--", python, "-B", "-c", SORT_AND_HASH).status == 0
    every = report("--glue", "-f", out).stdout
    shown = report("-f", out).stdout
    assert len(shown) < len(every)
    assert summed(glue_free(shown)) == summed(glue_free(every))
    stacks = [s for s in parse_folded(shown) if s.python()]
    for stack in stacks:
        own = [f for f in stack.native() if INTERPRETER_RE.search(f.text)]
        assert not any(f.unnamed() or f.name.startswith(("_PyEval", "PyObject_Call", "_start")) for f in own), str(stack)
        boxes = [f for f in stack.frames if f.name == "CPython"]
        assert not boxes or (len(boxes) == 1 and stack.frames[-1] == boxes[0]), str(stack)
    assert any(s.frames[-1].name == "CPython" for s in stacks)
    assert {"sorts", "hashes"} <= {f.name for s in stacks for f in s.python()}
    sorts = [s for s in stacks if s.leaf().name == "sorts"]
    assert any(f.name in ("list.sort", "list_sort_impl", "list_sort", "listsort") for s in sorts for f in s.native()), \
        "\n".join(map(str, sorts))


def test_other_ways_to_read(recorded):
    """A saved profile with less of it shown: by kind of frame, by process, by name. No sample of the rest is lost."""
    whole = parse_folded((recorded / "x.folded").read_text(), threads=True)
    assert any(stack.native() for stack in whole)
    python = parse_folded(report("-f", "--no-native", "--no-kernel", recorded / "x.pb.gz").stdout, threads=True)
    assert total(python) == total(whole)
    assert not any(stack.native() or stack.kernel() for stack in python)
    assert {tuple(f.text for f in s.python()) for s in python} == {tuple(f.text for f in s.python()) for s in whole}
    text = report(recorded / "x.pb.gz").stdout
    pid, name = re.search(r"^ +\d[\d.]*% +[\d.]+ +(\d+)  (\S+)", text, re.M).groups()
    assert report("-p", "1,%s" % pid, "--comm", name[0] + "*", "--threads", recorded / "x.pb.gz").stdout == text
    for nobody in (["-p", "1"], ["--comm", "no-such-*"]):
        done = report(*nobody, recorded / "x.pb.gz", status=1)
        assert "no sample of the processes asked for" in done.stderr and not done.stdout
    assert report("-p", "1,", recorded / "x.pb.gz", status=2).stderr


def test_native_first(recorded):
    """The innermost functions of all kinds, before what is read Python first."""
    text = report("--native", recorded / "x.pb.gz").stdout
    titles = [line for line in text.splitlines() if re.match(r"[A-Z][a-z ]+$", line)]
    assert titles[:3] == ["Functions by self time", "Call tree", "Functions by own time"]


def test_quiet(recorded, directory):
    """-q beside a file prints nothing at all; alone, it prints the report."""
    done = report("-q", recorded / "x.pb.gz", "-o", directory / "x.svg")
    assert not done.stdout and not done.stderr and (directory / "x.svg").stat().st_size
    assert "Call tree" in report("-q", recorded / "x.pb.gz").stdout


def test_feedback_on_a_terminal(any_python, directory):
    """How far it is, how to end it, and what was written."""
    with Target(any_python, "spinner.py", "spin_it") as target, \
            Terminal([harness.PYPERF, "-p", target.pid, "-d", 3, "-o", directory / "x.pb.gz"]) as terminal:
        terminal.shows(r"^\d of 3 s, \d+ samples, Ctrl-C ends and reports$")
        assert terminal.wait() == 0
    assert b"wrote %s/x.pb.gz (" % bytes(directory) in terminal.raw


def test_unprivileged(recorded, directory):
    if not harness.find_tool("setpriv"):
        pytest.skip("setpriv is not installed")
    program = shutil.copy(harness.PYPERF, directory / "pyperf-bpf")
    with open(recorded / "x.pb.gz", "rb") as f:
        done = subprocess.run([*NOBODY, program, "report", "-v", "-"], stdin=f, text=True,
                              capture_output=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done
    assert done.stdout == (recorded / "x.txt").read_text()


def test_added_up(recorded):
    once = parse_folded((recorded / "x.folded").read_text(), threads=True)
    twice = report("-f", recorded / "x.pb.gz", recorded / "x.pb.gz").stdout
    assert total(parse_folded(twice, threads=True)) == 2 * total(once)
    merged = parse_folded(report("-f", "--no-threads", recorded / "x.pb.gz").stdout)
    assert total(merged) == total(once) and merged[0].thread is None


@pytest.mark.parametrize("args", [[], ["-x"], ["x.folded", "-o", "x.xyz"]])
def test_usage(args):
    assert len(report(*args, status=2).stderr.splitlines()) == 1


def test_missing(directory):
    out = directory / "x.txt"
    done = report("/nonexistent.pb.gz", "-o", out, status=1)
    assert "/nonexistent.pb.gz: No such file" in done.stderr
    assert not list(directory.iterdir())


def test_profile_of_go(directory):
    """What the most common writer of pprof files writes."""
    go = harness.find_go()
    if not go:
        pytest.skip("go is not installed")
    source, out = directory / "spin.go", directory / "cpu.pb.gz"
    source.write_text(GO_PROGRAM)
    subprocess.run([go, "run", str(source), str(out)], check=True, timeout=120,
                   env={**os.environ, "GOFLAGS": "", "GO111MODULE": "off", "GOTOOLCHAIN": "local"})
    top = subprocess.run([go, "tool", "pprof", "-top", "-sample_index=samples", str(out)],
                         capture_output=True, text=True, check=True, timeout=60)
    text = report(out).stdout
    assert "at 100 Hz" in text.splitlines()[0], text
    samples = int(text.split(" samples")[0].split()[-1].replace(",", ""))
    assert "%d total" % samples in top.stdout.replace(" of ", " "), (text, top.stdout)
    assert "main.spin" in text and "spin.go:" in text
    assert "delivered" not in text
    frames = report("-f", out).stdout
    lines = r"main\.main \(%s:\d+\) \[spin\];main\.spin \(%s:\d+\) \[spin\]" % (source, source)
    assert re.search(lines, frames), frames
