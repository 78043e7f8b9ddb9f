# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""dump: what every thread of a process does now, against what the process says of itself."""
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

import harness
import interpreters
from harness import Target, poll
from test_formats import validate
from test_trust import Elf, find, forged_target, library_of

pytestmark = pytest.mark.beside

SEVERAL = 7
SCHEMA = json.loads((harness.REPO / "docs" / "dump.schema.json").read_text())
ALL = ("sleeping", "reading", "locking", "in_ctypes", "hashing", "spinning", "foreign")
AT_REST = {"sleeping": {"clock_nanosleep", "pselect6", "select"}, "reading": {"read"},
           "locking": {"futex"}, "in_ctypes": {"pause"}, "main": {"read"}}
ONE_THREAD = "import sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()"
WAITS_FOR = {"sleeping": "sleep", "reading": "pipe", "locking": "lock", "in_ctypes": "signal", "main": "pipe"}


def dump(*args):
    return subprocess.run([harness.PYPERF, "dump", *map(str, args)], capture_output=True,
                          timeout=harness.PATIENCE, env=harness.clean_environment())


def check(value, schema):
    """The few words of JSON schema that ours uses."""
    if "$ref" in schema:
        return check(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    if "enum" in schema:
        assert value in schema["enum"], value
        return None
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
            type(None): "null"}[type(value)]
    assert kind in types, (value, types)
    if kind == "object":
        assert set(value) == set(schema["required"]) == set(schema["properties"]), value
        for key, inner in schema["properties"].items():
            check(value[key], inner)
    if kind == "array":
        for item in value:
            check(item, schema["items"])
    return None


def dump_json(pid, *args):
    result = dump(pid, "--json", *args)
    assert result.returncode == 0, result
    found = json.loads(result.stdout)
    check(found, SCHEMA)
    assert found["pid"] == pid
    tids = [t["tid"] for t in found["threads"]]
    assert tids == sorted(set(tids))
    return {t["tid"]: t for t in found["threads"]}


def dump_until(pid, condition, what, *args):
    """The first dump for which it is true: threads may be on their way to where they stay."""
    last = []

    def look():
        last[:] = [dump_json(pid, *args)]
        return condition(last[0])
    poll(look, what)
    return last[0]


def in_syscall(threads, name):
    return [t for t in threads.values() if t["state"] == "sleeping" and t["syscall"] == name]


def settled(threads):
    """All that wait do so: three in read and pause, one in its sleep, one for a lock."""
    return (len(in_syscall(threads, "pause")) == 2 and len(in_syscall(threads, "read")) == 2
            and any(t["gil"] == "none" for t in in_syscall(threads, "futex"))
            and asleep(threads)
            and any(t["gil"] == "none" and t["state"] in ("running", "runnable")
                    for t in threads.values()))


def asleep(threads):
    return any(in_syscall(threads, name) for name in AT_REST["sleeping"])


def is_held(threads):
    """Not yet, when the main thread is one of those that wait: the byte that it has read made it want the GIL."""
    return (sum(t["gil"] == "waits" for t in threads.values()) == 2
            and any(t["gil"] == "holds" and t["frames"][0]["function"] == "keep_the_gil"
                    for t in threads.values() if t["frames"]))


def truth_of(target):
    """{tid: what it says of this thread} of a states.py, which ends."""
    return {int(tid): true for tid, true in json.loads(target.end()).items()}


def running(threads, gil="none"):
    return any(t["state"] == "running" and t["gil"] == gil for t in threads.values())


def compare(thread, true, label):
    """The stack is the truth but for the line of the innermost frame of a loop."""
    assert thread["consistent"], thread
    found = [(harness.short(f["function"]), f["file"], f["line"]) for f in thread["frames"]]
    assert all(f["kind"] == "python" for f in thread["frames"]), thread
    wanted = [tuple(f) for f in true["frames"]]
    if label in ("main", "spinning", "hashing"):
        assert found[0][:2] == wanted[0][:2]
        found, wanted = found[1:], wanted[1:]
    assert found == wanted, label


class Watch(threading.Thread):
    """Whether a process was ever stopped or traced meanwhile, from its status in a loop."""

    def __init__(self, pid):
        super().__init__()
        self.path = Path("/proc/%d/status" % pid)
        self.end, self.looks, self.bad = threading.Event(), 0, []

    def run(self):
        while not self.end.wait(0.0005):
            status = self.path.read_bytes()
            self.looks += 1
            if re.search(rb"^State:\s+[Tt]", status, re.M) or b"TracerPid:\t0\n" not in status:
                self.bad.append(status)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.end.set()
        self.join()


def check_states_and_stacks(python):
    with Target(python, "states.py", *ALL) as target:
        with Watch(target.pid) as watch:
            threads = dump_until(target.pid, settled, "all threads to be where they stay")
        assert watch.looks and not watch.bad
        target.process.stdin.write(b"x")
        held = dump_until(target.pid, is_held, "the main thread to hold the GIL, and two to wait for it")
        truth = truth_of(target)
    assert {true["label"] for true in truth.values()} == {*ALL, "main"} - {"foreign"}
    for tid, true in truth.items():
        label = true["label"]
        if label == "main":
            assert [f["function"] for f in threads[tid]["frames"]] == ["main", "<module>"]
            assert [f["function"] for f in held[tid]["frames"]] == [
                "keep_the_gil", "main", "<module>"]
        else:
            compare(threads[tid], true, label)
            compare(held[tid], true, label)
        if label != "main":  # from 3.14 on that is known by its command name only
            assert threads[tid]["name"] == label
        if label in AT_REST:
            assert threads[tid]["state"] == held[tid]["state"] == "sleeping"
            assert threads[tid]["syscall"] in AT_REST[label], threads[tid]
            assert threads[tid]["waits_for"] == WAITS_FOR[label], threads[tid]
            assert threads[tid]["gil"] == "none"
        wanted = {"main": "holds", "spinning": "waits", "hashing": "waits"}.get(label, "none")
        assert held[tid]["gil"] == wanted, (label, held[tid])
    foreign, = set(threads) - set(truth)
    assert threads[foreign]["frames"] == [] and threads[foreign]["gil"] is None
    assert threads[foreign]["syscall"] == "pause" and threads[foreign]["consistent"]


def test_states_and_stacks(python):
    """Every stack, every state; then with the GIL held in C, for which all that run Python wait."""
    check_states_and_stacks(python)


def named_or_skip(name):
    return interpreters.named(name) or pytest.skip("there is no %s" % name)


@pytest.mark.parametrize("name", ["bullseye/2.7", "pyenv/3.6"])
def test_states_and_stacks_of_old_versions(name):
    """Whose GIL is where their code says; the first has no symbols."""
    python = named_or_skip(name)
    check_states_and_stacks(python)


@pytest.mark.parametrize("name", ["pyenv/2.7", "pyenv/3.6"])
def test_no_gil_yet(name):
    """Old versions make it with the second thread."""
    python = named_or_skip(name)
    with harness.Process([python, "-c", ONE_THREAD]) as process:
        thread, = dump_until(process.pid, lambda threads: in_syscall(threads, "read"), "it to read").values()
    assert thread["frames"] and thread["gil"] is None, thread


@pytest.mark.parametrize("label, gil", [("spinning", "holds"), ("hashing", "none")])
def test_running(any_python, real_time, label, gil):
    """A thread that nobody takes off its CPU has no registers to read: it is sampled."""
    with Target(any_python, "states.py", label, prefix=real_time) as target:
        threads = dump_until(target.pid, lambda ts: running(ts, gil), "a sample of it")
        truth = truth_of(target)
    tid, = (tid for tid, true in truth.items() if true["label"] == label)
    assert threads[tid]["state"] == "running" and threads[tid]["syscall"] is None
    compare(threads[tid], truth[tid], label)


def test_changing(any_python):
    """A stack that is called consistent is of one moment, however fast the thread changes it."""
    with Target(any_python, "states.py", *["changing"] * 4) as target:
        stacks = [t for _ in range(6) for t in dump_json(target.pid).values()]
    stacks = [[f["function"] for f in t["frames"]] for t in stacks if t["consistent"]]
    seen = [s[:s.index("changing")] for s in stacks if "changing" in s]
    assert len(seen) >= 12
    assert all(len(set(s)) <= 1 and len(s) <= 31 for s in seen), seen


def test_hidden(any_python, tmp_path):
    """A sample that could not read a page, which the kernel may be moving, is not taken for the stack: the next one can."""
    library = harness.compile_c(tmp_path / "hide.so", "hide.c", "-shared", "-fPIC")
    with Target(any_python, "states.py", "hiding:%s" % library) as target:
        # Whether it had the GIL is not known of one that was interrupted since.
        sampled = [dump_until(target.pid, lambda ts: any(t["state"] == "running" for t in ts.values()), "a sample of it")
                   for _ in range(6)]
        truth = truth_of(target)
    tid, = (tid for tid, true in truth.items() if true["label"] == "hiding")
    for threads in sampled:
        compare(threads[tid], truth[tid], "hiding")


def test_native(any_python):
    """All frames of a thread, innermost first: kernel, then C and Python in their order."""
    with Target(any_python, "states.py", "sleeping", "foreign") as target:
        threads = dump_until(target.pid, lambda ts: len(in_syscall(ts, "pause")) == 1
                             and len(in_syscall(ts, "read")) == 1 and asleep(ts), "the threads", "--native")
    thread = next(t for t in threads.values()
                  if any(f["function"] == "sleeping" for f in t["frames"]))
    kinds = [f["kind"] for f in thread["frames"]]
    assert "marker" not in kinds
    first = kinds.index("native")
    assert set(kinds[:first]) <= {"kernel"} and "kernel" not in kinds[first:]
    names = [f["function"] for f in thread["frames"]]
    assert "nanosleep" in names[first] or "select" in names[first]
    assert names.index("sleeping") < names.index("Thread.run" if "Thread.run" in names else "run")
    assert kinds[-1] == "native" and thread["frames"][-1]["module"].endswith("libc.so.6")
    foreign = next(t for t in threads.values() if t["syscall"] == "pause")
    assert {f["kind"] for f in foreign["frames"]} == {"kernel", "native"}


def test_schema(any_python, tmp_path):
    """A validator finds the same as check()."""
    with Target(any_python, "states.py", "sleeping", "foreign", "spinning") as target:
        result = dump(target.pid, "--json", "--native")
    (tmp_path / "dump.json").write_bytes(result.stdout)
    validate(harness.REPO / "docs" / "dump.schema.json", tmp_path / "dump.json")


def test_text(any_python):
    with Target(any_python, "states.py", "sleeping", "spinning") as target:
        dump_until(target.pid, asleep, "the sleep")
        result = dump(target.pid)
    text = result.stdout.decode()
    assert result.returncode == 0 and not result.stderr, result
    lines = text.split("\n")
    assert lines[0].startswith("Process %d (" % target.pid) and ", Python 3." in lines[0]
    assert lines[1] == "3 threads, most recent call first"
    assert len(re.findall(r'^Thread \d+ ".*": .+$', text, re.M)) == 3
    assert re.search(r"^    sleeping \(/.*/states\.py:\d+\)\n    nested \(", text, re.M)


def test_hostile_names(any_python):
    with Target(any_python, "states.py", "hostile", "foreign") as target:
        threads = dump_until(target.pid, lambda ts: all(
            len(in_syscall(ts, name)) == 1 for name in ("futex", "pause", "read")), "the lock, and the pause")
        text = dump(target.pid, "--native").stdout.decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert len(re.findall(r"^Thread ", text, re.M)) == 3
    thread, = in_syscall(threads, "futex")
    assert thread["frames"][0]["function"] == "x\x1b[2J\nThread 1 \"y\": running"
    assert thread["frames"][0]["file"] == "/tmp/\x1b]0;z\x07\n</script>.py"
    assert thread["name"] == "\x1b[31m\n\"<b>"
    foreign, = in_syscall(threads, "pause")
    assert foreign["name"] == "\x1b[31m\ufffd"


def test_not_python():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            refused = dump(sleeper.pid)
            threads = dump_until(sleeper.pid, lambda ts: in_syscall(ts, "clock_nanosleep"),
                                 "sleep to sleep", "--native")
        finally:
            sleeper.kill()
    assert refused.returncode == 1 and not refused.stdout
    assert b"is not Python" in refused.stderr and refused.stderr.count(b"\n") == 1
    thread, = threads.values()
    assert {"kernel", "native"} == {f["kind"] for f in thread["frames"]}


def test_refused(tmp_path):
    """An interpreter that does not hold what its version promises is not walked, and the reason is said."""
    elf = Elf(library_of(find("3.13")))
    elf.put_u64(elf.offset_of("_PyRuntime") + 296, 104)
    with forged_target(find("3.13"), tmp_path, elf) as target:
        refused, native = dump(target.pid), dump(target.pid, "--native")
    why = b"frame 0: code object has a name that is not a str"
    assert refused.returncode == 1 and why in refused.stderr and not refused.stdout
    assert native.returncode == 0 and b"No Python frames: " + why in native.stdout


def test_wrong_pids():
    with subprocess.Popen(["true"]) as gone:
        pass
    for args, status, word in (((gone.pid,), 1, b"no such process"), ((2, "--native"), 1, b""),
                               ((), 2, b"missing"), (("x",), 2, b"'x'"), ((0,), 2, b"'0'"),
                               ((os.getpid(), 1), 2, b"several processes: -p")):
        result = dump(*args)
        assert (result.returncode, result.stdout) == (status, b""), result
        assert word in result.stderr and result.stderr.count(b"\n") == 1, result


def test_several_processes(any_python):
    """Equal stacks are counted once over processes: of seven ranks, one is not where the others are."""
    with Target(any_python, "ranks.py", SEVERAL) as target:
        def found(*which):
            done = dump(*which)
            assert done.returncode == 0, done
            return done.stdout.decode()

        def settled_ranks():
            text[:] = [found("-p", target.pid, "--children")]
            return "%d of %d in all_reduce (" % (SEVERAL - 1, SEVERAL + 1) in text[0]
        text = []
        poll(settled_ranks, "the ranks to wait")
        assert "1 of %d in load_batch (" % (SEVERAL + 1) in text[0]
        head, *groups = text[0].split("\n\n")
        assert head.startswith("%d processes, %d threads" % (SEVERAL + 1, SEVERAL + 1))
        assert groups[0].startswith("%d of %d threads: sleeping in read (waits: pipe)\n    processes " % (SEVERAL - 1, SEVERAL + 1))
        assert groups[0].count("all_reduce (") == 1 and "load_batch" not in groups[0]
        both = json.loads(found("--json", "-p", target.pid, "--children"))
        for process in both:
            check(process, SCHEMA)
        assert len(both) == SEVERAL + 1 and target.pid in {p["pid"] for p in both}
        two = ",".join(str(p["pid"]) for p in both[:2])
        assert {p["pid"] for p in json.loads(found("--json", "-p", two))} == {p["pid"] for p in both[:2]}
        named = json.loads(found("--json", "--name", "^ranks[.]py$"))
        assert {p["pid"] for p in named} >= {p["pid"] for p in both}
        ranks = set(json.loads(target.end()))
    assert ranks == {p["pid"] for p in both} - {target.pid}
    refused = dump("--name", "^no-such-name$")
    assert refused.returncode == 1 and refused.stderr.count(b"\n") == 1
    assert dump("-p", 1, 2).returncode == 2


def test_crowd(tmp_path):
    """More threads than a sample looks at to find its own: the oldest, which come last in Python's list, have their
    stacks, too, and a terminal sees how far it is."""
    log = open(tmp_path / "seen", "w+b")
    master, slave = os.openpty()
    with harness.Process([harness.sys.executable, harness.PROGRAMS / "crowd.py", 4300], stderr=log) as crowd:
        run = subprocess.Popen([harness.PYPERF, "dump", str(crowd.pid)], stdout=log, stderr=slave,
                               env=harness.clean_environment())
        os.close(slave)
        said = b"".join(iter(lambda: read_terminal(master), b""))
        assert run.wait(timeout=harness.PATIENCE) == 0
    os.close(master)
    log.seek(0)
    text = log.read()
    log.close()
    assert b"too-many-python-threads" not in text
    main, first = re.split(rb"\n(?=Thread )", text)[1:3]
    assert b"crowd.py" in main and b"held" in first, text[:1000]
    assert re.search(rb"dump: \d+ of 4301 threads", said), said[-1000:]


def read_terminal(fd):
    """b"": nobody has it open any more, which a terminal says by EIO."""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""
