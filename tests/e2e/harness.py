# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs the profiler and the ground-truth programs, and reads what the profiler printed.

Nothing here sleeps to let something happen: targets say when they are ready, and what has no other
sign is polled with a bound.
"""
import collections
import contextlib
import dataclasses
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PYPERF = os.path.abspath(os.environ.get("PYPERF_BPF", REPO / ".output" / "pyperf-bpf"))
PROGRAMS = Path(__file__).resolve().parent / "programs"
HZ = 999
# Nothing takes this long; whoever does is stuck.
PATIENCE = 60

PYTHON, NATIVE, KERNEL, MARKER = "python", "native", "kernel", "marker"
GREENLET = "greenlet"
COMPILED = "native-stack-of-compiled-python"


# ---- failures ------------------------------------------------------------------------------------

class CertainFailure(AssertionError):
    """A failure that no chance explains: scripts/run-tests does not run such a case again."""


@contextlib.contextmanager
def certain():
    """Makes assertions certain: around a block, or as a decorator, @certain()."""
    try:
        yield
    except CertainFailure:
        raise
    except AssertionError as error:
        raise CertainFailure(*error.args) from error


# ---- folded stacks -------------------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Frame:
    """One element of a folded line. `line` is 0 when none is shown."""
    kind: str
    name: str
    file: str
    line: int
    text: str

    def __str__(self):
        return self.text

    def unnamed(self):
        """An address, or the place where its function begins."""
        return re.fullmatch(r"(\S+\+)?0x[0-9a-f]+", self.name) is not None


@dataclasses.dataclass(frozen=True)
class Stack:
    """One folded line. `thread` and `tid` are None unless stacks were kept apart by thread."""
    comm: str
    thread: str
    tid: int
    frames: list
    count: int
    interpreter: int = 0

    def python(self):
        return [f for f in self.frames if f.kind == PYTHON]

    def native(self):
        return [f for f in self.frames if f.kind == NATIVE]

    def kernel(self):
        return [f for f in self.frames if f.kind == KERNEL]

    def markers(self):
        """Of what is missing: the root of a greenlet's stack is a marker, too, and where frames lie apart."""
        return [f for f in self.frames if f.kind == MARKER and f.name not in (GREENLET, COMPILED)]

    def in_greenlet(self):
        return any(f.kind == MARKER and f.name == GREENLET for f in self.frames)

    def leaf(self):
        """The innermost Python frame, or None."""
        return next((f for f in reversed(self.frames) if f.kind == PYTHON), None)

    def place(self):
        """The command, and the innermost Python frame, or, without one, the innermost of all; with what says why others miss."""
        inner = self.leaf() or (self.frames[-1] if self.frames else "no frame")
        of = self.comm if self.tid is None else "%s, thread %d" % (self.comm, self.tid)
        return " ".join(["%s: %s" % (of, inner), *[m.text for m in self.markers() if m != inner]])

    def __str__(self):
        return "%s: %d\n    %s" % (self.comm, self.count, "\n    ".join(map(str, self.frames)))


KERNEL_RE = re.compile(r"(.*)_\[k\]", re.S)
MARKER_RE = re.compile(r"\[([^\[\]]*)\]", re.S)
NATIVE_RE = re.compile(r"(.+) \[(.*)\]", re.S)
PYTHON_RE = re.compile(r"(.*) \((.*?)(?::(\d+))?\)", re.S)
THREAD_RE = re.compile(r"thread (.*) \((\d+)(?:, interpreter (\d+))?\)", re.S)


def parse_frame(text):
    if match := KERNEL_RE.fullmatch(text):
        return Frame(KERNEL, match[1], "", 0, text)
    if match := MARKER_RE.fullmatch(text):
        return Frame(MARKER, match[1], "", 0, text)
    if match := NATIVE_RE.fullmatch(text):
        return Frame(NATIVE, match[1], match[2], 0, text)
    if match := PYTHON_RE.fullmatch(text):
        return Frame(PYTHON, match[1], match[2], int(match[3] or 0), text)
    raise AssertionError("not a frame: %r" % text)


def parse_folded(text, threads=False):
    stacks = []
    for line in text.split("\n")[:-1]:
        names, blank, count = line.rpartition(" ")
        assert blank and count.isdigit(), "not a folded line: %r" % line
        comm, *frames = names.split(";")
        thread = tid = None
        interpreter = 0
        if threads:
            match = THREAD_RE.fullmatch(frames.pop(0))
            assert match, "no thread in %r" % line
            thread, tid, interpreter = match[1], int(match[2]), int(match[3] or 0)
        frames = [parse_frame(f) for f in frames]
        stacks.append(Stack(comm, thread, tid, frames, int(count), interpreter))
    return stacks


def total(stacks):
    return sum(s.count for s in stacks)


# ---- one run of the profiler ---------------------------------------------------------------------

COUNTER_RE = re.compile(r"^(?:pyperf-bpf: )?counter (\w+) (\d+)$", re.M)


class Result:
    """What a finished run left: exit status, both outputs, counters (of -v) and stacks (of -f)."""

    def __init__(self, argv, status, stdout, stderr):
        self.argv, self.status, self.stdout, self.stderr = argv, status, stdout, stderr
        # Those that are 0 need not be printed.
        self.counters = collections.Counter(
            {name: int(value) for name, value in COUNTER_RE.findall(stderr)})
        self.messages = [line for line in COUNTER_RE.sub("", stderr).split("\n") if line]
        ours = argv[:argv.index("--")] if "--" in argv else argv
        self.stacks = None
        if status == 0 and ("-f" in ours or "--folded" in ours):
            self.stacks = parse_folded(stdout, "--threads" in ours)

    def ok(self):
        """The run succeeded and every delivered sample is accounted for. Returns self."""
        assert self.status == 0, "%s\nexit status %d\n%s" % (self.argv, self.status, self.stderr)
        self.balanced()
        return self

    def sum_of(self, prefix):
        return sum(v for name, v in self.counters.items() if name.startswith(prefix))

    @certain()
    def balanced(self):
        c = self.counters
        accounted = c["counted"] + self.sum_of("filtered_") + self.sum_of("lost_")
        assert c["delivered"] == accounted, c
        assert c["complete"] <= c["user_stacks"] <= c["counted"], c
        # A sample counts for one, unless it stands for several events, or for the rate it should have been.
        plain = "-e" not in self.argv and not c["note_rate_lowered"]
        if self.stacks is not None and plain:
            assert total(self.stacks) == c["counted"], (total(self.stacks), c)

    def complete(self, least=0.995):
        """By the profiler's own count, and by what can be seen in the stacks."""
        c = self.counters
        assert c["counted"] and c["complete"] >= least * c["user_stacks"], c
        broken = [s for s in self.stacks if s.markers()]
        allowed = (1 - least) * total(self.stacks) + 1
        assert total(broken) <= allowed, "\n".join(map(str, broken[:5]))

    def only(self, *keys):
        """Every sample in a Python function has one of these names; each of them is there."""
        names = {s.leaf().name for s in self.stacks if s.leaf()}
        for key in keys:
            assert key in names, "%s is missing among %s\n%s" % (key, sorted(names), self.account())
        return names

    def account(self):
        """For the message of a failure: what it wrote, and how many samples are at which place. At most 40 lines."""
        counters = ", ".join("%s %d" % counter for counter in self.counters.items()) or "none"
        lines = ["exit status %s of %s" % (self.status, " ".join(self.argv)), *textwrap.wrap("counters: " + counters, 110)[:8],
                 "its last messages:", *["  " + message for message in self.messages[-12:]]]
        if self.stacks is not None:
            places = collections.Counter()
            for stack in self.stacks:
                places[stack.place()] += stack.count
            most = places.most_common(14)
            lines.append("%d samples, by command and innermost place:" % total(self.stacks))
            lines += ["  %7d  %s" % (count, place) for place, count in most]
            if len(places) > len(most):
                lines.append("  %7d  at %d other places" % (total(self.stacks) - sum(n for _, n in most), len(places) - len(most)))
        return "\n".join(line[:200] for line in lines)


def profiler_argv(*args):
    return [PYPERF, *map(str, args)]


def clean_environment(**more):
    # Nothing is asked of a network, unless a test does.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DEBUGINFOD"))}
    return {**env, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", **more}


def profile(*args, **popen):
    """Runs the profiler to its end. -v is always given: it makes it print its counters."""
    return Profiler("-v", *args, **popen).wait()


class Profiler:
    """A running profiler in a process group of its own."""

    recent = collections.deque(maxlen=3)  # for who tells of a failure

    def __init__(self, *args, prefix=(), program=PYPERF, glue=True, **popen):
        # Every frame is checked, unless `glue` is false: none is left out for being the interpreter's.
        every = ["--glue"] if glue and str(args[0]).startswith("-") else []
        self.argv = [*prefix, str(program), *every, *map(str, args)]
        # Files, not pipes: nobody needs to read while it runs.
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        popen.setdefault("env", clean_environment())
        popen.setdefault("stdout", self.out)
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stderr=self.err,
                                        start_new_session=True, **popen)
        self.pid = self.process.pid
        self.begun = time.monotonic()
        Profiler.recent.append(self)

    def account(self):
        """Result.account() of what it has written so far."""
        result = Result(self.argv, None, self.read(self.out), self.read(self.err))
        result.status = self.process.poll()
        with contextlib.suppress(AssertionError):
            result.stacks = parse_folded(result.stdout, "--threads" in self.argv) if "-f" in self.argv else None
        return result.account()

    def wait(self, patience=PATIENCE + 60):
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError("%s\nis stuck; so far:\n%s" % (self.argv, self.read(self.err)))
        return Result(self.argv, status, self.read(self.out), self.read(self.err))

    @staticmethod
    def read(file):
        # Its position is where a program that runs writes next.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("utf-8")

    def wait_said(self, words, patience=PATIENCE):
        """Until it has said this."""
        poll(lambda: words in self.read(self.err) or self.process.poll() is not None, repr(words), patience)
        assert words in self.read(self.err), self.read(self.err)

    def windows(self):
        """With -v, those that have ended and counted something."""
        return re.findall(r"window: [1-9]\d* counts", self.read(self.err))

    def interrupt_group(self):
        """What Ctrl-C does: the signal goes to the profiler and to its command."""
        os.killpg(self.pid, signal.SIGINT)

    def descriptors(self, target):
        """Its open descriptors that point at `target`."""
        found = []
        with contextlib.suppress(OSError):
            for fd in os.listdir("/proc/%d/fd" % self.pid):
                with contextlib.suppress(OSError):
                    if os.readlink("/proc/%d/fd/%s" % (self.pid, fd)) == target:
                        found.append(fd)
        return found

    def wait_sampling(self):
        """Until two perf events are open on each CPU: of new mappings, and, last, the sampler."""
        events = 2 * os.cpu_count()
        poll(lambda: len(self.descriptors("anon_inode:[perf_event]")) >= events
             or self.process.poll() is not None, "the sampler to be attached")
        assert self.process.poll() is None, "ended early:\n" + self.read(self.err)

    def bpf_ids(self):
        """{"prog": ids, "map": ids, "link": ids} of what it holds, by its descriptors."""
        ids = {"prog": set(), "map": set(), "link": set()}
        for fd in os.listdir("/proc/%d/fdinfo" % self.pid):
            with contextlib.suppress(OSError):
                info = Path("/proc/%d/fdinfo/%s" % (self.pid, fd)).read_text()
                for kind, number in re.findall(r"^(prog|map|link)_id:\t(\d+)$", info, re.M):
                    ids[kind].add(int(number))
        return ids


def changed_code(pid):
    """{path: {offset: byte}} of what the process has in its code pages instead of what the files have there, as by breakpoints."""
    found = {}
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if "x" not in fields[1] or fields[4] == "0":  # an inode: of a file
                continue
            start, end = (int(x, 16) for x in fields[0].split("-"))
            begin = int(fields[2], 16)
            with open("/proc/%d/map_files/%x-%x" % (pid, start, end), "rb") as file:
                theirs = os.pread(file.fileno(), end - start, begin)
            mine = os.pread(mem.fileno(), len(theirs), start)
            for page in range(0, len(theirs), 4096):
                if mine[page:page + 4096] != theirs[page:page + 4096]:
                    places = found.setdefault(fields[5], {})
                    places.update({begin + at: mine[at] for at in range(page, min(page + 4096, len(theirs))) if mine[at] != theirs[at]})
    return found


def holds_tracepoint(profiler, name):
    """Has it attached a program there, or ended?"""
    if profiler.process.poll() is not None:
        return True
    for info in Path("/proc/%d/fdinfo" % profiler.pid).iterdir():
        with contextlib.suppress(FileNotFoundError):
            if re.search(r"^tp_name:\t%s$" % name, info.read_text(), re.M):
                return True
    return False


def poll(condition, what, bound=PATIENCE):
    """Looks until `condition()` is true; fails by name after `bound` seconds."""
    end = time.monotonic() + bound
    while not condition():
        assert time.monotonic() < end, "waited in vain for " + what
        time.sleep(0.02)


# ---- targets -------------------------------------------------------------------------------------

class Process:
    """A running program that says "ready". Leaving the context ends it, through its stdin."""

    def __init__(self, argv, **popen):
        self.argv = list(map(str, argv))
        popen.setdefault("env", clean_environment())
        # Unbuffered: what select() does not see was not read.
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0, **popen)
        self.pid = self.process.pid
        self.wait_ready()

    def wait_ready(self):
        line = self.read_line()
        if line != b"ready\n":
            self.process.kill()
            self.process.wait()
            raise AssertionError("%s did not start: %r" % (self.argv, line))

    def read_line(self):
        """The next line that it prints; b"" if none comes."""
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        return self.process.stdout.readline() if ready else b""

    def stop(self):
        """The truth that the program prints at its end."""
        return json.loads(self.end())

    def end(self):
        """What it prints after stdin was closed."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        text = self.process.stdout.read()
        assert self.process.wait(PATIENCE) == 0
        return text

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


class Target(Process):
    """A running ground-truth program."""

    def __init__(self, python, program, *args, prefix=(), **popen):
        super().__init__([*prefix, python, "-B", PROGRAMS / program, *args], **popen)


def profile_target(python, program, *args, seconds=3, options=(), hz=HZ):
    """Profiles one program for a while. Returns (result, truth).

    A program alone works all the time. On a busy machine it is given the time that it needs for two
    thirds of that work.
    """
    with Target(python, program, *args) as target:
        profiler = Profiler("-v", "-f", "-F", hz, "-p", target.pid, *options)
        profiler.wait_sampling()
        end = time.monotonic() + seconds
        spend(target.pid, seconds * 2 / 3)
        poll(lambda: time.monotonic() >= end, "%s seconds" % seconds)
        profiler.interrupt_group()
        return profiler.wait().ok(), target.stop()


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stolen_seconds():
    """What a hypervisor has taken of all CPUs. There are no samples of it, whoever is charged for it."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def spend(pid, seconds):
    """Until the process has had that much more of a CPU."""
    end = cpu_seconds(pid) + seconds
    poll(lambda: cpu_seconds(pid) >= end, "process %d to work" % pid, 5 * PATIENCE)  # at a load of 40, too


def profile_work(pid, seconds, *options, hz=HZ):
    """Profiles a process until it has had so much of a CPU, however busy the machine is."""
    profiler = Profiler("-v", "-f", "-F", hz, "-p", pid, *options)
    profiler.wait_sampling()
    spend(pid, seconds)
    profiler.interrupt_group()
    return profiler.wait().ok()


# ---- truth ---------------------------------------------------------------------------------------

def check_stacks(stacks, truth, seen_least=1):
    """Every stack whose leaf is one of the truth's leaf functions is one of the truth's stacks.

    Stacks that end in a marker are left out: completeness is another question, asked elsewhere.
    Returns {index of the true stack: its samples}.
    """
    by_chain = {}
    for n, true in enumerate(truth):
        by_chain.setdefault(chain_of_truth(true), []).append(n)
    leaves = {tuple(true["frames"][-1][:2]) for true in truth}
    found = {n: [] for n in range(len(truth))}
    for stack in stacks:
        leaf = stack.leaf()
        if stack.markers() or not leaf or (leaf.name, leaf.file) not in leaves:
            continue
        chain = tuple((f.name, f.file, f.line) for f in stack.python()[:-1])
        chain += ((leaf.name, leaf.file),)
        with certain():
            assert chain in by_chain, "no such stack was ever there:\n%s" % stack
            for n in by_chain[chain]:
                legal = truth[n]["leaf_lines"]
                assert leaf.line in legal, "no such line in the leaf:\n%s" % stack
                found[n].append(stack)
    counts = {n: total(stacks) for n, stacks in found.items()}
    missing = [truth[n]["label"] for n in counts if counts[n] < seen_least]
    assert not missing, "never seen: %s" % missing
    return found


def chain_of_truth(true):
    *callers, leaf = true["frames"]
    return tuple(map(tuple, callers)) + (tuple(leaf[:2]),)


def short(name):
    """The last component of a qualified name: all that versions before 3.11 know."""
    return name.rpartition(".")[2]


def native_between(stack):
    """[(caller, callee, native frames between them)] of each two neighbouring Python frames."""
    gaps, caller, between = [], None, []
    for frame in stack.frames:
        if frame.kind == PYTHON:
            if caller:
                gaps.append((caller, frame, between))
            caller, between = frame, []
        elif frame.kind == NATIVE:
            between.append(frame)
    return gaps


def in_order(wanted, files):
    """`wanted` is a subsequence of `files`."""
    files = iter(files)
    return all(any(f == w for f in files) for w in wanted)


def readable(stacks):
    """Those without a failed read. Few have one: while the kernel moves a page, it cannot be read from a sample."""
    kept = [s for s in stacks if not any("read-failed" in m.name for m in s.markers())]
    cut = total(stacks) - total(kept)
    assert cut <= 0.01 * total(stacks) + 1, "%d of %d samples have a failed read" % (cut, total(stacks))
    return kept


def share(stacks, pick, of=None):
    """The part of the samples of `of` (all) that `pick` chooses."""
    stacks = [s for s in stacks if of is None or of(s)]
    return total([s for s in stacks if pick(s)]) / (total(stacks) or 1)


def compile_c(output, source, *flags):
    """A program or library of PROGRAMS."""
    subprocess.run(["gcc", "-O1", "-g0", *flags, "-o", output, PROGRAMS / source, "-ldl"],
                   check=True)
    return output


# ---- the machine ---------------------------------------------------------------------------------

def import_pure(package):
    """A package of pure Python: the distribution's serves any Python that runs the tests."""
    ask = "import os, %s as p; print(os.path.dirname(os.path.dirname(p.__file__)))" % package
    found = subprocess.run(["/usr/bin/python3", "-c", ask], capture_output=True, text=True)
    sys.path.extend(found.stdout.split())
    import pytest  # not at the top: the guests of scripts/test-vm have none
    return pytest.importorskip(package, reason=package + " is not installed")


def find_tool(name, *more):
    """The path of a program, or None; /usr/sbin may not be in a user's PATH."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *more])
    return shutil.which(name, path=path)


def find_go():
    return find_tool("go", "/usr/local/go/bin", *map(str, Path("/usr/lib").glob("go-*/bin")))
