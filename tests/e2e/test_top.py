# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""top: what a terminal shows, against what the programs say of themselves; and how it is left."""
import json
import os
import re
import signal
import subprocess
import termios
import time

import pytest

import harness
from harness import PROGRAMS, PYPERF, Target, cpu_seconds, poll
from terminal import LEAVE_ALTERNATE, Terminal
from test_trust import Elf, find, forged_target, library_of

pytestmark = pytest.mark.beside

PERCENT, SECONDS = r"(\d+\.\d)", r"(\d+\.\d\d)"
READY = r"^ +PID +CPU%.*COMMAND"


def top(*args, rows=24, cols=100, **env):
    return Terminal([PYPERF, "top", "-i", "0.5", *args], rows, cols, **env)


def process_row(pid):
    return r"^ +%d +%s +%s .*" % (pid, PERCENT, SECONDS)


def row_of(terminal, pattern):
    """Index of the line that matches, or -1."""
    return next((i for i, line in enumerate(terminal.lines) if re.search(pattern, line)), -1)


def seconds_of(terminal, pid):
    """What the list of processes says of one now, or 0."""
    match = next(filter(None, (re.search(process_row(pid), line) for line in terminal.lines)), None)
    return float(match[2]) if match else 0.0


# ---- what is shown -------------------------------------------------------------------------------

def test_processes(any_python):
    with Target(any_python, "duty.py", 0.75) as much, Target(any_python, "duty.py", 0.25) as less:
        before = {t.pid: cpu_seconds(t.pid) for t in (much, less)}
        with top("-F", 499, "-p", "%d,%d" % (much.pid, less.pid)) as terminal:
            terminal.until(lambda _: seconds_of(terminal, much.pid) > 2, "two seconds of work")
            shown = {pid: seconds_of(terminal, pid) for pid in before}
            truth = {pid: cpu_seconds(pid) - before[pid] for pid in before}
            ratio = truth[much.pid] / truth[less.pid]
            assert 0.7 * ratio < shown[much.pid] / shown[less.pid] < 1.4 * ratio, (shown, truth)
            assert row_of(terminal, process_row(much.pid)) < row_of(terminal, process_row(less.pid))
            terminal.shows(r"^2 processes, ")
            terminal.shows(r"^hottest: \w+ \(duty\.py\), \d+%; \d+ samples, none lost, .*stacks complete")
            terminal.press("1")  # the largest number first
            first, second = sorted(before, reverse=True)
            terminal.until(lambda _: 0 < row_of(terminal, process_row(first)) <
                           row_of(terminal, process_row(second)), "the order of the numbers")
            terminal.press("r")
            terminal.until(lambda _: 0 < row_of(terminal, process_row(second)) <
                           row_of(terminal, process_row(first)), "the opposite order")
            terminal.press("/", "duty.py 0.25", "enter")
            terminal.until(lambda _: row_of(terminal, process_row(much.pid)) < 0 <
                           row_of(terminal, process_row(less.pid)), "the filter")
            terminal.press("/", "escape")
            terminal.until(lambda _: row_of(terminal, process_row(much.pid)) > 0, "both again")
            less.end()
            terminal.shows(r"^ +%d .*\[ended\]" % less.pid)
            terminal.press("q")
            assert terminal.wait() == 0
            terminal.restored()


def lines_of(function):
    """Numbers of the lines of a function of shares.py."""
    lines = (PROGRAMS / "shares.py").read_text().split("\n")
    first = lines.index("def %s():" % function) + 1
    return range(first + 1, first + 5)


def test_functions(any_python):
    row = r"^ +%s +%s +%s +%s %%s +(\S+):(\d+)$" % (PERCENT, PERCENT, SECONDS, SECONDS)
    names = "work_one", "work_two", "work_three"

    def rows(lines):
        return {name: match for name in names for line in lines
                for match in [re.search(row % name, line)] if match}

    def adds_up(shown, main):
        own = sum(float(match[3]) for match in shown.values())
        return main and len(shown) == 3 and float(main[4]) >= 0.98 * own > 20 * float(main[3])

    with Target(any_python, "shares.py") as target:
        with top("-F", 499, "-p", target.pid, cols=120) as terminal:
            terminal.shows(process_row(target.pid))
            terminal.press("enter")
            terminal.until(lambda lines: len(rows(lines)) == 3 and
                           float(rows(lines)["work_three"][3]) > 1.5, "one and a half seconds")
            # The screen may be drawn in part: the rows of one moment add up.
            terminal.until(lambda lines: adds_up(rows(lines), re.search(row % "main", "\n".join(lines), re.M)), "the sum")
            shown = rows(terminal.lines)
            own = {name: float(match[3]) for name, match in shown.items()}
            order = [row_of(terminal, row % name) for name in reversed(names)]
            terminal.press("3")  # own seconds
            terminal.until(lambda _: sorted(order := [row_of(terminal, row % n)
                                                      for n in reversed(names)]) == order,
                           "the order of the work")
            for name, match in shown.items():
                assert int(match[6]) in lines_of(name), (name, match[0])
                assert match[5].endswith("/shares.py")
            terminal.press("/", "work_three", "enter", "enter")
            terminal.shows(r"^\d lines of work_three \(\S*shares.py\)")
            line = terminal.shows(r"^ +(\d+) +%s +%s +%s +%s$" % (PERCENT, PERCENT, SECONDS,
                                                                   SECONDS))
            assert int(line[1]) in lines_of("work_three")
            terminal.press("escape", "escape")
            terminal.shows(READY)
            terminal.press("q")
            assert terminal.wait() == 0
        truth = target.stop()["shares"]
        for name in names:
            assert abs(own[name] / sum(own.values()) - truth[name]) < 0.08, (own, truth)


def test_events(any_python):
    """Page faults beside time: of a process that has ended as many as the kernel charged it with."""
    row = r"^ +%d +\S+ +(\d+) .*\[ended\]"
    with top("-e", "cpu-clock,page-faults", "-c", 10) as terminal:
        terminal.shows(READY)
        program = subprocess.Popen([any_python, PROGRAMS / "events.py", "3000", "0", "300"])
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = status
        assert status == 0
        terminal.press("e")
        terminal.shows(r"page-faults \(2 of 2: e\)")
        terminal.shows(r"^\d+ processes, [\d.]+k? page faults/s")
        terminal.until(lambda lines: any(0.9 * usage.ru_minflt < int(m[1]) < 1.1 * usage.ru_minflt
                                         for line in lines for m in [re.search(row % program.pid, line)] if m),
                       "the faults of the process")
        assert not row_of(terminal, "CPU[% ]") >= 0
        terminal.press("e")
        seconds = terminal.shows(r"^ +%d +%s +%s .*\[ended\]" % (program.pid, PERCENT, SECONDS))
        assert 0 < float(seconds[2]) < 2 * (usage.ru_utime + usage.ru_stime)
        terminal.press("q")
        assert terminal.wait() == 0


def safe(name):
    """As str_sanitise() makes it, and as far as a row has room."""
    return "".join("\ufffd" if ord(c) < 32 else c for c in name)[:30]


@pytest.mark.parametrize("color", [True, False])
def test_threads(any_python, color):
    with Target(any_python, "thread_names.py") as target:
        with top("-F", 499, "-p", target.pid, rows=40, **{} if color else {"NO_COLOR": "1"}) as t:
            t.shows(process_row(target.pid))
            t.press("t", "2")  # by their numbers
            holders = set()

            def rows(lines):
                found = [re.search(r"^ +%d +(\d+) +%s +%s (\w+) +(holds|waits|-|) +(.*)$" %
                                   (target.pid, PERCENT, SECONDS), line) for line in lines]
                found = {int(m[1]): m for m in found if m}
                holders.update(tid for tid, m in found.items() if m[5] == "holds")
                return found

            # Those that had no sample yet come with the next look at the process.
            tids = {int(tid) for tid in os.listdir("/proc/%d/task" % target.pid)}
            t.until(lambda lines: set(rows(lines)) >= tids and holders and sum(
                float(m[3]) > 0 for m in rows(lines).values()) > 4, "all threads, and some that ran")
            shown = rows(t.lines)
            assert [m[5] for m in shown.values()].count("holds") <= 1
            colored = re.search(rb"\x1b\[([0-9]*;)*3[0-7][;m]", t.raw)
            assert bool(colored) == color
            t.press("q")
            assert t.wait() == 0
        names = {int(tid): name for tid, name in target.stop()["names"].items()}
    for tid in holders:
        assert tid in names or tid == target.pid, (holders, names)
    assert set(names) <= set(shown)  # also those that had no sample
    for tid in names:
        assert shown[tid][6].replace("…", "").startswith(safe(names[tid]).rstrip()[:25]), shown[tid]


def test_hostile_names(any_python):
    """Names of functions do nothing to the terminal, and columns stand where they should."""
    with Target(any_python, "hostile.py") as target:
        with top("-F", 499, "-p", target.pid, cols=120) as terminal:
            terminal.shows(process_row(target.pid))
            terminal.press("enter")
            terminal.shows(r"bell.escape.\[31mred")
            terminal.until(lambda lines: sum(bool(re.search(r"/hostile/\d\.py", line))
                                             for line in lines) >= 5, "functions")
            start = row_of(terminal, r"OWN% TOTAL%")
            for line in terminal.lines[start + 1:-1]:
                assert not line or re.match(r" +%s +%s +%s +%s \S" %
                                            (PERCENT, PERCENT, SECONDS, SECONDS), line), line
            assert b"\a" not in terminal.raw and b"\x1b[31mred" not in terminal.raw
            terminal.press("q")
            assert terminal.wait() == 0
            terminal.restored()


def test_not_walked(tmp_path):
    """A process that cannot be walked says why, in its row and when it is opened."""
    elf = Elf(library_of(find("3.13")))
    elf.put_u64(elf.offset_of("_PyRuntime") + 296, 104)  # co_name, as in test_dump.py
    with forged_target(find("3.13"), tmp_path, elf) as target:
        with top("-p", target.pid, cols=160) as terminal:
            why = terminal.shows(r"^ +%d .*\[not walked: ([^\]]+)\]" % target.pid)
            terminal.press("enter")
            terminal.shows("not walked: " + re.escape(why[1][:20]))
            terminal.press("q")
            assert terminal.wait() == 0


def test_pause(any_python):
    """Nothing moves while it is paused, and nothing is lost: it is counted when it goes on."""
    with Target(any_python, "duty.py", 0.75) as target:
        with top("-F", 499, "-p", target.pid) as terminal:
            terminal.until(lambda _: seconds_of(terminal, target.pid) > 0.5, "the first samples")
            terminal.press(" ")
            terminal.shows("PAUSED")
            shown, before = seconds_of(terminal, target.pid), cpu_seconds(target.pid)
            poll(lambda: terminal.read() or cpu_seconds(target.pid) - before > 1.5, "work")
            assert seconds_of(terminal, target.pid) == shown
            worked = cpu_seconds(target.pid) - before
            terminal.press(" ")
            terminal.until(lambda _: seconds_of(terminal, target.pid) > shown + 0.7 * worked,
                           "what was done meanwhile")
            assert "PAUSED" not in str(terminal)


def test_help(any_python):
    with top(rows=30) as terminal:
        terminal.shows(READY)
        terminal.press("h")
        terminal.shows("^Keys$")
        text = subprocess.run([PYPERF, "top", "--help"], capture_output=True, text=True).stdout
        assert "h shows all keys" in text
        terminal.press("x")
        terminal.shows(READY)
        terminal.press("q")
        assert terminal.wait() == 0


def test_sizes(any_python):
    with Target(any_python, "duty.py", 0.5) as target, top("-p", target.pid) as terminal:
        terminal.shows(process_row(target.pid))
        for keys in [], ["enter"], ["t"], ["h"]:
            terminal.press(*keys)
            for rows, cols in (5, 20), (1, 1), (2, 200), (50, 7), (40, 132):
                drawn = len(terminal.raw)
                terminal.resize(rows, cols)
                terminal.until(lambda _: len(terminal.raw) > drawn, "a picture")
            if "h" not in keys:
                terminal.until(lambda lines: "quit" in lines[39] and "pyperf-bpf" in lines[0],
                               "the first and the last line of 40")
        terminal.press("x", "q")
        assert terminal.wait() == 0
        terminal.restored()


# ---- how it is left ------------------------------------------------------------------------------

ENDS = {"q": 0, "\x03": 0, signal.SIGINT: 0, signal.SIGTERM: 0, signal.SIGHUP: 0,
        "\x1c": -signal.SIGQUIT, signal.SIGSEGV: -signal.SIGSEGV, signal.SIGABRT: -signal.SIGABRT}


@pytest.mark.parametrize("end", ENDS, ids=lambda e: repr(e) if isinstance(e, str) else e.name)
def test_ends(end):
    with top() as terminal:
        terminal.shows(READY)
        assert termios.tcgetattr(terminal.slave) != terminal.modes
        if isinstance(end, str):
            terminal.press(end)
        else:
            os.kill(terminal.pid, end)
        assert terminal.wait() == ENDS[end]
        terminal.restored()


def test_stopped():
    """Ctrl-Z gives the terminal back; fg goes on."""
    shell = '"$@"; echo "stopped $?"; read -r; fg >/dev/null; echo "status $?"'
    argv = ["/bin/bash", "--norc", "-mc", shell, "sh", PYPERF, "top", "-i", "0.5"]
    with Terminal(argv) as terminal:
        terminal.shows(READY)
        terminal.press("\x1a")
        terminal.shows("stopped %d" % (128 + signal.SIGTSTP))
        terminal.restored()
        terminal.press("\n")
        terminal.shows(READY)
        terminal.press("h")
        terminal.shows("^Keys$")
        terminal.press("x", "q")
        terminal.shows("^status 0")
        assert terminal.wait() == 0
        terminal.restored()


def test_terminal_gone():
    """A hang-up that is ignored (nohup) must not leave a program that spins on its terminal."""
    argv = ["/bin/bash", "-c", 'trap "" HUP; exec "$@"', "sh", PYPERF, "top", "-i", "0.5"]
    terminal = Terminal(argv)
    terminal.shows(READY)
    os.close(terminal.slave)
    os.close(terminal.master)
    poll(lambda: terminal.ended() is not None, "the end")
    assert terminal.status in (0, 1)


# ---- errors --------------------------------------------------------------------------------------

def run(*args, **env):
    return subprocess.run([PYPERF, "top", *args], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=harness.PATIENCE,
                          env=harness.clean_environment(**env))


def test_no_terminal():
    done = run()
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.count("\n") == 1
    assert "not a terminal" in done.stderr and "pyperf-bpf record" in done.stderr


def test_duration(any_python):
    """It ends by itself; what was shown last stays, below what was on the terminal before."""
    with Target(any_python, "spinner.py", "spin") as target:
        with top(target.pid, "-d", "1.2") as terminal:
            assert terminal.wait() == 0
            terminal.restored()
            left = terminal.raw[terminal.raw.rindex(LEAVE_ALTERNATE):].decode().splitlines()
            assert any(re.search(READY, line) for line in left), left
            row = next(filter(None, (re.search(process_row(target.pid), line) for line in left)))
            assert float(row[2]) > 0, row[0]


@pytest.mark.parametrize("term", ["", "no-such-terminal", "dumb"])
def test_bad_terminal(term):
    with top(TERM=term) as terminal:
        assert terminal.wait() == 1
        assert terminal.raw.count(b"\n") == 1 and b"TERM" in terminal.raw, terminal.raw
        assert b"\x1b" not in terminal.raw
        assert termios.tcgetattr(terminal.slave) == terminal.modes


@pytest.mark.parametrize("args, message", [
    (["-i", "0"], "-i 0: must be a number of seconds from 0.1 to 3600"),
    (["4711", "4712"], "top: unexpected '4712'; several processes: -p PID,PID"),
    (["app.py"], "top: 'app.py' is not the number of a process"),
    (["-d", "soon"], "-d soon: not a number of seconds, like 30 or 2.5"),
    (["--children"], "--children needs a process: name it with -p"),
    (["-o", "x.svg"], "unknown option -o; see 'pyperf-bpf top --help'"),
])
def test_usage(args, message):
    done = run(*args)
    assert done.returncode == 2 and done.stderr == "pyperf-bpf: %s\n" % message


def test_error_after_the_check():
    """Errors before there is a picture are on the terminal as they are."""
    with top("-p", "4194303") as terminal:
        assert terminal.wait() == 1
        assert b"there is no such process" in terminal.raw
        assert termios.tcgetattr(terminal.slave) == terminal.modes


def test_waits(any_python):
    """A thread that sleeps has a column for it; one that works has next to nothing there."""
    source = ("import threading, time\n"
              "def sleeps():\n    while True: time.sleep(0.1)\n"
              "threading.Thread(target=sleeps, daemon=True).start()\n"
              "print('ready', flush=True)\n"
              "input()\n")
    with harness.Process([any_python, "-c", source], env=harness.clean_environment()) as process:
        with top("-e", "wall", "-p", process.pid) as terminal:
            terminal.shows(r"^ +PID +THREAD% +THREAD s +WAIT% +QUEUE% +GIL% ")
            terminal.press("t")
            terminal.shows(r"^ +PID +TID +THREAD% +THREAD s +WAIT% +QUEUE% +GIL% +STATE")
            # Of the interval, by the kernel's clock.
            terminal.until(lambda _: any(
                (m := re.search(r"^ +%d +\d+ +[\d.]+ +[\d.]+ +(\d+\.\d) " % process.pid, line)) and float(m[1]) > 60
                for line in terminal.lines), "a thread that waits")


LONG_WAITS = """
import json, sys, threading, time
go = threading.Event()
def for_ever(): time.sleep(1e6)
def first(): time.sleep(2.2)
def burns():
    end = time.thread_time() + 0.5
    while time.thread_time() < end: pass
def second(): time.sleep(1.7)
def works():
    go.wait()
    true = {}
    for f in (first, burns, second):
        begin = time.monotonic()
        f()
        true[f.__name__] = time.monotonic() - begin
    print(json.dumps(true), flush=True)
    for_ever()
for f in (for_ever, works): threading.Thread(target=f, daemon=True, name=f.__name__).start()
print("ready", flush=True)
sys.stdin.readline()
go.set()
sys.stdin.readline()
"""


def test_waits_that_go_on(any_python):
    """A wait counts in each interval that it lasts, and what has counted does not count again at its end."""
    row = r"^ +%s +%s +%s +%s %%s +<string>:\d+$" % (PERCENT, PERCENT, SECONDS, SECONDS)
    own = lambda name: float((m := next(filter(None, (re.search(row % name, line) for line in terminal.lines)), None)) and m[3] or 0)
    with harness.Process([any_python, "-c", LONG_WAITS], env=harness.clean_environment()) as process:
        with top("-e", "wall", "-p", process.pid, cols=120) as terminal:
            terminal.shows(process_row(process.pid))
            terminal.press("enter")
            terminal.until(lambda _: own("for_ever") > 0, "a wait without an end")
            begin = own("for_ever")
            process.process.stdin.write(b"go\n")
            for least in (0.4, 1.0, 1.6):  # it ends later than the last of these is shown
                terminal.until(lambda _: own("first") >= least, "a wait that goes on")
            true = json.loads(process.read_line())
            terminal.until(lambda _: own("second") >= 0.97 * true["second"], "a wait that has ended")
            since = own("for_ever")
            terminal.until(lambda _: own("for_ever") >= since + 1, "two more intervals")
            for name in ("first", "second"):
                assert own(name) == pytest.approx(true[name], rel=0.03, abs=0.02), (name, own(name), true, str(terminal))
            # On a CPU or waiting for one; its time on a CPU is sampled.
            assert own("burns") == pytest.approx(true["burns"], rel=0.15, abs=0.05), (own("burns"), true, str(terminal))
            assert own("for_ever") - begin >= 0.95 * sum(true.values()), (begin, own("for_ever"), true)
            terminal.press("t")
            # All of the life of each thread, in one interval: the share is of the thread's own time.
            for name in ("MainThread", "for_ever", "works"):
                wait = terminal.shows(r"^ +%d +\d+ +(\d+\.\d) +[\d.]+ +(\d+\.\d) .* %s$" % (process.pid, name))
                assert float(wait[1]) == pytest.approx(100, abs=3) == float(wait[2]), wait[0]


@pytest.mark.few_pythons
def test_event_loops(python):
    """How often its loop was blocked, and where for longest, against what the program's own clock says."""
    sum_of = r"^event loop: .*; since the start (\d+), longest (\d+) ms(?:, one of (\d+) ms)? in price \(.*looping\.py:\d+\)"
    with harness.Process([python, PROGRAMS / "looping.py"], env=harness.clean_environment()) as process:
        with top("-e", "off-cpu", "-p", process.pid, cols=200) as terminal:
            terminal.shows(process_row(process.pid))
            terminal.press("enter")
            terminal.shows(r"^event loop: \d+ iterations? of 50 ms or more")
            shown = first = None
            for _ in range(5):  # if an interval ends between the stack of the longest one and its end, another one is named
                process.process.stdin.write(b"block\n")
                true = json.loads(process.read_line())
                first = true["since"] if first is None else first
                slow = sum(s >= 0.05 for s in true["all"][first:])
                assert slow >= 9, true
                # They are in the last interval for half a second, then in the sum only.
                terminal.until(lambda lines: any((m := re.search(r"^event loop: 0 iterations of 50 ms or more; since the start (\d+), longest", line))
                                                 and int(m[1]) >= slow for line in lines), "%d slow iterations" % slow)
                shown = next((m for m in map(re.compile(sum_of).search, terminal.lines) if m), None)
                if shown:
                    break
            assert shown, str(terminal)
            assert slow <= int(shown[1]) <= 1.3 * sum(s >= 0.05 for s in true["all"]) + 1, (shown[0], true)
            assert 340 <= int(shown[3] or shown[2]) <= int(shown[2]) <= 1300 * max(true["all"]) + 100, (shown[0], true)
            terminal.press("p")
            terminal.shows(r"^event loop of %d: .* in price \(" % process.pid)
