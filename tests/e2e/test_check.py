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
