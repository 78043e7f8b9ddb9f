# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Names of generated code: perf maps and jitdump. The programs say themselves what they generated."""
import select
import subprocess
from pathlib import Path

import pytest

from conftest import INTERPRETERS
from harness import (HZ, NATIVE, PATIENCE, PROGRAMS, PYTHON, Target, check_stacks, compile_c, find_tool,
                     profile, profile_target, total)
from test_namespaces import MOUNTNS, PIDNS, need, only_child

pytestmark = pytest.mark.beside


def generated(stacks):
    """Samples by the name of the innermost generated function."""
    counts = {}
    for stack in stacks:
        for frame in reversed(stack.frames):
            if frame.kind == NATIVE and frame.file == "anon":
                counts[frame.name] = counts.get(frame.name, 0) + stack.count
                break
    return counts


def named_shares(result, names):
    """The named functions do the same work, and nearly nothing else is in generated code."""
    counts = generated(result.stacks)
    mine = [counts.get(name, 0) for name in names]
    assert min(mine) > 0 and max(mine) < 3 * min(mine), counts
    # libffi's own stubs have no names
    assert sum(mine) >= 0.95 * sum(counts.values()), counts
    return counts


def test_perf_map(any_python):
    result, truth = profile_target(any_python, "jit.py", "-", seconds=2)
    named_shares(result, truth["names"])


def test_map_of_another_user(any_python):
    """Anyone can write /tmp/perf-PID.map before PID does."""
    result, _ = profile_target(any_python, "jit.py", "12345", seconds=1)
    counts = generated(result.stacks)
    assert list(counts) == ["generated code"], counts


# The loop of jit.py; as C++ calls a function, and as numba does.
LISTED = {"_ZN4shop5priceEj": "shop::price(unsigned int)", "_ZN8__main__4cartB2v1Ej": "__main__::cart(unsigned int)",
          "plain": "plain"}
OBJECT = """.text
.globl {0}
.type {0}, @function
{0}: mov %edi, %ecx
1: dec %rcx
jnz 1b
ret
.size {0}, . - {0}
"""


def test_list_for_debuggers(any_python, directory):
    """Nobody wrote a file: the names are in the process, where gdb finds them, too."""
    library = compile_c(directory / "liblisted.so", "listed.c", "-shared", "-fPIC")
    objects = []
    for name in LISTED:
        objects.append(directory / (name + ".o"))
        subprocess.run(["gcc", "-c", "-x", "assembler", "-o", objects[-1], "-"], input=OBJECT.format(name).encode(),
                       check=True)
    result, _ = profile_target(any_python, "listed.py", library, *objects, seconds=2)
    named_shares(result, LISTED.values())


# The programs move with it: they may be in /tmp themselves.
PRIVATE_TMP = """set -e
mount -t tmpfs none /mnt
cp "${3%/*}"/*.py /mnt
mount --move /mnt /tmp
python=$1 program=${3##*/}
shift 3
exec "$python" -B "/tmp/$program" "$@"
"""


def test_perf_map_in_a_container(any_python):
    """The map has the number of the inner namespace, below a root of its own."""
    need(PIDNS)
    need(MOUNTNS)
    prefix = [*PIDNS, *MOUNTNS, "sh", "-c", PRIVATE_TMP, "sh"]
    with Target(any_python, "jit.py", "-", prefix=prefix) as target:
        result = profile("-f", "-F", HZ, "-d", 2, "-p", only_child(target.pid)).ok()
        truth = target.stop()
    named_shares(result, truth["names"])


def trampolines():
    return [pytest.param(version, option, id=version + "-" + option)
            for version, option in [("3.12", "perf"), ("3.13", "perf"), ("3.13", "perf_jit")]]


@pytest.mark.parametrize("version, option", trampolines())
def test_perf_trampolines(version, option):
    """They are part of the activation that its Python frames replace, so nothing shows of them."""
    if version not in INTERPRETERS:
        pytest.skip("python%s is not installed" % version)
    with Target(INTERPRETERS[version], "nesting.py", "classes", prefix=["env", "PYTHONPERFSUPPORT=1"]
                if option == "perf" else ["env", "PYTHON_PERF_JIT_SUPPORT=1"]) as target:
        maps = Path("/proc/%d/maps" % target.pid).read_text()
        result = profile("-f", "-F", HZ, "-d", 2, "-p", target.pid).ok()
        truth = target.stop()
    assert ("jit-%d.dump" % target.pid in maps) == (option == "perf_jit")
    for path in Path("/tmp").glob("*-%d.*" % target.pid):
        path.unlink()
    check_stacks(result.stacks, truth["stacks"])
    evaluators = beside = 0
    for stack in result.stacks:
        for outer, inner in zip(stack.frames, stack.frames[1:]):
            evaluators += outer.name == "py_trampoline_evaluator"
            if inner.kind == PYTHON and outer.kind == NATIVE:
                assert outer.file != "anon" and not outer.name.startswith("py::"), stack
                beside += 1
    assert beside
    assert evaluators, "the trampolines were not in use"


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_trampolines_of_the_parent(version):
    """A child of fork writes a map of its own; what it was forked with is named in its parent's. It was
    forked before the profiler came, as workers of a server are."""
    if version not in INTERPRETERS:
        pytest.skip("python%s is not installed" % version)
    with Target(INTERPRETERS[version], "forked_jit.py", prefix=["env", "PYTHONPERFSUPPORT=1"]) as target:
        child = int(target.read_line())
        result = profile("-f", "-F", HZ, "-d", 2, "-p", target.pid).ok()
        truth = target.stop()
    maps = [Path("/tmp/perf-%d.map" % pid) for pid in (target.pid, child)]
    assert all(path.exists() for path in maps), "each has a map of its own"
    for path in maps:
        path.unlink()
    check_stacks(result.stacks, truth["stacks"])
    beside = 0
    for stack in result.stacks:
        for outer, inner in zip(stack.frames, stack.frames[1:]):
            if inner.kind == PYTHON and outer.kind == NATIVE:
                assert outer.file != "anon", stack
                beside += 1
    assert beside


def test_node(directory):
    node = find_tool("node")
    if not node:
        pytest.skip("node is not installed")
    argv = [node, "--perf-basic-prof", "--interpreted-frames-native-stack", PROGRAMS / "fib.js"]
    # V8 leaves a log where it runs.
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          cwd=directory) as target:
        try:
            assert select.select([target.stdout], [], [], PATIENCE)[0]
            assert target.stdout.readline() == b"ready\n"
            result = profile("-f", "-a", "-F", HZ, "-d", 2, "-p", target.pid).ok()
            target.stdin.close()
            target.wait(PATIENCE)
        finally:
            target.kill()
    Path("/tmp/perf-%d.map" % target.pid).unlink()
    ours = [s for s in result.stacks if any("fibOfJs" in f.name and f.file == "anon" for f in s.frames)]
    assert total(ours) >= 0.7 * total(result.stacks), result.stdout[:2000]
    # Its callers by name, through V8's code and back into C++. V8 may inline turn() into its own.
    assert any("turn" in f.name or "processImmediate" in f.name
               for s in ours for f in s.frames), result.stdout[:2000]
    assert any(f.name.startswith("node::Start") for s in ours for f in s.frames), result.stdout[:2000]
