# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What people are told where a number, a name or a file is not what they expect."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import harness
import interpreters
from harness import Process, poll

pytestmark = pytest.mark.beside

IDLE = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"


def run(*args):
    return subprocess.run([harness.PYPERF, *map(str, args)], capture_output=True, text=True,
                          timeout=harness.PATIENCE, env=harness.clean_environment())


def test_folded_stacks_of_nothing(any_python):
    """Standard output is empty; standard error says why, in one line."""
    with Process([any_python, "-c", IDLE]) as target:
        result = run("record", "-f", "-p", target.pid, "-d", "0.2")
    assert result.returncode == 0 and result.stdout == "", result
    assert re.fullmatch(r"pyperf-bpf: Nothing was sampled in .*\n", result.stderr), result


RESTS = r"""
import sys, threading, time
lock = threading.Lock()
lock.acquire()
for i in range(int(sys.argv[1])):
    threading.Thread(target=lock.acquire, daemon=True).start()
print('ready', flush=True)
time.sleep(600) if len(sys.argv) > 2 else sys.stdin.read()
"""


def calls_of(pid):
    """How many threads are in which system call, by the kernel's word."""
    numbers = [(task / "syscall").read_text().split()[0] for task in Path("/proc/%d/task" % pid).iterdir()]
    return {name: numbers.count(str(n)) for name, n in (("read", 0), ("futex", 202), ("clock_nanosleep", 230))}


@pytest.fixture
def resting(any_python):
    """resting(N, ...) starts a program with N threads that wait for a lock, beside the main thread."""
    with contextlib.ExitStack() as stack:
        def start(*args):
            p = stack.enter_context(Process([any_python, "-c", RESTS, *map(str, args)]))
            stack.callback(p.process.kill)
            poll(lambda: sum(calls_of(p.pid).values()) == args[0] + 1, "all threads to rest")
            return p.pid
        yield start


def test_nothing_ran(resting):
    """The report names the Pythons there are, those with most threads first, and what each waits for."""
    pids = [resting(0, "sleep"), resting(3)] + [resting(0) for _ in range(8)]
    result = run("-d", "0.2", "-p", ",".join(map(str, pids)))
    assert result.returncode == 0 and not result.stderr, result
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Nothing was sampled in ")
    at = lines.index("10 Python processes, and what they wait for:")
    shown = [re.fullmatch(r"  (\d+) \S+, Python 3\.\d+\.\d+(?:, (\d+) threads)?: (.*)", line)
             for line in lines[at + 1:at + 9]]
    assert all(shown) and lines[at + 9] == "  and 2 more", lines
    numbers = [int(m[1]) for m in shown]
    assert numbers == [pids[1]] + sorted(set(pids) - {pids[1]})[:7]
    assert calls_of(pids[1]) == {"futex": 3, "read": 1, "clock_nanosleep": 0}
    assert shown[0][2] == "4" and shown[0][3] == "3 sleeping in futex (waits: lock), 1 sleeping in read (waits: pipe)"
    by_pid = {int(m[1]): m[3] for m in shown}
    sleeps = "sleeping in clock_nanosleep (waits: sleep)"
    assert by_pid.get(pids[0], sleeps) == sleeps
    assert '"pyperf-bpf dump %d"' % pids[1] in lines[at + 10] and "-e off-cpu" in lines[at + 10]
    # In the words of dump.
    states = set(re.findall(r"^Thread .*?: (.*)$", run("dump", pids[1]).stdout, re.M))
    assert states == {"sleeping in futex (waits: lock)", "sleeping in read (waits: pipe)"}


@pytest.mark.parametrize("name, text", [
    ("x.html", "<!doctype html>\n<html>"), ("x.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
    ("x.json", '{"version":1}'), ("x.trace.json", '[{"ph":"X"}]'),
    ("x.txt", "10.0 s at 99 Hz on 2 CPUs: 3 samples")])
def test_what_can_be_read(directory, name, text):
    (directory / name).write_text(text)
    result = run("report", directory / name)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result
    readable = "readable are pprof, folded stacks, speedscope's JSON, perf script's text"
    assert readable in result.stderr, result


def test_one_box_against_functions(directory):
    """Folded stacks have the interpreter's functions as one: where each has a name, it is not new."""
    box, each = directory / "a.folded", directory / "b.folded"
    for path, function in (box, "CPython"), (each, "PyEval_EvalCode"):
        path.write_text("python;main (app.py);%s [libpython3.11.so.1.0] 50\n" % function)
    said = '"CPython", like folded stacks: those of the other side are not '
    assert said + "new." in run("diff", box, each).stdout
    assert said + "gone." in run("diff", each, box).stdout
    # The text of no other format has room for it.
    for options in ["-f"], ["--format", "json"], ["--format", "markdown"], ["-q", "-o", directory / "x.html"]:
        result = run("diff", box, each, *options)
        assert said not in result.stdout and result.stderr.count(said + "new.") == 1, result
    assert said not in run("diff", box, each).stderr
    assert said not in run("diff", box, box).stdout + run("diff", each, each).stdout


def test_probes_of_a_program_with_a_libpython():
    """The interpreter is in a library of the program: the dynamic linker says in which."""
    for python in interpreters.find().values():
        exe = os.path.realpath(shutil.which(str(python)) or python)
        linked = subprocess.run(["ldd", exe], capture_output=True, text=True).stdout
        library = re.search(r"=> (\S*/libpython3\.\d+\w*\.so\.1\.0)", linked)
        if library and os.path.basename(exe).startswith("python"):
            break
    else:
        pytest.skip("no Python here is linked with a libpython")
    result = run("probes", exe, "--json")
    assert result.returncode == 0 and os.path.basename(library[1]) in result.stderr, result
    assert json.loads(result.stdout)["calls"], result


CALLS = r"""
import sys, threading
def call():
    pass
def work():
    while not end.wait(0.01):
        for i in range(100):
            call()
end = threading.Event()
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
sys.stdin.read()
end.set()
"""


def test_calls_per_second(any_python):
    """Of the whole run in the last object, which has the calls of the whole run."""
    with Process([any_python, "-c", CALLS]) as target:
        lines = run("trace", "-p", target.pid, "-d", "2.5", "--json", "--force").stdout.splitlines()
    last = json.loads(lines[-1])
    assert last["final"] and last["calls"] > 100, last
    rate = (last["calls"] + last["resumed"]) / last["seconds"]
    assert abs(last["calls_per_second"] - rate) < 1e-6 * rate, last


def test_source_in_an_archive(any_python, directory):
    """A zip file is named, and the page says what it is, instead of that its path has no directory."""
    with zipfile.ZipFile(directory / "app.pyz", "w") as archive:
        archive.writestr("__main__.py",
                         "print('ready', flush=True)\nwhile True:\n    sum(range(1000))\n")
    page = directory / "x.lines.html"
    target = Process([any_python, directory / "app.pyz"])
    try:
        result = run("record", target.pid, "-d", "1", "-o", page)
    finally:
        target.process.kill()
        target.process.wait()
    # The report names the archive; its part of the path alone would fit any program.
    assert result.returncode == 0 and " in <module> (app.pyz/__main__.py:" in result.stdout, result
    assert "app.pyz/__main__.py" in page.read_text()
    assert "The source is not shown: it is in an archive, such as a zip file" in page.read_text()
