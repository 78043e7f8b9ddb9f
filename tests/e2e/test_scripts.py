# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The scripts that install, build, run and count: what CI relies on when it is green."""
import contextlib
import fcntl
import itertools
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import harness

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
    """Ours without what changes how the scripts count. A run of tests that they start is always part of another one: it
    takes nothing that neighbours make for what it left."""
    env = {k: v for k, v in os.environ.items()
           if k not in ("CI", "TEST_TIMEOUT", "MAKEFLAGS") and not k.startswith("PYPERF_TEST_")}
    return {"PYPERF_RUN": "a test", **env, **more}


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


def run_again(results, kind, *programs, **env):
    """(status, output, sums) of scripts/run-tests, again and summary."""
    run_tests(results, kind, *programs, **env)
    env = environment(**env)
    again = subprocess.run([TOP / "scripts/run-tests", "again", results], env=env, text=True,
                           capture_output=True, timeout=60)
    sums = subprocess.run([TOP / "scripts/run-tests", "summary", results], env=env, text=True,
                          capture_output=True, timeout=60)
    return sums.returncode, again.stdout + again.stderr + sums.stdout, sums.stdout.splitlines()[-1]


# A case that fails by its first run only.
ONCE = """
import pathlib
def check(name):
    seen = pathlib.Path(__file__).with_suffix("." + name)
    if not seen.exists():
        seen.touch()
        assert 0, "first run of " + name
"""


@pytest.mark.parametrize("body, status, sums", [
    (ONCE + "def test_a(): check('a')\ndef test_b(): pass", 0, "2 passed, 0 failed, 0 skipped"),
    ("def test_a(): assert 0\ndef test_b(): pass", 1, "1 passed, 1 failed, 0 skipped"),
    (ONCE + "import harness\ndef test_a():\n  with harness.certain(): check('a')", 1,
     "0 passed, 1 failed, 0 skipped"),
    (ONCE + "import pytest\n@pytest.mark.certain\ndef test_a(): check('a')", 1,
     "0 passed, 1 failed, 0 skipped"),
    (ONCE + "import harness\ndef test_a():\n  try: check('a')\n  except AssertionError:\n"
     "    harness.Result([], 0, '', 'counter delivered 3\\ncounter counted 2').balanced()", 1,
     "0 passed, 1 failed, 0 skipped"),
    # The profiler dies of a signal.
    (ONCE + "import pathlib, subprocess\ndef test_a():\n"
     "  program = pathlib.Path(__file__).with_name('pyperf-bpf')\n"
     "  program.write_text('#!/bin/sh\\nkill -SEGV $$\\n')\n  program.chmod(0o755)\n"
     "  subprocess.run([program])\n  check('a')", 1, "0 passed, 1 failed, 0 skipped"),
    (ONCE + "import pytest\n@pytest.mark.parametrize('n', range(5))\ndef test_a(n): check(str(n))", 0,
     "5 passed, 0 failed, 0 skipped"),
    (ONCE + "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_a(n): check(str(n))", 1,
     "6 passed, 1 failed, 0 skipped"),
])
def test_failed_case_runs_again(tmp_path, body, status, sums):
    """Red at the first failure is what no chance explains; the rest is red at the second, or by number."""
    test = tmp_path / "test_x.py"
    test.write_text(body + "\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\nsys.path.insert(0, %r)\nfrom reporting import *\n" % str(TOP / "tests/e2e"))
    got = run_again(tmp_path / "results", "e2e", test)
    assert (got[0], got[2]) == (status, sums), got[1]
    unsteady = [line for line in got[1].splitlines() if line.startswith("  e2e test_x.py: test_a")
                and "first run of" in line]
    log = tmp_path / "unsteady.log"
    if "ONCE" in body or not status:
        assert "unsteady:" in got[1] and unsteady, got[1]
        assert "first run of" in log.read_text()
    elif "6 passed" not in sums:
        assert "unsteady:" not in got[1] and not log.exists(), got[1]


def test_a_second_run_is_part_of_the_run(tmp_path):
    """Within a test of another run, it does not look for what its neighbours left either."""
    test = tmp_path / "test_x.py"
    test.write_text(ONCE + "import os\ndef test_a():\n"
                    "    with open(%r, 'a') as f: print(os.environ['PYPERF_LEFT'], 'left', file=f)\n"
                    "    check('a')\n" % str(tmp_path / "asked"))
    got = run_again(tmp_path / "results", "e2e", test, PYPERF_RUN=str(tmp_path))
    assert (got[0], got[2]) == (0, "1 passed, 0 failed, 0 skipped"), got[1]
    assert (tmp_path / "asked").read_text() == " left\n" * 2


@pytest.mark.parametrize("body, what", [
    ("import subprocess\ndef test_a(): subprocess.Popen(['sh', '-c', 'sleep 20 & exit'])", "process"),
    ("import tempfile\ndef test_a(): tempfile.mkdtemp(prefix='left-')", "file "),
])
def test_what_is_left_behind_is_named(tmp_path, body, what):
    test = tmp_path / "test_x.py"
    test.write_text(body + "\n")
    got = run_tests(tmp_path / "results", "e2e", test)
    assert got[0] == 1 and got[2] == "1 passed, 1 failed, 0 skipped", got[1]
    assert "test_x.py: leftovers: left behind: " + what in got[1], got[1]


def test_a_case_of_c_runs_again_alone(cases, tmp_path):
    """By its name; a sanitizer's report and a crash are never run again."""
    once = tmp_path / "test_once"
    once.write_text("""#!/bin/sh
        [ -z "$PYPERF_TEST_CASE" ] || { echo "$PYPERF_TEST_CASE" >%s/asked; exec %s; }
        exec %s
        """ % (tmp_path, cases("test_pass"), cases("test_pass_fail")))
    once.chmod(0o755)
    got = run_again(tmp_path / "results", "unit", once)
    assert got[2] == "2 passed, 0 failed, 0 skipped" and "unsteady:" in got[1], got[1]
    assert (tmp_path / "asked").read_text() == "failed\n"
    for name in "test_pass_leak", "test_pass_crash":
        got = run_again(tmp_path / "results", "unit", cases(name))
        assert got[0] == 1 and "again" not in got[1].splitlines(), got[1]


def test_failure_says_how_to_run_it_alone(tmp_path):
    """And what the profiler wrote last."""
    test = tmp_path / "test_x.py"
    test.write_text("import subprocess\ndef test_a():\n  subprocess.run([%r, 'nonesuch'], capture_output=True)\n"
                    "  assert 0\n" % str(PROGRAM))
    (tmp_path / "conftest.py").write_text(
        "import sys\nsys.path.insert(0, %r)\nfrom reporting import *\n" % str(TOP / "tests/e2e"))
    got = run_again(tmp_path / "results", "e2e", test)
    assert "      alone: scripts/run-tests e2e %s::test_a\n" % test in got[1], got[1]
    assert "      | pyperf-bpf: " in got[1], got[1]


@pytest.mark.parametrize("words, wanted", [
    (["scripts"], ["tests/e2e/test_scripts.py"]),
    (["test_scripts"], ["tests/e2e/test_scripts.py"]),
    (["test_bench_refuses"], ["tests/e2e/test_bench.py", "-k test_bench_refuses"]),
    (["test_bench_refuses", "test_bench_judges_pairs"],
     ["tests/e2e/test_bench.py", "-k test_bench_refuses or test_bench_judges_pairs"]),
])
def test_one_test_is_chosen(directory, words, wanted):
    """By file or by case; a python3 that only says what it was asked for stands in for pytest."""
    python = directory / "python3"
    python.write_text('#!/bin/sh\ncase $* in *pytest*-q*) echo "$@" >>%s/asked ;; esac\n' % directory)
    python.chmod(0o755)
    run_tests(directory / "results", "e2e", *words, PYTHON=str(python),
              PATH="%s:%s" % (directory, os.environ["PATH"]))
    asked = (directory / "asked").read_text()
    assert all(word in asked for word in wanted) and asked.count("tests/e2e/") == 1, asked
    assert "-k" in asked or len(wanted) == 1, asked


def test_a_test_that_is_not_there_is_named(tmp_path):
    got = subprocess.run([TOP / "scripts/run-tests", "e2e", "nonesuch"], text=True, capture_output=True,
                         env=environment(PYPERF_TEST_RESULTS=str(tmp_path / "results")), timeout=60)
    assert got.returncode == 1 and "neither a file nor a case 'nonesuch'" in got.stderr, got


MEASURES = """import os
def test_a():
    os.close(os.open(%(at)r + "/measures", os.O_CREAT | os.O_EXCL))  # no other one does
    os.unlink(%(at)r + "/measures")
"""
BESIDE_IT = """import pathlib, pytest, time
pytestmark = %(mark)s
def test_a():
    at, end = pathlib.Path(%(at)r), time.monotonic() + 40
    (at / "runs.%(me)s").touch()
    while len(list(at.glob("runs.*"))) < 3:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert not (at / "measures").exists()
"""


@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two CPUs")
def test_two_files_run_at_a_time(tmp_path):
    """Of which one at most measures; when all of these are done, three of the others."""
    for name, text in ("a", MEASURES), ("b", MEASURES):
        (tmp_path / ("test_%s.py" % name)).write_text(text % {"at": str(tmp_path)})
    for me, mark in ("c", "pytest.mark.host"), ("d", "pytest.mark.beside"), ("e", "[pytest.mark.beside, pytest.mark.certain]"):
        (tmp_path / ("test_%s.py" % me)).write_text(BESIDE_IT % {"at": str(tmp_path), "me": me, "mark": mark})
    got = run_tests(tmp_path / "results", "e2e", *sorted(tmp_path.glob("test_*.py")))
    assert got[2] == "5 passed, 0 failed, 0 skipped", got[1]


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


# ---- who is not root -----------------------------------------------------------------------------

NOBODY = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
as_nobody = pytest.mark.skipif(os.geteuid() != 0, reason="not root")
MANY_LINES = "for i in $(seq 700); do echo line $i; done; echo the reason >&2; exit 2"


class Checkout:
    """A copy with a program that only says how it was called, and its own PATH."""

    def __init__(self, directory, without=()):
        self.tree, self.tools = directory / "tree", directory / "bin"
        self.tmp = directory / "tmp"
        shutil.copytree(TOP / "scripts", self.tree / "scripts")
        self.tools.mkdir()
        self.tmp.mkdir()
        for name in os.listdir("/usr/bin"):
            if name not in ("sudo", "doas") and not name.startswith(tuple(without)):
                (self.tools / name).symlink_to("/usr/bin/" + name)

    def add(self, path, text):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text("#!/bin/bash\n%s\n" % text)
        path.chmod(0o755)

    def add_program(self):
        self.add(self.tree / ".output/pyperf-bpf", 'echo "$(id -u)" "$PATH" "$@"')
        self.add(self.tools / "make", "exit 0")

    def run(self, *args, script="run", nobody=True):
        if nobody:
            for path in self.tree, *self.tree.rglob("*"), self.tmp:
                os.chown(path, 65534, 65534)
        got = subprocess.run([*(NOBODY if nobody else []), self.tree / "scripts" / script, *args], cwd="/", text=True,
                             env={"PATH": str(self.tools), "HOME": "/nonexistent", "TMPDIR": str(self.tmp)},
                             capture_output=True, timeout=60)
        return got.returncode, got.stdout, got.stderr.splitlines()


@as_nobody
@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt-get")
@pytest.mark.parametrize("tool", [None, "sudo", "doas"])
def test_missing_package_is_named(directory, tool):
    """Who is not root, and has no sudo or is refused by it, is told the command; nothing is installed or built."""
    checkout = Checkout(directory, without=("protoc-c", "make"))
    if tool:
        checkout.add(checkout.tools / tool, "exit 1")
    status, out, err = checkout.run("--version")
    assert (status, out, len(err)) == (1, "", 3), err
    assert ("neither sudo nor doas" in err[0]) == (not tool)
    command = err[1].split()
    assert command[:2] == ["apt-get", "install"]
    assert command[-2:] == ["make", "protobuf-c-compiler"]
    assert not (checkout.tree / ".output").exists()


@as_nobody
@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt-get")
@pytest.mark.parametrize("status", [0, 1])
def test_installing_is_one_line(directory, status):
    """By sudo. What the package manager wrote is shown when it failed only, and is kept then."""
    checkout = Checkout(directory, without=("protoc-c",))
    checkout.add_program()
    (checkout.tree / ".output/pyperf-bpf").unlink()
    checkout.add(checkout.tools / "sudo", 'exec "$@"')
    checkout.add(checkout.tools / "apt-get", """
        case " $* " in
        *" -s "*) printf 'Inst a (1)\\nInst b (2)\\nConf a (1)\\n' ;;
        *" --print-uris "*) printf "'http://a' a.deb 2600000 SHA256:0\\n'http://b' b.deb 1000000 SHA256:0\\n" ;;
        *" update "*) seq 50 ;;
        *" install "*)
            seq 600
            [ %d = 0 ] || exit 100
            ln -s /bin/true %s/protoc-c
            ;;
        esac""" % (status, checkout.tools))
    os.chown(checkout.tools, 65534, 65534)
    got, out, err = checkout.run("--version")
    assert err[:2] == ["run: fetching the lists of packages", "run: installing 2 packages, 4 MB"], err
    if status:
        logs = list(checkout.tmp.iterdir())
        assert got == 1 and len(err) == 14 and "run: building" not in err, err
        assert len(logs) == 1 and str(logs[0]) in err[12] and logs[0].read_text().splitlines()[599] == "600", err
    else:
        assert err[2] == "run: building" and not list(checkout.tmp.iterdir()), err


@as_nobody
def test_failed_build_names_its_log(directory):
    checkout = Checkout(directory)
    checkout.add(checkout.tools / "make", MANY_LINES)
    status, out, err = checkout.run("--version")
    log, = checkout.tmp.iterdir()
    assert (status, out, len(err)) == (1, "", 13), err
    assert err[0] == "run: building" and err[10] == "  | the reason" and str(log) in err[11]
    assert log.read_text().splitlines() == ["line %d" % i for i in range(1, 701)] + ["the reason"]


@as_nobody
@pytest.mark.parametrize("args, needs_root", [
    (["-d", "1"], True), (["top"], True), (["-d", "1", "--", "program", "--help"], True),
    (["--help"], False), (["top", "--version"], False), (["report", "x.pb.gz"], False), (["-e", "help"], False)])
def test_profiling_asks_for_root(directory, args, needs_root):
    checkout = Checkout(directory)
    checkout.add_program()
    plain = (0, "65534 %s %s\n" % (checkout.tools, " ".join(args)), [])
    status, out, err = checkout.run(*args)
    if needs_root:
        assert (status, out, len(err)) == (1, "", 1) and "needs root" in err[0], err
    else:
        assert (status, out, err) == plain
    for tool in "doas", "sudo":  # this one is taken if both are there
        checkout.add(checkout.tools / tool, 'echo %s >&2; PATH=/usr/bin:/bin; exec "$@"' % tool)
        assert checkout.run(*args) == (plain if not needs_root else (*plain[:2], [tool]))
    assert checkout.run(*args, nobody=False) == (0, plain[1].replace("65534", "0"), [])


@as_nobody
@pytest.mark.parametrize("kind, needs_root", [("unit", False), ("e2e", True), ("all", True)])
def test_testing_asks_for_root(directory, kind, needs_root):
    """As who it is now is what it asks first."""
    checkout = Checkout(directory)
    checkout.add(checkout.tools / "sudo", 'echo "$@"')
    checkout.add(checkout.tree / "scripts/deps", (TOP / "scripts/deps").read_text() + "\ndeps_ensure() { return 1; }\n")
    status, out, err = checkout.run(kind, script="test")
    if needs_root:
        words = out.split()
        assert status == 0 and words[:2] == ["env", "PATH=%s" % checkout.tools] and "e2e" in words, (out, err)
        assert str(checkout.tree / "scripts/test") in words, out
    else:
        assert (status, out, err) == (1, "", [])
    (checkout.tools / "sudo").unlink()
    status, out, err = checkout.run(kind, script="test")
    assert (status, out, len(err)) == (1, "", needs_root) and all("need root" in line for line in err), err


@as_nobody
@pytest.mark.parametrize("owner", [0, 65534])
def test_products_belong_to_the_owner(directory, owner):
    """Also of a build by root that failed: the owner can build next."""
    checkout = Checkout(directory)
    checkout.add(checkout.tools / "make", "exit 2")
    os.chown(checkout.tree, owner, owner)
    assert checkout.run("--version", nobody=False)[0] == 1
    assert (checkout.tree / ".output/.lock").stat().st_uid == owner


# ---- guests --------------------------------------------------------------------------------------

# Each says that it runs, and ends when it is let go.
QEMU = r"""#!/bin/bash
cd "$(dirname "$0")"
console=$*
console=${console##*file:}
console=${console%% *}
printf 'vm\tbooted\n' >"$console"
echo "${console##*/}" >>log
while [ -e log ] && [ ! -e "$console.go" ]; do sleep 0.05; done
"""
BOOTS = """
set -u
kind=vm qemu=%(at)s/qemu work=%(at)s
. %(top)s/tests/vm/guests.bash
for name; do
    guest "$work/$name" 6.1 all &
    [ "$(jobs -rp | wc -l)" -lt "$places" ] || wait -n
done
wait
"""


def test_two_guests_run_at_a_time(directory):
    """Whoever boots them: who asks next is next, though others still have some to boot."""
    def boot(*names):
        return subprocess.Popen(
            ["bash", "-c", BOOTS % {"at": directory, "top": TOP}, "boots", *names],
            env=environment(PYPERF_TEST_CACHE=str(directory)))

    def started():
        return log.read_text().split() if log.exists() else []

    def end(name):
        (directory / (name + ".go")).touch()

    def is_asked_for():
        with open(directory / "vm/queue") as queue, contextlib.suppress(BlockingIOError):
            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        return True

    log, qemu = directory / "log", directory / "qemu"
    (directory / "vm").mkdir()
    qemu.write_text(QEMU)
    qemu.chmod(0o755)
    kernels = boot("a", "b", "c", "d")
    harness.poll(lambda: len(started()) == 2, "two guests")
    package = boot("systemd")
    harness.poll(is_asked_for, "the third to ask for a place")
    assert sorted(started()) == ["a", "b"]
    end("a")
    harness.poll(lambda: len(started()) == 3, "the third")
    assert started()[2] == "systemd"
    for done, following in ("systemd", "c"), ("b", "d"):
        end(done)
        harness.poll(lambda: started()[-1] == following, following)
    end("c")
    end("d")
    assert kernels.wait(60) == package.wait(60) == 0


SAID = """vm\tbooted
vm\tpass\tshares\t3 s
vm\tfigure\tgil\t7
Traceback: hotplug
12 samples of its own
vm\tfail\thotplug\tspin_b is missing
vm\tfail\ttrace\tat once
vm\tend
"""


def test_what_a_failed_case_of_a_guest_wrote(directory):
    """It is in the log of the run, and in the list of the failures at its end."""
    (directory / "x.cases").write_text(SAID)
    check = 'kind=vm work=%s failed=0; . %s/tests/vm/guests.bash; check_console 6.1 "$work/x.cases"; echo $failed'
    got = subprocess.run(["bash", "-uc", check % (directory, TOP)], text=True, capture_output=True, check=True,
                         env=environment(PYPERF_TEST_RESULTS=str(directory / "of_all")))
    wrote = "    | vm\tfigure\tgil\t7\n    | Traceback: hotplug\n    | 12 samples of its own\n"
    assert (got.stdout, got.stderr) == ("1\n", "6.1: hotplug wrote:\n" + wrote + "6.1: trace wrote:\n"), got
    shown = subprocess.run([TOP / "scripts/run-tests", "summary", directory / "of_all"], text=True, capture_output=True)
    assert "spin_b is missing\n      alone: scripts/test-vm 6.1\n" + wrote.replace("    |", "      |") in shown.stdout, shown
    assert shown.stdout.endswith("1 passed, 2 failed, 0 skipped\n")


# It stands in for make: each of the two kinds waits until the other one runs.
BESIDE = """
for word; do
    case $word in
    test-vm) kind=vm other=systemd ;;
    test-systemd) kind=systemd other=vm ;;
    test-pythons) kind=pythons other=attacks ;;
    test-attacks) kind=attacks other=pythons ;;
    esac
done
[ -n "${kind:-}" ] || exit 0
touch %(at)s/runs.$kind
for _ in {1..200}; do
    echo "$kind waits"
    [ ! -e %(at)s/runs.$other ] || { met=pass; break; }
    sleep 0.1
done
printf '%%s\\t%%s\\tmet\\t\\t\\t\\n' "$kind" "${met:-certain}" >>"$PYPERF_TEST_RESULTS"
printf '%%s\\tfail\\tonce\\twhy\\t\\tscripts/once %%s\\n' "$kind" "$kind" >>"$PYPERF_TEST_RESULTS"
echo "$kind ends"
exit 1
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
@pytest.mark.parametrize("kinds, first, second", [
    (["vm", "systemd"], "vm", "systemd"), (["unit", "systemd", "vm"], "vm", "systemd"), (["attacks", "pythons"], "pythons", "attacks")])
def test_two_kinds_run_beside_each_other(directory, kinds, first, second):
    """What they write and find is in order, and what failed runs again."""
    checkout = Checkout(directory)
    checkout.add(checkout.tree / "scripts/deps",
                 (TOP / "scripts/deps").read_text() + "\ndeps_ensure() { return 0; }\n")
    checkout.add(checkout.tools / "make", BESIDE % {"at": directory})
    checkout.add(checkout.tree / "scripts/test-roots", "exit 0")
    checkout.add(checkout.tree / "scripts/test-standalone", "exit 0")
    checkout.add(checkout.tree / "scripts/once",
                 r'printf "$1\tpass\tonce\t\t\t\n" >>"$PYPERF_TEST_RESULTS"')
    status, out, err = checkout.run(*kinds, script="test", nobody=False)
    lines = out.splitlines()
    shown = [kind + what for kind in (first, second) for what in ("", " waits", " ends")]
    assert [line for line, _ in itertools.groupby(lines) if line in shown] == shown, out
    results = [line.split("\t")[:3]
               for line in (checkout.tree / ".output/test-results").read_text().splitlines()]
    assert results[-4:] == [[first, "pass", "met"], [first, "unsteady", "once"],
                            [second, "pass", "met"], [second, "unsteady", "once"]], results
    assert re.search(r"^(unit \d+ s, )?%s \d+ s, %s \d+ s, again \d+ s; \d minutes$" % (first, second), out, re.M), out
    assert status == 0, (out, err)
    assert lines[-1] == "4 passed, 0 failed, %d skipped" % ("unit" in kinds), out
    assert not list((checkout.tree / ".output").glob("test-results.%s*" % second))


# It stands in for make.
NOTES_FILES = r"""
for word; do
    case $word in test-*) kind=${word#test-} ;; t=*) files=${word#t=} ;; esac
done
[ -n "${kind:-}" ] || exit 0
echo "$kind $files" >>%s
printf '%%s\tpass\tall\t\t\t\n' "$kind" >>"$PYPERF_TEST_RESULTS"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_files_that_run_beside_no_other_kind(directory):
    """Those with the marker, when both kinds are done."""
    checkout = Checkout(directory)
    checkout.add(checkout.tree / "scripts/deps",
                 (TOP / "scripts/deps").read_text() + "\ndeps_ensure() { return 0; }\n")
    checkout.add(checkout.tree / "scripts/test-roots", "exit 0")
    checkout.add(checkout.tree / "scripts/test-standalone", "exit 0")
    checkout.add(checkout.tools / "make", NOTES_FILES % (directory / "log"))
    attacks = checkout.tree / "tests/attacks"
    attacks.mkdir(parents=True)
    for name, text in ("a", ""), ("b", "pytestmark = pytest.mark.alone\n"), ("c", ""):
        (attacks / ("test_%s.py" % name)).write_text(text)
    status, out, err = checkout.run("attacks", "pythons", script="test", nobody=False)
    assert status == 0 and out.splitlines()[-1] == "3 passed, 0 failed, 0 skipped", (out, err)
    lines = (directory / "log").read_text().splitlines()
    assert sorted(lines[:2]) == ["attacks tests/attacks/test_a.py tests/attacks/test_c.py", "pythons "], lines
    assert lines[2:] == ["attacks tests/attacks/test_b.py"], lines


# ---- scripts/test-long ---------------------------------------------------------------------------

@pytest.fixture
def long_checkout(directory):
    """Its parts only print something."""
    checkout = Checkout(directory)
    checkout.add(checkout.tree / "scripts/deps",
                 (TOP / "scripts/deps").read_text() + "\ndeps_ensure() { return 0; }\n")
    checkout.add(checkout.tools / "make", "exit 0")
    checkout.add(checkout.tree / "scripts/stress",
                 'echo "round 1: delivered 3"; echo "$0: delivered 5"')
    checkout.add(checkout.tree / "scripts/test-oracle", "echo 'row 7 differs' >&2; exit 1")
    checkout.add(checkout.tree / "scripts/test-containers",
                 "echo 'podman: skipped: not here'; exit 77")
    checkout.add(checkout.tree / "scripts/soak", "echo 'soak: it: skipped: lacks a thing'")
    checkout.git = lambda *args: subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x.invalid", *args], cwd=checkout.tree,
        check=True, capture_output=True, text=True).stdout.strip()
    checkout.git("init", "-q")
    checkout.git("add", ".")
    checkout.git("commit", "-qm", "first")
    checkout.long = lambda *args: checkout.run("long", *args, script="test", nobody=False)
    return checkout


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_long_parts_are_recorded(long_checkout):
    status, out, err = long_checkout.long("stress", "containers", "rows", "soak")
    assert (status, out.splitlines()[-1]) == (1, "2 passed, 1 failed, 1 skipped"), (out, err)
    records = long_checkout.tree / "docs/long"
    assert {path.name for path in records.iterdir()} == {"stress.txt", "rows.txt", "soak.txt"}
    head, figures = (records / "stress.txt").read_text().split("\n\n")
    fields = dict(line.split(None, 1) for line in head.splitlines())
    assert list(fields) == ["date", "commit", "code", "machine", "took", "result"], fields
    assert long_checkout.git("rev-parse", "HEAD").startswith(fields["commit"]), fields
    assert (fields["result"], figures) == ("pass", "scripts/stress: delivered 5\n"), fields
    assert "result   FAIL, exit status 1\n\nrow 7 differs\n" in (records / "rows.txt").read_text()
    assert "result   pass, 1 skipped\n" in (records / "soak.txt").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_long_records_grow_old(long_checkout):
    """With the code that they are of, committed or not, and with no other."""
    def ages():
        status, out, err = long_checkout.long("--list", "stress", "rows", "soak")
        assert status == 0, err
        return {line.split()[0]: re.split("  +", line, maxsplit=3)[-1] for line in out.splitlines()}

    long_checkout.long("stress", "rows")
    assert ages() == {"stress": "up to date", "rows": "up to date", "soak": "never recorded"}
    long_checkout.git("add", ".")
    long_checkout.git("commit", "-qm", "records")
    with open(long_checkout.tree / "scripts/stress", "a") as script:
        script.write("# more\n")
    assert ages()["stress"].startswith("older than the code that it tests")
    assert ages()["rows"] == "up to date"
    long_checkout.git("commit", "-qam", "stress: more")
    assert ages()["stress"] == "older than the code that it tests: 1 commits since"
    long_checkout.long("stress")
    assert ages()["stress"] == "up to date"


def test_long_parts_that_are_not_there():
    got = subprocess.run([TOP / "scripts/test", "long", "--list", "nonesuch"], text=True,
                         capture_output=True)
    assert got.returncode == 2 and "no such part: 'nonesuch' (one of: builds " in got.stderr, got


def test_long_records_are_of_parts():
    """Each names files that there are, and each record is one of a part."""
    listed = subprocess.run([TOP / "scripts/test-long", "--list"], text=True,
                            capture_output=True, check=True)
    parts = {line.split()[0] for line in listed.stdout.splitlines()}
    assert len(parts) == 16 and {path.stem for path in (TOP / "docs/long").iterdir()} <= parts
    ask = "source <(sed -n '/^code_of/,/^}/p' scripts/test-long); code_of "
    for part in parts:
        paths = subprocess.run(["bash", "-c", ask + part], cwd=TOP, text=True, capture_output=True,
                               check=True).stdout.split()
        assert paths and not [path for path in paths if not (TOP / path).exists()], (part, paths)


# ---- scripts/test-standalone ---------------------------------------------------------------------

# It stands in for go.
MODULE = r"""
[ "$*" = "mod download -json $(sed -n 's/^module=//p' %(script)s)" ] || exit 1
data=$GOMODCACHE/module/python/internal/data/linux-amd64
mkdir -p "$data/bin" "$data/lib/python3.14/test"
printf '#!/bin/sh\nexit %(status)d\n' | gzip >"$data/bin/python3.14.gz"
chmod -R a-w "$GOMODCACHE/module"
printf '{\n\t"Dir": "%%s",\n\t"Sum": "%%s"\n}\n' "$GOMODCACHE/module" "%(sum)s"
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these builds are for x86-64")
@pytest.mark.parametrize("case, said, ends", [
    ("none", "skipped: needs go", 0), ("other", "skipped: cannot be fetched: its sum is not the recorded one", 0), ("broken", "failed: it does not run", 1),
    ("good", "1 MB", 0)])
def test_standalone_python(directory, case, said, ends):
    """It is there, executable and without what no test needs, or why it is not; nothing else is left."""
    checkout = Checkout(directory, without=("go",))
    script = checkout.tree / "scripts/test-standalone"
    recorded = re.search("^sum=(.*)$", script.read_text(), re.M)[1]
    if case != "none":
        checkout.add(checkout.tools / "go", MODULE % {
            "script": script, "status": case == "broken", "sum": "h1:another" if case == "other" else recorded})
    text = script.read_text().replace("$HOME/.cache", str(directory / "cache"))
    script.write_text(text)
    status, out, err = checkout.run(script="test-standalone", nobody=False)
    assert (status, out, err) == (ends, "", ["test-standalone: 3.14.6: " + said]), err
    assert not list(checkout.tmp.iterdir())
    made = directory / "cache/pyperf-bpf/standalone/3.14.6"
    assert made.exists() == (case == "good")
    if case == "good":
        assert os.access(made / "bin/python3.14", os.X_OK) and not (made / "lib/python3.14/test").exists()
        (checkout.tools / "go").unlink()
        assert checkout.run(script="test-standalone", nobody=False) == (0, "", [])
        assert checkout.run("-l", script="test-standalone", nobody=False) == (0, "%s\n" % made, [])


# ---- scripts/check-counters ----------------------------------------------------------------------

# A loop whose counter, in 32 or 64 bits, is on the stack during each round; `kept` is a counter beside it.
SPILLED = """
	.text
	.globl	counted
counted:
	r6 = 0
	r2 = 8
	*(u%(bits)d *)(r10 - 8) = r2
.Lagain:
	call	5
%(kept)s
	r2 = *(u%(bits)d *)(r10 - 8)
	%(reg)s2 += -1
	*(u%(bits)d *)(r10 - 8) = r2
	if %(reg)s2 != 0 goto .Lagain
.Lend:
	r0 = 0
	exit
"""


@pytest.mark.parametrize("bits, reg, kept, found", [
    (32, "w", "", True),
    (32, "r", "", True),
    (64, "r", "", False),
    (32, "w", "r6 += 1\nif r6 > 8 goto .Lend", False),
    (32, "w", "r6 = 1\nif r6 > 8 goto .Lend", True)])
def test_spilled_counters_are_found(tmp_path, bits, reg, kept, found):
    """Linux 5.11 to 5.14 take such a loop for an endless one."""
    source = tmp_path / "loop.s"
    source.write_text(SPILLED % {"bits": bits, "reg": reg, "kept": kept})
    subprocess.run(["clang", "-target", "bpf", "-mcpu=v3", "-c", source, "-o", tmp_path / "loop.o"], check=True)
    got = subprocess.run([TOP / "scripts/check-counters", tmp_path / "loop.o"], capture_output=True, text=True)
    assert got.returncode == found, got
    assert got.stdout.startswith("counted: a loop") == found, got


# ---- scripts/check-words -------------------------------------------------------------------------

@pytest.mark.parametrize("name, text, found", [
    ("x.c", 'strbuf__addf(b, "%s by %s time", functions, which);', "%s time"),
    ("x.c", 'add(b, n == 1 ? "sample" : "samples");', "sample"),
    ("x.c", 'strbuf__addf(b, "%d sample%s, none lost", n);', "sample%s"),
    ("x.c", 'static const char *const titles[] = { "CPU s", "FUNCTION" };', "CPU s"),
    ("x.c", '/* "3 samples" */ json__uint(&j, "samples", n); // "own time"', None),
    ("x.c", 'strbuf__addf(b, "on %u CPU%s for the first time, %.2f%% of a CPU", n);', None),
    ("x.js", 'const COLUMNS = [["own", "Own time", ""]]; // "3 samples"', "Own time"),
    ("x.js", 'for (const s of samples) sum(s.samples); // its own time', None),
    ("x.html", '<p id="samples">Where the CPU time goes</p>', "CPU time"),
    ("x.html", '<!-- 3 samples --><p id="samples">All stacks</p>', None)])
def test_words_of_profiles_come_from_one_place(tmp_path, name, text, found):
    """Text that calls the values of any profile samples or time is refused; comments, keys and names are not."""
    (tmp_path / name).write_text(text + "\n")
    got = subprocess.run([TOP / "scripts/check-words", tmp_path / name], capture_output=True, text=True)
    assert not got.stderr and got.returncode == bool(found), got
    assert not found or '%s:1: "%s": ' % (tmp_path / name, found) in got.stdout


# ---- scripts/layers ------------------------------------------------------------------------------

def layers(tmp_path, table, **files):
    """Its run over a tree with these files, named FOLDER__NAME without ".h", and their includes."""
    for name, included in files.items():
        path = tmp_path / (name.replace("__", "/") + ".h")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f'#include "{header}"\n' for header in included.split()))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/layers.txt").write_text(table)
    return subprocess.run([TOP / "scripts/layers", tmp_path], capture_output=True, text=True)


LAYERS = "bpf:\nbase: bpf\nprofile: base # below what shows it\nexport: bpf base profile\n"
TREE = {"bpf__walk": "seam.h", "bpf__arch__x86": "arch/verbs.h", "user__base__str": "bpf/pyperf.h",
        "user__profile__profile": "base/str.h profile/stacks.h", "user__export__svg": "base/str.h profile/profile.h made.h"}


def test_layers_show_the_graph(tmp_path):
    got = layers(tmp_path, LAYERS, **TREE)
    assert (got.returncode, got.stderr) == (0, ""), got
    assert [line.split(maxsplit=1) for line in got.stdout.splitlines()] == [
        ["bpf"], ["base", "bpf 1"], ["profile", "base 1"], ["export", "base 1, profile 1"],
        ["4", "folders, 4 arrows, 0 backward, 0 circles"]]


@pytest.mark.parametrize("name, included, said", [
    ("user__base__log", "export/svg.h", "user/base/log.h:1: base may not include export"),
    ("user__profile__stacks", "base/str.h bpf/pyperf.h", "user/profile/stacks.h:2: profile may not include bpf"),
    ("bpf__merge", "base/str.h", "bpf/merge.h:1: bpf may not include base"),
    ("user__export__page", "svg.h", 'user/export/page.h:1: does not name the folder of "svg.h"'),
    ("user__export__page", "../base/str.h", "user/export/page.h:1: names a path from here"),
    ("user__new__page", "base/str.h", "user/new/page.h:1: new may not include base")])
def test_layers_are_a_fence(tmp_path, name, included, said):
    got = layers(tmp_path, LAYERS, **TREE, **{name: included})
    assert got.returncode == 1 and got.stderr.startswith(f"layers: {said}"), got
    assert len(got.stderr.splitlines()) == 1, got


def test_layers_have_exceptions(tmp_path):
    table = LAYERS + "profile: export! # until it is mended\n"
    got = layers(tmp_path, table, **TREE, user__profile__views="export/svg.h")
    assert (got.returncode, got.stderr) == (0, ""), got
    assert "export 1 (backward)" in got.stdout and "circle: profile export\n" in got.stdout, got
    (tmp_path / "user/profile/views.h").unlink()
    (tmp_path / "scripts/layers.txt").unlink()
    (tmp_path / "scripts").rmdir()
    got = layers(tmp_path, table)
    assert got.returncode == 1 and "profile does not include export any more" in got.stderr, got
    (tmp_path / "scripts/layers.txt").write_text(LAYERS + "base: profile\n")
    got = subprocess.run([TOP / "scripts/layers", tmp_path], capture_output=True, text=True)
    assert got.returncode == 1 and "base: profile does not stand above it" in got.stderr, got
