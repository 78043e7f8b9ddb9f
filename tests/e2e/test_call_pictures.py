# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --calls -o FILE: the traced calls as a picture and as a profile, as the program itself says."""
import collections
import json
import signal
import subprocess
from pathlib import Path

import pytest

import harness
import interpreters
from harness import Target, poll
from test_inside import truth_of
from tracing import PROGRAM, Trace, work

pytestmark = pytest.mark.beside


def ways_of(truth):
    """How often which way of calls went on or began, by the program's own log of its threads."""
    ways = collections.Counter()
    for thread in truth:
        stack = []
        for event in thread:
            if event[0] == "-":
                stack.pop()
                continue
            stack.append(event[1:].rpartition(":")[0])
            ways[tuple(stack)] += 1
    return ways


def read(path, of=PROGRAM):
    """Which functions of one file called each other, and the nanoseconds of the innermost: a list of pairs. Others have no name."""
    lines = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
    frames = [[frame.rpartition(" (") for frame in way.split(";")[1:]] for way, _ in lines]
    return [(tuple(name if file == "%s)" % of else "" for name, _, file in way), int(ns)) for way, (_, ns) in zip(frames, lines)]


def drawn_in(path, of=PROGRAM):
    """{way of calls in one file: nanoseconds of its innermost function}"""
    drawn = collections.Counter()
    for way, ns in read(path, of):
        if way[-1]:
            drawn[tuple(filter(None, way))] += ns
    return drawn


def test_picture(any_python, directory):
    """Each way of calls that the program's own log has, and no other; the times are those of the calls."""
    folded = directory / "calls.folded"
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--hist", "--top", 0, "--force", "-o", folded)
        work(target)
        functions = trace.finish()["functions"]
        command = Path("/proc/%d/comm" % target.pid).read_text().strip()
    assert {line.partition(";")[0] for line in folded.read_text().splitlines()} == {command}
    drawn, truth = drawn_in(folded), ways_of(truth_of(any_python))
    assert drawn.keys() == truth.keys(), drawn.keys() ^ truth.keys()
    own, expected = collections.Counter(), collections.Counter()
    for way, ns in drawn.items():
        own[way[-1]] += ns
    for f in functions:
        if f["file"] == str(PROGRAM):
            expected[f["function"]] += f["own_ns"]
    assert own == expected
    total, = [f["total_ns"] for f in functions if f["function"] == "work"]
    assert sum(ns for way, ns in read(folded) if "work" in way) == total


SPINS = """
import json, sys, time
def spin(ms):
    end = time.monotonic_ns() + ms * 1000000
    while time.monotonic_ns() < end:
        pass
def short(): spin(1)
def long(): spin(4)
def both():
    start = time.monotonic_ns()
    short()
    between = time.monotonic_ns()
    long()
    return between - start, time.monotonic_ns() - between
print("ready", flush=True)
input()
print(json.dumps([both() for _ in range(20)]), flush=True)
input()
"""


def test_shares(any_python, directory):
    """Shares are those of the program's own clock. The file appears when it is whole."""
    html, folded, program = (directory / name for name in ("calls.html", "calls.folded", "spins.py"))
    program.write_text(SPINS)
    with subprocess.Popen([any_python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            trace = Trace(process.pid, "--calls", "--force", "-o", html, "-o", folded)
            process.stdin.write("\n")
            process.stdin.flush()
            short, long = (sum(ns) for ns in zip(*json.loads(process.stdout.readline())))
            assert not html.exists() and not folded.exists()
            trace.lines()
        finally:
            process.kill()
    drawn = collections.Counter()
    for way, ns in drawn_in(folded, program).items():
        drawn[way[-3:]] += ns  # up to 3.11 a list is made by a function of its own
    share = drawn["both", "long", "spin"] / (drawn["both", "long", "spin"] + drawn["both", "short", "spin"])
    assert abs(share - long / (short + long)) < 0.05
    page = html.read_text()
    assert page.rstrip().endswith("</html>") and "call time" in page


CLASSES = """
class Item(object):
    def __init__(self, n):
        self.n = n
def make(n):
    return Item(n)
def run():
    for i in range(500):
        make(i)
run()
"""


def test_command(any_python, directory):
    """A command from its first call to its last; a class is what calls its __init__()."""
    folded, program = directory / "calls.folded", directory / "classes.py"
    program.write_text(CLASSES)
    for python in any_python, interpreters.named("pyenv/3.13"):
        if not python:
            pytest.skip("pyenv/3.13 is not installed")
        done = subprocess.run([harness.PYPERF, "trace", "--calls", "--force", "--json", "-o", folded, "--", python, "-S", program],
                              capture_output=True, text=True, timeout=harness.PATIENCE, env=harness.clean_environment())
        assert done.returncode == 0 and "had begun before" not in done.stderr, done.stderr
        ways = {";".join(name.rpartition(".")[2] for name in way) for way in drawn_in(folded, program)}
        assert ways == {"<module>", "<module>;Item", "<module>;run", "<module>;run;make", "<module>;run;make;__init__"}


def test_nothing_is_left(any_python, directory):
    """Neither of a run that is killed, nor on a disk that is full."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(directory)], capture_output=True)
    if mount.returncode:
        pytest.skip("cannot mount a tmpfs")
    try:
        (directory / "filler").write_bytes(bytes(12 << 10))
        with Target(any_python, "counted.py", "run") as target:
            trace = Trace(target.pid, "--calls", "--force", "-o", directory / "calls.html")
            trace.process.kill()
            trace.process.communicate()
            trace = Trace(target.pid, "--hist", "--force", "-o", directory / "calls.html")
            work(target)
            trace.process.send_signal(signal.SIGINT)
            out, messages = trace.process.communicate(timeout=harness.PATIENCE)
            assert trace.process.returncode == 1 and "flame graph page not written: No space left on device" in messages, messages
            assert json.loads(out.splitlines()[-1])["final"]
        poll(lambda: [p.name for p in directory.iterdir()] == ["filler"], "the files to go")
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.parametrize("options", [[], ["--count"], ["--gc", "--calls"], ["--gc", "--slow", "1ms"], ["--imports"]])
def test_refused(options):
    answer = subprocess.run([harness.PYPERF, "trace", "-p", "1", "-o", "x.html", *options], capture_output=True, text=True,
                            timeout=harness.PATIENCE, env=harness.clean_environment())
    assert answer.returncode == 2 and answer.stderr.endswith("-o goes with --calls, --hist, --slow and --native-from\n")
