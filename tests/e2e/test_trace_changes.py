# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What changes while it is traced, or cannot be read: right counts, and a sentence on what is not seen."""
import json
import os
import re
import shutil
import struct
import subprocess

import pytest

import harness
from tracing import STOP_TRACER

pytestmark = pytest.mark.beside

LIBRARY = """
volatile long sink;
long NAME(long n) { while (n--) sink += n; return sink; }
long outer(long n) { return NAME(n) + 1; }
"""
CALLER = """
import _ctypes, ctypes, os, sys
path = sys.argv[1]
lib = ctypes.CDLL(path)
print("ready", flush=True)
for line in sys.stdin:
    verb, *words = line.split()
    if verb == "call":
        for _ in range(int(words[0])):
            lib.outer(ctypes.c_long(3))
    elif verb == "close":
        _ctypes.dlclose(lib._handle)
    elif verb == "open":
        lib = ctypes.CDLL(path)
    elif verb == "replace":
        os.rename(words[0], path)
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """The library, and the one of an upgrade: outer() calls inner() in the one and renamed() in the other."""
    built = tmp_path_factory.mktemp("built")
    (built / "lib.c").write_text(LIBRARY)
    return [harness.compile_c(built / (name + ".so"), built / "lib.c", "-shared", "-fPIC", "-O1", "-fno-inline",
                              "-fno-optimize-sibling-calls", "-DNAME=" + name) for name in ("inner", "renamed")]


class Caller(harness.Process):
    """Calls outer() of a copy of the library."""

    def __init__(self, python, versions, directory):
        self.path, self.next = directory / "lib.so", directory / "next.so"
        shutil.copy(versions[0], self.path)
        shutil.copy(versions[1], self.next)
        super().__init__([python, "-c", CALLER, self.path])

    def do(self, *steps):
        for step in steps:
            self.process.stdin.write(step.format(next=self.next).encode() + b"\n")
            assert self.read_line() == b"done\n"

    def trace(self, options, *steps):
        """What a trace prints in which this is done, and what it says."""
        profiler = harness.Profiler("trace", "-p", self.pid, "--force", "--json", *options)
        profiler.wait_said("Ctrl-C ends it")
        self.do(*steps)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        return [json.loads(line) for line in result.stdout.splitlines()], result.stderr

    def native(self, *steps):
        """The functions of the library that were called, and how often."""
        events, said = self.trace(["--native-from", "outer", "--lib", self.path], *steps)
        called = [e["function"] for e in events if e.get("event") == "call"]
        return {name: called.count(name) for name in called}, said

    def probed(self, *steps):
        events, said = self.trace(["-e", "uprobe:%s:outer" % self.path], *steps)
        return events[-1]["hits"], said


def test_unloaded(any_python, versions, directory):
    """A file that the process unloads and loads again is the same one."""
    with Caller(any_python, versions, directory) as caller:
        assert caller.native("call 5", "close")[0] == {"outer": 5, "inner": 5}
        caller.do("open")
        assert caller.native("call 5", "close", "open", "call 6")[0] == {"outer": 11, "inner": 11}
        hits, said = caller.probed("call 5", "close")
        assert hits == 5 and "not counted" not in said
        caller.do("open")
        hits, said = caller.probed("call 5", "close", "open", "call 6")
        assert hits == 11 and "not counted" not in said


def test_replaced_before(any_python, versions, directory):
    """The process has the old file. --native-from takes what it has, -e a path, which leads to the new one."""
    with Caller(any_python, versions, directory) as caller:
        caller.do("replace {next}")
        called, said = caller.native("call 5")
        assert called == {"outer": 5, "inner": 5} and "not shown" not in said
        hits, said = caller.probed("call 5")
    assert hits == 0
    assert re.search(r"process %d runs a file that was replaced .* not counted" % caller.pid, said), said


@pytest.mark.parametrize("kind", ["native", "probed"])
def test_replaced_meanwhile(any_python, versions, directory, kind):
    """What has the old file goes on with it; the new one is loaded later, and has no breakpoints."""
    seen = {"native": {"outer": 11, "inner": 11}, "probed": 11}[kind]
    with Caller(any_python, versions, directory) as caller:
        called, said = getattr(caller, kind)("call 5", "replace {next}", "call 6", "close", "open", "call 7")
    assert called == seen, said
    assert re.search(r"process %d has loaded another .*replaced.* not (shown|counted)" % caller.pid, said), said


def damaged(python, path):
    """A copy whose table of instructions has one entry of no instruction: where no opcode leads in any program."""
    said = subprocess.run([harness.PYPERF, "probes", python], capture_output=True, text=True, check=True).stdout
    found = re.search(r"dispatch table at 0x([0-9a-f]+)", said)
    if not found:
        pytest.skip("%s has no dispatch table" % python)
    table, image = int(found[1], 16), bytearray(open(python, "rb").read())
    first, size, cnt = struct.unpack_from("<Q", image, 32)[0], *struct.unpack_from("<HH", image, 54)
    for at in range(first, first + cnt * size, size):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", image, at)
        if kind == 1 and address <= table < address + length:
            table += offset - address
            break
    words = struct.unpack_from("<256Q", image, table)
    shared = max(words, key=words.count)
    if words.count(shared) < 32:
        pytest.skip("the table of %s is made of relocations" % python)
    unused = max(i for i in range(256) if words[i] == shared)
    struct.pack_into("<Q", image, table + 8 * unused, 0)
    path.write_bytes(image)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("options", [[], ["--calls"], ["--imports"]], ids=" ".join)
def test_table_not_found(directory, options):
    """Debian's interpreter has no symbols: without its table nobody knows where a function begins."""
    python = os.path.realpath("/usr/bin/python3")
    if not os.path.exists(python):
        pytest.skip("no interpreter of the system")
    python = damaged(python, directory / "python3")
    ran = directory / "ran"
    result = harness.Profiler("trace", *options, "--", python, "-c", "open(%r, 'w')" % str(ran)).wait()
    assert result.status == 1 and result.stdout == ""
    assert len(result.messages) == 1, result.stderr
    assert "cannot be traced: its dispatch table was not found" in result.messages[0]
    assert not ran.exists()


# Executes the breakpoints with no frame in any register, and no function of Python meanwhile.
UNKNOWN = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
jump = library.jump
jump.argtypes = ctypes.c_ulong, ctypes.c_uint, ctypes.c_ulong, ctypes.c_uint, ctypes.c_ulong
assert library.prepare() == 0
memory = os.open("/proc/self/mem", os.O_RDONLY)
print("ready", flush=True)
os.read(0, 100)
maps, text, part = os.open("/proc/self/maps", os.O_RDONLY), b"", b"-"
while part:
    part = os.read(maps, 1 << 16)
    text += part
places = []
for line in text.splitlines():
    words = line.split()
    if words[1] != b"r-xp" or len(words) < 6 or b"python" not in words[5]:
        continue
    start, end = words[0].split(b"-")
    start, end = int(start, 16), int(end, 16)
    there = os.pread(os.open(words[5], os.O_RDONLY), end - start, int(words[2], 16))
    now = os.pread(memory, end - start, start)
    for at in range(0, len(there), 4096):
        if now[at:at + 4096] == there[at:at + 4096]:
            continue
        for i in range(at, min(at + 4096, len(there))):
            if now[i] == 0xcc and there[i] != 0xcc:
                places.append(start + i)
for place in places:
    for _ in range(32):
        jump(place, 6, 0, 6, 0)
print(32 * len(places), flush=True)
os.read(0, 100)
os._exit(0) # functions of Python run where an interpreter ends
"""


def test_all_hits_unknown(any_python, directory):
    """Each hit is counted as unknown; no function is named."""
    library = harness.compile_c(directory / "forger.so", "forger.c", "-shared", "-fPIC")
    with harness.Process([any_python, "-c", UNKNOWN, library]) as process:
        profiler = harness.Profiler("trace", "-p", process.pid, "--force", "--json")
        profiler.wait_said("counting the calls")
        process.process.stdin.write(b"go\n")
        hits = int(process.read_line())
        profiler.interrupt_group()
        result = profiler.wait().ok()
    assert hits > 0
    assert "%d of %d hits are not counted: their frame was not found" % (hits, hits) in result.stderr
    last = json.loads(result.stdout.splitlines()[-1])
    assert last["final"] and last["functions"] == [] and last["calls"] == 0, last


# The trace stands still until all is over: most events find no room.
OVERFLOWING = """
def fail(n):
    try:
        raise KeyError
    except KeyError:
        pass
def load(n):
    try:
        __import__("missing%d" % n)
    except ImportError:
        pass
""" + STOP_TRACER


def overflow(python, work, *options):
    program = OVERFLOWING + work + "\nos.execv('/bin/sh', ['sh', '-c', 'kill -CONT $0', str(tracer)])"
    result = harness.Profiler("trace", *options, "--force", "--as-root", "--", python, "-c", program).wait()
    assert result.status == 0, result.stderr
    return result.stdout.splitlines(), result.stderr


def test_lost_exceptions(any_python):
    """Where each event is a line, so is what found no room; these lines add up to what the end says."""
    lines, said = overflow(any_python, "for n in range(12000): fail(n)", "--exceptions", "--calls")
    lost = [re.fullmatch(r" +\? (\d+) exceptions were lost here", line) for line in lines]
    total = sum(int(found[1]) for found in lost if found)
    assert total > 0 and "%d exceptions were lost" % total in said, (total, said)


def test_lost_imports(any_python):
    lines, _ = overflow(any_python, "for n in range(3000): load(n)", "--imports", "--json")
    *events, last = map(json.loads, lines)
    assert last["lost_events"] == sum(e["events"] for e in events if e["event"] == "lost") > 0, last["lost_events"]


# Calls until nobody wants to know.
CALLS = "def f(): pass\nwhile True: f()"


@pytest.mark.parametrize("options", [["--calls"], ["--exceptions", "--calls"]], ids=" ".join)
def test_reader_goes_away(any_python, options):
    """As `trace ... | head -3` ends: at once, with the reason."""
    program = CALLS if "--exceptions" not in options else "while True:\n try: {}[1]\n except KeyError: pass"
    with subprocess.Popen([any_python, "-c", program]) as target:
        try:
            harness.poll(lambda: harness.cpu_seconds(target.pid) > 0.1, "the program to run")
            trace = subprocess.Popen([harness.PYPERF, "trace", "-p", str(target.pid), "--force", *options],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.clean_environment())
            assert trace.stdout.readline()
            trace.stdout.close()
            said = trace.stderr.read().decode()
            assert trace.wait(harness.PATIENCE) == 1, said
        finally:
            target.kill()
    assert said.splitlines()[-1] == "pyperf-bpf: standard output: Broken pipe", said
