# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""trace of a command that is no Python itself: shims, shells and launchers, from the first call of the interpreter on."""
import json
import os
import shutil
import signal
import subprocess

import pytest

import harness
from tracing import FOLLOWS

pytestmark = pytest.mark.beside

# Says whether anybody still debugs it, and ends with a status of its own.
CODE = "print([line for line in open('/proc/self/status') if line.startswith('TracerPid:')])\nraise SystemExit(3)"


@pytest.fixture(scope="module")
def ways(any_python, tmp_path_factory):
    """The command line of each."""
    directory = tmp_path_factory.mktemp("ways")
    python = os.path.realpath(any_python)

    def script(name, text):
        path = directory / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    # As pyenv has it: the script executes another one, which executes what it has found.
    (directory / "shims").mkdir()
    pyenv = script("pyenv", "#!/usr/bin/env bash\nset -e\nwhere=$(dirname %s)\nexec \"$where/$(basename %s)\" \"$@\"\n" % (python, python))
    shim = script("shims/python3", "#!/usr/bin/env bash\nset -e\nprogram=\"${0##*/}\"\nexec %s \"$@\"\n" % pyenv)
    app = script("app", "#!%s python3\n%s\n" % (shutil.which("env"), CODE))
    spawns = str(harness.compile_c(directory / "spawns", "spawns.c"))
    argv = [python, "-c", CODE]
    return {
        "shim": [shim, "-c", CODE],
        "script": [app],
        "env": ["env", "-u", "NOTHING", shim, "-c", CODE],
        "exec": ["sh", "-c", 'exec "$0" "$@"', *argv],
        "variable": ["sh", "-c", 'p=%s; shift 0; exec "$p" -c "$0"' % python, CODE],
        "signal": ["sh", "-c", 'trap \'exec "$0" "$@"\' USR1; kill -USR1 $$; false', *argv],
        "stopped": ["sh", "-c", '(while kill -CONT $$ && ! grep -q python /proc/$$/comm; do :; done) & kill -STOP $$; exec "$0" "$@"',
                    *argv],
        "child": ["sh", "-c", '"$0" "$@"; exit $?', *argv],
        "spawned": [spawns, spawns, *argv],
    }, directory / "shims"


def has_ended(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def trace(argv, path, *options, before=()):
    env = harness.clean_environment(PATH="%s:%s" % (path, os.environ["PATH"]))
    return subprocess.run([*before, harness.PYPERF, "trace", "--json", "--top", "0", "--force", "--as-root", *options, "--", *argv],
                          capture_output=True, text=True, check=False, timeout=harness.PATIENCE, env=env, cwd="/")


def calls_of(result):
    """What importlib was called: all of it comes before the program."""
    said, last = result.stdout.splitlines()[0], json.loads(result.stdout.splitlines()[-1])
    assert said == "['TracerPid:\\t0\\n']" and last["final"], result
    return {(f["function"], f["line"]): f["calls"] for f in last["functions"] if "importlib._bootstrap>" in f["file"]}


@pytest.fixture(scope="module")
def truth(any_python, ways):
    result = trace([os.path.realpath(any_python), "-c", CODE], ways[1])
    assert result.returncode == 3, result.stderr
    return calls_of(result)


@pytest.mark.parametrize("way", ["shim", "script", "env", "exec", "variable", "signal", "stopped", "child", "spawned"])
def test_ways(ways, truth, way):
    """The same calls as of the interpreter alone, and its status."""
    lines, path = ways
    found = trace(lines[way], path)
    assert found.returncode == 3, found.stderr
    with harness.certain():
        calls = calls_of(found)
        if way == "script":  # its path is looked at, too
            calls = {name: min(n, truth.get(name, 0)) for name, n in calls.items() if name in truth}
        assert len(truth) > 10 and calls == truth, (calls, truth)
    last = json.loads(found.stdout.splitlines()[-1])
    assert not FOLLOWS or last["processes"] == (2 if way in ("child", "spawned") else 1)


@pytest.mark.skipif(not FOLLOWS, reason="children are traced from Linux 6.12 on")
def test_what_comes_behind_the_first(any_python, ways):
    """What another process of the command executes, or the same one later, is traced, too."""
    say = "def %s(): pass\n%s()"
    command = ["sh", "-c", '"$0" -c "$1" & "$0" -c "$2"; wait; "$0" -c "$3"', any_python,
               *[say % (name, name) for name in ("one", "two", "three")]]
    last = json.loads(trace(command, ways[1], "-f", "<string>:*").stdout.splitlines()[-1])
    assert {f["function"]: f["calls"] for f in last["functions"] if f["function"] != "<module>"} == {"one": 1, "two": 1, "three": 1}
    assert last["processes"] == 1 + 3


def test_program_that_the_command_serves(any_python, ways, directory):
    """As an AppImage does, by FUSE: its server makes a thread for each request, and stands then until the tracer looks."""
    server, place = harness.compile_c(directory / "fuse_server", "fuse_server.c", "-pthread"), directory / "place"
    place.mkdir()
    argv = ["unshare", "--mount", harness.PYPERF, "trace", "--json", "--force", "--as-root", "--", server, place,
            "/bin/sh", "-c", 'exec "$0" -c "$1"', os.path.realpath(any_python), CODE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/", start_new_session=True) as tracing:
        try:
            out, err = tracing.communicate(timeout=harness.PATIENCE)
        except subprocess.TimeoutExpired:
            # What stands in the kernel ends when the server does.
            os.killpg(tracing.pid, signal.SIGKILL)
            raise
    if "no FUSE" in out:
        pytest.skip(out)
    assert tracing.returncode == 3 and json.loads(out.splitlines()[-1])["final"], err


def test_never(ways):
    """A sentence says so; what a command that cannot be executed says is said once."""
    result = trace(["sh", "-c", "exit 7"], ways[1])
    assert result.returncode == 1 and not result.stdout and result.stderr == (
        "pyperf-bpf: sh: neither it nor what it started executed Python before it ended (--python names a file with an interpreter "
        "that it loads)\n")
    result = trace(["/no/such/program"], ways[1])
    assert result.returncode == 1 and result.stderr == "pyperf-bpf: /no/such/program: No such file or directory\n"


def test_none_in_time():
    """-d ends the wait, and the command goes on."""
    with subprocess.Popen([harness.PYPERF, "trace", "-d", "0.1", "--as-root", "--", "sh", "-c", "read go; echo $go; exit 7"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracing:
        said = tracing.stderr.readline()
        assert tracing.communicate("on\n", harness.PATIENCE)[0] == "on\n"
    assert tracing.returncode == 1 and "sh: neither it nor what it started executed Python in time (" in said, said


def test_trace_that_fails(any_python, ways, directory):
    """Then nothing has begun."""
    ran = directory / "ran"
    result = trace(["sh", "-c", '>"$0"', str(ran)], ways[1], "--calls", "-o", "/no/such/x.svg")
    assert result.returncode == 1 and "/no/such/x.svg" in result.stderr and not ran.exists(), result


def test_trace_that_fails_behind_a_wrapper(any_python, ways, directory):
    """Python has not begun, and the wrapper does not take that for a failure of Python."""
    ran = directory / "ran"
    code = '"$0" -c "open(%r, %r)" || echo failed >%s; echo more >%s' % (str(ran), "w", ran, ran)
    result = trace(["sh", "-c", code, any_python], ways[1], before=["prlimit", "--nofile=24"])
    assert result.returncode == 1 and "Too many open files" in result.stderr and not ran.exists(), result


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP], ids=lambda number: number.name)
def test_trace_that_ends_before_python(any_python, number):
    """The command does not go on without anybody who sees it."""
    code = 'echo $$; read go; exec "$0" -c pass'
    with subprocess.Popen([harness.PYPERF, "trace", "--as-root", "--", "sh", "-c", code, any_python], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as tracing:
        shell = int(tracing.stdout.readline())
        tracing.send_signal(number)
        try:
            assert tracing.wait(harness.PATIENCE) == -number
            harness.poll(lambda: has_ended(shell), "the command to end")
        finally:
            if not has_ended(shell):
                os.kill(shell, signal.SIGKILL)
