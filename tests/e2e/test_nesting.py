# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""C -> Python -> C in every way: each merged stack is in the true order, line by line."""
import re
import struct

import pytest

from harness import NATIVE, check_stacks, in_order, native_between, profile_target, short

pytestmark = pytest.mark.beside

EVAL = re.compile(r"_PyEval_EvalFrameDefault(\.cold.*)?")


def entry_offset(path):
    """The file offset of an ELF file's entry point: what _start is called in a stripped file."""
    with open(path, "rb") as file:
        head = file.read(4096)
    assert head[:5] == b"\x7fELF\x02"
    entry, phoff = struct.unpack_from("<QQ", head, 24)
    phentsize, phnum = struct.unpack_from("<HH", head, 54)
    for n in range(phnum):
        kind, _, offset, vaddr, _, size = struct.unpack_from("<IIQQQQ", head, phoff + n * phentsize)
        if kind == 1 and vaddr <= entry < vaddr + size:
            return entry - vaddr + offset
    raise AssertionError("no segment holds the entry point of " + path)


def check_root(stack, python, exe):
    """The outermost frame is _start of the executable."""
    root = stack.frames[0]
    if root.kind == NATIVE and root.file == exe:
        if root.name == "_start":
            return
        if root.unnamed():
            begin = entry_offset(getattr(python, "elf", python))
            assert begin <= int(root.name.rpartition("+")[2], 16) < begin + 64, stack
            return
    raise AssertionError("does not begin in _start:\n%s" % stack)


def check_native(stack, native, images):
    gaps = native_between(stack)
    for caller, callee, roles in native:
        # None: built in, as 2.7's libffi is into _ctypes
        wanted = [images[role] for role in roles if images[role]]
        between = [frames for outer, inner, frames in gaps
                   if (short(outer.name), short(inner.name)) == (short(caller), short(callee))]
        assert between, "%s does not call %s:\n%s" % (caller, callee, stack)
        for frames in between:
            assert in_order(wanted, [f.file for f in frames]), \
                "%s -> %s lacks %s in this order:\n%s" % (caller, callee, wanted, stack)
            if "libc" in roles:
                assert any("qsort" in f.name for f in frames if f.file == images["libc"]), stack


def test_nesting(python):
    result, truth = profile_target(python, "nesting.py", seconds=3)
    result.complete()
    found = check_stacks(result.stacks, truth["stacks"])
    for n, stacks in found.items():
        for stack in stacks:
            check_root(stack, python, truth["images"]["exe"])
            check_native(stack, truth["stacks"][n]["native"], truth["images"])
            # Every activation of the eval loop but the leaf's own was replaced by its frames.
            for _, _, frames in native_between(stack):
                assert not any(EVAL.fullmatch(f.name) for f in frames), stack


def test_no_native(any_python):
    result, truth = profile_target(any_python, "nesting.py", seconds=2, options=["--no-native"])
    check_stacks(result.stacks, truth["stacks"])
    assert not any(s.native() for s in result.stacks)
