# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames that an extension links into the interpreter, as Nuitka does for the functions that it has
compiled: no eval loop runs them. They are there with the lines of the program's own traceback."""
import json
import subprocess

import pytest

import harness
from conftest import INTERPRETERS, interpreter_name
from harness import COMPILED, HZ, MARKER, PYTHON, Target, check_stacks, profile_target, share
from test_dump import dump_json

pytestmark = pytest.mark.beside

VERSIONS = ["3.8", "3.10", "3.11", "3.12", "3.13"]


def find_python(version):
    if INTERPRETERS.get("system", "").endswith("python" + version):
        version = "system"
    if version not in INTERPRETERS:
        pytest.skip(interpreter_name(version) + " is not installed")
    return INTERPRETERS[version]


@pytest.fixture(name="linking", params=VERSIONS)
def linking_python(request):
    return find_python(request.param)


def build(python, directory, *flags):
    ask = "import sysconfig; print(sysconfig.get_path('include'))"
    include = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    harness.compile_c(directory / "linked.so", "linked.c", "-shared", "-fPIC",
                      "-I" + include.stdout.strip(), *flags)


def apart(stack):
    return any(f.kind == MARKER and f.name == COMPILED for f in stack.frames)


def test_stripped(linking, directory):
    """Nothing says in which native functions they are: they stand outwards of all of them."""
    build(linking, directory, "-s")
    result, truth = profile_target(linking, "linked.py", directory, hz=HZ)
    result.complete(0.99)
    check_stacks(result.stacks, truth["stacks"])
    linked = [s for s in result.stacks if s.leaf() and s.leaf().name in ("inner", "leaf")]
    assert share(result.stacks, lambda s: s in linked) > 0.5
    assert share(linked, apart) == 1


@pytest.mark.parametrize("version", ["3.8", "3.10", "3.12"])
def test_placed(version, directory):
    """Their native functions are named as Nuitka names them: each frame stands at its own."""
    linking = find_python(version)
    build(linking, directory, "-fno-optimize-sibling-calls")  # each caller has a frame
    result, truth = profile_target(linking, "linked.py", directory, hz=HZ)
    result.complete(0.99)
    check_stacks(result.stacks, truth["stacks"])
    linked = [s for s in result.stacks if s.leaf() and s.leaf().name in ("inner", "leaf")]
    assert share(linked, apart) == 0
    called_by = {"outer": ("outer", "thread"), "middle": ("outer",), "inner": ("inner",)}
    for stack in linked:
        frames = [f for f in stack.frames if f.file in ("linked.so", "linked_source.py")]
        for caller, frame in zip(frames, frames[1:]):
            if frame.kind == PYTHON:
                assert caller.name in called_by[frame.name], stack
            else:  # only one that has not pushed its frame yet
                assert not frame.name.startswith("impl_") or frame is frames[-1], stack


def test_dump(linking, directory):
    """No other thread shows what a right stack of this interpreter is."""
    build(linking, directory)
    with Target(linking, "linked.py", directory, "wait") as target:
        truth = json.loads(target.read_line())
        frames = dump_json(truth["pid"])[truth["pid"]]["frames"]
        found = [[f["function"], f["file"], f["line"]]
                 for f in reversed(frames) if f["kind"] == "python"]
    assert found[-1][0] == "tell" and found[:-1] == truth["stacks"][0]["frames"]
