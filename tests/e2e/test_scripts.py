# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The scripts that install, build, run and count: what CI relies on when it is green."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

TOP = Path(__file__).resolve().parents[2]
RUN = TOP / "scripts/run"
PROGRAM = TOP / ".output/pyperf-bpf"

# The name of the program chooses its cases: test_pass_fail_skip has those three.
CASES = r"""
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void passed(void **state) { (void)state; fprintf(stderr, "noise without a newline"); }
static void failed(void **state) { (void)state; fprintf(stderr, "why it failed\n"); assert_true(0); }
static void skipped(void **state) { (void)state; print_message("missing: a thing\n"); skip(); }
static void crashed(void **state) { (void)state; fflush(stdout); _exit(134); }
static void hung(void **state) { (void)state; fflush(stdout); pause(); }

int main(int argc, char **argv)
{
	struct CMUnitTest tests[8];
	size_t n = 0;
	int err;

	(void)argc;
	if (strstr(argv[0], "silent"))
		return 0;
	if (strstr(argv[0], "nothing")) {
		puts("missing: everything\n");
		return 77;
	}
	if (strstr(argv[0], "pass"))
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(passed);
	if (strstr(argv[0], "fail"))
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(failed);
	if (strstr(argv[0], "skip"))
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(skipped);
	if (strstr(argv[0], "crash"))
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(crashed);
	if (strstr(argv[0], "hang"))
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(hung);
	err = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
	if (!strstr(argv[0], "leak"))
		return err;
	fprintf(stderr, "SUMMARY: Sanitizer: x\n");
	return 23;
}
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Makes a cmocka program with the cases that its name says."""
    directory = tmp_path_factory.mktemp("cases")
    source = directory / "cases.c"
    source.write_text(CASES)
    subprocess.run(["gcc", "-o", "cases", source.name, "-lcmocka"], cwd=directory, check=True)

    def make(name):
        shutil.copy(directory / "cases", directory / name)
        return directory / name

    return make


def environment(**more):
    """Ours without what changes how the scripts count."""
    env = {k: v for k, v in os.environ.items()
           if k not in ("CI", "PYPERF_TEST_RESULTS", "TEST_TIMEOUT", "MAKEFLAGS")}
    return {**env, **more}


def run_tests(results, kind, *programs, **env):
    """(status, output, sums) of one scripts/run-tests."""
    results.write_text("")
    env = environment(PYPERF_TEST_RESULTS=str(results), **env)
    run = subprocess.run([TOP / "scripts/run-tests", kind, *programs], env=env, text=True,
                         capture_output=True, timeout=60)
    sums = subprocess.run([TOP / "scripts/run-tests", "summary", results], env=env, text=True,
                          capture_output=True, timeout=60)
    assert sums.returncode == run.returncode
    return run.returncode, run.stdout + sums.stdout, sums.stdout.splitlines()[-1]


@pytest.mark.parametrize("name, env, status, sums, shown", [
    ("test_pass", {}, 0, "1 passed, 0 failed, 0 skipped", "1 passed"),
    ("test_pass_fail", {}, 1, "1 passed, 1 failed, 0 skipped", "why it failed"),
    ("test_pass_skip", {}, 0, "1 passed, 0 failed, 1 skipped", "skipped: missing: a thing"),
    ("test_pass_skip", {"CI": "true"}, 1, "1 passed, 1 failed, 0 skipped", "missing: a thing"),
    ("test_pass_crash", {}, 1, "1 passed, 1 failed, 0 skipped", "crashed: no end: signal ABRT"),
    ("test_pass_leak", {}, 1, "1 passed, 1 failed, 0 skipped", "exit: exit status 23, Sanitizer: x"),
    ("test_pass_hang", {"TEST_TIMEOUT": "1"}, 1, "1 passed, 1 failed, 0 skipped",
     "hung: no end: not within 1 seconds"),
    ("test_silent", {}, 1, "0 passed, 1 failed, 0 skipped", "none found in its output"),
    ("test_nothing", {}, 0, "0 passed, 0 failed, 1 skipped", "all: missing: everything"),
    ("test_nothing", {"CI": "true"}, 1, "0 passed, 1 failed, 0 skipped", "missing: everything"),
])
def test_cmocka_is_counted(cases, tmp_path, name, env, status, sums, shown):
    got = run_tests(tmp_path / "results", "unit", cases(name), **env)
    assert (got[0], got[2]) == (status, sums), got[1]
    assert shown in got[1]


def test_expected_skips(cases, tmp_path):
    expected = tmp_path / "expected"
    for text, status in [
        ("unit test_skip: skipped: missing: a th*  # why\n", 0),
        ("# unit *\n\nunit other: *\n", 1),
        ("!/nonexistent unit *a thing\n", 0),
        ("!/proc unit *a thing\n", 1),
    ]:
        expected.write_text(text)
        got = run_tests(tmp_path / "results", "unit", cases("test_skip"), CI="true",
                        PYPERF_EXPECTED_SKIPS=str(expected))
        assert got[0] == status, text


@pytest.mark.parametrize("body, status, sums", [
    ("exit 0", 0, "1 passed, 0 failed, 0 skipped"),
    ("exit 77", 0, "0 passed, 0 failed, 1 skipped"),
    ("kill -SEGV $$", 1, "0 passed, 1 failed, 0 skipped"),
])
def test_fuzz_is_counted(tmp_path, body, status, sums):
    program = tmp_path / "fuzz_x"
    program.write_text("#!/bin/sh\n%s\n" % body)
    program.chmod(0o755)
    got = run_tests(tmp_path / "results", "fuzz", program)
    assert (got[0], got[2]) == (status, sums), got[1]


@pytest.mark.parametrize("body, status, sums", [
    ("def test_a(): pass\ndef test_b(): assert 0", 1, "1 passed, 1 failed, 0 skipped"),
    ("import pytest\ndef test_a(): pytest.skip('no thing')", 0, "0 passed, 0 failed, 1 skipped"),
    ("import nonexistent_module", 1, "0 passed, 1 failed, 0 skipped"),
    ("import os\ndef test_a(): os._exit(0)", 1, "0 passed, 1 failed, 0 skipped"),
    ("x = 1", 1, "0 passed, 1 failed, 0 skipped"),
])
def test_pytest_is_counted(tmp_path, body, status, sums):
    test = tmp_path / "test_x.py"
    test.write_text(body + "\n")
    got = run_tests(tmp_path / "results", "e2e", test)
    assert (got[0], got[2]) == (status, sums), got[1]


def failures(output):
    lines = output.splitlines()
    return lines[lines.index("failed:") + 1:]


def test_failures_are_listed_last(cases, tmp_path):
    """Of this run only, each with its reason: they stand next to make's line."""
    name = cases("test_pass_fail_skip_hang")
    results = tmp_path / "results"
    results.write_text("unit\tfail\ttest_other: case\treason\n")
    got = subprocess.run([TOP / "scripts/run-tests", "unit", name], text=True, timeout=60,
                         env=environment(PYPERF_TEST_RESULTS=str(results), TEST_TIMEOUT="1"),
                         capture_output=True)
    line = CASES[:CASES.index("assert_true")].count("\n") + 1
    assert (got.returncode, failures(got.stdout)) == (1, [
        "  unit %s: failed: cases.c:%d: 0" % (name.name, line),
        "  unit %s: hung: no end: not within 1 seconds" % name.name])


@pytest.mark.parametrize("body, reason", [
    ("def test_a():\n  x = 97.1\n  assert x >= 99.5", "test_a: assert 97.1 >= 99.5"),
    ("def test_a():\n  x = 97.1\n  assert x >= 99.5, 'why'",
     "test_a: AssertionError: why assert 97.1 >= 99.5"),
    ("def test_a():\n  x = 97.1\n  assert x >= 99.5, 'long\\nline ' * 100",
     "... assert 97.1 >= 99.5"),
    ("def test_a():\n  raise ValueError('x' * 1000)", "test_a: ValueError: " + "x" * 288),
    ("import nonexistent_module", "ModuleNotFoundError: No module named 'nonexistent_module'"),
])
def test_reasons_of_pytest(tmp_path, body, reason):
    test = tmp_path / "test_x.py"
    test.write_text(body + "\n")
    got = run_tests(tmp_path / "results", "e2e", test)
    listed = failures(got[1])
    assert listed[0].startswith("  e2e test_x.py: ") and listed[0].endswith(reason), listed


@pytest.mark.parametrize("through, args", [("path", ["--version"]), ("link", ["-h"])])
def test_run_becomes_the_program(tmp_path, through, args):
    script = RUN
    if through == "link":
        script = tmp_path / "profile"
        script.symlink_to(RUN)
    got = subprocess.run([script, *args], cwd=tmp_path, env=environment(), text=True,
                         capture_output=True, timeout=300)
    want = subprocess.run([PROGRAM, *args], text=True, capture_output=True)
    assert (got.returncode, got.stdout, got.stderr) == (0, want.stdout, "")


def test_run_keeps_status_and_arguments(tmp_path):
    got = subprocess.run([RUN, "two  words"], cwd=tmp_path, env=environment(), text=True,
                         capture_output=True, timeout=300)
    assert got.returncode == 2
    assert "unexpected 'two  words'" in got.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt-get")
def test_missing_package_is_named(directory):
    """Someone who is not root is told the command; nothing is installed or built."""
    tree, tools = directory / "tree", directory / "bin"
    shutil.copytree(TOP, tree, ignore=shutil.ignore_patterns(".git", ".output", "__pycache__"))
    tools.mkdir()
    for name in os.listdir("/usr/bin"):
        if not name.startswith(("protoc-c", "make")):
            (tools / name).symlink_to("/usr/bin/" + name)
    got = subprocess.run(["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                          tree / "scripts/run", "--version"], cwd="/", text=True,
                         env={"PATH": str(tools), "HOME": "/nonexistent"}, capture_output=True,
                         timeout=60)
    assert (got.returncode, got.stdout) == (1, "")
    command = got.stderr.splitlines()[1].split()
    assert command[:3] == ["sudo", "apt-get", "install"]
    assert command[-2:] == ["make", "protobuf-c-compiler"]
    assert not (tree / ".output").exists()
