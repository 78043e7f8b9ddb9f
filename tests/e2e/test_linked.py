# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames that an extension links into the interpreter, as Nuitka does for the functions that it has
compiled: no eval loop runs them. They are there with the lines of the program's own traceback."""
import json
import subprocess

import pytest

import harness
from conftest import INTERPRETERS, interpreter_name
from harness import COMPILED, HZ, MARKER, Target, check_stacks, profile_target, share
from test_dump import dump_json


@pytest.fixture(name="linking", params=["3.11", "3.12", "3.13"])
def linking_python(request):
    """Before 3.11 all frames are objects of their own."""
    slot = request.param
    if INTERPRETERS.get("system", "").endswith("python" + slot):
        slot = "system"
    if slot not in INTERPRETERS:
        pytest.skip(interpreter_name(slot) + " is not installed")
    return INTERPRETERS[slot]


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


def test_dump(linking, directory):
    """No other thread shows what a right stack of this interpreter is."""
    build(linking, directory)
    with Target(linking, "linked.py", directory, "wait") as target:
        truth = json.loads(target.read_line())
        frames = dump_json(truth["pid"])[truth["pid"]]["frames"]
        found = [[f["function"], f["file"], f["line"]]
                 for f in reversed(frames) if f["kind"] == "python"]
    assert found[-1][0] == "tell" and found[:-1] == truth["stacks"][0]["frames"]
