# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--inlines: source lines of native frames and the functions inlined there. The source is the truth."""
import re
import subprocess

import pytest

import pprof_read
from harness import HZ, PROGRAMS, Target, find_tool, profile, total

pytestmark = pytest.mark.beside

SOURCE = PROGRAMS / "inlined.c"


def lines_of(mark):
    return {n for n, line in enumerate(SOURCE.read_text().split("\n"), 1) if "/* %s */" % mark in line}


@pytest.fixture
def library(directory):
    gcc = find_tool("gcc")
    if not gcc:
        pytest.skip("gcc is not installed")
    path = directory / "inlined.so"
    # Symbolic: outer() is called as it is, not through a stub that is in no source file.
    subprocess.run([gcc, "-O2", "-g", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", path, SOURCE], check=True)
    return path


def run(any_python, library, *options):
    with Target(any_python, "inlined.py", library) as target:
        result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, *options).ok()
        target.stop()
    mine = [s for s in result.stacks if any("inlined.so" == f.file for f in s.frames)]
    assert total(mine) > 0.5 * total(result.stacks), result.stdout[:2000]
    return mine


def place(frame):
    """(function, line) of "function (/path/inlined.c:12) [...]"."""
    match = re.fullmatch(r"(\w+) \((.*):(\d+)\)", frame.name)
    assert match and match[2] == str(SOURCE), frame
    return match[1], int(match[3])


def test_inlines(any_python, library, directory):
    pprof = directory / "cpu.pb.gz"
    stacks = run(any_python, library, "--inlines", "-o", pprof)
    in_leaf = 0
    for stack in stacks:
        first = next(n for n, f in enumerate(stack.frames) if f.file == "inlined.so")
        frames = [f for f in stack.frames[first:] if f.file in ("inlined.so", "inlined")]
        chain = [place(f) for f in frames]
        assert chain[0][0] == "work" and [f.file for f in frames[:2]] == ["inlined.so"] * len(frames[:2])
        if len(chain) != 4:
            continue
        assert [f.file for f in frames[2:]] == ["inlined", "inlined"], stack
        assert [name for name, _ in chain] == ["work", "outer", "middle", "leaf"], stack
        for (_, line), mark in zip(chain, ["calls outer", "middle into outer", "leaf into middle"]):
            assert line in lines_of(mark), stack
        if chain[3][1] in lines_of("in leaf"):
            in_leaf += stack.count
    assert in_leaf >= 0.8 * total(stacks), [str(s) for s in stacks[:5]]
    # pprof: one location, three lines
    chains = set()
    for sample in pprof_read.read(pprof)["samples"]:
        names = [f["func"] for f in sample["stack"]]
        if "leaf" in names:
            at = names.index("leaf")
            frames = sample["stack"][at:at + 3]
            assert [f["func"] for f in frames] == ["leaf", "middle", "outer"], names
            assert {f["file"] for f in frames} == {str(SOURCE)}
            assert len({f["address"] for f in frames}) == 1, "not one location"
            assert [f["inlined"] for f in frames] == [True, True, False]
            chains.add(tuple(f["line"] for f in frames))
    assert chains and {c[0] for c in chains} & lines_of("in leaf")


def test_off_by_default(any_python, library):
    for stack in run(any_python, library):
        for frame in stack.frames:
            # "update_sd_lb_stats.constprop.0" is a name of the kernel's, no place in a source
            assert frame.file != "inlined" and not re.search(r"\.c:\d+\)", frame.name), stack


def test_stripped(any_python, library):
    """Without debug information: as without the option."""
    subprocess.run(["strip", "-g", library], check=True)
    stacks = run(any_python, library, "--inlines")
    assert all(f.name in ("work", "outer") for s in stacks for f in s.frames if f.file == "inlined.so")
