# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CPython inside of another program: linked, as a library or statically, loaded late, ended and
begun again. The stacks go from C into Python and back, and through threads that C made."""
import json
import os
import shlex
import shutil
import subprocess

import pytest

from conftest import INTERPRETERS, VERSIONS, interpreter_name
from harness import (HZ, PROGRAMS, PYTHON, Process, Profiler, check_stacks, clean_environment,
                     cpu_seconds, profile_work, share, spend)

pytestmark = pytest.mark.beside

EVAL = "_PyEval_EvalFrameDefault"
ASK = """
import json, os, sys, sysconfig
known = dict(sysconfig.get_config_vars(), HOME=sys.base_prefix, RELEASE=sys.version.split()[0])
names = "HOME RELEASE INSTSONAME LDVERSION LIBDIR LIBPL LIBS MODLIBS SYSLIBS".split()
print(json.dumps({name: known.get(name) for name in names}))
"""
# The C functions and the Python functions, in their order, by the label that embedded.py gives.
BEGIN = ["run_host()", "run_life()", "run_program()", "<module>", "main"]
CALL = ["host_call()", "host_inner()"]
WHOLE = {
    "directly": [BEGIN + ["directly", "spin"]],
    "through C": [BEGIN + ["through_c"] + CALL + ["called_back", "spin"],
                  BEGIN + ["through_c"] + CALL + ["called_twice"] + CALL + ["called_back", "spin"]],
    "in a thread of C": [["run_worker()", "enter_python()", "in_thread", "spin"]],
}


class Library:
    """The CPython of one interpreter, as a library. "any": the distribution's if there is one."""

    def __init__(self, slot):
        if slot == "any":
            slot = next((s for s in ["system", *reversed(VERSIONS)] if s in INTERPRETERS), "3.13")
        if slot not in INTERPRETERS:
            pytest.skip(interpreter_name(slot) + " is not installed")
        self.python = INTERPRETERS[slot]
        out = subprocess.run([self.python, "-I", "-c", ASK], capture_output=True, check=True)
        self.vars = json.loads(out.stdout)

    @property
    def shared(self):
        path = os.path.join(self.vars["LIBDIR"], self.vars["INSTSONAME"])
        return path if ".so" in path and os.path.exists(path) else None

    @property
    def static(self):
        path = os.path.join(self.vars["LIBPL"], "libpython%s.a" % self.vars["LDVERSION"])
        return path if os.path.exists(path) else None

    def environment(self):
        return clean_environment(PYTHONHOME=self.vars["HOME"], PYTHONPATH=str(PROGRAMS))


def shared_library(slot):
    library = Library(slot)
    if not library.shared:
        pytest.skip(interpreter_name(slot) + " has no shared library")
    return library


def compile_host(exe, *options):
    subprocess.run(["gcc", "-O2", "-o", str(exe), str(PROGRAMS / "embed.c"), "-pthread", "-ldl",
                    *map(str, options)], check=True)
    return exe


@pytest.fixture(scope="module")
def embed(tmp_path_factory):
    """Linked with no libpython: it loads one."""
    return compile_host(tmp_path_factory.mktemp("embed") / "embed")


@pytest.fixture
def program(directory):
    """A copy of embedded.py for each life, so that the stacks of one are not those of another."""
    def copy(name):
        return shutil.copy(PROGRAMS / "embedded.py", directory / (name + ".py"))
    return copy


OWN = {name for ways in WHOLE.values() for way in ways for name in way if name.endswith("()")}


def both_kinds(stack, exe):
    """Its Python functions and the C functions of the program itself."""
    named = [(f, f.name if f.kind == PYTHON else f.name + "()") for f in stack.frames]
    return [name for f, name in named if f.kind == PYTHON or (f.file == exe and name in OWN)]


def check_whole(stacks, truth, exe, late=False):
    """The true Python stacks, each where it stands among the C functions. `late`: some samples may
    be older than what is known of the process."""
    assert {t["label"] for t in truth} == set(WHOLE)
    # No activation of the eval loop is left where it should have its frames, but for one in setup.
    left = share(stacks, lambda s: any(f.name == EVAL for f in s.native()))
    assert left <= (0.1 if late else 0.01)
    for n, found in check_stacks(stacks, truth).items():
        for stack in found:
            assert both_kinds(stack, exe.name) in WHOLE[truth[n]["label"]], stack


def check_life(target, exe):
    result = profile_work(target.pid, 0.7)
    result.complete()
    check_whole(result.stacks, target.stop()["stacks"], exe)


@pytest.mark.parametrize("slot", ["3.8", "3.11", "3.12", "3.13"])
def test_linked_with_the_library(slot, directory):
    library = shared_library(slot)
    where = library.vars["LIBDIR"]
    exe = compile_host(directory / "embed", "-Wl,--no-as-needed", library.shared,
                       "-Wl,-rpath," + where)
    with Process([exe, PROGRAMS / "embedded.py"], env=library.environment()) as target:
        check_life(target, exe)


# Debian's is not position-independent.
@pytest.mark.parametrize("slot, pie", [("3.8", "-pie"), ("3.13", "-pie"), ("system", "-no-pie")])
def test_linked_statically(slot, pie, directory):
    library = Library(slot)
    if not library.static:
        pytest.skip(interpreter_name(slot) + " has no static library")
    libs = [library.vars[name] or "" for name in ("MODLIBS", "LIBS", "SYSLIBS")]
    exe = compile_host(directory / "embed", pie, "-rdynamic", "-Wl,-S", "-Wl,--whole-archive",
                       library.static, "-Wl,--no-whole-archive",
                       *shlex.split(" ".join(libs)))
    with Process([exe, PROGRAMS / "embedded.py"], env=library.environment()) as target:
        check_life(target, exe)


def other_life(target):
    """Ends this life of the interpreter and waits for the next one: the truth of this one."""
    target.process.stdin.write(b"x")
    truth = json.loads(target.read_line())
    target.wait_ready()
    return truth["stacks"]


@pytest.mark.parametrize("slot", ["3.8", "3.11", "3.12", "3.13"])
def test_ended_and_begun_again(slot, embed, program):
    """Three lives under one profiler: none shows what is left of the one before."""
    library = shared_library(slot)
    lives = [program(name) for name in ("first", "second", "third")]
    with Process([embed, "--load", library.shared, *lives], env=library.environment()) as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "-p", target.pid)
        profiler.wait_sampling()
        truth = []
        for _ in lives[1:]:
            spend(target.pid, 0.4)
            truth += other_life(target)
        spend(target.pid, 0.4)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        truth += target.stop()["stacks"]
    result.complete()
    check_whole(result.stacks, truth, embed)


def spend_much_more(profiler, pid, begin, seconds):
    """Until the process has worked for so long, and ten times as long as it did before the profiler knew it as
    Python: on a busy machine that is a while."""
    profiler.wait_said("process %d: published as Python" % pid)
    spend(pid, max(seconds, 10 * (cpu_seconds(pid) - begin)))


@pytest.mark.parametrize("slot", ["3.8", "3.13"])
def test_loaded_late(slot, embed):
    """The profiler knew the process as one without Python, by whatever name."""
    library = shared_library(slot)
    with Process([embed, "--wait", "--load", library.shared, PROGRAMS / "embedded.py"],
                 env=library.environment()) as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "--comm", "embed")
        profiler.wait_sampling()
        begin = cpu_seconds(target.pid)
        target.process.stdin.write(b"x")
        target.wait_ready()
        spend_much_more(profiler, target.pid, begin, 0.6)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        truth = target.stop()["stacks"]
    result.complete(0.9)
    check_whole(result.stacks, truth, embed, late=True)


SPIN = """import host
def spin():
    while host.more():
        for i in range(20000):
            pass
spin()
"""


def test_started_long_after_it_was_loaded(embed, directory):
    """Looked at too early, it is asked again, though nothing happens that would wake the profiler."""
    library = shared_library("3.8")
    path = directory / "spin.py"
    path.write_text(SPIN)
    with Process([embed, "--wait", "--rest", "40", "--load", library.shared, path],
                 env=library.environment()) as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "-a", "-p", target.pid)
        profiler.wait_sampling()
        target.process.stdin.write(b"x")
        spend(target.pid, 0.5)
        profiler.interrupt_group()
        result = profiler.wait().ok()
    assert share(result.stacks, lambda s: any(f.name == "spin" for f in s.python())) > 0.7


@pytest.mark.parametrize("late", [False, True], ids=["both", "late"])
@pytest.mark.parametrize("slots", [("3.11", "3.13"), ("3.12", "3.12")], ids="+".join)
def test_two_in_one_process(slots, late, embed, program, directory):
    """Each in threads of its own: both are walked, also when they are two copies of one library,
    and when the profiler was there before them."""
    libraries = [shared_library(slot) for slot in slots]
    copy = shutil.copy(libraries[1].shared, directory)
    options = ["--wait"] * late + ["--load", libraries[0].shared, "--load", copy]
    # Each finds its own home by its version, and neither its extension modules.
    env = clean_environment(PYTHONPATH=str(PROGRAMS))
    with Process([embed, *options, program("first"), program("second")], env=env) as target:
        profiler = Profiler("-v", "-f", "-F", HZ, "--comm", "embed", "-o", directory / "report.txt")
        profiler.wait_sampling()
        begin = cpu_seconds(target.pid)
        if late:
            target.process.stdin.write(b"x")
            target.wait_ready()
        target.wait_ready()
        if late:
            spend_much_more(profiler, target.pid, begin, 0.8)
        else:
            spend(target.pid, 0.8)
        profiler.interrupt_group()
        result = profiler.wait().ok()
        truth = [json.loads(line)["stacks"] for line in target.end().splitlines()]
    result.complete(0.9 if late else 0.995)
    names = [library.vars["RELEASE"] for library in libraries]
    report = (directory / "report.txt").read_text()
    assert ", ".join(names) in report or ", ".join(reversed(names)) in report, report
    for stacks in truth:
        check_whole(result.stacks, stacks, embed, late)
