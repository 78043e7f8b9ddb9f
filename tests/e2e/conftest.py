# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Which interpreters the end-to-end tests run on, and what every test needs.

A test that takes `python` runs once per CPython in scope; a missing one is a skip by its name. One whose
subject does not depend on the version has the marker `few_pythons`: it runs on the oldest, the newest and
the distribution's only, but for PYPERF_TEST_EVERY=1. A test that takes `any_python` runs once, on the first
one found, the distribution's if it has one.

scripts/run-tests may run a file with `pytestmark = pytest.mark.host` or `.beside` next to the others, also if
it is the first of a list. That is for one that measures nothing, and that what others measure does not notice either.

PYPERF_TEST_PYTHONS="PATTERN ..." puts the interpreters of these names in scope instead, of all that
scripts/test-pythons knows, such as "sid/3.15*". Tests that need newer syntax fail on old ones.
"""
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))

import harness  # noqa: E402
import interpreters  # noqa: E402
from reporting import *  # noqa: E402,F403
import webdriver  # noqa: E402

VERSIONS = ["3.%d" % minor for minor in range(8, 14)]
ASK = "import os, sys; print(os.path.realpath(sys.executable), '%d.%d' % sys.version_info[:2])"


def ask(exe):
    """(path of the real executable, version) of what may be a script that starts the real one."""
    try:
        answer = subprocess.run([exe, "-I", "-S", "-c", ASK], capture_output=True, text=True,
                                timeout=20, check=True, env=harness.clean_environment())
        path, version = answer.stdout.rsplit(None, 1)
        return path, version
    except (OSError, ValueError, subprocess.SubprocessError):
        return None, None


def find_interpreters():
    """{slot: path}: "3.8" ... is one build of that version, "system" the distribution's own."""
    found = {}
    path, version = ask("/usr/bin/python3")
    if version in VERSIONS:
        found["system"] = path
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in VERSIONS:
        candidates = sorted(root.glob("versions/*/bin/python" + version))
        candidates += [shutil.which("python" + version)]
        for candidate in filter(None, candidates):
            path, answered = ask(str(candidate))
            if answered == version and path != found.get("system"):
                found[version] = path
                break
    return found


INTERPRETERS = find_interpreters()


def interpreter_name(slot):
    return "the distribution's python3" if slot == "system" else "python" + slot


def chosen_interpreters():
    patterns = os.environ.get("PYPERF_TEST_PYTHONS", "").split()
    found = interpreters.find() if patterns else {}
    return {name: python for name, python in found.items()
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)}


def slots_of(definition):
    """Of the interpreters in scope, those that a test runs on."""
    if not definition.get_closest_marker("few_pythons") or os.environ.get("PYPERF_TEST_EVERY") == "1":
        return [*VERSIONS, "system"]
    there = [version for version in VERSIONS if version in INTERPRETERS] or VERSIONS
    return list(dict.fromkeys([there[0], there[-1], "system"]))


def pytest_generate_tests(metafunc):
    if "python" in metafunc.fixturenames:
        chosen = chosen_interpreters()
        if chosen:
            metafunc.parametrize("python", chosen.values(), ids=chosen.keys())
            return
        params = []
        for slot in slots_of(metafunc.definition):
            if slot in INTERPRETERS:
                params.append(pytest.param(INTERPRETERS[slot], id=slot))
            elif INTERPRETERS.get("system", "").endswith("python" + slot):
                continue  # the distribution's own is the only one of its version
            else:
                skip = pytest.mark.skip(reason=interpreter_name(slot) + " is not installed")
                params.append(pytest.param(None, id=slot, marks=skip))
        metafunc.parametrize("python", params)


@pytest.fixture(scope="session")
def any_python():
    for slot in ["system", *reversed(VERSIONS)]:
        if slot in INTERPRETERS:
            return INTERPRETERS[slot]
    pytest.skip("no CPython 3.8 to 3.13 is installed")


@pytest.fixture(params=["oldest", "any"])
def old_or_new_python(request, any_python):
    """Frames are found in one way up to 3.10, in another one later."""
    found = [INTERPRETERS[v] for v in ("3.8", "3.9", "3.10") if v in INTERPRETERS]
    return found[0] if found and request.param == "oldest" else any_python


@pytest.fixture(scope="session")
def another_python(any_python):
    """Of another file, and another version if there is one."""
    for slot in [*VERSIONS, "system"]:
        if INTERPRETERS.get(slot, any_python) != any_python:
            return INTERPRETERS[slot]
    pytest.skip("only one CPython 3.8 to 3.13 is installed")


@pytest.fixture(autouse=True)
def profiler(request):
    """Every test needs root and the program, but for those that only look at the programs."""
    if request.node.get_closest_marker("host"):
        return
    assert os.access(harness.PYPERF, os.X_OK), harness.PYPERF + " is not built"
    if os.geteuid() != 0:
        pytest.skip("not root")


@pytest.fixture
def real_time():
    """What to begin a command with that nobody is to take off its CPU."""
    chrt = harness.find_tool("chrt")
    if not chrt or subprocess.run([chrt, "-f", "1", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("real-time priority (chrt -f) is not permitted")
    return [chrt, "-f", "1"]


@pytest.fixture
def directory():
    """An empty directory that every user may look into."""
    path = tempfile.mkdtemp(prefix="pyperf-e2e-")
    os.chmod(path, 0o755)
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def browser():
    if isinstance(webdriver.find(), str):
        pytest.skip(webdriver.find())
    with webdriver.Browser() as browser:
        yield browser
