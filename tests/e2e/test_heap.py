# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""heap: the objects of a process by type, against what the process's own garbage collector lists."""
import json
import os
import re
import resource
import signal
import subprocess

import pytest

import harness
import interpreters
from harness import Process, Target, poll

pytestmark = pytest.mark.beside


def heap(*args, **popen):
    return subprocess.run([harness.PYPERF, "heap", *map(str, args)], capture_output=True,
                          timeout=harness.PATIENCE, env=harness.clean_environment(), **popen)


def heap_json(pid, *args):
    result = heap("-p", pid, "--json", *args)
    assert result.returncode == 0, result
    found = json.loads(result.stdout)
    assert found["pid"] == pid
    check_sums(found)
    return found


def await_rest(pid):
    """It reads its stdin: between its last word and that its heap changes, and may be collected."""
    poll(lambda: re.match(r"0 0x0 ", harness.Path("/proc/%d/syscall" % pid).read_text()), "the process to rest")


def check_sums(found):
    pools, memory = found["pools"], found["memory"]
    assert sum(t["objects"] for t in found["types"]) == pools["objects"] + pools["outside"]
    assert sum(t["bytes"] for t in found["types"]) == pools["object_bytes"] + pools["outside_bytes"]
    assert memory["rss"] == sum(memory[k] for k in ("pools", "malloc", "other", "files", "stacks"))
    assert sum(pools["filled"]) + pools["empty"] + pools["never_used"] + pools["unread"] == pools["pools"]


def counts(found):
    """{name: objects}: types may share a name."""
    result = {}
    for one in found["types"]:
        result[one["name"]] = result.get(one["name"], 0) + one["objects"]
    return result


def check_population(python, program="heap_target.py", **popen):
    with Target(python, program, **popen) as target:
        truth = json.loads(target.read_line())
        await_rest(target.pid)
        found = heap_json(target.pid)
        assert found["complete"], found["pools"]
        got = counts(found)
        assert {name: got.get(name, 0) for name in truth} == truth
        return found


def test_equals_the_garbage_collector(python):
    """And what the collector does not list: objects without its header."""
    found = check_population(python)
    big = next(t for t in found["types"] if t["name"] == "Big")
    assert big["outside"] == big["objects"] and big["largest"] > 512


FREE_THREADED = ["builds/3.13t", "builds/3.14t"]


@pytest.mark.parametrize("name", ["pyenv/2.7", "pyenv/3.6", "pyenv/3.7", "bullseye/2.7", "bullseye/2.7d", "bullseye/3.9d",
                                  "bookworm/3.11d", "trixie/3.13d", "sid/3.14", "sid/3.14d", "sid/3.15", "sid/3.15d",
                                  *FREE_THREADED])
def test_other_builds(name):
    """Old and new versions, stripped ones, and debug builds, whose blocks have guards."""
    python = interpreters.find().get(name)
    if not python:
        pytest.skip("there is no %s" % name)
    check_population(python)


@pytest.mark.parametrize("name", FREE_THREADED)
def test_heaps_of_threads(name):
    """Without the GIL each thread has a heap. What another thread frees stays in a list, and so does a heap whose
    thread has ended."""
    python = interpreters.find().get(name)
    if not python:
        pytest.skip("there is no %s" % name)
    found = check_population(python, "heap_threads.py")
    text = next(t for t in found["types"] if t["name"] == "Text")
    # The text itself is storage, in a segment of its own.
    assert text["objects"] == 3 and found["pools"]["storage_bytes"] > 200 << 20


@pytest.mark.parametrize("name", FREE_THREADED)
def test_threads_that_never_rest(name):
    python = interpreters.find().get(name)
    if not python:
        pytest.skip("there is no %s" % name)
    test_a_process_that_never_rests(python)
    with Target(python, "heap_target.py") as target:
        result = heap("-p", target.pid, "--referrers", "Order")
        assert result.returncode == 1 and b"free-threaded" in result.stderr


def test_debug_hooks(any_python):
    check_population(any_python, env={**harness.clean_environment(), "PYTHONMALLOC": "debug"})


PRINT_STATS = """
import json, sys
class Order: pass
keep = [Order() for i in range(20000)] + [[i] for i in range(5000)]
del keep[::3]
print("ready", flush=True)
sys.stdin.readline()
sys._debugmallocstats()
sys.stdin.read()
"""


def test_agrees_with_the_allocator(any_python):
    """sys._debugmallocstats(): what it does itself moves some blocks."""
    with Process([any_python, "-c", PRINT_STATS], stderr=subprocess.PIPE) as target:
        pools = heap_json(target.pid)["pools"]
        target.process.stdin.write(b"\n")
        text = target.process.communicate(timeout=harness.PATIENCE)[1].decode()
    used = int(re.search(r"([\d,]+) *\n*$", re.search(r"# bytes in allocated blocks.*", text)[0])[1].replace(",", ""))
    ours = sum(pools[k] for k in ("object_bytes", "storage_bytes", "free_list_bytes"))
    assert abs(ours - used) < 0.02 * used
    arenas = int(re.search(r"# arenas allocated current +=? +([\d,]+)", text)[1].replace(",", ""))
    assert pools["arenas"] == arenas


COLLECTOR = r"""
import gc, json, sys
class Ring(object):
    pass
gc.set_threshold(650, 7, 9)
for i in range(300):
    a = Ring()
    a.me = a
    if i % 100 == 50:
        gc.collect(i // 100)
if len(sys.argv) > 1:
    gc.disable()
old = [Ring() for i in range(200)]
print("ready", flush=True)
print(json.dumps({"enabled": gc.isenabled(), "threshold": gc.get_threshold(), "stats": gc.get_stats(),
                  "count": gc.get_count()}), flush=True)
sys.stdin.read()
"""


def check_collector(python, *args):
    with Process([python, "-c", COLLECTOR, *args]) as target:
        truth = json.loads(target.read_line())
        await_rest(target.pid)
        found = heap_json(target.pid)["collector"]
        text = heap("-p", target.pid).stdout
    assert found["enabled"] == truth["enabled"]
    assert (b"gc.disable() is in force" in text) == (not truth["enabled"])
    ours = found["generations"]
    assert [g["threshold"] for g in ours] == truth["threshold"]
    assert [{k: g[k] for k in ("collections", "collected", "uncollectable")} for g in ours] == truth["stats"]
    assert [g["count"] for g in ours][1:] == truth["count"][1:]
    assert abs(ours[0]["count"] - truth["count"][0]) < 40  # what it prints is made of objects


@pytest.mark.parametrize("name", ["pyenv/3.7", "pyenv/3.8", "pyenv/3.9", "pyenv/3.10", "pyenv/3.12", "pyenv/3.13", "bookworm/3.11d",
                                  "trixie/3.13d"])
def test_collector_of_other_versions(name):
    python = interpreters.find().get(name)
    if not python:
        pytest.skip("there is no %s" % name)
    check_collector(python)


def test_collector(any_python):
    """The generations' counts, limits and collections, as module gc has them; or nothing, where they are not known."""
    version = subprocess.run([any_python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True,
                             check=True).stdout
    if int(version) > 13:
        with Target(any_python, "heap_target.py") as target:
            assert heap_json(target.pid)["collector"] is None
        return
    check_collector(any_python)
    check_collector(any_python, "off")


def test_without_pools(any_python):
    """PYTHONMALLOC=malloc: said, and nothing is shown as if it were all."""
    env = {**harness.clean_environment(), "PYTHONMALLOC": "malloc"}
    with Target(any_python, "heap_target.py", env=env) as target:
        target.read_line()
        assert heap_json(target.pid)["complete"] is False
        text = " ".join(heap("-p", target.pid).stdout.decode().split())
        assert "PYTHONMALLOC=malloc" in text and "no pools of Python's own" in text, text
        assert "live Python objects" not in text, text


HOSTILE = r"""
import ctypes, gc, json, os, sys
version = sys.version_info[:2]
class Order(object): pass
keep = [Order() for i in range(5000)]
Long = type("x\u202e" + "y" * (1 << 20), (object,), {})
Red = type("\x1b[31mred\n", (object,), {})
more = [Long() for i in range(3000)] + [Red() for i in range(3000)]
ring = []
ring.append(ring)
# What looks like objects: a reference count of one, and the address of a type.
fakes = [b"\x01\0\0\0\0\0\0\0" + id(Order).to_bytes(8, "little") * 5 for i in range(4000)]
fakes += [b"\x01\0\0\0\0\0\0\0" * 3 + id(Order).to_bytes(8, "little") * 3 for i in range(4000)]
# Pools whose memory says anything: the headers of live ones are left alone.
forged = ctypes.create_string_buffer(1 << 20)
print("ready", flush=True)
sys.stdin.read()
"""


def test_hostile_names_and_contents(any_python):
    """Names of a mebibyte and with escapes, bytes that look like objects, cycles."""
    with Process([any_python, "-c", HOSTILE]) as target:
        got = counts(heap_json(target.pid))
        assert got["Order"] == 5000
        assert all(len(name) <= 201 and "\x1b" not in name and "\n" not in name and "\u202e" not in name
                   for name in got if name)
        assert sum(n for name, n in got.items() if name and "[31mred" in name) == 3000
        text = heap("-p", target.pid, "--all").stdout
        assert b"\x1b" not in text and "\u202e".encode() not in text


FORGE_POOLS = r"""
import ctypes, sys
class Order(object): pass
keep = [Order() for i in range(50000)]
pools = sorted({id(o) >> SHIFT << SHIFT for o in keep})[100:120]
for pool in pools:  # the number of blocks in use is one that cannot be
    ctypes.c_uint32.from_address(pool).value = 0x7fffffff
print("ready", flush=True)
sys.stdin.read()
import os
os._exit(0)
"""


def test_forged_pools_are_counted_as_unread(python):
    version = subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True,
                             check=True).stdout
    code = FORGE_POOLS.replace("SHIFT", "14" if int(version) >= 10 else "12")
    with Process([python, "-c", code]) as target:
        found = heap_json(target.pid)
        assert found["pools"]["unread"] == 20
        assert found["complete"] is False
        assert 0 < counts(found)["Order"] < 50000
        assert b"Incomplete" in heap("-p", target.pid).stdout


RESTLESS = r"""
import os, sys, threading
class Order(object):
    def __init__(self, n):
        self.n = [n, str(n)]
stop = threading.Event()
def work():
    while not stop.is_set():
        keep = {i: Order(i) for i in range(3000)}
        keep.clear()
threads = [threading.Thread(target=work) for i in range(2)]
fixed = [Order(i) for i in range(10000)]
for t in threads:
    t.start()
print("ready", flush=True)
sys.stdin.read()
stop.set()
"""


def test_a_process_that_never_rests(any_python):
    """What lives all the time is there at each reading, and never more than there can be."""
    with Process([any_python, "-c", RESTLESS]) as target:
        for _ in range(5):
            found = heap_json(target.pid)
            assert 0.95 * 10000 <= counts(found)["Order"] <= 10000 + 3 * 2 * 3000
            assert found["pools"]["unread"] < 0.2 * found["pools"]["pools"]


def test_a_process_that_dies_meanwhile(any_python):
    """At any moment: an error, or what was read; never a crash."""
    for _ in range(8):
        with Process([any_python, "-c", RESTLESS]) as target:
            reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--json"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            target.process.kill()
            out, err = reader.communicate(timeout=harness.PATIENCE)
            assert reader.returncode in (0, 1) and (json.loads(out) if reader.returncode == 0 else err)


def read_once(reader):
    """After its first reading. Beside others it says before that it goes on at a higher priority."""
    line = reader.stderr.readline()
    if b"no CPU is free" in line:
        line = reader.stderr.readline()
    assert b" objects in " in line


GOES = r"""
import os, sys, threading
class Leak(object):
    __slots__ = ("a",)
kept = [Leak() for i in range(5000)]
print("ready", flush=True)
if sys.stdin.readline() == "exec\n":
    os.execvp(sys.argv[1], sys.argv[1:])
os._exit(0)
"""


def goes_while_read(python, order, *program):
    """Its heap is read each second for an hour; after the first reading it goes away."""
    with Process([python, "-c", GOES, *program]) as target:
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--every", "1", "--for", "3600",
                                   "-v", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        read_once(reader)
        target.process.stdin.write(order)
        out, err = reader.communicate(timeout=harness.PATIENCE)
        assert reader.returncode == 0, err
        found = json.loads(out)
        check_sums(found)
        assert counts(found)["Leak"] == 5000 and found["memory"]["rss"] > 1 << 20
        # Not waited for, it is a zombie now.
        result = heap("-p", target.pid)
    return found, result


def test_a_process_that_ends_between_readings(any_python):
    """The last whole reading is shown: never an empty heap of 0 bytes."""
    found, zombie = goes_while_read(any_python, b"end\n")
    assert found["gone"] == "ended"
    assert zombie.returncode == 1 and b"it has ended" in zombie.stderr


@pytest.mark.parametrize("program", [["cat"], [None, "-c", "import sys; sys.stdin.read()"]])
def test_a_process_that_execs_between_readings(any_python, program):
    """Another program's heap, Python's or not, is not this one's."""
    found, _ = goes_while_read(any_python, b"exec\n", *[word or str(any_python) for word in program])
    assert found["gone"] == "exec"
    assert all(t["name"] != "Leak" or t["objects_last"] == 5000 for t in found["growth"]["types"])


def test_it_says_that_the_process_has_gone(any_python):
    with Process([any_python, "-c", GOES]) as target:
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--every", "3600", "--for", "7200", "-v"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        read_once(reader)
        target.process.stdin.write(b"end\n")
        out = reader.communicate(timeout=harness.PATIENCE)[0]
    assert reader.returncode == 0 and b"The process ended between" in out and b"RSS 0 B" not in out
    assert b"1 reading in" in out and b"too few" in out


GIANT = r"""
import os, sys
class Order(object):
    __slots__ = ()
def fill():
    return [Order() for i in range(1000000)], [b"x" * 100000 for i in range(1000)]
kept = [Order() for i in range(1000)]
held = fill()
print("ready", flush=True)
for line in sys.stdin:
    if line == "free\n":
        held = None
    elif line == "fork\n" and not os.fork():
        held = None
        os._exit(0)
"""


@pytest.mark.parametrize("command", [b"free\n", b"fork\n"])
def test_a_process_that_frees_or_forks_meanwhile(any_python, command):
    """The reader ends well, and what is left is counted."""
    with Process([any_python, "-c", GIANT]) as target:
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--json"], stdout=subprocess.PIPE)
        target.process.stdin.write(command)
        out = json.loads(reader.communicate(timeout=harness.PATIENCE)[0])
        check_sums(out)
        assert 0 <= counts(out).get("Order", 0) <= 1001000
        left = 1000 if command == b"free\n" else 1001000
        poll(lambda: counts(heap_json(target.pid))["Order"] == left, "the rest")


def test_memory_is_bounded(any_python):
    """A million objects of 5,000 types, in 32 MiB: the heap is read arena by arena."""
    code = """
import sys
class Order(object):
    __slots__ = ()
kept = [Order() for i in range(1000000)] + [type("T%d" % i, (object,), {"__slots__": ()})() for i in range(5000)]
print("ready", flush=True)
sys.stdin.read()
"""
    with Process([any_python, "-c", code]) as target:
        limit = (32 << 20, 32 << 20)
        result = heap("-p", target.pid, "--json", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limit))
        assert result.returncode == 0, result
        found = json.loads(result.stdout)
        check_sums(found)
        assert counts(found)["Order"] == 1000000 and sum("T%d" % i in counts(found) for i in (0, 4999)) == 2


def test_no_cpu_is_free(any_python):
    """It begins at the lowest priority, at which it would wait for minutes beside programs that never rest."""
    cpu = {min(os.sched_getaffinity(0))}
    pin = lambda: os.sched_setaffinity(0, cpu)
    hog = [any_python, "-c", "import time; end = time.time() + 60\nwhile time.time() < end: pass"]
    with Target(any_python, "heap_target.py") as target:
        truth = json.loads(target.read_line())
        hogs = [subprocess.Popen(hog, preexec_fn=pin) for _ in range(4)]
        try:
            result = heap("-v", "-p", target.pid, "--json", preexec_fn=pin)
        finally:
            for one in hogs:
                one.kill()
                one.wait()
    assert result.returncode == 0 and b"no CPU is free: the reading goes on at priority" in result.stderr, result
    assert counts(json.loads(result.stdout))["Big"] == truth["Big"]


GROW = r"""
import sys
class Leak(object):
    __slots__ = ("a",)
kept, fixed = [], [[] for i in range(2000)]
print("ready", flush=True)
for line in sys.stdin:
    kept.extend(Leak() for i in range(500))
"""


def test_growth_by_type(any_python, directory):
    """The class that leaks comes first; types that stay as they are do not count as growing."""
    with Process([any_python, "-c", GROW]) as target:
        path = directory / "heap.json"
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--every", "1", "--for", "8",
                                   "--json", "-o", str(path)], stderr=subprocess.PIPE)

        def feed():
            target.process.stdin.write(b"\n")
            return reader.poll() is not None
        poll(feed, "the readings")
        assert reader.returncode == 0, reader.stderr.read()
        found = json.loads(path.read_text())
        growth = found["growth"]
        assert 3 <= growth["readings"] <= 9  # those that are overdue are left out
        first = growth["types"][0]
        assert first["name"] == "Leak" and first["more_than_chance"]
        assert first["objects_last"] > first["objects_first"] and first["objects_per_minute"] > 0
        assert "list" not in [t["name"] for t in growth["types"] if t["more_than_chance"]]


def test_curves_by_type(browser, any_python, directory):
    """The page of the same readings: the class that leaks has the highest line, and the slider sets the table to a reading."""
    page = directory / "heap.html"
    with Process([any_python, "-c", GROW]) as target:
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--every", "1", "--for", "4", "-o", str(page)],
                                  stderr=subprocess.PIPE)

        def feed():
            target.process.stdin.write(b"\n")
            return reader.poll() is not None
        poll(feed, "the readings")
        assert reader.returncode == 0, reader.stderr.read()
    browser.open(page)
    data = browser.js("return JSON.parse(document.getElementById('heap').textContent)")
    leak = next(t for t in data["types"] if t["name"] == "Leak")
    assert leak["count"] == sorted(leak["count"]) and leak["count"][-1] > leak["count"][0]
    assert leak["name"] in [t["name"] for t in data["types"][:2]]  # beside the list that keeps them
    cell = lambda: browser.js("const r = [...document.querySelectorAll('#types tbody tr')].find(r => r.cells[0].innerText === 'Leak');"
                              "return Number(r.cells[1].innerText.replace(/,/g, ''))")
    assert cell() == leak["count"][-1]
    browser.js("document.getElementById('moment').focus()")
    browser.press("ArrowLeft")
    assert cell() == leak["count"][-2]
    assert browser.text("#when").startswith("Reading %d of %d" % (len(data["when"]) - 1, len(data["when"])))
    label = browser.js("return document.getElementById('curves').getAttribute('aria-label')")
    assert re.search(r", Leak \+[0-9.]+ [KM]iB", label)
    assert browser.js("return document.querySelectorAll('#curves polyline').length") >= 2
    assert "grew by more than chance" in browser.js("return document.querySelector('pre').textContent")
    assert browser.requests() == [] and browser.console() == []


def test_interrupted_it_reports(any_python):
    with Process([any_python, "-c", GROW]) as target:
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--every", "3600", "--for", "7200", "-v"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        read_once(reader)
        reader.send_signal(signal.SIGINT)
        out = reader.communicate(timeout=harness.PATIENCE)[0]
        assert reader.returncode == 0 and b"1 reading in" in out


def test_a_page_of_one_reading(any_python, directory):
    page = directory / "heap.html"
    with Process([any_python, "-c", GROW]) as target:
        reader = subprocess.Popen([harness.PYPERF, "heap", "-p", str(target.pid), "--every", "3600", "--for", "7200", "-v",
                                   "-o", str(page)], stderr=subprocess.PIPE)
        read_once(reader)
        reader.send_signal(signal.SIGINT)
        err = reader.communicate(timeout=harness.PATIENCE)[1]
    assert reader.returncode == 0, err
    assert re.search(r'<p id="headline">CPython [^,]+, 1 reading in ', page.read_text())


THREADS = r"""
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
gate = threading.Barrier(9)
def fill():
    gate.wait()
    blocks = [libc.malloc(4000) for i in range(4000)]
    for b in blocks:
        libc.memset(b, 1, 4000)
    gate.wait()
    for i, b in enumerate(blocks):
        if i % 100:
            libc.free(b)
    gate.wait()
    stop.wait()
stop = threading.Event()
threads = [threading.Thread(target=fill) for i in range(8)]
for t in threads:
    t.start()
for i in range(3):
    gate.wait()
print("ready", flush=True)
sys.stdin.read()
stop.set()
"""


def test_first_sentence(any_python):
    """Memory that threads gave back to malloc, and malloc did not give back: its arenas, and the advice."""
    if "glibc" not in os.confstr("CS_GNU_LIBC_VERSION"):
        pytest.skip("the C library is not glibc")
    with Process([any_python, "-c", THREADS]) as target:
        memory = heap_json(target.pid)["memory"]
        given_back = 8 * 4000 * 0.99 * 4016
        assert memory["malloc_arenas"] >= 2
        assert 0.85 * given_back < memory["malloc_free"] < 1.1 * given_back
        text = heap("-p", target.pid).stdout.decode()
        assert "malloc_trim()" in text and "arenas about" in text and "are in use" not in text


def test_most_is_in_malloc(any_python):
    """No type has it: str above 512 bytes are malloc's."""
    if "glibc" not in os.confstr("CS_GNU_LIBC_VERSION"):
        pytest.skip("the C library is not glibc")
    code = "import sys\nkeep = ['x' * 5000 + str(i) for i in range(20000)]\nprint('ready', flush=True)\nsys.stdin.read()"
    with Process([any_python, "-c", code]) as target:
        text = " ".join(heap("-p", target.pid).stdout.decode().split())
    assert "Most of it is in blocks of malloc that are in use" in text and "malloc_trim" not in text, text


HELD = {"InList": (1000, r"list\[\.\.\.\]"), "InDict": (1000, r"dict\[\.\.\.\]"), "InTuple": (500, r"tuple\[\.\.\.\]"),
        "InSet": (400, r"set\[\.\.\.\]"), "Slotted": (250, r"Keeper\.kept"), "InCell": (200, r"cell\.cell_contents"),
        "Attribute": (300, r"Owner\.owned|dict\['owned'\]"), "Key": (100, r"dict, as a key"),
        "Raised": (6, r"frame of fail: local_name"), "Named": (1, r"dict\['the_name'\]"),
        "InDeque": (600, r"collections\.deque\[\.\.\.\]"), "InOrdered": (350, r"(collections\.)?OrderedDict\[\.\.\.\]"),
        "InCache": (150, r"functools\._lru_(list_elem\.result|cache_wrapper\[\.\.\.\])"), "InUnlimited": (150, r"dict\[\.\.\.\]")}
IN_MODULE = {"InList": "CACHE", "InDict": "BY_NUMBER", "InTuple": "TUPLES", "InSet": "SET", "Slotted": "KEEPERS", "InCell": "CELLS",
             "Attribute": "OWNERS", "Key": "KEYS", "Raised": "FAILURE", "Named": "NAMES", "InDeque": "QUEUE",
             "InOrdered": "ORDERED", "InCache": "LIMITED", "InUnlimited": "UNLIMITED"}


def check_holders(python, names):
    with Target(python, "heap_holders.py") as target:
        await_rest(target.pid)
        for name in names:
            count, holder = HELD[name]
            found = heap_json(target.pid, "--referrers", name)["referrers"]
            assert found["complete"] and found["objects"] == count and found["unheld"] == 0, found
            assert len(found["holders"]) == 1, found["holders"]
            assert found["holders"][0]["references"] == count
            assert re.fullmatch(holder, found["holders"][0]["held_by"]), found["holders"]
            path = [step["held_by"] for step in found["paths"][0]]
            assert path[-1].startswith("module"), path
            assert path[-2] == "dict['%s']" % IN_MODULE[name], path
        text = heap("-p", target.pid, "--referrers", name).stdout.decode()
        assert path[0] in text and path[-2] in text


@pytest.mark.parametrize("name", ["pyenv/2.7", "pyenv/3.6", "pyenv/3.7", "pyenv/3.9", "pyenv/3.10", "pyenv/3.12", "pyenv/3.13",
                                  "bullseye/2.7d", "sid/3.14", "sid/3.15", "sid/3.15d"])
def test_holders_of_other_versions(name):
    python = interpreters.find().get(name)
    if not python:
        pytest.skip("there is no %s" % name)
    check_holders(python, ("InDict", "InSet", "Slotted", "Attribute", "Raised",
                           *(() if "2.7" in name else ("InDeque", "InOrdered", "InCache", "InUnlimited"))))


def test_holders(any_python):
    """Each way to hold an object has its name, and the path leads to the module's variable."""
    check_holders(any_python, HELD)


NUMBERS = r"""
import sys
class Order(object):
    pass
ORDERS = [Order() for i in range(50)]
STEPS = [memoryview(bytearray(8))[::id(o)] for o in ORDERS]
print("ready", flush=True)
sys.stdin.read()
"""


def test_numbers_of_a_memoryview(any_python):
    """The steps of a memoryview are numbers: they hold no object, even if they equal its address."""
    with Process([any_python, "-c", NUMBERS]) as target:
        found = heap_json(target.pid, "--referrers", "Order")["referrers"]
        holders = {h["held_by"]: h["references"] for h in found["holders"]}
        assert holders["list[...]"] == 50 and found["objects"] == 50, found
        assert not [name for name in holders if name.startswith("memoryview")], holders


def test_no_such_type(any_python):
    with Target(any_python, "heap_holders.py") as target:
        result = heap("-p", target.pid, "--referrers", "Nonesuch")
        assert result.returncode == 1 and b"no object of type 'Nonesuch'" in result.stderr


def test_refusals(directory, any_python):
    assert heap().returncode == 2
    assert heap("-p", "0").returncode == 2
    assert heap("-p", "1", "2").returncode == 2
    assert heap("-p", "1", "--every", "5", "--for", "2").returncode == 2
    assert heap("-p", "1", "-o", "x.html").returncode == 2
    with subprocess.Popen(["sleep", "60"]) as other:
        result = heap("-p", other.pid, "-o", directory / "x")
        other.kill()
    assert result.returncode == 1 and b"not Python" in result.stderr
    assert os.listdir(directory) == []
