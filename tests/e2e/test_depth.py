# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Deep stacks: whole up to the limit, beyond it the innermost frames and a marker; --max-frames."""
import pytest

import harness
from conftest import INTERPRETERS
from harness import profile_target, total

DEFAULT = 1024


@pytest.fixture(scope="module")
def recurse(tmp_path_factory):
    return harness.compile_c(tmp_path_factory.mktemp("c") / "recurse", "recurse.c")


def profile_c(program, depth, *options):
    with harness.Process([program, depth]) as target:
        result = harness.profile("-v", "-f", "-a", "--no-kernel", "-F", 999, "-d", 1,
                                 "-p", target.pid, *options).ok()
    return result, harness.readable([s for s in result.stacks if s.frames[-1].name == "bottom"])


def depth_of(stack, name):
    return sum(f.name == name for f in stack.frames)


@pytest.mark.parametrize("depth, options", [(400, []), (3000, ["--max-frames", 4096])])
def test_c(recurse, depth, options):
    result, stacks = profile_c(recurse, depth, *options)
    assert total(stacks) > 5
    for stack in stacks:
        assert not stack.markers() and depth_of(stack, "down") == depth, stack
    assert result.counters["note_truncated"] == 0, result.counters


def test_c_too_deep(recurse):
    result, stacks = profile_c(recurse, 3000)
    assert total(stacks) > 5
    for stack in stacks:
        # The marker stands for the outermost frames; all others are the innermost ones.
        assert stack.frames[0].text == "[truncated]" and len(stack.markers()) == 1, stack
        assert DEFAULT - 4 <= depth_of(stack, "down") <= DEFAULT, stack
        assert {f.name for f in stack.frames[1:-1]} == {"down"}, stack
    assert result.counters["note_truncated"] >= total(stacks), result.counters


def at_bottom(stacks):
    stacks = harness.readable([s for s in stacks if s.leaf() and s.leaf().name == "bottom"])
    assert total(stacks) > 0
    return stacks


def check_whole(result, truth):
    (true,) = truth["stacks"]
    stacks = at_bottom(result.stacks)
    for stack in stacks:
        assert not stack.markers(), stack
        callers = [(f.name, f.file, f.line) for f in stack.python()[:-1]]
        assert callers == [tuple(f) for f in true["frames"][:-1]], stack


@pytest.mark.parametrize("version", ["3.9", "3.12"])
def test_python(version):
    """Up to 3.10 these are 7,500 native frames, too."""
    if version not in INTERPRETERS:
        pytest.skip("python%s is not installed" % version)
    check_whole(*profile_target(INTERPRETERS[version], "deep.py", "python", 3000, seconds=1,
                                hz=499, options=["--no-kernel", "--max-frames", 16384]))


@pytest.mark.parametrize("mode, depth", [("python", 400), ("mixed", 100)])
def test_python_default(any_python, mode, depth):
    check_whole(*profile_target(any_python, "deep.py", mode, depth, seconds=1, hz=499))


def test_python_too_deep(any_python):
    result, truth = profile_target(any_python, "deep.py", "python", 3000, seconds=1, hz=499,
                                   options=["--max-frames", 512])
    (true,) = truth["stacks"]
    stacks = at_bottom(result.stacks)
    for stack in stacks:
        assert stack.markers(), stack
        callers = [(f.name, f.file, f.line) for f in stack.python()[:-1]]
        assert len(callers) == 511
        assert callers == [tuple(f) for f in true["frames"][-512:-1]], stack
    assert result.counters["note_truncated"] >= total(stacks), result.counters
