# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Waiting (-e off-cpu, -e wall): how long, for what, and where, against the clocks of the threads that waited."""
import ast
import collections
import concurrent.futures
import contextlib
import json
import os
import platform
import re
import subprocess
import time
from pathlib import Path

import pytest

import conftest
import interpreters
import pprof_read
from harness import PROGRAMS, PYPERF, Process, Profiler, clean_environment, find_tool, parse_folded, profile, stolen_seconds
from test_embedded import compile_host, shared_library

PROGRAM = PROGRAMS / "waiting.py"
# Steps of 0.1 ms: what is drawn is some per mille of what is measured here.
FINE_HZ = 9999
REASONS = {"sleeping": "sleep", "napping": "sleep", "locking": "lock", "piping": "pipe", "receiving": "net", "polling": "poll",
           "epolling": "epoll_wait", "awaiting_child": "child process"}


class Waits:
    """A run of the program under the profiler: seconds by thread, function and reason, and the truth."""

    def __init__(self, python, path, *labels, event="off-cpu", hz=FINE_HZ, options=(), prefix=(), env=()):
        stolen = stolen_seconds()
        self.result = profile("-f", "--threads", "-F", hz, "-e", event, *options, "--", *prefix, python, PROGRAM, path, *labels,
                              env=clean_environment(**dict(env))).ok()
        # A thread that a hypervisor keeps from its CPU is on it, but is not charged for that.
        self.stolen = stolen_seconds() - stolen
        self.truth = {true["label"]: dict(true, tid=int(tid)) for tid, true in json.loads(path.read_text()).items()}

    def seconds(self, label, *reasons):
        """Of the thread of this label, in its function; all reasons if none are given."""
        return sum(s.count for s in self.result.stacks
                   if s.tid == self.truth[label]["tid"] and any(f.name == label for f in s.frames)
                   and (not reasons or reason_of(s) in reasons)) / 1e9


def reason_of(stack):
    """None: it was on a CPU."""
    name = stack.frames[-1].name
    return name[len("waits: "):] if name.startswith("waits: ") else None


@pytest.mark.few_pythons
def test_known_waits(python, tmp_path):
    """What each thread waited for, not longer than it was there, and not less than it must have."""
    waits = Waits(python, tmp_path / "truth", *REASONS)
    for label, reason in REASONS.items():
        true, got = waits.truth[label], waits.seconds(label, reason)
        assert got <= 1.03 * (true["elapsed"] - true["cpu"]) + 0.001, (label, got, true)
        if true["least"]:
            assert got >= 0.97 * true["least"], (label, got, true)


LATER = """
import sys, threading, time
truth = open(sys.argv[1], "w")
def turn(path):
    if path > 1:
        (left if path & 1 else right)(path >> 1)
    else:
        time.sleep(0.0005)
def left(path): turn(path)
def right(path): turn(path)
def waits_long(lock):
    begun = time.monotonic()
    lock.acquire()
    print(time.monotonic() - begun, file=truth, flush=True)
for _ in range(4):
    lock = threading.Lock()
    lock.acquire()
    thread = threading.Thread(target=waits_long, args=(lock,))
    thread.start()
    for path in range(512, 1024):
        turn(path)
    lock.release()
    thread.join()
"""


def test_later_windows(any_python, tmp_path):
    """Tables so small that windows end while a thread waits: the wait is told whole, with its stack. One may find a full table."""
    (tmp_path / "later.py").write_text(LATER)
    result = profile("-f", "-v", "--threads", "-F", FINE_HZ, "-e", "off-cpu", "--map-entries", 512, "--", any_python,
                     tmp_path / "later.py", tmp_path / "truth").ok()
    windows = [m for m in result.messages if re.search(r"window: [1-9]\d* counts", m)]
    assert len(windows) >= 8, result.messages
    told = [s.count / 1e9 for s in result.stacks if reason_of(s) == "lock" and any(f.name == "waits_long" for f in s.frames)]
    true = [float(line) for line in (tmp_path / "truth").read_text().split()]
    assert len(true) == 4 and 2 <= len(told) <= 4
    for seconds in told:
        assert min(abs(seconds - t) for t in true) < 0.03 * max(true) + 0.01, (told, true)


@pytest.mark.few_pythons
def test_life_is_running_and_waiting(python, tmp_path):
    """On a CPU, by the thread's own account, and off it, for whatever reason, is all of the time in the function."""
    waits = Waits(python, tmp_path / "truth", *REASONS, "spinning")
    for label, true in waits.truth.items():
        got, told = waits.seconds(label) + true["cpu"], (waits.result.messages, waits.result.counters)
        assert 0.97 * true["elapsed"] - waits.stolen - 0.01 <= got <= 1.03 * true["elapsed"] + 0.01, (label, got, true, told)


def test_wall_is_life(any_python, tmp_path):
    """The CPU part comes from samples: as many as they are, as good."""
    waits = Waits(any_python, tmp_path / "truth", *REASONS, "spinning", event="wall", hz=999)
    for label, true in waits.truth.items():
        assert waits.seconds(label) == pytest.approx(true["elapsed"], rel=0.1), (label, true)
    spun = waits.truth["spinning"]["cpu"]
    assert waits.seconds("spinning", None) == pytest.approx(spun, rel=0.2)


def test_run_queue(any_python, tmp_path):
    """Processes that share one CPU, against the kernel's own count of the time in its queue."""
    pinned = ["sh", "-c", "taskset -c 0 \"$0\" \"$1\" \"$2.other\" spinning & exec taskset -c 0 \"$0\" \"$@\""]
    waits = Waits(any_python, tmp_path / "truth", "spinning", prefix=pinned)
    true = waits.truth["spinning"]
    assert true["run_delay"] > 0.2, true
    assert waits.seconds("spinning", "CPU") == pytest.approx(true["run_delay"], rel=0.05, abs=0.01), true


def test_gil(python, tmp_path):
    """A thread that always wants to run waits for the GIL whenever another one sleeps with it; that one never does so for long."""
    waits = Waits(python, tmp_path / "truth", "holding", "wanting", "locking")
    holds = waits.seconds("holding", "sleep with the GIL held", "sleep", "CPU")
    wants = waits.seconds("wanting", "GIL")
    assert holds >= 0.8
    true = waits.truth["wanting"]
    assert wants >= 0.75 * (true["elapsed"] - true["cpu"] - waits.seconds("wanting", "CPU")) - waits.stolen, (wants, true)
    assert wants > 0.1
    assert waits.seconds("wanting", "lock") < 0.1 * wants
    # Between two of its waits it may have to wait for the GIL, too: the more the busier the machine is.
    true = waits.truth["locking"]
    waited = waits.seconds("locking", "lock")
    assert waited > 0.1
    assert waited + waits.seconds("locking", "GIL", "CPU") == pytest.approx(true["elapsed"] - true["cpu"], rel=0.1, abs=waits.stolen)
    # usleep() with the GIL, and time.sleep() without.
    assert waits.seconds("holding", "sleep with the GIL held") == pytest.approx(0.6, rel=0.1, abs=waits.stolen)
    # From 3.11 on the end of a sleep is set before the GIL is given up, for which the thread may have to wait, or for a CPU.
    assert 0.15 - waits.seconds("holding", "CPU") - waits.stolen < waits.seconds("holding", "sleep") < 0.4


# Who ends the wait of consumes() and of wants() is known.
WAKERS = """
import queue, threading, time
q, lock = queue.Queue(), threading.Lock()
def produces():
    for i in range(20): time.sleep(0.03) or q.put(1)
def consumes():
    for i in range(20): q.get()
def holds():
    for i in range(10):
        with lock: time.sleep(0.04)
        time.sleep(0.02)
def wants():
    for i in range(10):
        time.sleep(0.03)
        with lock: pass
threads = [threading.Thread(target=f) for f in (produces, consumes, holds, wants)]
for t in threads: t.start()
for t in threads: t.join()
"""


def test_wakers(any_python, tmp_path):
    """The time of each wait once more, at the stack of the thread that ended it; and no sleep, which no thread ends."""
    out = tmp_path / "x.pb.gz"
    profile("-F", FINE_HZ, "-e", "off-cpu,wakers", "-o", out, "--", any_python, "-c", WAKERS).ok()

    def seconds(value, function, reason):
        folded = subprocess.run([PYPERF, "report", "-f", "--value", value, out], stdout=subprocess.PIPE, text=True, check=True,
                                env=clean_environment()).stdout
        return sum(s.count for s in parse_folded(folded) if s.frames[-1].name == reason and any(f.name == function for f in s.frames)) / 1e9

    for waiter, waker in (("consumes", "produces"), ("wants", "holds")):
        waited = seconds("off-cpu", waiter, "waits: lock")
        assert waited > 0.05
        assert seconds("wakers", waker, "ends a wait: lock") == pytest.approx(waited, rel=0.05, abs=0.01), (waiter, waited)
        assert seconds("wakers", waiter, "ends a wait: lock") < 0.02
    text = subprocess.run([PYPERF, "report", "--value", "wakers", out], stdout=subprocess.PIPE, text=True, check=True,
                          env=clean_environment()).stdout
    assert "s that threads have waited for others" in text and "[ends a wait: sleep]" not in text, text


# The timer that ends a sleep interrupts the other thread, which is in a system call nearly all the time.
INTERRUPTED = """
import os, select, socket, struct, threading, time
fd = os.open("/dev/zero", os.O_RDONLY)
poll, epoll = select.poll(), select.epoll()
ours, theirs = socket.socketpair()
ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 3000))
def sleeps():
    for i in range(100):
        time.sleep(0.003)
        poll.poll(3)
        epoll.poll(0.003)
        try: ours.recv(1)
        except BlockingIOError: pass
def reads():
    while thread.is_alive(): os.read(fd, 1 << 22)
thread = threading.Thread(target=sleeps)
thread.start()
reads()
"""


def test_no_thread_ends_a_sleep(any_python):
    """An interrupt does, or the time-out of a call, in whatever call the thread is that it interrupts."""
    result = profile("-f", "-F", FINE_HZ, "-e", "off-cpu,wakers", "--value", "wakers", "--", "taskset", "-c", "0", any_python, "-c",
                     INTERRUPTED).ok()
    ended = collections.Counter(s.frames[-1].name for s in result.stacks)
    assert not ended.keys() & {"ends a wait: " + name for name in ("sleep", "poll", "epoll_wait", "net")}, ended


# Asleep before the profile begins, and after it has ended.
ASLEEP = """
import os, select, socket, threading, time
ours, theirs = socket.socketpair()
out, into = os.pipe()
lock = threading.Lock()
lock.acquire()
def in_sleep(): time.sleep(1000)
def in_recv(): ours.recv(1)
def in_pipe(): os.read(out, 1)
def in_lock(): lock.acquire()
def in_poll(): select.poll().poll()
def in_epoll(): select.epoll().poll()
def naps():
    while True:
        time.sleep(0.005)
for f in (in_sleep, in_recv, in_pipe, in_lock, in_poll, in_epoll, naps):
    t = threading.Thread(target=f)
    t.daemon = True
    t.start()
time.sleep(0.5)
os.write(1, b"ready\\n")
select.select([0], [], [])
os._exit(0)
"""
ASLEEP_REASONS = {"in_sleep": "sleep", "in_recv": "net", "in_pipe": "pipe", "in_lock": "lock", "in_poll": "poll", "in_epoll": "epoll_wait",
                  "naps": "sleep", "<module>": "poll"}


def asleep(python, *options, program=ASLEEP, **env):
    """Seconds by innermost Python function and reason of a profile, its folded stacks, and its length."""
    with Process([python, "-c", program], env=clean_environment()) as process:
        result = profile("-f", "--threads", "-F", 999, *options, "-p", process.pid, "-d", 2, env=clean_environment(**env)).ok()
    seconds = collections.Counter()
    for s in result.stacks:
        names = [f.name for f in s.frames]
        function = next((n for n in reversed(names) if n in ASLEEP_REASONS), None)
        seconds[function, reason_of(s)] += s.count / 1e9
    return seconds, result.stacks


@pytest.mark.parametrize("event", ["off-cpu", "wall"])
def test_waits_without_an_end(any_python, event):
    """Threads that sleep all the while are in the profile: with all of its time, their stacks and their reasons."""
    seconds, stacks = asleep(any_python, "-e", event)
    whole = seconds["in_sleep", "sleep"]
    assert 1.95 < whole < 4
    for function, reason in ASLEEP_REASONS.items():
        if function not in ("naps", "<module>"):
            assert seconds[function, reason] == pytest.approx(whole, rel=0.001), (function, seconds)
    assert seconds["<module>", "poll"] + seconds["<module>", "select"] == pytest.approx(whole, rel=0.001), seconds
    assert seconds["naps", "sleep"] < whole
    # None has more than its life, also one that falls asleep and wakes.
    for tid in {s.tid for s in stacks}:
        life = sum(s.count for s in stacks if s.tid == tid) / 1e9
        assert life <= 1.02 * whole + 0.02, (tid, life, whole)
    # The stack is that of a wait that has ended: the same frames below the thread's function.
    assert len({tuple(f.name for f in s.frames[:3]) for s in stacks
                if any(f.name in ("in_sleep", "in_lock") for f in s.frames)}) == 1


def test_waits_without_an_end_by_command_name(any_python):
    """A process is chosen by its first thread's name, whatever its other threads are called."""
    program = ASLEEP.replace("def in_sleep(): ", "def in_sleep(): open('/proc/thread-self/comm', 'w').write('another'); ")
    seconds, _ = asleep(any_python, "-e", "off-cpu", "--comm", "py*", program=program)
    assert seconds["in_sleep", "sleep"] == pytest.approx(seconds["in_lock", "lock"], rel=0.001) and seconds["in_lock", "lock"] > 1.9, seconds
    seconds, _ = asleep(any_python, "-e", "off-cpu", "--comm", "another", program=program)
    assert not seconds, seconds


def test_process_that_loads_python_late(tmp_path):
    """Of a thread's first wait that is seen, what it did while its process was not Python is no part."""
    library, host = shared_library("any"), compile_host(tmp_path / "host")
    (tmp_path / "life.py").write_text("import time\ntime.sleep(0.1)\n")
    with Process([host, "--wait", "--load", library.shared, "--rest", 1500, tmp_path / "life.py"],
                 env=library.environment()) as process:
        profiler = Profiler("-v", "-f", "--threads", "-e", "off-cpu", "-F", 99, "-p", process.pid)
        profiler.wait_said("the profile begins")
        time.sleep(3)  # without Python
        process.process.stdin.write(b"x")
        process.process.stdin.close()
        result = profiler.wait().ok()
    waited = [s for s in result.stacks if s.tid == process.pid]
    assert sum(s.count for s in waited) / 1e9 < 2.5, waited


def test_asleep_before_python_is_loaded(tmp_path):
    """Of a thread that sleeps all the while, what lies before its process was Python is no part, either."""
    library, host = shared_library("any"), compile_host(tmp_path / "host")
    (tmp_path / "life.py").write_text("import os, time\nos.write(1, b'alive\\n')\ntime.sleep(1000)\n")
    with Process([host, "--sleeper", "--wait", "--load", library.shared, tmp_path / "life.py"], env=library.environment()) as process:
        sleeper = next(int(t) for t in os.listdir("/proc/%d/task" % process.pid) if int(t) != process.pid)
        profiler = Profiler("-v", "-f", "--threads", "-e", "off-cpu", "-F", 99, "-p", process.pid)
        profiler.wait_said("the profile begins")
        time.sleep(1)  # without Python
        loaded = time.monotonic()
        process.process.stdin.write(b"x")
        process.process.stdin.flush()
        process.read_line()
        time.sleep(1)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        since = time.monotonic() - loaded
        process.process.kill()
    slept = sum(s.count for s in result.stacks if s.tid == sleeper) / 1e9
    assert 0 < slept <= since, (slept, since)


REFUSED = """
import os, threading, time
def in_sleep(): time.sleep(1000)
def starts_late():
    for _ in range(10): time.sleep(0.01)
threading.Thread(target=in_sleep, daemon=True).start()
time.sleep(0.3)
os.write(1, b"ready\\n")
os.read(0, 1)
t = threading.Thread(target=starts_late)
t.start() or t.join() or os.write(1, b"refused\\n")
os.read(0, 1)
os._exit(0)
"""


def shares_of_waits(profiler, taken=None):
    """How many entries the table of threads has; or says that it has `taken`."""
    def bpftool(*args):
        return json.loads(subprocess.run([find_tool("bpftool"), "-j", "map", *map(str, args)], stdout=subprocess.PIPE, check=True).stdout or "0")

    number = next(n for n in profiler.bpf_ids()["map"] if bpftool("show", "id", n)["name"] == "wait_shares")
    value = [int(byte, 16) for byte in bpftool("lookup", "id", number, "key", 0, 0, 0, 0)["value"]]
    if taken is not None:
        bpftool("update", "id", number, "key", 0, 0, 0, 0, "value", *taken.to_bytes(4, "little"), *value[4:])
    return int.from_bytes(value[:4], "little")


def test_waits_without_an_end_beside_refused_threads(any_python):
    """A thread that found no room takes from its user's sleepers what lies before that, and no more."""
    if not find_tool("bpftool"):
        pytest.skip("bpftool is not installed")
    with Process([any_python, "-c", REFUSED], env=clean_environment()) as process:
        profiler = Profiler("-v", "-f", "--threads", "-e", "off-cpu", "-F", 99, "-p", process.pid)
        profiler.wait_said("the profile begins")
        time.sleep(0.5)
        full = time.monotonic()
        taken = shares_of_waits(profiler, 16384)
        process.process.stdin.write(b"x")
        process.process.stdin.flush()
        process.read_line()
        shares_of_waits(profiler, taken)
        room = time.monotonic()
        time.sleep(1)
        rest = time.monotonic() - room
        profiler.interrupt_group()
        result, whole = profiler.wait().ok(), time.monotonic() - full
    assert result.counters["note_wait_full"], result.counters
    slept = sum(s.count for s in result.stacks if any(f.name == "in_sleep" for f in s.frames)) / 1e9
    assert rest <= slept <= whole, (rest, slept, whole)


SPINS = "import os\nos.write(1, b'ready\\n')\ndef spins():\n while True: pass\nspins()"
SLEEPS = "import os, time\nos.write(1, b'ready\\n')\ndef sleeps():\n while True: time.sleep(0.7)\nsleeps()"


def scheduled(pid):
    """How often the first thread gave up its CPU to wait, and how long it has waited for one."""
    status, stat = Path("/proc/%d/status" % pid), Path("/proc/%d/schedstat" % pid)
    return int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", status.read_text())[1]), int(stat.read_text().split()[1]) / 1e9


def waits_of(pid):
    """Seconds by reason of a short profile, and the change of scheduled()."""
    before = scheduled(pid)
    result = profile("-f", "-F", FINE_HZ, "-e", "off-cpu", "-p", pid, "-d", 1).ok()
    after = scheduled(pid)
    seconds = collections.Counter()
    for s in result.stacks:
        seconds[reason_of(s)] += s.count / 1e9
    return seconds, after[0] - before[0], after[1] - before[1]


@contextlib.contextmanager
def endless(python, program, *prefix):
    with Process([*prefix, python, "-c", program]) as process:
        yield process.pid
        process.process.kill()


def test_in_a_run_queue_when_it_begins(any_python):
    """It has been preempted before the first look at it: it waits for a CPU, not for what it was about to do."""
    with contextlib.ExitStack() as stack:
        pid = stack.enter_context(endless(any_python, SPINS, "taskset", "-c", 0, "nice", "-n", 19))
        for _ in range(3):
            stack.enter_context(endless(any_python, SPINS, "taskset", "-c", 0, "nice", "-n", 10))
        for _ in range(10):
            seconds, waited, queued = waits_of(pid)
            if not waited:  # not even for the lock of its address space
                break
    assert not waited and seconds["CPU"] > 0.3 and set(seconds) == {"CPU"}, (seconds, waited, queued)


def test_asleep_when_it_begins(any_python):
    """The wake-up tells: of its first wait, too, only what comes behind it is the CPU's."""
    with endless(any_python, SLEEPS) as pid:
        seconds, _, queued = waits_of(pid)
    assert seconds["sleep"] > 0.9 - queued and seconds["CPU"] <= queued + 0.01, (seconds, queued)


def test_threads_have_a_bar_of_their_states(any_python, tmp_path):
    """Who sleeps, who runs, and for what: the bar is as long as its title, which is the key to it."""
    out = tmp_path / "x.pb.gz"
    profile("--threads", "-F", 999, "-e", "wall", "-o", out, "--", any_python, PROGRAM, tmp_path / "truth", "spinning", "sleeping",
            env=clean_environment()).ok()
    text = subprocess.run([PYPERF, "report", out, "--threads"], stdout=subprocess.PIPE, text=True, check=True,
                          env=clean_environment()).stdout
    table = text[text.index("\nThreads\n"):].strip().split("\n\n")[0].splitlines()[1:]
    assert "#CPU =QUEUE .WAIT  WAITS FOR, s" in table[0], table
    at, width = table[0].index("#CPU"), len("#CPU =QUEUE .WAIT")
    rows = [(line[at:at + width], line[at + width:].strip()) for line in table[1:]]
    assert all(len(bar) == width and re.fullmatch(r"#*=*\.*", bar) for bar, _ in rows), table
    assert any(bar.count(".") > width / 2 and "sleep" in reasons for bar, reasons in rows), table
    assert any("#" in bar for bar, _ in rows), table
    samples = pprof_read.read(out)["samples"]
    told = [(s["stack"][0]["func"], s["labels"].get("reason")) for s in samples]
    assert ("[waits: sleep]", "sleep") in told, told
    assert all(name == "[waits: %s]" % reason if reason else not name.startswith("[waits:") for name, reason in told), told


def test_waits_without_an_end_and_wait_min(any_python):
    seconds, _ = asleep(any_python, "-e", "off-cpu", "--wait-min", "1s")
    assert seconds["in_lock", "lock"] > 1.95 and not seconds["naps", "sleep"]
    seconds, _ = asleep(any_python, "-e", "off-cpu", "--wait-min", "1000s")
    assert not seconds


def test_threads_that_come_and_go(python, tmp_path):
    """A thread waits before it has its state in Python, and others have had its stack: it is found all the same."""
    waits = Waits(python, tmp_path / "truth", "starting")
    rests = [s for s in waits.result.stacks if reason_of(s) == "sleep" and len(s.markers()) == 1]  # the reason itself
    named = [s for s in rests if any(f.name == "resting" for f in s.frames)]
    assert sum(s.count for s in named) >= 0.9 * 200 * 8 * 0.005 * 1e9
    assert not [str(s.frames) for s in rests if s not in named]


class GilRun:
    """-e gil: nanoseconds by value type, function and reason."""

    def __init__(self, python, path, *labels, hz=FINE_HZ, env=()):
        self.result = profile("-F", hz, "-e", "gil", "--threads", "-o", path.parent / "gil.pb.gz", "--", python, PROGRAM, path, *labels,
                              env=clean_environment(**dict(env))).ok()
        self.report = subprocess.run([PYPERF, "report", path.parent / "gil.pb.gz"], stdout=subprocess.PIPE, text=True, check=True,
                                     env=clean_environment()).stdout
        self.folded = {}
        for value in ("gil", "gil-held"):
            lines = subprocess.run([PYPERF, "report", "-f", "--value", value, path.parent / "gil.pb.gz"], stdout=subprocess.PIPE,
                                   text=True, check=True, env=clean_environment()).stdout.splitlines()
            self.folded[value] = [(stack, int(count)) for stack, _, count in (line.rpartition(" ") for line in lines)]

    def seconds(self, value, *words):
        return sum(count for stack, count in self.folded[value] if all(w in stack for w in words)) / 1e9

    def words(self):
        """Of the line of the GIL, without line breaks."""
        return " ".join(self.report.split())


def test_gil_is_charged_to_its_holders(python, tmp_path):
    """What is waited for the GIL is charged to who had it, once: a thread that sleeps with it, and one that runs."""
    run = GilRun(python, tmp_path / "truth", "holding_alone", "wanting")
    waited, held = run.seconds("gil"), run.seconds("gil-held")
    assert waited > 0.3
    assert held == pytest.approx(waited, rel=0.05, abs=0.03)
    assert run.seconds("gil", "[waits: GIL]") == pytest.approx(waited)
    slept = run.seconds("gil-held", "holding_alone", "[waits: sleep]")
    assert 0.5 * waited < slept < 1.05 * waited + 0.03
    assert re.search(r"GIL: \d+\.\d s waited by \d+ threads?; \d+% while holding_alone \(waiting.py:\d+\) slept in C with the GIL held",
                     run.words()), run.report


def test_gil_at_the_end_of_system_calls(old_or_new_python, tmp_path):
    """As before Linux 6.16."""
    run = GilRun(old_or_new_python, tmp_path / "truth", "holding_alone", "wanting", env={"PYPERF_BPF_LATE": "1"})
    assert run.seconds("gil-held") == pytest.approx(run.seconds("gil"), rel=0.05, abs=0.03)
    assert run.seconds("gil-held", "holding_alone", "[waits: sleep]") > 0.5 * run.seconds("gil")


def test_no_gil_is_said(any_python, tmp_path):
    run = GilRun(any_python, tmp_path / "truth", "napping", hz=99)
    if not run.seconds("gil"):
        assert "No thread waited for a GIL." in run.words()


def test_gil_beside_the_others(any_python, tmp_path):
    """Four value types in one profile; each has its block in the report."""
    out = tmp_path / "x.pb.gz"
    profile("-F", 999, "-e", "cpu-clock,off-cpu,gil", "-o", out, "--", any_python, PROGRAM, tmp_path / "truth", "sleeping", "spinning").ok()
    text = subprocess.run([PYPERF, "report", out], stdout=subprocess.PIPE, text=True, check=True, env=clean_environment()).stdout
    assert "CPU s) of" in text and "s waiting in" in text, text
    assert "waiting for the GIL" in text or "No thread waited for a GIL." in " ".join(text.split()), text


def test_short_waits_are_drawn_without_bias(any_python, tmp_path):
    """2000 waits of some 0.4 ms, of which one in three is drawn: the sum is right, and few stacks were taken."""
    waits = Waits(any_python, tmp_path / "truth", "napping", hz=799)
    true = waits.truth["napping"]
    off = true["elapsed"] - true["cpu"]
    assert 0.8 * off - waits.stolen <= waits.seconds("napping") <= 1.2 * off, true
    # Each of those in a run queue counts as long as these at least.
    queued = sum(s.count for s in waits.result.stacks if reason_of(s) == "CPU") / 1e9
    assert waits.result.counters["counted"] < 1700 + 799 * queued, (waits.result.counters, queued)


def test_at_the_end_of_system_calls(any_python, tmp_path):
    """As before Linux 6.16: waits in system calls have their stacks, and what has none says so."""
    waits = Waits(any_python, tmp_path / "truth", "sleeping", "locking", env={"PYPERF_BPF_LATE": "1"})
    assert "sched_exit_tp" in waits.result.stderr
    assert waits.seconds("sleeping", "sleep") >= 0.97 * waits.truth["sleeping"]["least"]
    assert waits.seconds("locking", "lock") >= 0.7 * waits.truth["locking"]["elapsed"]
    bare = [s for s in waits.result.stacks if any(f.name == "stack-not-taken" for f in s.frames)]
    assert all(len(s.frames) == 2 and reason_of(s) in ("CPU", "page fault") for s in bare)


def test_wait_min(any_python, tmp_path):
    waits = Waits(any_python, tmp_path / "truth", "napping", "sleeping", options=("--wait-min", "40ms"))
    assert waits.seconds("sleeping", "sleep") >= 0.97 * waits.truth["sleeping"]["least"]
    assert waits.seconds("napping", "sleep") < 0.1
    assert all(s.count >= 40e6 for s in waits.result.stacks)


def test_beside_the_clock(any_python, tmp_path):
    """Both in one profile, and each in its own value type; pprof and the report read back the same."""
    out = tmp_path / "x.pb.gz"
    profile("-F", 999, "-e", "cpu-clock,off-cpu", "-o", out, "--", any_python, PROGRAM, tmp_path / "truth", "sleeping", "spinning").ok()
    text = subprocess.run([PYPERF, "report", out], stdout=subprocess.PIPE, text=True, check=True, env=clean_environment()).stdout
    assert "CPU s) of" in text and "s waiting in" in text, text
    line = next(x for x in text.splitlines() if x.startswith("WAITING "))
    assert "sleep 0.5" in line and "RUN QUEUE" in line, line
    assert "elapsed" in text


# A pool, an event loop and a server without work, and a thread that is blocked.
IDLE = """
import asyncio, concurrent.futures, os, select, socket, threading
pool = concurrent.futures.ThreadPoolExecutor(3)
met = threading.Barrier(3)
for done in [pool.submit(met.wait) for _ in range(3)]: done.result()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1)
lock = threading.Lock()
lock.acquire()
def blocked(): lock.acquire()
def accepts(): listener.accept()
def loops():
    loop = asyncio.new_event_loop()
    if threading.current_thread() is threading.main_thread(): loop.add_reader(0, loop.stop)
    loop.run_forever()
for f in [accepts, loops] + [blocked] * BLOCKED: threading.Thread(target=f, daemon=True).start()
os.write(1, b"ready\\n")
def main(): WAIT
main()
os._exit(0)
"""


def idle_reports(python, out, blocked, wait):
    """A saved profile, and the text of report with options."""
    program = IDLE.replace("BLOCKED", str(blocked)).replace("WAIT", wait)
    with Process([python, "-c", program], env=clean_environment()) as process:
        text = profile("-e", "wall", "--threads", "-o", out, "-p", process.pid, "-d", 1, env=clean_environment()).ok().stdout

    def report(*options):
        return subprocess.run([PYPERF, "report", out, *options], stdout=subprocess.PIPE, text=True, check=True,
                              env=clean_environment()).stdout
    return text, report


def seconds_after(name, text):
    """The number behind a name, or 0."""
    found = re.search(re.escape(name) + r" (\d+\.\d)", " ".join(text.split()))
    return float(found[1]) if found else 0


def test_idle_is_folded(python, tmp_path):
    """Three workers, a loop and a server are one line with their time; who is blocked has all shares."""
    text, report = idle_reports(python, tmp_path / "x.pb.gz", 1, "select.select([0], [], [])")
    for shown in (text, report()):
        words = " ".join(shown.split())
        assert "Idle, in no share below: ThreadPoolExecutor" in words, shown
        pool, loop = seconds_after("ThreadPoolExecutor", shown), seconds_after("asyncio's event loop", shown)
        assert pool == pytest.approx(3 * loop, rel=0.1) and loop == pytest.approx(seconds_after("accept()", shown), rel=0.1)
        assert seconds_after("idle", shown) == pytest.approx(5 * loop, rel=0.1)
        tree = shown[shown.index("Call tree"):]
        assert "blocked" in tree and "main" in tree and "_worker" not in tree and "_run_once" not in tree, shown
    markdown = report("--markdown")
    assert "Idle, in no share below" in markdown and "_worker" not in markdown, markdown
    # Formats that keep all stacks.
    assert "_worker" in report("-f") and "_run_once" in report("-f")


def test_idle_by_rule(any_python, tmp_path):
    _, report = idle_reports(any_python, tmp_path / "x.pb.gz", 1, "select.select([0], [], [])")
    busy = report("--busy", "_worker|^accepts")
    assert "_worker" in busy[busy.index("Call tree"):] and seconds_after("ThreadPoolExecutor", busy) == 0, busy
    idle = report("--idle", "^blocked \\(")
    assert "blocked" not in idle and seconds_after("places of --idle", idle) > 0, idle
    bad = subprocess.run([PYPERF, "report", tmp_path / "x.pb.gz", "--idle", "("], stderr=subprocess.PIPE, text=True,
                         env=clean_environment())
    assert bad.returncode == 2 and "not a regular expression" in bad.stderr, bad.stderr


def test_all_idle(any_python, tmp_path):
    """Nothing but idle threads: they are all that there is to show."""
    text, _ = idle_reports(any_python, tmp_path / "x.pb.gz", 0, "loops()")
    words = " ".join(text.split())
    assert re.search(r"It used \d\.\d% of a CPU; it waits in ThreadPoolExecutor \d\.\d s", words), text
    assert "Call tree" in text, text


# Three workers of a service: a slow database, a lock that one of them has at a time, and a call into C that keeps the GIL.
SHOP = """
import ctypes, os, select, socket, threading, time
native = ctypes.PyDLL(None)
stock = threading.Lock()
spent = {"query": [], "update": [], "sign": []}
def answer(peer):
    while peer.recv(1): time.sleep(0.04) or peer.send(b"x")
def timed(f, *args):
    begin = time.time()
    f(*args)
    spent[f.__name__].append(time.time() - begin)
def query(database): database.send(b"x") and database.recv(1)
def update():
    with stock: time.sleep(0.02)
def sign(): native.usleep(10000)
def worker(database):
    for _ in range(20): timed(query, database), timed(update), timed(sign)
def main():
    threads = []
    for _ in range(3):
        ours, theirs = socket.socketpair()
        threads += [threading.Thread(target=answer, args=(theirs,)), threading.Thread(target=worker, args=(ours,))]
        threads[-2].daemon = True
    for t in threads: t.start()
    for t in threads[1::2]: t.join()
    with open(TRUTH, "w") as f: f.write(repr({k: sum(v) for k, v in spent.items()}))
    os._exit(0)
main()
"""


def test_first_sentence_names_all_causes(any_python, tmp_path):
    """What a service waits for: the database, the lock, and the call that sleeps with the GIL, with their shares."""
    program, truth = tmp_path / "shop.py", tmp_path / "truth"
    program.write_text(SHOP.replace("TRUTH", repr(str(truth))))
    text = profile("-F", 999, "-e", "wall", "--idle", r"^(main|answer) ", "--", any_python, program).ok().stdout
    said = next(line for line in text.replace("\n  ", " ").split("\n") if "of the thread time goes to" in line)
    spent = ast.literal_eval(truth.read_text())
    shares = {name: sum(int(percent) for percent, at in re.findall(r"(\d+)%[^,]*? in (\w+) \(", said) if at == name) for name in spent}
    for words in (r"\d+% (of the thread time goes )?to the network in query \(", r"\d+% (of the thread time goes )?to a lock in update \(",
                  r"\d+% (of the thread time goes )?to sleep with the GIL held in sign \("):
        assert re.search(words, said), said
    for name, share in shares.items():
        assert share == pytest.approx(100 * spent[name] / sum(spent.values()), abs=12), (said, spent)


# A coroutine that sleeps as it must not, and one that sleeps as it should.
BLOCKING = """
import asyncio, time
def price(): time.sleep(0.03)
async def blocks():
    for _ in range(20):
        price()
        await asyncio.sleep(0.02)
async def sleeps():
    for _ in range(20): await asyncio.sleep(0.05)
async def main():
    await asyncio.gather(blocks(), sleeps())
asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
"""


@pytest.mark.few_pythons
def test_blocked_loop(python, tmp_path):
    """The first sentence names the synchronous call, how often it blocked the loop, and for how long."""
    program = tmp_path / "blocking.py"
    program.write_text(BLOCKING)
    text = profile("-e", "wall", "--", python, program, env=clean_environment()).ok().stdout
    first = text.split("\n\n")[1].split("\n")[0]
    # On a busy machine most iterations may be long ones.
    said = re.match(r"The event loop was blocked (?:for (\S+) s \((\d+) x (\d+) ms\)|(\d+) times for 50 ms or more, .*), (?:most )?in price \(", first)
    assert said and (int(said[4]) >= 5 if said[4] else float(said[1]) >= 0.59 and int(said[2]) >= 20 and int(said[3]) >= 27), text
    assert "sleeps" not in first, first


# Blocks of known length, by the program's own clock. A socket with a timeout waits in poll(), and another epoll is not the loop's.
# What runs between two waits of the loop is one iteration: on a busy machine a sleep may be over before the loop can wait for it.
ITERATIONS = """
import asyncio, json, resource, select, socket, sys, time
ours, theirs = socket.socketpair()
ours.settimeout(0.13)
other = select.epoll()
def by_sleep(): time.sleep(0.15)
def by_poll():
    try: ours.recv(1)
    except OSError: pass
def by_epoll():
    other.poll(0.07)
    other.poll(0.07)
def by_computing():
    end = time.monotonic() + 0.14
    while time.monotonic() < end: pass
def waits(): return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
took, begun = [[0, []]], 0
async def rests(seconds):
    global begun, waited
    took[-1][0] = time.monotonic() - begun
    waited = waits()
    await asyncio.sleep(seconds)
    if waits() != waited:
        took.append([0, []])
        begun = time.monotonic()
async def blocks():
    for block in [by_sleep, by_poll, by_epoll, by_computing] * 3:
        await rests(0.03)
        block()
        took[-1][1].append(block.__name__)
    await rests(0)
async def ticks():
    for _ in range(50): await rests(0.01)
async def main():
    await asyncio.gather(blocks(), ticks())
asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
# What ran before the first wait, and after the last one, is no iteration.
json.dump(sorted(took[1:-1], reverse=True), open(sys.argv[1], "w"))
"""


def check_iterations(python, tmp_path, **env):
    """Each block is one iteration, however it waits, and the longest ones are not shorter than the program says."""
    (tmp_path / "blocks.py").write_text(ITERATIONS)
    out = tmp_path / "x.json"
    profile("-e", "wall", "-o", out, "-o", tmp_path / "x.pb.gz", "--", python, tmp_path / "blocks.py", tmp_path / "truth",
            env=clean_environment(**env)).ok()
    true = json.loads((tmp_path / "truth").read_text())
    [loop] = json.loads(out.read_text())["loops"]
    longest = loop["longest"]
    assert len(longest) == 10 and [s["s"] for s in longest] == sorted((s["s"] for s in longest), reverse=True)
    for (seconds, _), stretch in zip(true, longest):
        assert stretch["s"] >= seconds - 0.001, (true, longest)
    # One that is split, or is joined with the next one, is not among so many. The program takes some waits for a page for the loop's.
    slow = [s for s, names in true if names]
    assert loop["slow"] >= len(slow) and loop["iterations"] >= 0.9 * len(true) and loop["slow_s"] >= sum(slow) - 0.01, (true, loop)
    assert sum(h["iterations"] for h in loop["histogram"]) == loop["iterations"]
    longer_than = lambda us: sum(h["iterations"] for h in loop["histogram"] if h["below_us"] > us)
    assert longer_than(65536) <= loop["slow"] <= longer_than(32768), loop
    named = [s["what"] for s in longest if "what" in s]
    blocks = {name for _, names in true for name in names}
    strangers = [n for n in named if not any(n.startswith(block) for block in blocks)]
    # On a busy machine one of the longest may be without a block.
    stalled = [s for s, names in true if not names and s >= 0.05]
    assert len(blocks) == 4 and len(named) >= 8 - len(stalled) and len(strangers) <= len(stalled), (named, true)
    # The saved profile has the same numbers and names.
    subprocess.run([PYPERF, "report", tmp_path / "x.pb.gz", "-o", tmp_path / "y.json"], check=True, timeout=100)
    assert json.loads((tmp_path / "y.json").read_text())["loops"] == [loop]


@pytest.mark.few_pythons
def test_iterations(python, tmp_path):
    check_iterations(python, tmp_path)


def test_iterations_at_the_end_of_system_calls(old_or_new_python, tmp_path):
    """As before Linux 6.16."""
    check_iterations(old_or_new_python, tmp_path, PYPERF_BPF_LATE="1")


def test_iterations_in_the_report(any_python, tmp_path):
    """In words: how often the loop was blocked, and where; what the longest was; and the same as Markdown."""
    (tmp_path / "blocks.py").write_text(ITERATIONS.replace("[by_sleep, by_poll, by_epoll, by_computing]", "[by_poll]"))
    result = profile("-e", "off-cpu", "-o", tmp_path / "x.md", "-o", tmp_path / "x.txt", "--", any_python, tmp_path / "blocks.py",
                     tmp_path / "truth", env=clean_environment()).ok()
    text = (tmp_path / "x.txt").read_text()
    said = re.search(r"The event loop was blocked (\d+) times for 50 ms or more, \d+\.\d+ s in all, the longest (\d+) ms, in by_poll \(", text)
    true = [s for s, names in json.loads((tmp_path / "truth").read_text()) if names]
    assert said and int(said[1]) >= len(true) > 0 and int(said[2]) >= 130, (text, result.messages)
    table = text[text.index("Iterations of event loops"):].split("\n\n")
    assert re.search(r"\d+ iterations, .* of 50 ms or more", table[0]) and re.search(r"^ +\d+ +\d+.* - .*#", table[0], re.M), text
    assert "by_poll" in table[1] and "poll" in table[1].splitlines()[1].split()[-2], text
    assert "| Longest ms | At s | What ran | Made of |" in (tmp_path / "x.md").read_text()


def test_iteration_without_an_end(any_python, tmp_path):
    """A loop that is blocked when the profile ends is, too: with its stack, which is read from outside."""
    (tmp_path / "blocks.py").write_text(ITERATIONS.replace("time.sleep(0.15)", "time.sleep(4)").replace("] * 3", "][:1]"))
    out = tmp_path / "x.json"
    profile("-e", "off-cpu", "-d", 3, "-o", out, "--", any_python, tmp_path / "blocks.py", tmp_path / "truth",
            env=clean_environment()).ok()
    document = json.loads(out.read_text())
    [loop] = document["loops"]
    first = loop["longest"][0]
    assert first["open"] and 0 < first["s"] <= document["duration_s"] and first["what"].startswith("by_sleep"), document


# nanosleep(), whose number is that of sync() in a 64-bit program.
SLEEPS_32 = """
.globl _start
_start: movl $162, %eax; movl $for, %ebx; xorl %ecx, %ecx; int $0x80
movl $1, %eax; xorl %ebx, %ebx; int $0x80
.data
for: .long 1, 0
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="code of x86")
def test_reasons_of_a_32_bit_program(tmp_path):
    """Its system calls have other numbers: no reason is better than a wrong one."""
    (tmp_path / "sleeps.s").write_text(SLEEPS_32)
    try:
        subprocess.run(["as", "--32", "-o", tmp_path / "sleeps.o", tmp_path / "sleeps.s"], check=True)
        subprocess.run(["ld", "-m", "elf_i386", "-o", tmp_path / "sleeps", tmp_path / "sleeps.o"], check=True)
        subprocess.run([tmp_path / "sleeps"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip("32-bit programs: %s" % error)
    result = profile("-f", "-F", 999, "-e", "off-cpu", "--", tmp_path / "sleeps").ok()
    slept = [s for s in result.stacks if s.count > 500000000]
    assert slept and {s.frames[-1].name for s in slept} == {"waits"}, result.stacks


# Programs that one process executes one after the other, with an event loop each.
REPLACED = """
import asyncio, os, sys, time
time.sleep(float(sys.argv[1]))
async def main():
    for _ in range(20): await asyncio.sleep(0.01)
asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
if sys.argv[2:]: os.execv(sys.executable, [sys.executable] + sys.argv[2:])
"""


@pytest.mark.parametrize("env", [{}, {"PYPERF_BPF_LATE": "1"}])
def test_iterations_of_a_program_that_is_replaced(any_python, tmp_path, env):
    """Each has those of its own loop, and what is between two programs is no iteration."""
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    for program in (first, second):
        program.write_text(REPLACED)
    profile("-e", "off-cpu", "-o", tmp_path / "x.json", "-o", tmp_path / "x.txt", "--", any_python, first, 0, second, 1.5,
            env=clean_environment(**env)).ok()
    loops = json.loads((tmp_path / "x.json").read_text())["loops"]
    text = (tmp_path / "x.txt").read_text()
    assert re.findall(r"^ +(\w+)\.py \(\d+\): \d+ iterations", text, re.M) in (["first", "second"], ["second", "first"]), text
    assert all(10 <= loop["iterations"] <= 40 and loop["longest"][0]["s"] < 1.5 for loop in loops), loops


def test_polls_of_no_event_loop(any_python, tmp_path):
    """A thread that waits in epoll in a loop of its own runs no event loop that is known."""
    program = "import select\ne = select.epoll()\nfor i in range(30): e.poll(0.02)\n"
    out = tmp_path / "x.json"
    profile("-e", "off-cpu", "-o", out, "--", any_python, "-c", program, env=clean_environment()).ok()
    assert "loops" not in json.loads(out.read_text())


# Two tasks change places, three stay, and their parent awaits them.
AWAITING = """
import asyncio, os
async def often(): await asyncio.sleep(0.36)
async def seldom(): await asyncio.sleep(0.03)
async def turns():
    while True:
        await often()
        await seldom()
async def gets(queue): await queue.get()
async def main():
    queue = asyncio.Queue()
    tasks = [asyncio.ensure_future(t) for t in [turns(), turns()] + [gets(queue) for _ in range(3)]]
    asyncio.get_event_loop().add_reader(0, os._exit, 0)
    os.write(1, b"ready\\n")
    await asyncio.gather(*tasks)
asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
"""


def awaits_of(python, path, *options, seconds=4):
    """The report, and the JSON by the innermost function of the program."""
    path.joinpath("app.py").write_text(AWAITING)
    with Process([python, path / "app.py"], env=clean_environment()) as process:
        profile(*(options or ("-e", "wall")), "-p", process.pid, "-d", seconds, "-o", path / "x.json", "-o", path / "x.txt",
                env=clean_environment()).ok()
    awaits = json.loads((path / "x.json").read_text()).get("awaits", [])
    own = ("often", "seldom", "gets", "main", "turns")
    return (path / "x.txt").read_text(), {next(f for f in reversed(a["functions"]) if f in own): a for a in awaits}


NEWEST = ["sid/3.14", "sid/3.15"]


@pytest.fixture(scope="module")
def awaits_of_each(tmp_path_factory):
    """What awaits_of() says of each interpreter. All are looked at at a time: they rest."""
    found = interpreters.find()
    pythons = {python: python for python in (conftest.chosen_interpreters() or conftest.INTERPRETERS).values()}
    pythons.update((name, found[name]) for name in NEWEST if name in found)
    with concurrent.futures.ThreadPoolExecutor(len(pythons) or 1) as pool:
        return {key: pool.submit(awaits_of, python, tmp_path_factory.mktemp("awaits")) for key, python in pythons.items()}


@pytest.mark.parametrize("name", NEWEST)
def test_what_tasks_of_others_wait_for(name, awaits_of_each):
    """Those in lists that the interpreter itself describes."""
    if name not in awaits_of_each:
        pytest.skip("there is no " + name)
    test_what_tasks_wait_for(name, awaits_of_each)


def test_what_tasks_wait_for(python, awaits_of_each):
    """In the first sentence, what the tasks wait for; the one that awaits the others is none of them."""
    text, awaits = awaits_of_each[python].result()
    assert set(awaits) <= {"often", "seldom", "gets"}, awaits
    gets, often = awaits["gets"], awaits["often"]
    assert gets["looks"] == gets["of"] >= 3 and gets["tasks"] == 3 * gets["of"] and not gets["came"], awaits
    assert 0.5 * often["of"] < often["looks"] <= often["of"] and often["looks"] <= often["tasks"] <= 2 * often["looks"], awaits
    assert often["came"] and often["looks"] > awaits.get("seldom", {"looks": 0})["looks"], awaits
    told = next(line for line in text.split("\n\n")[1].splitlines() if not line.startswith("The event loop was"))
    assert re.match(r"In \d+% of \d+ looks tasks awaited in often \(.*app.py:3\) -> sleep \(", told), text
    assert re.search(r"^ +100% +3\.0 +all the time +gets \(.*app.py:9\) -> (Queue\.)?get", text, re.M), text


def test_tasks_are_read_where_waits_count(any_python, tmp_path):
    text, awaits = awaits_of(any_python, tmp_path, "-e", "cpu-clock", seconds=1)
    assert not awaits and "looks" not in text


# The list of tasks of each of 200 threads leads into a ring of what are none.
RINGS = """
import asyncio, ctypes, os, threading, time
def word(at): return ctypes.c_uint64.from_address(at)
ring = (ctypes.c_uint64 * 2)()
ring[0] = ctypes.addressof(ring)
entered, kept = threading.Semaphore(0), []
async def never(): await asyncio.get_running_loop().create_future()
async def enters():
    a, b = asyncio.ensure_future(never()), asyncio.ensure_future(never())
    kept.extend([a, b])
    node = next(at for at in range(64, 400, 8) if word(id(a) + at).value == id(b) + at)
    word(word(id(b) + node).value).value = ring[0]
    entered.release()
    time.sleep(1000)
for _ in range(200): threading.Thread(target=asyncio.run, args=(enters(),), daemon=True).start()
for _ in range(200): entered.acquire()
os.write(1, b"ready\\n")
os.read(0, 1)
os._exit(0)
"""


def test_a_look_at_tasks_ends(tmp_path):
    """However many lists there are, and however long they are: a part of each would take seconds."""
    python = interpreters.find().get("sid/3.14") or pytest.skip("there is no sid/3.14")
    with Process([python, "-c", RINGS], env=clean_environment()) as process:
        result = profile("-e", "wall", "-p", process.pid, "-d", 3, "-o", tmp_path / "x.json", env=clean_environment()).ok()
    took = [int(us) / 1e6 for us in re.findall(r"a look at tasks took (\d+) us", "\n".join(result.messages))]
    assert took and min(took) < 0.5, took


@pytest.mark.parametrize("args, words", [
    (("-e", "off-cpu,wall"), "exclude each other"), (("--wait-min", "1ms"), "-e off-cpu or -e wall"),
    (("-e", "off-cpu", "--wait-min", "1"), "with its unit"), (("-e", "off-cpu", "--wait-min", "-1ms"), "with its unit"),
    (("-e", "off-cpu", "-c", "100"), "-F"), (("-e", "off-cpu:poll"), "takes no arguments"),
    (("-e", "gil", "--cpu", "0"), "not with -e gil"),
    (("-e", "gil", "--wait-min", "1ms"), "-e off-cpu or -e wall"),
    (("-e", "gil-held"), "no such event"), (("-e", "cpu-clock,page-faults,off-cpu,gil"), "at most 4"),
])
def test_bad_options(args, words):
    done = subprocess.run([PYPERF, *args, "-d", "1"], stderr=subprocess.PIPE, text=True, env=clean_environment())
    assert done.returncode == 1 or done.returncode == 2
    assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr
