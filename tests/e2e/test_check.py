# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""check: what works here, and why a process is (not) walked."""
import os
import re
import shutil
import subprocess

import pytest

import harness
from harness import Target, find_tool
from test_trust import NAME, Elf, find, forged_target, library_of

pytestmark = pytest.mark.beside


def check(*args, prefix=(), program=harness.PYPERF):
    return subprocess.run([*prefix, str(program), "check", *map(str, args)], text=True,
                          capture_output=True, timeout=60, env=harness.clean_environment())


def lines(result, word):
    return re.findall(r"^  %s +(.*)$" % word, result.stdout, re.M)


def test_machine():
    result = check()
    assert result.returncode == 0, result
    assert not lines(result, "FAIL")
    assert "samples arrive" in result.stdout
    assert os.uname().release in result.stdout
    assert "\033" not in result.stdout


def expect_unsupported(process, what):
    """check, record and the events of waits name what the process is, not "no Python"."""
    try:
        checked = check("-p", process.pid)
        recorded = harness.profile("-d", 1, "-p", process.pid)
        waiting = harness.profile("-d", 1, "-p", process.pid, "-e", "gil,off-cpu")
    finally:
        process.kill()
        process.wait()
    assert checked.returncode == 1 and recorded.status == 1
    (line,) = lines(checked, "FAIL")
    text = " ".join(checked.stdout.split())
    assert line.startswith(what) and "not supported" in text and "no Python" not in text, checked.stdout
    assert "process %d is %s" % (process.pid, what) in recorded.stderr, recorded.stderr
    assert waiting.status == 1 and waiting.stderr.count("process %d is %s" % (process.pid, what)) == 1, waiting.stderr


def test_pypy_is_named():
    pypy = find_tool("pypy3")
    if not pypy:
        pytest.skip("pypy3 is not installed")
    process = subprocess.Popen([pypy, "-c", "print('ready', flush=True); import time; time.sleep(600)"],
                               stdout=subprocess.PIPE, env=harness.clean_environment())
    assert process.stdout.readline() == b"ready\n"
    expect_unsupported(process, "PyPy (")


def test_32_bit_python_is_named(directory):
    """A program of 32 bits that exports what CPython does; a whole one is not to be had everywhere."""
    source, program = directory / "spin.s", directory / "python32"
    source.write_text('.globl _start\n_start: jmp _start\n.section .rodata\n.asciz "_PyEval_EvalFrameDefault"\n')
    try:
        subprocess.run(["as", "--32", "-o", directory / "spin.o", source], check=True)
        subprocess.run(["ld", "-m", "elf_i386", "-o", program, directory / "spin.o"], check=True)
        process = subprocess.Popen([program])
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip("32-bit programs: %s" % error)
    expect_unsupported(process, "32-bit CPython (%s)" % program)


@pytest.mark.parametrize("missing", ["bpf", "perfmon", "syslog"])
def test_missing_right(missing, directory):
    if not find_tool("setpriv"):
        pytest.skip("setpriv is not installed")
    sets = ",".join("+" + c for c in ("bpf", "perfmon", "sys_ptrace", "dac_read_search", "syslog")
                    if c != missing)
    program = shutil.copy(harness.PYPERF, directory / "pyperf-bpf")
    result = check(program=program, prefix=[
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all," + sets,
        "--ambient-caps=-all," + sets, "--bounding-set=-all," + sets])
    essential = missing != "syslog"
    assert result.returncode == (1 if essential else 0), result
    said = lines(result, "FAIL" if essential else "note")
    assert any("CAP_" + missing.upper() in line for line in said), result.stdout
    assert "setcap" in result.stdout


def test_python_process(python):
    with Target(python, "spinner.py", NAME) as target:
        result = check("--pid", target.pid)
    assert result.returncode == 0, result
    version = subprocess.check_output([python, "-c", "import platform as p; print(p.python_version())"],
                                      text=True).strip()
    assert "CPython %s in " % version in result.stdout
    assert "a whole stack was validated" in result.stdout


def test_lone_number(any_python):
    """As `dump` takes it."""
    with Target(any_python, "spinner.py", NAME) as target:
        result = check(target.pid)
    assert result.returncode == 0 and "a whole stack was validated" in result.stdout, result
    for words, message in ((["app"], "'app' is not the number"), (["-p", 1, 2], "unexpected '2'"), ([1, 2], "unexpected '2'")):
        result = check(*words)
        assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1, result


def test_not_python():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            result = check("-p", sleeper.pid)
        finally:
            sleeper.kill()
    assert result.returncode == 1
    assert any("no Python" in line for line in lines(result, "FAIL")), result.stdout


def test_refused(tmp_path):
    """The reason is the one of the report."""
    elf = Elf(library_of(find("3.13")))
    elf.put_u64(elf.offset_of("_PyRuntime") + 296, 104)
    with forged_target(find("3.13"), tmp_path, elf) as target:
        result = check("-p", target.pid)
    assert result.returncode == 1
    assert lines(result, "FAIL") == [
        "native only: frame 0: code object has a name that is not a str"]


def test_hostile_name(any_python):
    """A command name with escapes stays text."""
    with Target(any_python, "spinner.py", NAME, "--comm", "\033[31mred") as target:
        result = check("-p", target.pid)
    assert result.returncode == 0, result
    assert "\033" not in result.stdout and "red" in result.stdout


@pytest.mark.parametrize("args, status, text", [
    (("-p", "0"), 2, "is not the number of a process"),
    (("-p", "x"), 2, "is not the number of a process"),
    (("nonsense",), 2, "nonsense"),
    (("-p", str(2 ** 22 - 1)), 1, "no such process"),
])
def test_wrong_line(args, status, text):
    result = check(*args)
    assert result.returncode == status
    assert text in result.stderr and len(result.stderr.splitlines()) == 1
