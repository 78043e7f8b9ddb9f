# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Attacks of an unprivileged user, each beside another user's program that must not notice."""
import contextlib
import fcntl
import glob
import json
import os
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import harness
import owncalls
import owntime
from conftest import as_user, Beside, COMM, ENDS, LATE, MEMORY, NAME, NEIGHBOUR, peak_memory, SANITIZED, SOON, TENANT
from agent_runs import Agent
from terminal import Terminal

INTERPRETER = os.path.realpath("/usr/bin/python3")
BPFTOOL = harness.find_tool("bpftool")


def room(ground, name):
    """A directory of the tenant."""
    place = ground.room / name
    place.mkdir()
    os.chown(place, TENANT, TENANT)
    return place


def kernel_log(ground):
    """A read of /proc/kmsg never ends, and what it takes nobody else sees."""
    return ground.tenant("kernel_log.py", namespace="user")


def leases(ground):
    """The kernel holds up who opens a leased file, for 45 s each."""
    return ground.tenant("leased.py", ground.room, 20)


def memory_of_fuse(ground):
    """Who reads the name of this code waits for a server that does not answer, and cannot be killed."""
    return ground.tenant("fuse_name.py", room(ground, "mnt"), namespace="mount")


def overlay_of_fuse(ground):
    """An overlay says that it holds data. Who reads this file of one waits for ever."""
    return ground.tenant("fuse_overlay.py", *(room(ground, name) for name in ("fuse", "other", "overlay")),
                         namespace="user")


def late_overlay(ground, seconds=1):
    """So it waits, for as long, and the answer comes when it was given up."""
    return ground.tenant("fuse_overlay.py", *(room(ground, name) for name in ("fuse", "other", "overlay")), seconds,
                         namespace="user")


def overlay_of_10_s(ground):
    """The answer comes when a profile of some seconds is over."""
    return late_overlay(ground, 10)


def overlay_of_100_s(ground):
    return late_overlay(ground, 100)


def held_lock(ground):
    """Who looks at the mappings, the memory or the environment of this process waits for ever."""
    return ground.tenant("held_lock.py", room(ground, "held"), room(ground, "copies"), namespace="user")


def own_python(ground):
    """Python from a FUSE that it has mounted itself: who opens its file may wait for ever."""
    return ground.tenant("fuse_python.py", room(ground, "fuse"), namespace="user")


def silent_names(ground):
    """Who opens a file of this process, or only looks whether it has a perf map, waits for ever."""
    return ground.tenant("silent_names.py", *(room(ground, name) for name in ("silent", "above", "root")),
                         namespace="user")


def silent_flush(ground):
    """Who closes a file of this process waits for ever."""
    return ground.tenant("silent_flush.py", *(room(ground, name) for name in ("mute", "beneath", "shown")),
                         namespace="user")


def silent_attributes(ground):
    """Who asks what the files of this process are waits for ever, and learns nothing of the interpreter that it shares."""
    return ground.tenant("silent_attributes.py", *(room(ground, name) for name in ("mum", "under", "seen")),
                         namespace="user")


def hollow_files(ground):
    """Files of some KiB on disk whose sections claim 500 MiB each."""
    return ground.tenant("hollow.py", ground.room, 4)


def large_files(ground):
    """Files with tables of symbols that are large: what was read of one is not kept while others are."""
    return ground.tenant("hollow.py", ground.room, 4, 7)


@contextlib.contextmanager
def with_perf_map(ground, program, *args):
    with ground.tenant(program, *args) as tenant:
        try:
            yield tenant
        finally:
            for end in "", "~":
                Path("/tmp/perf-%d.map%s" % (tenant.pid, end)).unlink(missing_ok=True)


def big_perf_map(ground):
    return with_perf_map(ground, "big_map.py", 100)


def changing_map(ground):
    """A perf map that grows, shrinks, has holes and is another file while it is read."""
    return with_perf_map(ground, "changing_map.py")


def full_table_of_mappings(ground):
    """Who starts when others fill the table is named all the same."""
    return ground.tenant("mapper.py", 20, 4000, 10, 400, 20, 40, 20, 2)


def many_processes(ground):
    """As many as the table of processes has room for, and more."""
    return ground.tenant("many_processes.py", 17000, namespace="user")


def long_names(ground):
    """A name is cut, wherever it goes."""
    return ground.tenant("long_names.py")


def code_flood(ground):
    """No code runs twice: tables and names of one program are full of what is of no use."""
    return ground.tenant("code_flood.py")


def changing_files(ground):
    """ELF files that are other ones between two reads, and shorter."""
    return ground.tenant("shrinking.py", ground.room)


def deleted_root(ground):
    return ground.tenant("deleted_root.py", room(ground, "deleted"), namespace="user")


def many_threads(ground):
    return ground.tenant("threads.py", 3000)


def crowded(ground):
    """A process of as many threads as the kernel permits, at most 64 Ki."""
    return ground.tenant("crowded.py", 1 << 16)


def stopped_processes(ground):
    return ground.tenant("stopped.py", 20)


@contextlib.contextmanager
def frozen_group(ground):
    """A process that stands still, and that no signal ends, as long as its control group is frozen."""
    tops = [f[1] for f in map(str.split, open("/proc/mounts", encoding="utf-8")) if f[2] == "cgroup2"]
    group = Path(tops[0] if tops else "/nowhere", "pyperf-attack-%d" % os.getpid())
    with ground.start("spinner.py", "frozen", uid=TENANT) as tenant:
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(tenant.pid))
            (group / "cgroup.freeze").write_text("1")
        except OSError as e:
            with contextlib.suppress(OSError):
                group.rmdir()
            pytest.skip("no control group to freeze: %s" % e)
        try:
            harness.poll(lambda: "frozen 1" in (group / "cgroup.events").read_text(), "the group to freeze")
            yield tenant
        finally:
            (group / "cgroup.freeze").write_text("0")
            tenant.end()
            group.rmdir()


def userfault(ground):
    """Who reads the name of this code waits for a page that the program never gives."""
    return ground.tenant("userfault.py", namespace="mount")


ATTACKS = [kernel_log, leases, memory_of_fuse, overlay_of_fuse, late_overlay, overlay_of_10_s, overlay_of_100_s, held_lock,
           silent_names, silent_flush, silent_attributes, hollow_files, large_files, big_perf_map, changing_map, full_table_of_mappings,
           long_names, code_flood, changing_files, deleted_root, many_threads, crowded, stopped_processes, frozen_group,
           userfault]
SAID = {overlay_of_fuse: "do not answer when they are opened or read",
        late_overlay: "do not answer when they are opened or read",
        overlay_of_10_s: "do not answer when they are opened or read",
        overlay_of_100_s: "do not answer when they are opened or read",
        held_lock: "do not answer when they are opened or read",
        silent_names: "do not answer when they are opened or read",
        silent_flush: "do not answer when they are opened or read",
        silent_attributes: "do not answer when they are opened or read",
        userfault: "its memory does not answer when it is read"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_beside(ground, beside, attack):
    """Another user's program is profiled in full, and SIGTERM obeyed."""
    with attack(ground):
        result = beside(late=attack is full_table_of_mappings)
    assert SAID.get(attack, "") in result.stderr, result.stderr


@contextlib.contextmanager
def running(agent):
    try:
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.process.kill()
            agent.wait()


def come_soon(windows, own):
    """`own` watched the agent."""
    ends = {w.there - w.late: w.late for w in windows}
    late = sorted((own.between(end, end + late), late) for end, late in ends.items())
    assert late[-1][0] < LATE, ["%.2f of %.2f s" % pair for pair in late[-5:]]


@pytest.mark.parametrize("attack", ATTACKS)
def test_agent_beside(ground, tmp_path, attack):
    """The agent's windows hold another user's program, and SIGTERM ends it with the last one."""
    with attack(ground), running(Agent(tmp_path)) as agent, ground.neighbour() as neighbour:
        own = owntime.OwnTime(agent.pid)
        agent.wait_windows("spinner", 1)
        harness.spend(neighbour.pid, 0.5)
        memory = peak_memory(agent.pid)
        result = ends_at_sigterm(agent, 0)
        own.stop()
        windows = agent.windows()
        functions = set().union(*(w.functions() for w in windows if w.service == "spinner"))
    assert NAME in functions, functions
    assert memory < MEMORY, "%d MiB" % (memory >> 20)
    assert "nothing moved" not in result.stderr, result.stderr
    agent.balanced(result)
    come_soon(windows, own)


HANGING = [memory_of_fuse, overlay_of_fuse, held_lock, silent_names, silent_flush, silent_attributes, userfault]


@pytest.mark.parametrize("attack", HANGING)
def test_windows_beside_who_begins(ground, tmp_path, attack):
    """Nor does a window wait for who begins to hang beside a running agent, whenever the window ends."""
    with running(Agent(tmp_path)) as agent, ground.neighbour():
        own = owntime.OwnTime(agent.pid)
        agent.wait_windows("spinner", 1)
        with attack(ground):
            agent.wait_windows("spinner", len(agent.files()) + 2)
            result = ends_at_sigterm(agent, 0)
        own.stop()
        windows = agent.windows()
    # It may hold its lock after it was looked at, and then nobody asks.
    assert attack is held_lock or "not answer" in result.stderr, result.stderr
    agent.balanced(result)
    come_soon(windows, own)


def test_windows_beside_who_waits_for_their_ends(ground, tmp_path):
    """Nor for several tenants who begin to hang right before it ends, each time anew."""
    with contextlib.ExitStack() as tenants, running(Agent(tmp_path)) as agent, ground.neighbour():
        own = owntime.OwnTime(agent.pid)
        when = time.time() // 1 + 4.98
        for _ in range(4):
            tenants.enter_context(ground.tenant("userfault.py", when, namespace="mount"))
        harness.poll(lambda: time.time() > when + 2, "the second end")
        agent.wait_windows("spinner", sum("/spinner-" in f for f in agent.files()) + 1)
        result = ends_at_sigterm(agent, 0)
        own.stop()
        windows = agent.windows()
    assert "its memory does not answer" in result.stderr, result.stderr
    starts = sorted({w.start for w in windows})
    for window in windows:
        if window.start not in (starts[0], starts[-1]):
            window.late = window.there - (window.start // 10**9 + 1)  # it was to end with a second
            assert window.service != "spinner" or NAME in window.functions(), window.start
    agent.balanced(result)
    come_soon(windows, own)


@pytest.mark.parametrize("attack", ATTACKS)
def test_commands_stop_beside(ground, attack):
    """SIGTERM ends what looks at the tenant itself, too."""
    with attack(ground) as tenant, Terminal([harness.PYPERF, "top", "-p", tenant.pid], rows=50, cols=100) as screen:
        runs = [harness.Profiler(*args, tenant.pid, *more) for *args, more in (
            ("dump", ["--native"]), ("heap", "-p", []), ("trace", "-p", []), ("-d", 30, "-p", []))]
        # All of them are at work, or through.
        for run in runs:
            harness.poll(lambda run=run: run.process.poll() is not None
                         or b"pyperf-reader" in names_of_children(run.process.pid), "its reader")
        screen.shows("pyperf-bpf top")
        endings = [owntime.Ending(run.pid, run.process.terminate) for run in runs]
        ends(screen, owntime.Ending(screen.pid, lambda: os.kill(screen.pid, signal.SIGTERM)))
        for run, ending in zip(runs, endings):
            harness.poll(lambda run=run: run.process.poll() is not None, "the end", bound=SOON)
            assert ending.took() < ENDS, run.process.args
            run.wait()


def ends(screen, ending):
    harness.poll(lambda: not screen.read() and screen.ended() is not None, "the end", bound=SOON)
    assert ending.took() < ENDS


@pytest.mark.parametrize("attack", [held_lock, long_names])
def test_top_beside(ground, attack):
    """`top` shows another user's function soon after the keys that ask for it, and SIGTERM ends it."""
    with attack(ground), ground.neighbour(), Terminal(
            [harness.PYPERF, "top", "-i", "0.2", "-F", "299"], rows=50, cols=100) as screen:
        screen.shows("spinner.py")
        own, begin = owntime.OwnTime(screen.pid), time.time()
        screen.press("/", NAME, "enter", "enter")  # others run, too: its functions
        screen.shows(NAME + r".*\.py:\d+")
        own.stop()
        took = own.between(begin, time.time())
        assert took < ENDS, "the keys took %.2f s" % took
        ends(screen, owntime.Ending(screen.pid, lambda: os.kill(screen.pid, signal.SIGTERM)))


REUSES = """import ctypes, os, signal, struct, sys
pid = (ctypes.c_int * 1)(int(sys.argv[1]))
args = struct.pack("<10Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(pid), 1)
child = ctypes.CDLL(None, use_errno=True).syscall(435, args, len(args))  # clone3()
if not child:
    os.execvp(sys.argv[2], sys.argv[2:])
if child < 0:
    print(os.strerror(ctypes.get_errno()), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
"""


def test_number_that_is_used_again(ground):
    """A tenant's process ends, and another user's gets its number: nothing of the first is said of the second."""
    run = Beside()
    try:
        with ground.start("spinner.py", "tenant_works") as tenant:
            run.watch(tenant, 0.3)
        argv = [sys.executable, "-c", REUSES, str(tenant.pid), *as_user(NEIGHBOUR), "/usr/bin/python3", "-B",
                ground.path / "spinner.py", NAME, "--comm", COMM]
        try:
            neighbour = harness.Process(argv, cwd=ground.path)
        except AssertionError as e:
            pytest.skip("no process of a chosen number: %s" % e)
        with neighbour:
            assert tenant.pid in children(neighbour.pid)
            harness.spend(tenant.pid, 1.0)
            result = run.end()
    finally:
        if run.profiler.process.poll() is None:
            run.profiler.process.kill()
    run.check(result, late=True)
    assert any(f.name == "tenant_works" for s in result.stacks for f in s.frames)
    assert not any(f.name == "tenant_works" for s in result.stacks if s.comm == COMM for f in s.frames)


def test_refused_are_named(ground, beside):
    """Whose files are not read, and why: in the report, in JSON, in the log and by `check`."""
    with overlay_of_fuse(ground) as tenant:
        named = re.compile(r"user %d \(mount namespace %s\): (process \d+: )?its files do not answer" % (
            TENANT, os.readlink("/proc/%d/ns/mnt" % tenant.pid)[5:-1]))
        out, text = ground.path / "x.json", ground.path / "x.txt"
        result = beside(2, options=["-o", out, "-o", text])
        assert "are not read any more" in result.stderr, result.stderr
        # A helper that was given up holds none of its pipes.
        check = subprocess.run([harness.PYPERF, "check"], capture_output=True, text=True, timeout=60)
    profile = json.loads(out.read_text())
    assert any(named.match(r) for r in profile["refused"]), profile["refused"]
    assert profile["counters"]["note_refused"] == len(profile["refused"])
    assert re.search("of user %d: its files do not answer" % TENANT, result.stderr), result.stderr
    assert named.search(" ".join(text.read_text().split())), text.read_text()[-1500:]
    # It looks once: one that was not met is not named.
    if "of user %d: its files do not answer" % TENANT in check.stderr:
        assert named.search(" ".join(check.stdout.split())), check.stdout


def test_one_whose_files_are_not_read(ground):
    """Python from a FUSE may be anything: that is said, whose file it is, and what to do about it."""
    place = room(ground, "fuse")
    command = "%s/python -B %s %s; true" % (place, ground.path / "fuse_python.py", place)
    with ground.tenant("fuse_python.py", place, "sh", "-c", command, namespace="user") as tenant:
        pids = Path("/proc/%d/task/%d/children" % (tenant.pid, tenant.pid)).read_text().split()
        pid, = (p for p in pids if os.readlink("/proc/%s/exe" % p) == "%s/python" % place)
        for command in ["trace", "-p", pid, "-d", "0.1"], ["dump", pid], ["heap", pid], ["check", pid]:
            result = subprocess.run([harness.PYPERF, *command], capture_output=True, text=True, timeout=60, check=False)
            said = " ".join((result.stdout + result.stderr).split())
            assert result.returncode == 1, (command, said)
            assert "its file %s/python cannot be opened, or not without waiting for others (FUSE)" % place in said, (command, said)
            assert "mount the file system as root" in said, (command, said)
            assert "not Python" not in said and "no Python" not in said, (command, said)


def test_one_that_is_taken_for_such(ground):
    """Whose file is not read is no wrapper of what it has started: who gets that process instead reads why."""
    with own_python(ground) as tenant:
        result = subprocess.run([harness.PYPERF, "dump", str(tenant.pid)], capture_output=True, text=True, timeout=60,
                                check=False)
    assert result.returncode == 0 and "not Python" not in result.stderr, result.stderr
    assert re.search(r"process %d: its file \S+/fuse/python cannot be opened, .*; taking \d+, which it started" % tenant.pid,
                     result.stderr), result.stderr


@pytest.mark.parametrize("attack", [overlay_of_fuse, silent_names])
def test_one_whose_files_do_not_answer(ground, attack):
    """It is Python, of which little could be read: `check` says so, and calls it nothing else."""
    with attack(ground) as tenant:
        result = subprocess.run([harness.PYPERF, "check", str(tenant.pid)], capture_output=True, text=True, timeout=60,
                                check=False)
    said = " ".join(result.stdout.split())
    assert "do not answer when they are opened or read" in result.stderr, result.stderr
    assert "no Python" not in said, said
    # What was read before it did not answer may be enough.
    assert "ok CPython" in said or "FAIL its files do not answer when they are opened or read" in said, said


def other_build(path, program=INTERPRETER):
    """A copy of a program that passes for another build: its build id is changed."""
    note = b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0"
    with open(program, "rb") as f:
        code = f.read()
    at = code.index(note) + len(note)
    path.write_bytes(code[:at] + bytes(b ^ 0xff for b in code[at:at + 20]) + code[at + 20:])
    path.chmod(0o755)
    return path


def test_forged_interpreters(ground):
    """One user's do not keep that of another one, who begins later, from being known."""
    forged = shutil.copy(harness.REPO / "tests/fuzz/corpus/pyproc/fake310.so", ground.path)
    interpreter = other_build(ground.path / COMM)
    with ground.tenant("interpreters.py", room(ground, "forged"), forged, 340):
        run = Beside()
        try:
            with ground.neighbour(copy=interpreter) as neighbour:
                run.watch(neighbour, 1.0)
                result = run.end()
        finally:
            if run.profiler.process.poll() is None:
                run.profiler.process.kill()
    stacks = [s for s in result.stacks if s.comm == COMM]
    named = [s for s in stacks if s.leaf() and s.leaf().name == NAME]
    # What came before it was looked at has no name.
    assert harness.total(named) > harness.total(stacks) / 2, "\n".join(map(str, stacks))[:2000]
    assert "processes of user %d have too many different ones" % TENANT in result.stderr, result.stderr[-2000:]


def test_no_breakpoint_waits_for_a_tenant(ground):
    """The kernel would wait for the tenant, who maps the same file, and no process of the machine could start others."""
    interpreter = ground.room / "copies" / os.path.basename(INTERPRETER)
    with held_lock(ground), ground.neighbour(copy=interpreter) as neighbour:
        for args in (("trace", "-p", neighbour.pid, "-d", 0.5), ("-f", "-d", 0.5, "-p", neighbour.pid, "-e", "alloc"),
                     ("-f", "-d", 0.5, "-p", neighbour.pid, "-e", "uprobe:%s:PyObject_Malloc" % interpreter),
                     ("trace", "-p", neighbour.pid, "-d", 0.5, "-e", "uprobe:%s:PyObject_Malloc" % interpreter)):
            run = harness.Profiler(*args)
            harness.poll(lambda run=run: run.process.poll() is not None, "the end", bound=SOON)
            result = run.wait()
            assert result.status == 1 and "no breakpoints: the memory of process" in result.stderr, (args, result.stderr)


@pytest.mark.parametrize("attack, says", [
    (own_python, "the file of its interpreter cannot be opened, or not without waiting for others (FUSE)"),
    (held_lock, "its files or its memory do not answer")], ids=["own_python", "held_lock"])
def test_not_traced_is_said(ground, attack, says):
    """By a trace of many processes, too, which goes on."""
    with attack(ground) as tenant:
        run = harness.Profiler("trace", "-p", tenant.pid, "--children", "-d", 0.5)
        harness.poll(lambda: run.process.poll() is not None, "the end", bound=SOON)
        result = run.wait()
    assert "process %d, and others like it, are not traced: %s\n" % (tenant.pid, says) in result.stderr, result.stderr
    assert result.status == 0


# In a PID namespace of its own: only these processes are looked at.
HELD_ALL = """
import json, os, signal, subprocess, sys, tempfile
sys.path[:0] = sys.argv[1:3]
import harness
from conftest import Ground
os.mkdir(sys.argv[3])
ground = Ground(sys.argv[3])
for name in "held", "copies":
    (ground.room / name).mkdir()
    (ground.room / name).chmod(0o777)
err = tempfile.TemporaryFile("w+")
def said(text):
    err.seek(0)
    return text in err.read()
def has(line, pid):
    return any(p["pid"] == pid for p in json.loads(line)["processes"])
first = ground.neighbour()
with ground.start("held_lock.py", ground.room / "held", ground.room / "copies", namespace="user"):
    trace = subprocess.Popen([harness.PYPERF, "trace", "--force", "--json", "-i", "0.1"], stdout=subprocess.PIPE, stderr=err)
    harness.poll(lambda: said("breakpoints for now: the memory") or trace.poll() is not None, "the warning")
    for _ in range(3):
        assert not has(trace.stdout.readline(), first.pid)
# It has ended.
assert any(has(line, first.pid) for line in trace.stdout)
trace.send_signal(signal.SIGINT)
trace.communicate(timeout=harness.PATIENCE)
assert trace.returncode == 0
err.seek(0)
print(err.read())
"""


def test_breakpoints_wait_until_all_answer(ground):
    """`trace` of all processes puts them off as long as one holds its lock, says so once, and goes on."""
    done = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B", "-c", HELD_ALL,
                           os.path.dirname(__file__), os.path.dirname(harness.__file__), ground.path / "inside"],
                          capture_output=True, text=True, timeout=harness.PATIENCE, env=harness.clean_environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("breakpoints for now") == 1, done.stdout


def test_long_names(ground):
    """Names of a megabyte are cut, and reach no terminal and no page as they are."""
    outputs = [ground.path / ("x" + suffix) for suffix in (".folded", ".txt", ".html", ".json", ".svg")]
    with long_names(ground) as tenant:
        options = [word for out in outputs for word in ("-o", out)]
        result = harness.Profiler("-F", 299, "-d", 1, "-p", tenant.pid, *options).wait()
    assert result.status == 0, result.stderr
    stacks = harness.parse_folded(outputs[0].read_text())
    assert max(len(f.name) for s in stacks for f in s.frames) > 10000, "the names are not there"
    assert max(len(f.name) for s in stacks for f in s.frames) <= (64 << 10) + 64
    for out in outputs:
        text = out.read_text()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text), out.name
        assert "</script>\u202e" not in text and "owned</script>" not in text, out.name
        assert len(text) < 32 << 20, len(text)


def test_many_names(ground):
    """One user's names do not fill our memory, and another one's functions, which come later, keep theirs."""
    with ground.tenant("many_names.py", 6) as tenant:
        run = Beside()
        try:
            # 256 KiB each 4 ms: twice the bound.
            spent = sum(map(harness.cpu_seconds, children(tenant.pid)))
            harness.poll(lambda: sum(map(harness.cpu_seconds, children(tenant.pid))) > spent + 2, "names", bound=120)
            with ground.neighbour() as neighbour:
                run.watch(neighbour, 0.7)
                assert run.memory < MEMORY, "%d MiB" % (run.memory >> 20)
                result = run.end()
        finally:
            if run.profiler.process.poll() is None:
                run.profiler.process.kill()
    run.check(result, late=True)
    assert "of user %d have too many names, or too long ones" % TENANT in result.stderr, result.stderr[-2000:]
    assert any(f.name == "<no room for names>" for s in result.stacks for f in s.frames)


def words(elements):
    return struct.unpack("<%dI" % (len(elements) // 4), bytes(int(e, 16) for e in elements))


def tables_of(run, *names):
    """BPF maps of a profiler, by name: what is in them, as words of 32 bits."""
    found = {}
    for number in map(str, run.bpf_ids()["map"]):
        shown = json.loads(subprocess.check_output([BPFTOOL, "-j", "map", "show", "id", number]))
        if shown.get("name") in names:
            dump = json.loads(subprocess.check_output([BPFTOOL, "-j", "map", "dump", "id", number]))
            found[shown["name"]] = [(words(e["key"]), words(e["value"])) for e in dump]
    return found


@pytest.mark.skipif(not BPFTOOL, reason="no bpftool")
@pytest.mark.parametrize("event, table", [("wall", "waits"), ("gil", "gil_threads"), ("cpu-clock,wakers", "sleepers")])
def test_threads_leave_their_tables(ground, event, table):
    """However a thread ends, its entry goes, and its user may have another one."""
    times = 60
    run = harness.Profiler("-v", "-e", event, "-F", 99)
    try:
        run.wait_sampling()
        with ground.start("thread_exec.py", times):
            tables = tables_of(run, table, "wait_shares", "proc_shares", "procs")
    finally:
        run.process.kill()
    gone = [key[0] for key, _ in tables[table] if not os.path.exists("/proc/%d" % key[0])]
    assert len(tables[table]) > 1 and len(gone) < times / 2, tables[table]
    # Others come and go between the looks at two tables.
    for name, entries in (("wait_shares", table), ("proc_shares", "procs")):
        taken, _, *of = tables[name][0][1]
        assert abs(taken - len(tables[entries])) < times / 2, (name, taken, len(tables[entries]))
        assert sum(of) == taken, (name, sum(of), taken)


@pytest.mark.skipif(not BPFTOOL, reason="no bpftool")
def test_many_processes(ground):
    """Who begins when they are there has an entry all the same, and SIGTERM is obeyed."""
    with many_processes(ground):
        run = harness.Profiler("-v", "-F", 99)
        try:
            run.wait_sampling()
            with ground.neighbour() as neighbour:
                entries = {key[0] for key, _ in tables_of(run, "procs")["procs"]}
                assert neighbour.pid in entries and len(entries) > 10000, len(entries)
            ends_at_sigterm(run)
        finally:
            if run.process.poll() is None:
                run.process.kill()


def test_planted_fifo(ground):
    """What others have put where root writes does not get the profile."""
    shared = ground.path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    fifo = shared / "profile.folded"
    harness.subprocess.run([*map(str, as_user(TENANT)), "mkfifo", fifo], check=True)
    link = shared / "link.folded"
    harness.subprocess.run([*map(str, as_user(TENANT)), "ln", "-s", "/dev/full", link], check=True)
    for path in (fifo, link):
        result = harness.profile("-d", "0.1", "-o", path)
        assert result.status == 1 and "special file" in result.stderr, result.stderr
    assert stat.S_ISFIFO(fifo.lstat().st_mode) and link.is_symlink()


def run_traced(ground, *args):
    """Runs the profiler under strace: the result, and what it should not have opened."""
    out = ground.path / "ours"
    out.mkdir(exist_ok=True)
    program, log = owncalls.wrapper(out, harness.PYPERF)
    return harness.Profiler(*args, program=program).wait(), log, out


@pytest.mark.parametrize("args", [
    ("-v", "-d", 1, "-o", "OUT/all.lines.html", "-o", "OUT/all.pb.gz"),
    ("-v", "-d", 0.5, "-f", "--native", "--name", COMM),
    ("dump", "PID"), ("dump", "PID", "--native"), ("dump", "PID", "--tasks"),
    ("heap", "-p", "PID"), ("trace", "-p", "PID", "-d", 0.5), ("probes", "PID"), ("check", "-p", "PID"), ("memory", "-p", "PID", "-d", 0.5),
], ids=lambda a: " ".join(map(str, a)))
def test_own_calls(ground, reports, args):
    """Only the two processes that may hang open what others own, or read their memory."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    with ground.tenant("hollow.py", ground.room, 2), ground.neighbour() as neighbour:
        args = [str(a).replace("PID", str(neighbour.pid)).replace("OUT", str(ground.path / "ours")) for a in args]
        result, log, out = run_traced(ground, *args)
    assert result.status == 0, result.stderr
    bad, seen = owncalls.faults(log.read_text(), [out, *([reports.place] if reports else [])])
    assert not bad, "\n".join(bad[:40])
    assert "pyperf-opener" in seen, seen


GROWS = """import mmap, time
end, kept = time.time() + 30, []
while time.time() < end:
    kept.append(mmap.mmap(-1, 1 << 20))
    kept[-1].write(bytes(1 << 20))
    del kept[:-8]
"""


def test_own_calls_of_growth(ground, reports):
    """Whether memory has stayed is asked of a file of the process."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    with subprocess.Popen([sys.executable, "-c", GROWS]) as grows:
        result, log, out = run_traced(ground, "-f", "-d", "1", "-e", "growth", "-c", "4096", "-p", str(grows.pid))
        grows.kill()
    assert result.status == 0 and result.stacks, result.stderr
    bad, seen = owncalls.faults(log.read_text(), [out, *([reports.place] if reports else [])])
    assert not bad, "\n".join(bad[:40])


COMMANDS = [("dump", "PID"), ("dump", "PID", "--tasks"), ("heap", "-p", "PID"), ("trace", "-p", "PID", "-d", 1),
            ("probes", "PID"), ("memory", "-p", "PID", "-d", 1), ("-v", "-f", "-d", 1, "-p", "PID")]


@pytest.fixture
def silent(ground):
    """A process with memory in a FUSE whose server does not answer."""
    with memory_of_fuse(ground) as tenant:
        yield tenant


def children(pid):
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError), open("/proc/%d/task/%s/children" % (pid, task)) as f:
            found += map(int, f.read().split())
    return found


def names_of_children(pid):
    names = b""
    for child in children(pid):
        with contextlib.suppress(OSError), open("/proc/%s/comm" % child, "rb") as f:
            names += f.read()
    return names


@pytest.mark.parametrize("args", COMMANDS, ids=lambda a: " ".join(map(str, a)))
def test_commands_end(silent, args):
    """Each command ends by itself when the process that it is asked for does not answer, with what there is."""
    run = harness.Profiler(*(str(a).replace("PID", str(silent.pid)) for a in args))
    harness.poll(lambda: run.process.poll() is not None, "the end of " + args[0], bound=SOON)
    assert run.wait().status in (0, 1)


@pytest.mark.parametrize("attack", [held_lock, silent_names])
def test_commands_end_beside(ground, attack):
    """So they do, and say why, when the process's mappings are locked, or its files are neither opened nor found."""
    with attack(ground) as tenant:
        runs = [harness.Profiler(*(str(a).replace("PID", str(tenant.pid)) for a in args))
                for args in [*COMMANDS, ("dump", "PID", "--native"), ("check", "-p", "PID")]]
        for run in runs:
            harness.poll(lambda run=run: run.process.poll() is not None, "the end", bound=SOON)
        results = [run.wait() for run in runs]
    assert {r.status for r in results} <= {0, 1}, [(r.status, r.stderr) for r in results]
    dump = results[0].stderr
    assert "do not answer" in dump and "not Python" not in dump, dump


def ends_at_sigterm(run, status=None, within=ENDS):
    """Whatever it waits for, by itself; what it said."""
    ending = owntime.Ending(run.pid, run.process.terminate)
    harness.poll(lambda: run.process.poll() is not None, "the end", bound=SOON)
    took = ending.took()
    result = run.wait()
    assert took < within, "SIGTERM took %.2f s: %s" % (took, result.stderr[-1000:])
    assert status is None or result.status == status, (result.status, result.stderr)
    return result


def sampled(run, neighbour):
    run.wait_sampling()
    harness.spend(neighbour.pid, 0.3)
    return run


def test_stdout_that_nobody_reads(ground):
    """One signal is enough, although a write to it waits for ever."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    try:
        with ground.neighbour() as neighbour:
            run = harness.Profiler("-v", "--format", "html", "-F", 299, stdout=write)
            result = ends_at_sigterm(sampled(run, neighbour), 128 + signal.SIGTERM, within=ENDS + 1)
    finally:
        os.close(read)
        os.close(write)
    assert "nothing moved for 2 s: it waits for: write() of pipe:" in result.stderr, result.stderr


def test_a_second_signal_ends_at_once(ground):
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    try:
        with ground.neighbour() as neighbour:
            run = sampled(harness.Profiler("-v", "--format", "html", "-F", 299, stdout=write), neighbour)
            run.process.send_signal(signal.SIGINT)
            harness.poll(lambda: select.select([read], [], [], 0)[0], "the report")
            # After Ctrl-C it waits as long as its reader likes.
            result = ends_at_sigterm(run, 128 + signal.SIGTERM)
    finally:
        os.close(read)
        os.close(write)
    assert "nothing moved" not in result.stderr, result.stderr


def test_output_that_hangs(ground):
    """Nor does a file system keep it that makes files, and answers no write."""
    place = ground.room / "out"
    place.mkdir()
    with ground.neighbour() as neighbour:
        run = harness.Profiler("-v", "-F", 299, "-o", place / "x.folded", prefix=[
            "unshare", "--mount", "/usr/bin/python3", "-B", ground.path / "hanging_output.py", place], cwd=ground.path)
        result = ends_at_sigterm(sampled(run, neighbour), 128 + signal.SIGTERM, within=ENDS + 1)
    assert "nothing moved for 2 s: it waits for: write() of " in result.stderr, result.stderr


def test_stopped_helpers(ground):
    """They stand still as one does that waits for a tenant; what there is is reported."""
    with ground.neighbour() as neighbour:
        run = sampled(harness.Profiler("-v", "-f", "-F", 299), neighbour)
        for pid in children(run.process.pid):
            os.kill(pid, signal.SIGSTOP)
        result = ends_at_sigterm(run, 0)
    assert any(s.leaf() and s.leaf().name == NAME for s in result.stacks)


@pytest.mark.parametrize("helper", ["pyperf-opener", "pyperf-reader"])
def test_helper_with_a_fault(ground, reports, helper):
    """Only the helper ends. A build with sanitizers says where, which no other test would overlook."""
    with ground.neighbour() as neighbour:
        run = sampled(harness.Profiler("-v", "-f", "-F", 299), neighbour)
        try:
            # One that hangs in a process of somebody else, and was given up, may be beside it.
            pids = [pid for pid in children(run.pid) if not owntime.has_ended(pid)
                    and Path("/proc/%d/comm" % pid).read_text().strip() == helper]
            for pid in pids:
                os.kill(pid, signal.SIGSEGV)
            if SANITIZED:
                said = ["==%d==ERROR: AddressSanitizer: SEGV" % pid for pid in pids]
                text = []
                harness.poll(lambda: text.append(reports.take()) or any(s in "".join(text) for s in said), "the report")
            harness.poll(lambda: any(map(owntime.has_ended, pids)), "the end of " + helper)
            result = ends_at_sigterm(run, 0)
        finally:
            if run.process.poll() is None:
                run.process.kill()
    assert any(s.leaf() and s.leaf().name == NAME for s in result.stacks)
    if SANITIZED:
        reports.take()  # the rest of it


def test_helper_of_another_build(ground):
    """The dynamic linker executes what has the program's name by now. It is not asked what that build does not know."""
    linker = glob.glob("/lib64/ld-linux-*") + glob.glob("/lib/ld-linux-*")
    program = ground.path / "pyperf-bpf"
    shutil.copy(harness.PYPERF, program)
    with ground.neighbour() as neighbour:
        run = sampled(harness.Profiler("-v", "-f", "-F", 299, program=program, prefix=linker[:1]), neighbour)
        other_build(ground.path / "other", harness.PYPERF).rename(program)
        for pid in children(run.pid):
            if b"pyperf-opener" in Path("/proc/%d/comm" % pid).read_bytes():
                os.kill(pid, signal.SIGKILL)
        with ground.neighbour():
            run.wait_said("the program was replaced by another build: start this one again")
        result = ends_at_sigterm(run, 0)
    assert any(s.leaf() and s.leaf().name == NAME for s in result.stacks)


@pytest.mark.parametrize("args", COMMANDS, ids=lambda a: " ".join(map(str, a)))
def test_commands_stop(silent, args):
    """SIGTERM ends each command, wherever it is."""
    run = harness.Profiler(*(str(a).replace("PID", str(silent.pid)) for a in args))
    harness.poll(lambda: run.process.poll() is not None or b"pyperf-reader" in names_of_children(run.process.pid),
                 "its reader")
    ends_at_sigterm(run)
