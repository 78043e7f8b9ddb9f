# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace and probes: every call is counted, exactly, and nothing is left behind."""
import json
import os
import re
import signal
import statistics
import subprocess
from pathlib import Path

import pytest

import conftest
import harness
import million_calls
from conftest import INTERPRETERS
from harness import Target, changed_code, poll
from programs import prefork
from tracing import FOLLOWS, PROGRAM, Trace, compare, compare_events, compare_million, counts_of, printed, start, truth_of, work

pytestmark = pytest.mark.beside

SPIN = "import sys\ndef f(): pass\nprint('ready', flush=True)\nwhile True: f()\n"


def run(*args):
    return subprocess.run([harness.PYPERF, *map(str, args)], capture_output=True, text=True,
                          timeout=harness.PATIENCE, env=harness.clean_environment())


def test_counts(python):
    """Recursion, generators, await, throw, exceptions, __init__, C callbacks, threads, code that is replaced."""
    compare(python)


def test_counts_add_up(any_python):
    """What was counted for one run is there twice after two, and a table a second says so meanwhile."""
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force", "-i", "0.1")
        work(target)
        work(target)
        trace.process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in trace.process.stdout]
    assert trace.process.wait(harness.PATIENCE) == 0
    fib = [f["calls"] for f in lines[-1]["functions"] if f["function"] == "fib"]
    assert fib == [2 * (1973 + 4 * 30 * 25)]
    totals = [line["calls"] for line in lines]
    assert totals == sorted(totals) and [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]


def test_price_of_all(any_python):
    """At the end the price is that of the whole run, not of the idle time before the end."""
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--force", "-i", "0.1")
        work(target)
        prices = []
        while prices[-1:] != [0] or not any(prices):
            prices.append(json.loads(trace.process.stdout.readline())["slowdown_percent"])
        assert trace.finish()["slowdown_percent"] > 0


def test_filter(any_python):
    """Only what is asked for; a name that is not there brings one that is."""
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force", "-f", "counted:fi?", "-f", "counted.py:deep")
        work(target)
        found = trace.finish()
        assert {f["function"]: f["calls"] for f in found["functions"]} == {"fib": 1973 + 4 * 30 * 25, "deep": 301}
        assert found["calls"] == 1973 + 4 * 30 * 25 + 301
        trace = Trace(target.pid, "--force", "-f", "counted:raisr")
        work(target)
        assert trace.finish()["functions"] == []
        assert "did you mean raiser (%s:" % PROGRAM in "".join(trace.messages)


SHOP = {
    "shop/__init__.py": "def pack(): pass",
    "shop/cart.py": "class Cart(object):\n    def total(self): pass\ndef total(): pass",
    "shops.py": "def total(): pass",
    "main.py": """
import os
from shop import pack
from shop.cart import Cart, total
from shops import total as totals
def checkout():
    pack(); Cart().total(); total(); totals()
os.write(1, b"ready\\n")
while os.read(0, 1):
    checkout()
    os.write(1, b"done\\n")
""",
}


@pytest.fixture
def shop(any_python, directory):
    """A program of a package, of modules and of functions with equal names."""
    (directory / "shop").mkdir()
    for name, text in SHOP.items():
        (directory / name).write_text(text)
    with harness.Process([any_python, "-B", directory / "main.py"]) as target:
        target.python = any_python
        yield target


def has_qualified_names(python):
    return subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode == 0


def called(shop, *args):
    """Which functions were, as a trace with these options says: FILE:LINE."""
    trace = Trace(shop.pid, "--force", "--top", 0, *args)
    shop.process.stdin.write(b"x")
    assert shop.read_line() == b"done\n"
    return sorted("%s:%d" % (Path(f["file"]).name, f["line"]) for f in trace.finish()["functions"])


@pytest.mark.parametrize("pattern, expected", [
    ("shop.*", ["__init__.py:1", "cart.py:2", "cart.py:3"]),
    ("shop.cart.*", ["cart.py:2", "cart.py:3"]),
    ("shop.pack", ["__init__.py:1"]),
    ("shops.total", ["shops.py:1"]),
    ("cart.Cart.total", ["cart.py:2"]),
    ("Cart.total", ["cart.py:2"]),
    ("shop.cart.total", ["cart.py:3"]),
])
def test_dotted_names(shop, pattern, expected):
    """A pattern with a dot may begin with modules, and goes on as it did, by class."""
    if "total" in pattern and not has_qualified_names(shop.python):
        pytest.skip("code objects have no qualified names")
    assert called(shop, "-f", pattern) == expected
    if "*" not in pattern:
        assert called(shop, "--hist", "--from", pattern) == expected


@pytest.mark.parametrize("options, meant", [
    (["-f", "shp.cart:*"], "shp.cart:*: no matching function was called; did you mean shop.cart:*?"),
    (["--hist", "-f", "shop/crat.py:total"], "did you mean shop/cart.py:total?"),
    (["-f", "shp.*"], "did you mean shop.*?"),
    (["-f", "shop.cart"], "did you mean shop.cart.*?"),
    (["--hist", "--from", "shp.cart:total"], "did you mean shop.cart:total?"),
])
def test_modules_that_were_meant(shop, options, meant):
    trace = Trace(shop.pid, "--force", *options)
    shop.process.stdin.write(b"x")
    assert shop.read_line() == b"done\n"
    trace.finish()
    assert meant in "".join(trace.messages)


def test_for_people(any_python):
    """The sentence above the table; nothing but it where there is nothing to show."""
    with Target(any_python, "counted.py", "run") as target:
        def texts(*args):
            with subprocess.Popen([harness.PYPERF, "trace", "-p", str(target.pid), "--force", *args], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as process:
                assert "counting the " in process.stderr.readline()
                work(target)
                process.send_signal(signal.SIGINT)
                return process.communicate(timeout=harness.PATIENCE)[0]
        assert ": 301 calls of 1 function in " in texts("-f", "deep", "-i", "100")
        found = texts("--hist", "-f", "raisr", "-i", "100")
    assert ": no calls in " in found and "FUNCTION" not in found


def test_functions_as_words(any_python):
    """With -p words are functions, also in front of options; a wrong name is answered while the trace runs."""
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--force", "counted:fi?", "--hist", "deep", "--top", 0)
        work(target)
        found = trace.finish()
        assert {f["function"]: f["calls"] for f in found["functions"]} == {"fib": 1973 + 4 * 30 * 25, "deep": 301}
        assert all(f["total_log2_ns"] for f in found["functions"])
        trace = Trace(target.pid, "--force", "-i", "0.1", "counted:raisr")
        work(target)
        line = trace.process.stderr.readline()
        assert "counted:raisr: no matching function was called; did you mean raiser (%s:" % PROGRAM in line
        assert trace.finish()["functions"] == [] and "did you mean" not in "".join(trace.messages[1:])


POOL = '''
import ctypes, json, os, sys, threading
c = ctypes.CDLL(None)
tids, names, go, there = {}, ["other", "pool-1", "pool-2"], threading.Event(), threading.Barrier(4)
def work(): pass
def run(i):
    c.prctl(15, names[i].encode())  # PR_SET_NAME
    tids[names[i]] = c.syscall(186)  # gettid
    there.wait()
    go.wait()
    for _ in range(100 * (i + 1)): work()
threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
for t in threads: t.start()
there.wait()
print(json.dumps(tids), flush=True)
sys.stdin.readline()
go.set()
for t in threads: t.join()
print("done", flush=True)
sys.stdin.readline()
'''


@pytest.mark.parametrize("mode", ["--count", "--calls", "--hist"])
def test_chosen_threads(any_python, mode):
    """By number and by name: calls in other threads are not there."""
    for chosen, calls in (["pool*"], {"pool-1": 200, "pool-2": 300}), (["other", 2], {"other": 100, "pool-2": 300}):
        with subprocess.Popen([any_python, "-c", POOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                tids = json.loads(process.stdout.readline())
                options = [option for c in chosen for option in ("-t", tids["pool-2"] if c == 2 else c)]
                trace = Trace(process.pid, mode, "--force", "-f", "work", *options)
                process.stdin.write("go\n")
                process.stdin.flush()
                assert process.stdout.readline() == "done\n"
                lines = [json.loads(line) for line in trace.lines()]
            finally:
                process.kill()
        work, = lines[-1]["functions"]
        assert work["calls"] == sum(calls.values())
        assert lines[-1]["refused"] >= (600 - work["calls"]) * (1 if mode == "--count" else 2)
        begun = [e["thread"] for e in lines if e.get("event") == "call"]
        assert mode != "--calls" or {tids[name]: n for name, n in calls.items()} == {t: begun.count(t) for t in begun}


def test_thread_that_calls_nothing(any_python):
    with Target(any_python, "counted.py", "run") as target:
        done = run("trace", "-p", target.pid, "-t", "nobody", "-d", "0.2")
    assert done.returncode == 0 and "no call was in a thread that -t means" in done.stderr


@pytest.mark.few_pythons
def test_filter_in_the_kernel(python):
    """What no filter means is refused there; not so what comes in its place, at the same address."""
    truth = {name: counts for name, counts in truth_of(python).items() if name.split(":")[0].endswith("7")}
    assert len(truth) == 6
    with Target(python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force", "-i", "0.1", "-f", "made_*7")
        rounds = refused = 0
        while refused <= 1973 + 4 * 30 * 25:  # of fib() alone in a round
            assert rounds < 100
            work(target)
            rounds += 1
            refused = json.loads(trace.process.stdout.readline())["refused"]
        found = trace.finish()
    assert counts_of(found, PROGRAM) == {name: [rounds * n for n in counts] for name, counts in truth.items()}


ALIKE = """
import ctypes, os
def function(name):
    space = {}
    exec("\\n" * 54320 + "def %s(): pass" % name, space)
    return space[name]
def version(function):
    code = id(function.__code__)
    lines = [at for at in range(code, code + 200, 4) if ctypes.c_int32.from_address(at).value == 54321]
    return code, ctypes.c_uint32.from_address(lines[0] + 24) # behind six numbers: Include/cpython/code.h
wanted, other = function("wanted"), function("other")
(code, mine), (address, its) = version(wanted), version(other)
its.value = mine.value ^ code ^ address
os.write(1, b"ready\\n")
while os.read(0, 1):
    for i in range(100): other()
    wanted()
    os.write(1, b"done\\n")
"""


def test_no_function_is_taken_for_another():
    """Two whose versions differ as their addresses do: one is wanted."""
    found = [conftest.INTERPRETERS[v] for v in ("3.13", "3.12") if v in conftest.INTERPRETERS]
    if not found:
        pytest.skip("no CPython whose code objects have versions is installed")
    with harness.Process([found[0], "-c", ALIKE]) as target:
        trace = Trace(target.pid, "--top", 0, "--force", "-i", "0.1", "-f", "wanted")
        refused = rounds = 0
        while refused < 200:  # until it is known of both what they are
            target.process.stdin.write(b"x")
            assert target.read_line() == b"done\n"
            rounds += 1
            refused = json.loads(trace.process.stdout.readline())["refused"]
        counted = trace.finish()["functions"]
    assert {f["function"]: f["calls"] for f in counted} == {"wanted": rounds}


def test_calls(python):
    """Each call and each end, in order, in each thread, as the interpreter itself says."""
    assert compare_events(python) > 20000


def test_callers_in_registers():
    """Where a generator goes on, an optimised 3.11 still has its caller's frame and first instruction in registers."""
    if "3.11" not in conftest.INTERPRETERS:
        pytest.skip("python3.11 is not installed")
    assert compare_million(conftest.INTERPRETERS["3.11"], rounds=1) > 50000


@pytest.mark.few_pythons
def test_tree_of_calls(python):
    """The short form of scripts/test-million."""
    figures = million_calls.compare(python, rounds=2)
    assert figures["events"] > 100000 and figures["depths"] == 8


def test_learning_is_cheap(python):
    """Few calls are looked for in all registers, and none once they are known: a slow program has not many calls by which its
    price is judged."""
    with Target(python, "counted.py", "run") as target:
        trace = Trace(target.pid, "-v", "--top", 0, "--force")
        work(target)
        trace.finish()
    hits, searched = map(int, re.search(r"(\d+) hits, .* (\d+) searched", "".join(trace.messages)).groups())
    assert hits > 5000 and searched < 0.002 * hits, (hits, searched)


FORMATS = {  # (thread, indentation, beginning or end, function); file:line of another tool's line are left out
    "pythonflow": r"\d+ +\d+ +(\d+) +[\d.]+ ( *)(->|<-) %s\.(.*)",
    "systemtap": r" *\d+ [^(]+\((\d+)\):( *) (=>|<=) (.*) in %s:\d+",
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(any_python, name):
    """As other tools have it: the same calls and ends, each end as far in as its beginning."""
    truth, lines = printed(any_python, name)
    threads, open_calls = {}, {}
    if name == "pythonflow":
        assert lines.pop(0).split() == ["CPU", "PID", "TID", "TIME(us)", "METHOD"]
    for line in lines:
        found = re.fullmatch(FORMATS[name] % "(.*?)", line)
        assert found or line.startswith("# end not seen: "), line
        of_program = re.fullmatch(FORMATS[name] % re.escape(str(PROGRAM)), line)
        if not of_program:
            continue
        tid, indent, arrow, function = of_program.groups()
        calls = open_calls.setdefault(tid, [])
        if ">" in arrow:
            calls.append((indent, function))
        elif calls:
            assert calls.pop() == (indent, function)
        threads.setdefault(tid, []).append("-+"[">" in arrow] + function)
    assert sorted(threads.values()) == truth


CROWD = 20000  # names of so many functions are more than the ring has room for

CROWDED = """
import os
space = {}
exec("".join("def f%%d(): pass\\n" %% i for i in range(%d)), space)
crowd = [space["f%%d" %% i] for i in range(%d)]
def wanted(): pass
os.write(1, b"ready\\n")
while True:
    what = os.read(0, 1)
    if what == b"a":
        for f in crowd: f()
    if what in (b"a", b"w"):
        for i in range(10): wanted()
    os.write(1, b"done\\n")
""" % (CROWD, CROWD)


def stop(process):
    process.send_signal(signal.SIGSTOP)
    stat = Path("/proc/%d/stat" % process.pid)
    poll(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the profiler to stop")


@pytest.mark.parametrize("mode", ["--calls", "--count"])
def test_names_without_room(any_python, mode, tmp_path):
    """Nothing that has no name yet passes a filter; what is wanted is shown as soon as its name came."""
    def go(what):
        process.stdin.write(what)
        process.stdin.flush()
        assert process.stdout.readline() == b"done\n"

    def is_shown():
        """Once more, until the name is there."""
        rounds.append(1)
        go(b"w")
        return b'"wanted"' in out.read_bytes()

    rounds, out = [], tmp_path / "out"
    with subprocess.Popen([any_python, "-c", CROWDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            with out.open("w") as file, subprocess.Popen(
                    [harness.PYPERF, "trace", "-p", str(process.pid), "--json", "--force", "-i", "0.1", mode, "-f", "wanted"],
                    stdout=file, stderr=subprocess.PIPE, text=True, env=harness.clean_environment()) as trace:
                try:
                    assert "counting the " in trace.stderr.readline()
                    stop(trace)
                    go(b"a")
                    trace.send_signal(signal.SIGCONT)
                    poll(is_shown, "the function that is wanted")
                    trace.send_signal(signal.SIGINT)
                    messages = trace.communicate(timeout=harness.PATIENCE)[1]
                    assert trace.returncode == 0, messages
                finally:
                    trace.kill()
        finally:
            process.kill()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {e["function"] for e in lines if "event" in e} == ({"wanted"} if mode == "--calls" else set())
    shown, = lines[-1]["functions"]
    assert shown["function"] == "wanted"
    hidden = int(re.search(r"(\d+) calls are not shown: the names", messages).group(1))
    assert hidden >= 10 and 10 * (1 + len(rounds)) - hidden <= shown["calls"] <= 10 * len(rounds)


SPINS = [120_000, 200_000, 1_000_000, 3_000_000]  # ns

SPUN = """
import json, sys, time
def spin(ns):
    start = time.monotonic_ns()
    while time.monotonic_ns() - start < ns:
        pass
    return time.monotonic_ns() - start
print("ready", flush=True)
input()
print(json.dumps([spin(ns) for ns in %s * 40]), flush=True)
input()
""" % SPINS

GREENLETS = """
import json, greenlet
LOG = []
def step(n):
    LOG.append("+step")
    other = turns.pop() if turns else None
    if other is not None:
        other.switch()
    if n == 2:
        LOG.append("-step")
        raise KeyError
    LOG.append("-step")
def first():
    LOG.append("+first")
    step(0)
    try:
        step(2)
    except KeyError:
        pass
    step(1)
    LOG.append("-first")
def second():
    LOG.append("+second")
    step(0)
    step(1)
    LOG.append("-second")
print("ready", flush=True)
input()
one, two = greenlet.greenlet(first), greenlet.greenlet(second)
turns = [two, one, two, one, two]
while not (one.dead and two.dead):
    (two if one.dead else one).switch()
print(json.dumps(LOG), flush=True)
input()
"""


def run_traced(python, code, *args):
    """What a program prints when it was told to go on, and the lines of its calls."""
    with subprocess.Popen([python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            trace = Trace(process.pid, "--calls", "--force", *args)
            process.stdin.write("\n")
            process.stdin.flush()
            truth = json.loads(process.stdout.readline())
            lines = [json.loads(line) for line in trace.lines()]
            assert lines[-1]["lost_events"] == 0
            return truth, lines
        finally:
            process.kill()


@pytest.mark.few_pythons
def test_times(python):
    """As long as the program's own clock says, but for what the breakpoint takes."""
    truth, lines = run_traced(python, SPUN, "-f", "spin")
    times = [e["total_ns"] for e in lines if e.get("event") in ("return", "leave")]
    assert len(times) == len(truth) == 40 * len(SPINS)
    assert not [pair for pair in zip(times, truth) if pair[0] < pair[1]]  # its clock begins later, and ends before
    for n, ns in enumerate(SPINS):  # who is taken off a CPU between two clocks is late by more
        pairs = list(zip(times, truth))[n::len(SPINS)]
        assert statistics.median(mine / theirs for mine, theirs in pairs) <= 1.05, (ns, pairs)
    spin, = lines[-1]["functions"]
    assert spin["calls"] == len(times) and spin["total_ns"] == spin["own_ns"] == sum(times)
    assert spin["longest_ns"] == max(times)


def test_greenlets(any_python):
    """Calls of greenlets, which take turns on one thread, end where they do."""
    if subprocess.run([any_python, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("greenlet is not installed for " + any_python)
    truth, lines = run_traced(any_python, GREENLETS, "-f", "step", "-f", "first", "-f", "second")
    found = [("+" if e["event"] == "call" else "-") + e["function"] for e in lines if "event" in e]
    assert found == truth
    assert not [f for f in lines[-1]["functions"] if f["unknown_ends"]]


def test_hist(any_python):
    """Each call is in one bucket of powers of two."""
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--hist", "--top", 0, "--force", "-f", "counted:fib")
        work(target)
        fib, = trace.finish()["functions"]
    assert fib["calls"] == fib["ended"] == sum(fib["total_log2_ns"]) == sum(fib["own_log2_ns"])
    longest = len(fib["total_log2_ns"]) - 1
    assert 1 << longest <= fib["longest_ns"] < 2 << longest
    assert sum(fib["cpu_log2_ns"]) == sum(fib["waiting_log2_ns"]) == fib["ended"]


def test_hist_for_people(any_python):
    with subprocess.Popen([any_python, "-c", IDLE], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            alone = run("trace", "-p", process.pid, "--hist", "f", "--force", "-d", "0.3")
            inside = run("trace", "-p", process.pid, "--hist", "f", "--from", "f", "--force", "-d", "0.3")
        finally:
            process.kill()
    assert re.search(r"FROM - TO +TOTAL +OWN +ON CPU +WAITING\n", alone.stdout), alone.stdout + alone.stderr
    assert re.search(r" us( +\d+ \|@* *\|){4}\n", alone.stdout)
    assert re.search(r"FROM - TO +TOTAL +OWN\n", inside.stdout), inside.stdout + inside.stderr
    assert max(map(len, re.findall(r".* us  .*\|\n", alone.stdout))) == 98


def spots(python, kinds=("call",)):
    """File and offsets of the breakpoints that count calls, or of others."""
    with subprocess.Popen([python, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = json.loads(run("probes", process.pid, "--json").stdout)
        process.stdin.close()
    assert found["why_no_calls"] is None
    return found["path"], [c["offset"] for c in found["calls"] if c["what"] in kinds]


def breakpoints_of(python, *kinds):
    """What changed_code() finds in a process that has them."""
    path, offsets = spots(python, *kinds)
    return {path: dict.fromkeys(offsets, 0xcc)}


@pytest.mark.few_pythons
def test_nothing_is_left(python):
    """Breakpoints are in that process alone, and go with the tracer, however it ends."""
    theirs = breakpoints_of(python)
    with Target(python, "counted.py", "run") as target, Target(python, "counted.py", "run") as other:
        for sig in signal.SIGINT, signal.SIGKILL:
            trace = Trace(target.pid)
            assert changed_code(target.pid) == theirs
            work(other)
            assert not changed_code(other.pid)
            trace.process.send_signal(sig)
            trace.process.communicate()
            poll(lambda: not changed_code(target.pid), "the breakpoints to go")
            work(target)


@pytest.mark.few_pythons
def test_nothing_is_left_of_calls(python):
    """The same of the breakpoints where functions end and exceptions come."""
    theirs = breakpoints_of(python, ("call", "return", "yield", "exception"))
    assert sum(map(len, theirs.values())) > len(spots(python)[1]) + 1
    with Target(python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--calls")
        assert changed_code(target.pid) == theirs
        trace.process.kill()
        trace.process.communicate()
        poll(lambda: not changed_code(target.pid), "the breakpoints to go")
        work(target)


def calls_in(lines):
    """What of the pre-fork server was counted."""
    return {f["function"]: f["calls"] for f in json.loads(lines[-1])["functions"] if f["function"] in prefork.CALLS}


FILTERS = [word for name in prefork.CALLS for word in ("-f", name)]


follows = pytest.mark.skipif(not FOLLOWS, reason="children are traced from Linux 6.12 on")


def trace_children(python, *args):
    with Target(python, "prefork.py", "wait") as target:
        trace = Trace(target.pid, "--top", 0, "--force", *args, *FILTERS)
        work(target)
        return trace.lines()


@pytest.mark.few_pythons
@follows
def test_children(python):
    """What a process forks, from any thread, and what it executes: from the first call on."""
    lines = trace_children(python)
    assert calls_in(lines) == prefork.CALLS
    assert json.loads(lines[-1])["processes"] == 1 + 3 * 3 + 1 + 1


@follows
def test_calls_of_children(any_python):
    """Frames of one process are none of another one, though they are at the same addresses."""
    lines = trace_children(any_python, "--calls")
    assert calls_in(lines) == prefork.CALLS
    assert json.loads(lines[-1])["lost_events"] == 0
    threads = {}
    for event in map(json.loads, lines[:-1]):
        if event["function"] == "handle":
            threads.setdefault(event["thread"], []).append(event["event"] == "call")
    assert len(threads) == 3 * 3 + 1 + 1
    assert all(begins == [True, False] * (len(begins) // 2) for begins in threads.values())
    assert calls_in(trace_children(any_python, "--hist")) == prefork.CALLS


def wrapped(python):
    """Ways to start a program."""
    script = [python, "-B", str(harness.PROGRAMS / "prefork.py")]
    return [script, ["env", "A=1", "nice", "-n", "1", *script], ["sh", "-c", "echo; exec " + " ".join(script)]]


@follows
def test_commands(any_python):
    """A command is traced from its first call on, behind wrappers, too; its status is ours."""
    for argv in wrapped(any_python):
        result = run("trace", "--json", "--top", 0, "--force", *FILTERS, "--", *argv)
        assert result.returncode == 3, result.stderr
        assert calls_in(result.stdout.splitlines()) == prefork.CALLS, argv
    first = run("trace", "--json", "--top", 0, "--force", any_python, "-c", "pass")
    assert "_find_and_load" in first.stdout or any_python.endswith("2.7")


def test_functions_that_come_late(any_python):
    """A function that was called since the last table is not said to be missing."""
    result = run("trace", "--force", "-i", 100, "-f", "late", "--", any_python, "-c",
                 "import time; time.sleep(0.5)\ndef late(): pass\nlate()")
    assert "late (<string>:2)" in result.stdout and "no matching function" not in result.stderr


def test_commands_without_python():
    result = run("trace", "--python", "/bin/true", "--", "true")
    assert result.returncode == 1 and "found no Python" in result.stderr


DEFINITIONS = Path("/sys/kernel/tracing/uprobe_events")


@pytest.fixture(scope="module", autouse=True)
def tracefs(tmp_path_factory):
    """A machine may mount no tracefs; trace has one of its own then, and so has what looks at it."""
    global DEFINITIONS
    if DEFINITIONS.exists() or os.geteuid():
        yield
        return
    where = tmp_path_factory.mktemp("tracefs")
    subprocess.run(["mount", "-t", "tracefs", "tracefs", where], check=True)
    DEFINITIONS = where / "uprobe_events"
    yield
    subprocess.run(["umount", where], check=True)


def definitions():
    return DEFINITIONS.read_text() if DEFINITIONS.exists() else ""


def define(line):
    fd = os.open(DEFINITIONS, os.O_WRONLY | os.O_APPEND)  # open() would seek, which this file refuses
    os.write(fd, line.encode())
    os.close(fd)


@follows
def test_no_definition_is_left(any_python):
    """What lets children inherit breakpoints goes, too, after kill -9 as well."""
    with Target(any_python, "counted.py", "run") as target:
        for sig in [signal.SIGINT, signal.SIGKILL] * 10:
            trace = Trace(target.pid, "--calls", "--force")
            name = "pyperf_bpf_%d/" % trace.process.pid
            assert name in definitions()
            trace.process.send_signal(sig)
            trace.process.communicate()
            poll(lambda: name not in definitions(), "the definitions to go")


STALE = "pyperf_bpf_1/at0"


@follows
def test_pid_namespace(any_python):
    """In a container processes have the numbers that it gives them. Definitions of an earlier tracer of our number, whose
    helper was killed too, are replaced."""
    argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*argv, "true"], check=False).returncode:
        pytest.skip("cannot unshare")
    if DEFINITIONS.exists():
        define("p:%s %s:0x1000\n" % (STALE, Path(any_python).resolve()))
    done = subprocess.run([*argv, harness.PYPERF, "trace", "--json", "--top", "0", "--force", "--",
                           any_python, "-B", harness.PROGRAMS / "prefork.py"],
                          capture_output=True, text=True, timeout=harness.PATIENCE, env=harness.clean_environment())
    assert done.returncode == 3, done.stderr
    assert calls_in(done.stdout.splitlines()) == prefork.CALLS
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["pid"] < 10 and last["processes"] == 1 + 3 * 3 + 1 + 1
    assert STALE not in definitions()


def test_too_expensive(any_python):
    with subprocess.Popen([any_python, "-c", SPIN], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            refused = run("trace", "-p", process.pid)
            assert refused.returncode == 1 and not refused.stdout
            assert "would slow it down by" in refused.stderr and "more than 10%" in refused.stderr
            slowdown, left = re.search(r"down by (\d+)%.*; 100% of the calls are of f \(<string>:2\): "
                                       r"-f '!f' would leave (\d+)%, as each call still costs its trap\n", refused.stderr).groups()
            assert 0 < int(left) <= int(slowdown)
            assert "of the wanted calls are of f (<string>:2); a call that" in run("trace", "-p", process.pid, "-f", "f").stderr
            allowed = run("trace", "-p", process.pid, "--force", "-d", "0.3")
            assert allowed.returncode == 0 and " f (<string>:2)" in allowed.stdout
            without = run("trace", "-p", process.pid, "-f", "!f", "--force", "-d", "0.3")
            assert without.returncode == 0 and " f (<string>:2)" not in without.stdout
        finally:
            process.kill()


LATER = """
import os, time
def f(): pass
os.write(1, b"ready\\n")
os.read(0, 1)
time.sleep(0.3)
while True: f()
"""


@pytest.mark.parametrize("options", [["--count"], ["--calls", "-f", "f"], ["--hist"], ["--calls", "--format", "chrome"]])
def test_too_expensive_later(any_python, options, directory):
    """What begins slowly is judged each second, whatever the interval of tables: what came until then is shown."""
    drawn = [] if options[0] == "--count" or "--format" in options else ["-o", directory / "x.folded"]
    with harness.Process([any_python, "-c", LATER]) as target:
        trace = start(target.pid, *options, *drawn, "-i", 100)
        target.process.stdin.write(b"x")
        out, messages = trace[0].communicate(timeout=harness.PATIENCE)
        assert trace[0].returncode == 1
        assert re.search(r"process %d is not traced any more: \d+ calls(?: and ends)?/s at [\d.]+ us each would slow it down by \d+%% "
                         r"of its CPU time, more than 10%%" % target.pid, messages), messages
        assert " calls are of f (<string>:3)" in messages
        assert '"name":"f"' in out if "--format" in options else " f (<string>:3)" in out
        assert not drawn or "f (" in drawn[1].read_text()
        if "--count" in options:
            allowed = run("trace", "-p", target.pid, *options, "--force", "-d", 2.5)
            assert "more than 10%" not in allowed.stderr and not allowed.returncode
        target.process.kill()


def test_price_of_lines(any_python):
    """Lines of calls have no table while they come: each ten seconds, and where there is none at the end, a message has it."""
    with subprocess.Popen([any_python, "-c", SPIN], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            long = run("trace", "-p", process.pid, "--force", "--calls", "-f", "nobody", "-d", 11)
            assert re.search(r"process %d: \d+ calls and ends/s, which slows it down by \d+\.\d% of its CPU time\n"
                             .replace("%d", str(process.pid)), long.stderr), long.stderr
            short = run("trace", "-p", process.pid, "--force", "--calls", "--format", "systemtap", "-d", 1)
            assert re.search(r"tracing process %d slowed it down by \d+\.\d% of".replace("%d", str(process.pid)), short.stderr)
        finally:
            process.kill()


def test_command_has_no_limit(any_python):
    """Who starts it wants to see it; a limit that is given holds."""
    argv = ["--", any_python, "-c", "import time\ndef f(): pass\nend = time.time() + 2.5\nwhile time.time() < end: f()"]
    done = run("trace", *argv)
    assert done.returncode == 0 and " f (<string>:2)" in done.stdout and "more than" not in done.stderr
    refused = run("trace", "--max-slowdown", 1, *argv)
    assert refused.returncode == 1 and "more than 1% (--max-slowdown" in refused.stderr


GENERATED = '''
import ctypes, mmap
memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b"\\x89\\xf9\\x48\\xff\\xc9\\x75\\xfb\\xc3")  # mov %edi, %ecx; 1: dec %rcx; jnz 1b; ret
spin = ctypes.CFUNCTYPE(None, ctypes.c_uint)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
print("ready", flush=True)
while True: spin(200000)
'''


def test_time_in_generated_code():
    """Where Python has a JIT it is said how much of the time is in code that executes no opcodes."""
    if "3.13" not in INTERPRETERS:
        pytest.skip("python3.13 is not installed")
    python = INTERPRETERS["3.13"]
    said = r"process \d+ spends (\d+)% of its time outside of the kernel in generated code: calls of functions that a JIT"
    for argv, least, most in (["-c", GENERATED], 90, 100), (["-X", "perf", "-c", SPIN], 0, 0):
        with subprocess.Popen([python, *argv], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            tracing = Trace(process.pid, "--force")
            harness.spend(process.pid, 0.5)  # samples are of its CPU time
            tracing.finish()
            process.kill()
        found = [int(n) for n in re.findall(said, "".join(tracing.messages))] or [0]
        assert least <= found[-1] <= most, tracing.messages


IDLE = """
import os, time
def f(): pass
os.write(1, b"ready\\n")
while True:
    for i in range(10): f()
    time.sleep(0.02)
"""


def test_idle_is_not_expensive(any_python):
    """What is traced takes as much as all else that the process does, and that is next to nothing."""
    with subprocess.Popen([any_python, "-c", IDLE], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            done = run("trace", "-p", process.pid, "--max-slowdown", 0, "-d", "0.5")
            assert done.returncode == 0, done.stderr
            assert "tracing costs it 0." in done.stdout and " f (<string>:3)" in done.stdout, done.stdout
        finally:
            process.kill()


def test_target_ends(any_python):
    with Target(any_python, "counted.py", "run") as target:
        trace = Trace(target.pid, "--top", 0, "--force")
        work(target)
        target.end()
        counts = counts_of(trace.finish(sig=None), PROGRAM)
    truth = truth_of(any_python)
    name, = (n for n in truth if n.endswith("__init__:%d" % line_of("Point")))
    assert counts[name] == truth[name]


def line_of(name):
    """Of the __init__ of a class."""
    lines = PROGRAM.read_text().splitlines()
    return lines.index("class %s(object):" % name) + 2


def test_target_executes(any_python):
    """Another program in its place: the counts end, and a message says why."""
    code = "import os, sys\nprint('ready', flush=True)\ninput()\nos.execv('/bin/sleep', ['sleep', '600'])"
    with subprocess.Popen([any_python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            trace = Trace(process.pid)
            process.stdin.write(b"\n")
            process.stdin.flush()
            trace.finish(sig=None)
            assert "runs another program" in "".join(trace.messages)
        finally:
            process.kill()


SECCOMP = """
import ctypes, struct, sys
# Every system call from 335 on kills: that is where those of uprobes are (uretprobe, uprobe).
libc = ctypes.CDLL(None, use_errno=True)
code = b"".join(struct.pack("HBBI", *i) for i in (
    (0x20, 0, 0, 0), (0x35, 0, 2, 335), (0x35, 1, 0, 424), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7fff0000)))
program = ctypes.create_string_buffer(code)
fprog = struct.pack("HxxxxxxP", 5, ctypes.addressof(program))
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, fprog, 0, 0), ctypes.get_errno()
sys.argv = ["counted.py", "run"]
__file__ = %r
exec(compile(open(__file__).read(), __file__, "exec"))
"""


@pytest.mark.parametrize("mode", ["--count", "--calls", "--hist"])
def test_seccomp(any_python, mode):
    """Breakpoints make the process execute no system call, which a filter would kill it for."""
    argv = [any_python, "-c", SECCOMP % str(PROGRAM)]
    process = harness.Process(argv)
    with process as target:
        assert "Seccomp:\t2" in Path("/proc/%d/status" % target.pid).read_text()
        trace = Trace(target.pid, "--top", 0, "--force", mode)
        work(target)
        assert counts_of(trace.finish(), PROGRAM)
        work(target)
        target.end()


@pytest.mark.parametrize("args, message", [
    (["trace", "--args"], "--args goes with --calls"),
    (["trace", "--ret", "--hist"], "--ret goes with --calls"),
    (["trace", "--if", "n > 1"], "--if goes with --calls or --hist"),
    (["trace", "--if", "token == 'x'", "--hist"], "the name looks like that of a secret"),
    (["trace", "--python", "python3"], "--python needs a command"),
    (["trace", "--as-root"], "--as-root needs a command"),
    (["trace", "--exceptions"], "--exceptions needs -p PID or a command: of all processes only calls are traced"),
    (["trace", "--slow", "p49"], "or p50 to p99.9"),
    (["trace", "--slow", "p99", "--from", "f"], "--from goes with --calls or --hist, without --slow"),
    (["trace", "--format", "systemtap"], "--format systemtap goes with --calls"),
    (["trace", "--gc", "--calls", "--format", "pythonflow"], "--format pythonflow goes with --calls"),
    (["trace", "-o", "x.html"], "-o goes with --calls, --hist, --slow and --native-from"),
    (["trace", "--hist", "-o", "x.unknown"], "x.unknown"),
    (["trace", "-p", "x"], "-p x: 'x' is not a process id"),
    (["trace", "-t", "4194305"], "-t 4194305: there is no such thread"),
    (["trace", "-t", "12", "--", "python3"], "a command's threads have no numbers yet: name them"),
    (["trace", "-t", "99999999999"], "must be the number of a thread, or its name"),
    (["trace", "-p", "1", "-t", "1", "--gc"], "trace: -t is about calls"),
    (["trace", *["-t", "a"] * 9], "at most 8 threads"),
    (["trace", "-p", "1", "2"], "-p and a command: '2'"),
    (["trace", "-p", "1", "--", "sleep"], "-p and a command: 'sleep'"),
    (["trace", "-p", "1", "fib", "--hist", "--", "sleep"], "-p and a command: 'sleep'"),
    (["trace", "-p", "1", "fib", "/bin/sleep"], "-p and a command: '/bin/sleep'"),
    (["trace", "-p", "1", "fib", "--hits"], "did you mean --hist?"),
    (["trace", "-p", "1", "fib", "-d", "x"], "number from"),
    (["trace", "-p", "1", "--top", "-1"], "whole number"),
    (["trace", "-p", "1", "-f", "shop:"], "must be FUNCTION"),
    (["trace", "-p", "1", "--max-slowdown", "x"], "number from"),
    (["trace", "-p", "1", "--format", "pprof"], "must be chrome, pythonflow, systemtap or json"),
    (["trace", "-p", "1", "--format", "systemtap"], "--format systemtap goes with --calls"),
    (["trace", "-p", "1", "--calls", "--json", "--format", "pythonflow"], "without --slow and --json"),
    (["probes"], "is missing"),
    (["probes", "a", "b"], "one process or file"),
])
def test_bad_lines(args, message):
    result = run(*args)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_no_python():
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            for args in ["trace", "-p", process.pid], ["probes", process.pid]:
                result = run(*args)
                assert result.returncode == 1 and "is not Python" in result.stderr
        finally:
            process.kill()
    result = run("trace", "-p", process.pid)
    assert result.returncode == 1 and "no such process" in result.stderr


def test_probes_of_files(directory):
    """Without root; other files have static probes, too."""
    found = json.loads(run("probes", "/bin/sh", "--json").stdout)
    assert found["python"] is None and found["calls"] == []
    text = run("probes", "/bin/sh").stdout
    assert "no Python interpreter" in text
    (directory / "text").write_text("no program")
    result = run("probes", directory / "text")
    assert result.returncode == 1 and "not a program" in result.stderr
