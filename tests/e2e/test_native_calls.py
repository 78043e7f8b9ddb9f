# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace --native-from: what a C function calls until it returns, beside the functions' own notes."""
import json
import os
import subprocess
from pathlib import Path

import pytest

import harness

pytestmark = pytest.mark.beside

NAMES = {1: "first", 2: "leaf", 3: "recurses", 4: "jumps", 5: "calls_back"}

# A round on each line of stdin. At the end it prints what the functions have noted.
PROGRAM = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
back_type = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)
def back(n):
    return double(n)
def double(n):
    return 2 * n
held = back_type(back)
print("ready", flush=True)
n = 0
for line in sys.stdin:
    for _ in range(int(line)):
        lib.other(ctypes.c_long(n))
        lib.run(ctypes.c_long(n), held)
        n += 1
    print("done", flush=True)
cnt = ctypes.c_long.in_dll(lib, "note_cnt").value
print(json.dumps(list((ctypes.c_int * 200000).in_dll(lib, "notes")[:cnt])))
"""


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    return harness.compile_c(tmp_path_factory.mktemp("lib") / "nested.so", "nested.c", "-O2", "-shared", "-fPIC",
                             "-foptimize-sibling-calls")


def trace(pid, *options):
    return harness.Profiler("trace", "-p", pid, "--native-from", "first", "--force", "--json", *options)


def events_of(process, rounds, *options):
    """What is said of some rounds, and what the functions noted."""
    profiler = trace(process.pid, *options)
    harness.poll(lambda: "breakpoints" in profiler.read(profiler.err), "the breakpoints")
    process.process.stdin.write(b"%d\n" % rounds)
    assert process.read_line() == b"done\n"
    profiler.interrupt_group()
    result = profiler.wait().ok()
    return [json.loads(line) for line in result.stdout.splitlines()], process.stop()


def sequence(events, ends):
    """The same form as in the notes: a number, negative at an end, and how deep it is."""
    numbers = {name: n for n, name in NAMES.items()}
    return [(numbers[e["function"]] * (1 if e["event"] == "call" else -1), e["depth"]) for e in events
            if e["kind"] == "native" and e["function"] in numbers and (ends or e["event"] == "call")]


def with_depths(notes, ends):
    """A function that jumps to another one has ended by then; throws() notes nothing."""
    depth, out = 0, []
    for n in notes:
        depth -= n < 0
        if n > 0 or ends:
            out.append((n, depth))
        depth += n > 0
    return out


def test_what_a_function_calls(any_python, lib):
    """Recursion, jumps in the place of a call, functions left by longjmp(): all in order, at their depth."""
    with harness.Process([any_python, "-c", PROGRAM, lib]) as process:
        events, notes = events_of(process, 200, "--lib", "nested.so")
    with harness.certain():
        assert sequence(events, False) == with_depths(notes, False)
    assert not [e for e in events if e["function"] == "other"]


def test_ends(any_python, lib):
    with harness.Process([any_python, "-c", PROGRAM, lib]) as process:
        events, notes = events_of(process, 200, "--lib", str(lib), "--ret")
    # jumps() ends with the function that it jumped to; first() has no end where it was left.
    said = [(n, depth) for n, depth in sequence(events, True) if n not in (-4, -1)]
    with harness.certain():
        assert said == [(n, depth) for n, depth in with_depths(notes, True) if n not in (-4, -1)]
    ended = [e for e in events if e["event"] == "return" and e["function"] == "first"]
    assert len(ended) == 100
    assert all(0 <= e["own_ns"] <= e["total_ns"] for e in events if e["event"] == "return")


def test_python_functions_in_between(python, lib):
    with harness.Process([python, "-c", PROGRAM, lib]) as process:
        events, _ = events_of(process, 50, "--lib", "nested", "--calls")
    calls = [e for e in events if e["event"] == "call"]
    inside = [(e["function"], e["depth"]) for e in calls if e["kind"] == "python"]
    with harness.certain():
        assert inside == 50 * [("back", 2), ("double", 3)]
        for before, e in zip(calls, calls[1:]):
            assert e["function"] != "back" or before["function"] == "calls_back"


@pytest.mark.parametrize("options, files", [((), ["nested.so"]), (("--ret", "--calls"), ["nested.so", "python"])], ids=["alone", "python"])
def test_killed(any_python, lib, options, files):
    """After kill -9 while it calls the code is that of the files again, and each function goes on to its end."""
    def rounds(n):
        process.process.stdin.write(b"%d\n" % n)

    def done():
        assert process.read_line() == b"done\n"

    with harness.Process([any_python, "-c", PROGRAM, lib]) as process:
        assert not harness.changed_code(process.pid)
        profiler = trace(process.pid, "--lib", lib, *options)
        profiler.wait_said("breakpoints")
        rounds(50)
        done()
        changed = sorted(Path(path).name for path in harness.changed_code(process.pid))
        assert len(changed) == len(files) and all(name in path for name, path in zip(files, changed)), changed
        rounds(3000)
        profiler.process.kill()
        profiler.process.wait()
        harness.poll(lambda: not harness.changed_code(process.pid), "the breakpoints to go")
        done()
        rounds(50)
        done()
        notes = process.stop()
    assert notes.count(1) == 3100
    assert all(notes.count(n) == notes.count(-n) for n in NAMES)


def test_for_people(any_python, lib):
    with harness.Process([any_python, "-c", PROGRAM, lib]) as process:
        profiler = harness.Profiler("trace", "-p", process.pid, "--native-from", "first", "--lib", "nested.so", "--ret",
                                    "--force")
        harness.poll(lambda: "breakpoints" in profiler.read(profiler.err), "the breakpoints")
        process.process.stdin.write(b"2\n")
        assert process.read_line() == b"done\n"
        profiler.interrupt_group()
        lines = profiler.wait().ok().stdout.splitlines()
        process.stop()
    assert lines[0].split() == ["SECONDS", "THREAD", "TOTAL", "OWN", "FUNCTION"]
    assert lines[1].endswith("-> first [nested.so]")
    assert any(line.endswith("  -> recurses") for line in lines) and any(line.endswith("  <- leaf") for line in lines)
    table = [line.split() for line in lines[lines.index("") + 2:]]
    assert {row[-1]: int(row[0]) for row in table}["first"] == 2


def test_command(any_python, lib, directory):
    """By its path the file has breakpoints before it is loaded: nothing is missed. The picture has each call at its place."""
    program = 'exec "$0" "$@" >%s' % (directory / "notes")
    done = subprocess.run([harness.PYPERF, "trace", "--native-from", "first", "--lib", lib, "--force", "--json", "--calls", "--as-root",
                           "-o", directory / "calls.folded", "-o", directory / "calls.html", "--",
                           "sh", "-c", program, any_python, "-c", PROGRAM, lib],
                          input="100\n", capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    notes = json.loads((directory / "notes").read_text().splitlines()[-1])
    drawn = {}
    for line in (directory / "calls.folded").read_text().splitlines():
        frames, n = line.rsplit(" ", 1)
        path = tuple(frame.split(" ")[0] for frame in frames.split(";")[1:])
        drawn[path] = drawn.get(path, 0) + int(n)
    with harness.certain():
        assert sequence(events, False) == with_depths(notes, False)
        for number, name in NAMES.items():
            assert sum(n for path, n in drawn.items() if path[-1] == name) == notes.count(number), name
        assert drawn[("first",)] == drawn[("first", "calls_back", "back", "double")] == 100
        assert sum(drawn.values()) == sum(e["event"] == "call" for e in events)
    assert "call" in (directory / "calls.html").read_text()


def test_child_of_a_command(any_python, lib, directory):
    """By a name it is followed once it is mapped, in a process that the command starts, too; times add up in the picture."""
    os.mkfifo(directory / "rounds")
    with open(os.open(directory / "rounds", os.O_RDWR), "w") as rounds:
        profiler = harness.Profiler("trace", "--native-from", "first", "--lib", "nested.so", "--force", "--json", "--ret",
                                    "--as-root", "-o", directory / "calls.folded", "--", "sh", "-c",
                                    '"$0" "$@" <%s/rounds >%s/notes; exit 3' % (directory, directory),
                                    any_python, "-c", PROGRAM, lib)
        profiler.wait_said("tracing first")
        rounds.write("50\n")
    result = profiler.wait()
    assert result.status == 3, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    notes = json.loads((directory / "notes").read_text().splitlines()[-1])
    with harness.certain():
        assert sequence(events, False) == with_depths(notes, False)
    total = sum(int(line.rsplit(" ", 1)[1]) for line in (directory / "calls.folded").read_text().splitlines())
    assert total == sum(e["own_ns"] for e in events if e["event"] == "return")


def test_a_command_without_the_file(any_python, lib):
    result = subprocess.run([harness.PYPERF, "trace", "--native-from", "first", "--lib", "nested.so", "--", any_python, "-c", ""],
                            capture_output=True, text=True)
    assert result.returncode == 1 and "has not loaded nested.so" in result.stderr
    result = subprocess.run([harness.PYPERF, "trace", "--native-from", "first", "--lib", "/no/nested.so", "--", any_python, "-c", ""],
                            capture_output=True, text=True)
    assert result.returncode == 1 and "--lib /no/nested.so: No such file or directory" in result.stderr


@pytest.mark.parametrize("args, message", [
    (("--native-from", "frist", "--lib", "nested.so"), "nested.so has no function frist; did you mean first?"),
    (("--native-from", "first", "--lib", "no.so"), "has not loaded no.so"),
    (("--native-from", "first"), "--native-from FUNCTION and --lib FILE go together"),
    (("--native-from", "first", "--lib", "nested.so", "--hist"), "--native-from goes with --calls, --ret, -f and -o"),
])
def test_bad_lines(any_python, lib, args, message):
    with harness.Process([any_python, "-c", PROGRAM, lib]) as process:
        result = subprocess.run([harness.PYPERF, "trace", "-p", str(process.pid), *args], capture_output=True, text=True)
    assert result.returncode and message in result.stderr, result.stderr


def test_too_expensive(any_python, lib):
    """A function that is called all the time: the price is said, and what would be cheaper."""
    spin = "import ctypes, sys, threading\nlib = ctypes.CDLL(sys.argv[1])\n" \
           "threading.Thread(target=sys.stdin.read).start()\nprint('ready', flush=True)\n" \
           "while threading.active_count() > 1: lib.other(1)"
    with harness.Process([any_python, "-c", spin, lib]) as process:
        result = subprocess.run([harness.PYPERF, "trace", "-p", str(process.pid), "--native-from", "other", "--lib", "nested.so",
                                 "--ret", "-d", "1"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "would slow it down" in result.stderr and "leave --ret out" in result.stderr, result.stderr
