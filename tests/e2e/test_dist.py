# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`make dist`: a program that needs the C library only, as an archive and as a wheel, twice the same."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

import harness
import test_hardening as hardening
from harness import REPO, Target

pytestmark = pytest.mark.beside
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}


def run(*args, **kwargs):
    return subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=harness.PATIENCE * 4, **kwargs)


def has_static(name):
    return run("cc", "-print-file-name=lib%s.a" % name).stdout.startswith("/")


def make_dist(where):
    done = run(REPO / "scripts/make-dist", where, env=ENVIRONMENT)
    assert done.returncode == 0, done
    return {path.name: path for path in where.iterdir()}


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """Both at a time, on a machine that has two CPUs: nothing is built any more when they begin."""
    if not has_static("bpf") or not has_static("dw") or not has_static("bz2"):
        pytest.skip("no static libraries of libbpf, libdw and libbz2")
    programs = ["all", ".output/portable/pyperf-bpf", *(["deb-programs"] if shutil.which("dpkg-shlibdeps") else [])]
    for program in programs:
        done = run("make", "-s", "-C", REPO, program, env=ENVIRONMENT)
        assert done.returncode == 0, done
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(make_dist, [tmp_path_factory.mktemp(name) for name in ("dist", "again")]))


@pytest.fixture(scope="module")
def made(twice):
    return twice[0]


def the(made, suffix):
    found, = (path for name, path in made.items() if name.endswith(suffix))
    return found


def test_same_bytes(twice):
    first, again = ({name: path.read_bytes() for name, path in made.items()} for made in twice)
    assert first.keys() == again.keys() and [name for name in first if first[name] != again[name]] == []
    sums = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=twice[1]["SHA256SUMS"].parent)
    assert sums.returncode == 0, sums


def needed(program):
    return set(re.findall(r"\(NEEDED\).*\[(\S+)\]", run("readelf", "-dW", program).stdout))


def test_archive(made, tmp_path):
    with tarfile.open(the(made, ".tar.gz")) as archive:
        names = archive.getnames()
        top = names[0]
        assert all(name == top or name.startswith(top + "/") for name in names)
        assert {(member.uid, member.gid) for member in archive} == {(0, 0)}
        archive.extractall(tmp_path)
    program = tmp_path / top / "bin/pyperf-bpf"
    for check in (hardening.test_file, hardening.test_code, hardening.test_nothing_says_where_it_was_built,
                  hardening.test_landing_pads):
        check(str(program))
    assert needed(program) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    assert run(program, "--version").stdout == run(harness.PYPERF, "--version").stdout
    assert {"share/man/man8/pyperf-bpf.8", "share/doc/pyperf-bpf/LICENSE"} <= {name[len(top) + 1:] for name in names}
    libraries = (tmp_path / top / "share/doc/pyperf-bpf/libraries.txt").read_text()
    assert re.search(r"^libbpf: ", libraries, re.M) and re.search(r"^libdw: ", libraries, re.M)
    # What it lacks is said, not just not found.
    agent = run(program, "agent", "--check-config")
    assert agent.returncode == 1 and "make install" in agent.stderr and agent.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_wheel(made, tmp_path, any_python):
    """pip installs it into an environment; there it profiles, with names, as the built one does."""
    wheel = the(made, ".whl")
    venv = tmp_path / "venv"
    done = run(sys.executable, "-m", "venv", venv)
    if done.returncode:
        pytest.skip("no venv: " + (done.stdout + done.stderr).strip().splitlines()[0])
    done = run(venv / "bin/pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    assert done.returncode == 0, done
    # pip checks RECORD when it removes.
    shown = run(venv / "bin/pip", "show", "-f", "pyperf-bpf").stdout
    assert "../../../bin/pyperf-bpf" in shown and "man8/pyperf-bpf.8" in shown
    with Target(any_python, "spinner.py", "spin") as target:
        done = run(venv / "bin/pyperf-bpf", "-F", 999, "-p", target.pid, "-d", 1)
    assert done.returncode == 0 and "spin" in done.stdout, done
    assert run(venv / "bin/pip", "uninstall", "-y", "pyperf-bpf").returncode == 0
    assert not (venv / "bin/pyperf-bpf").exists() and not list(venv.glob("share/**/*pyperf*.8"))
