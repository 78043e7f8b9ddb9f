# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the programs are built with, as their files show it."""
import os
import platform
import re
import subprocess

import pytest

import harness

pytestmark = pytest.mark.beside

PROGRAMS = [harness.PYPERF, harness.PYPERF + "-agent"]


def readelf(*args):
    return subprocess.run(["readelf", "--wide", *args], stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=os.path.basename)
def test_file(program):
    """Nothing of it has a fixed address, or can be written once it runs; no stack is executable."""
    assert re.search(r"Type:\s+DYN", readelf("--file-header", program))
    dynamic = readelf("--dynamic", program)
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(BIND_NOW\)|\(FLAGS_1\).*\bNOW\b", dynamic), dynamic
    assert not re.search(r"\((RPATH|RUNPATH|TEXTREL)\)", dynamic), dynamic
    headers = readelf("--program-headers", program)
    assert "GNU_RELRO" in headers
    stack, = re.findall(r"GNU_STACK .*", headers)
    assert " RW " in stack, stack
    loads = re.findall(r"LOAD .*", headers)
    assert loads and not [line for line in loads if re.search(r"\bRWE\b", line)], headers


@pytest.mark.parametrize("program", PROGRAMS, ids=os.path.basename)
def test_nothing_says_where_it_was_built(program):
    """The same sources give the same bytes elsewhere: the types of BPF programs name their source files, for one."""
    with open(program, "rb") as f:
        data = f.read()
    assert b"bpf/lifecycle.bpf.h" in data
    assert os.fsencode(harness.REPO) + b"/" not in data


@pytest.mark.parametrize("program", PROGRAMS, ids=os.path.basename)
def test_code(program):
    """Stacks have guards, and calls of libc with a buffer check its size, the newer ones by the size at run time."""
    symbols = readelf("--dyn-syms", program)
    assert "__stack_chk_fail" in symbols
    assert "__snprintf_chk" in symbols and "__memcpy_chk" in symbols, re.findall(r"\w+_chk\b", symbols)


@pytest.mark.parametrize("program", PROGRAMS, ids=os.path.basename)
def test_landing_pads(program):
    """x86: indirect jumps may lead to where a landing pad is, and nowhere else. The linker notes it if all objects say so."""
    if platform.machine() != "x86_64":
        pytest.skip("not x86-64")
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--section=.text", program],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    assert code.count("endbr64") > 500, code.count("endbr64")
    assert re.search(r"orq\s+\$0x0,\(%rsp\)", code), "no probe of the stack: -fstack-clash-protection"
