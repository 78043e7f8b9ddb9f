# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Interpreters that are not what they say: copies of real ones with a few bytes changed.

Each runs as well as before, because CPython itself does not read what was changed. It must be named
in the report with what did not hold, have no Python frames, and keep its native stacks.
"""
import contextlib
import os
import re
import shutil
import struct
from pathlib import Path

import pytest

import harness
from conftest import INTERPRETERS, interpreter_name
from harness import HZ, Target, profile

pytestmark = pytest.mark.beside

NAME = "spins_in_this"


class Elf:
    """A 64-bit ELF file in memory: where its symbols and notes are, by section headers."""

    def __init__(self, path):
        self.path = Path(path)
        self.data = bytearray(self.path.read_bytes())
        (self.phoff, self.shoff) = struct.unpack_from("<QQ", self.data, 32)
        (self.phnum,) = struct.unpack_from("<H", self.data, 56)
        (self.shnum,) = struct.unpack_from("<H", self.data, 60)

    def segments(self):
        """(type, offset, address, size in the file) of each."""
        for i in range(self.phnum):
            kind, _, offset, addr, _, size = struct.unpack_from("<IIQQQQ", self.data,
                                                                self.phoff + 56 * i)
            yield kind, offset, addr, size

    def sections(self, kind):
        """(offset, size, link) of each of one type."""
        for i in range(self.shnum):
            head = struct.unpack_from("<IIQQQQII", self.data, self.shoff + 64 * i)
            if head[1] == kind:
                yield head[4], head[5], head[6]

    def offset_of(self, name):
        """The place in the file of what an exported symbol names."""
        (symtab, size, link), = self.sections(11)
        (strtab,) = struct.unpack_from("<Q", self.data, self.shoff + 64 * link + 24)
        for at in range(symtab, symtab + size, 24):
            text, _, _, _, addr, _ = struct.unpack_from("<IBBHQQ", self.data, at)
            end = self.data.index(0, strtab + text)
            if self.data[strtab + text:end] == name.encode():
                return next(addr - start + offset for kind, offset, start, size in self.segments()
                            if kind == 1 and start <= addr < start + size)
        return None

    def put_u64(self, at, value):
        struct.pack_into("<Q", self.data, at, value)

    def get_u64(self, at):
        return struct.unpack_from("<Q", self.data, at)[0]

    def build_id_at(self):
        for offset, size, _ in self.sections(7):
            if self.data[offset:offset + 16] == struct.pack("<III4s", 4, 20, 3, b"GNU\0"):
                return offset + 16
        return None

    def another_build_id(self):
        """So that it is not taken for the file that it was made from."""
        if at := self.build_id_at():
            self.data[at:at + 20] = os.urandom(20)

    def save(self, path):
        path.write_bytes(self.data)
        path.chmod(0o755)
        return path


def forged_target(python, tmp_path, elf):
    """Runs `python` with `elf`, itself or its library with some bytes changed."""
    elf.another_build_id()
    file = elf.save(tmp_path / elf.path.name)
    if elf.path == Path(python):
        return Target(str(file), "spinner.py", NAME,
                      env=harness.clean_environment(PYTHONHOME="/usr"))
    return Target(python, "spinner.py", NAME,
                  env=harness.clean_environment(LD_LIBRARY_PATH=str(tmp_path)))


def library_of(python):
    """The file that holds the interpreter: its libpython, or the executable itself."""
    version = Path(python).name
    library = Path(python).parents[1] / "lib" / ("lib%s.so.1.0" % version)
    return library if library.exists() else Path(python)


def find(version):
    """An interpreter with a shared library, or a skip."""
    python = INTERPRETERS.get(version)
    if not python or library_of(python) == Path(python):
        pytest.skip(interpreter_name(version) + " is not installed with a shared library")
    return python


def find_in_one_file():
    """A 3.11 without a library: Debian's."""
    python = "/usr/bin/python3.11"
    if not os.path.exists(python):
        pytest.skip("there is no Python 3.11 in one file")
    return python


def names_of(stacks):
    return {f.name for s in stacks for f in s.python()}


def reasons_in(report):
    return re.findall(r"native only: (.*)", report.read_text())


def check_refused(pid, reason, tmp_path):
    """Native stacks, no Python frames, and the reason in the report."""
    report = tmp_path / "report.txt"
    result = harness.profile_work(pid, 0.5, "-o", report)
    assert harness.total(result.stacks) > 100
    assert not names_of(result.stacks)
    natively = [s for s in result.stacks if any("PyEval" in f.name for f in s.native())]
    assert harness.total(natively) > 0.9 * harness.total(result.stacks)
    assert reasons_in(report) == [reason]


def test_forged_version(tmp_path):
    """3.11 says that it is 3.12."""
    python = find_in_one_file()
    elf = Elf(python)
    elf.put_u64(elf.offset_of("Py_Version"), 0x030c01f0)
    with forged_target(python, tmp_path, elf) as target:
        check_refused(target.pid, "no thread state has the id of a thread", tmp_path)


def test_zeroed_debug_offsets(tmp_path):
    python = find("3.13")
    elf = Elf(library_of(python))
    at = elf.offset_of("_PyRuntime")
    assert elf.data[at:at + 8] == b"xdebugpy"
    elf.data[at:at + 584] = bytes(584)
    with forged_target(python, tmp_path, elf) as target:
        check_refused(target.pid, "the interpreter did not initialise its debug offsets", tmp_path)


# Positions in 3.13's _Py_DebugOffsets, what they are made to say, and what does not hold then.
FORGED_OFFSETS = {
    "previous": (232, 16, "frame 1: code object's type is not PyCode_Type"),
    "executable": (240, 16, "frame 0: code object's type is not PyCode_Type"),
    "filename": (280, 104, "frame 0: code object has a name that is not a str"),
    "qualname": (296, 104, "frame 0: code object has a name that is not a str"),
    "linetable": (304, 40, "frame 0: code object has a line table that is not its own"),
    "instr_ptr": (248, 24, "frame 0: its instruction is outside of its code"),
    "thread_id": (192, 160, "no thread state has the id of a thread"),
}


@pytest.mark.parametrize("field", FORGED_OFFSETS)
def test_forged_debug_offsets(field, tmp_path):
    python = find("3.13")
    position, value, reason = FORGED_OFFSETS[field]
    elf = Elf(library_of(python))
    elf.put_u64(elf.offset_of("_PyRuntime") + position, value)
    with forged_target(python, tmp_path, elf) as target:
        check_refused(target.pid, reason, tmp_path)


def test_forged_into_silence(tmp_path):
    """The list of interpreters is said to be where a running process has NULL: finalizing.

    Nothing is wrong with what can be read, so the process is trusted, but the report does not leave
    its user without a word.
    """
    elf = Elf(library_of(find("3.13")))
    at = elf.offset_of("_PyRuntime")
    elf.put_u64(at + 40, elf.get_u64(at + 32))
    with forged_target(find("3.13"), tmp_path, elf) as target:
        check_refused(target.pid, "no thread was in Python when it was looked at", tmp_path)


def test_truncated_file(tmp_path):
    """All that is loaded, and nothing behind it: no section headers, no symbol table."""
    elf = Elf(find_in_one_file())
    elf.another_build_id()
    end = max(offset + size for kind, offset, _, size in elf.segments() if kind == 1)
    assert end < len(elf.data)
    del elf.data[end:]
    python = elf.save(tmp_path / "python3.11")
    env = harness.clean_environment(PYTHONHOME="/usr")
    with Target(str(python), "spinner.py", NAME, env=env) as target:
        result = harness.profile_work(target.pid, 0.5)
        assert NAME in names_of(result.stacks)
        result.complete()


def test_truncated_under_a_running_process(tmp_path):
    """What is left at its path is half a file: refused, or not Python, and no crash."""
    python = find("3.13")
    library = library_of(python)
    copy = tmp_path / library.name
    shutil.copy(library, copy)
    env = harness.clean_environment(LD_LIBRARY_PATH=str(tmp_path))
    with Target(python, "spinner.py", NAME, env=env) as target:
        copy.rename(tmp_path / "moved")
        copy.write_bytes(library.read_bytes()[:4096])
        result = harness.profile_work(target.pid, 0.5)
        assert NAME in names_of(result.stacks)


def test_forged_build_id(tmp_path):
    """3.12 claims to be the 3.13 that runs next to it, to the build id and the size.

    One of them is walked with the other's layout until the check of each process: no name may come
    out of that. Which one is found out depends on who was looked at first.
    """
    real, other = find("3.13"), find("3.12")
    like, elf = Elf(library_of(real)), Elf(library_of(other))
    if len(elf.data) > len(like.data) or not like.build_id_at() or not elf.build_id_at():
        pytest.skip("no Python 3.12 that could pass for 3.13")
    at = like.build_id_at()
    identity = like.data[at:at + 20]
    at = elf.build_id_at()
    elf.data[at:at + 20] = identity
    elf.data += bytes(len(like.data) - len(elf.data))
    elf.save(tmp_path / elf.path.name)
    env = harness.clean_environment(LD_LIBRARY_PATH=str(tmp_path))
    with contextlib.ExitStack() as stack:
        forged = stack.enter_context(Target(other, "spinner.py", NAME, "--comm", "forged", env=env))
        honest = stack.enter_context(Target(real, "spinner.py", NAME, "--comm", "honest"))
        report = tmp_path / "report.txt"
        result = profile("-f", "-F", HZ, "-d", 2, "-p", "%d,%d" % (honest.pid, forged.pid), "-o",
                         report).ok()
    leaves = {comm: {s.leaf().name for s in result.stacks if s.comm == comm and s.leaf()}
              for comm in ("honest", "forged")}
    assert sorted(map(len, leaves.values())) == [0, 1], leaves
    assert {NAME} in leaves.values()
    assert len(reasons_in(report)) == 1
