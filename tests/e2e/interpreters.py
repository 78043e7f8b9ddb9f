# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every CPython that this machine can run, and how: on PATH, under pyenv, in the test roots, from
the test builds, of python-build-standalone, each in the ways that its version has (JIT, perf trampolines, embedded).

An interpreter is named WHERE/VERSION[ABI][+WAY], as in "pyenv/2.7", "sid/3.14d", "sid/3.15+jit".
Of several patch releases in one place only the newest counts.
"""
import functools
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import harness

CACHE = Path(os.environ.get("PYPERF_TEST_CACHE") or Path.home() / ".cache" / "pyperf-bpf")
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
WRAPPERS = harness.REPO / ".output" / "test-pythons"
EXECUTABLE = re.compile(r"python(2\.7|3\.\d+)([a-z]*|-dbg)")

# Runs on every version. `jit`: built with one that is off.
ASK = r"""
import json, os, sys
try:
    jit = sys._jit.is_available() and not sys._jit.is_enabled()
except AttributeError:
    jit = False
abi = ("t" if not getattr(sys, "_is_gil_enabled", lambda: True)() else "")
abi += "d" if hasattr(sys, "gettotalrefcount") else ""
sys.stdout.write(json.dumps({"exe": os.path.realpath(sys.executable), "abi": abi, "jit": jit,
                             "version": "%d.%d.%d" % sys.version_info[:3],
                             "level": sys.version_info[3],
                             "implementation": getattr(sys, "implementation", None) and
                             sys.implementation.name or "cpython"}))
"""

# In a mount namespace of its own: what the profiler sees there, it has to find by /proc/PID/root.
ENTER = """\
#!/bin/sh
# {name}
if [ -z "$PYPERF_TEST_INSIDE" ]; then
	PYPERF_TEST_INSIDE=1 exec unshare --mount --propagation private "$0" "$@"
fi
set -e
mount --rbind /proc {root}/proc
mount --rbind /dev {root}/dev
mount --bind /tmp {root}/tmp
mkdir -p {root}{programs}
mount --bind {programs} {root}{programs}
cd /
unset PYPERF_TEST_INSIDE
exec {environment}chroot {root} {command} "$@"
"""
PLAIN = """\
#!/bin/sh
# {name}
exec {environment}{command} "$@"
"""


class Interpreter(str):
    """A command that behaves like the interpreter: its own path, or that of a wrapper."""

    def __new__(cls, name, command, root="", environment=()):
        text = (ENTER if root else PLAIN).format(
            name=name, root=shlex.quote(root), programs=shlex.quote(str(harness.PROGRAMS)),
            environment="".join(["env ", *(e + " " for e in environment)]) if environment else "",
            command=" ".join(map(shlex.quote, command)))
        path = WRAPPERS / name.replace("/", "-")
        if not root and not environment and len(command) == 1:
            path = Path(command[0])
        elif not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        self = super().__new__(cls, path)
        self.name, self.command, self.root = name, command, root
        self.version = self.abi = self.way = ""
        self.jit = False
        return self

    @property
    def elf(self):
        """The executable, as seen from here."""
        return self.root + self.exe

    @property
    def minor(self):
        return tuple(map(int, self.version.split(".")[:2]))

    def release(self):
        """Sorts by version; of builds of one version, a release build comes last."""
        return (*map(int, self.version.split(".")), -len(self.abi))

    def ask(self):
        """Learns about itself. False if it does not answer, or is no CPython."""
        try:
            answer = subprocess.run([str(self), "-E", "-S", "-c", ASK], stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, timeout=20, check=True,
                                    env=harness.clean_environment())
            known = json.loads(answer.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            return False
        self.exe, self.version, self.abi = known["exe"], known["version"], known["abi"]
        self.jit = known["jit"]
        return known["implementation"] == "cpython"

    def is_known_as(self, where):
        """Gives itself its name, now that it knows its version."""
        # A test build's directory says what no question would bring out (3.13+musl).
        built = Path(self.command[0]).parents[1].name if where == "builds" else ""
        self.name = "%s/%s" % (where, built or "%d.%d%s" % (*self.minor, self.abi))
        return self

    def variant(self, way, options=(), environment=()):
        variant = Interpreter(self.name + "+" + way, [*self.command, *options], self.root,
                              environment)
        variant.exe, variant.version, variant.abi = self.exe, self.version, self.abi
        variant.way = way
        return variant


def candidates():
    """(where, root, path in the root) of what may be an interpreter."""
    for path in sorted((CACHE / "builds").glob("*/bin/python[23].*")):
        yield "builds", "", path
    for path in sorted((CACHE / "standalone").glob("*/bin/python[23].*"), key=version_of_directory):
        yield "standalone", "", path
    for path in sorted(PYENV.glob("*/bin/python[23].*"), key=version_of_directory):
        yield "pyenv", "", path
    for directory in os.environ.get("PATH", "").split(os.pathsep) + ["/usr/bin"]:
        for path in sorted(Path(directory or ".").glob("python[23].*")):
            yield "path", "", path
    for root in sorted((CACHE / "roots").glob("*/usr/bin/python[23].*")):
        top = root.parents[2]
        yield top.name, str(top), Path("/") / root.relative_to(top)


def version_of_directory(path):
    return [int(n) for n in re.findall(r"\d+", path.parents[1].name)]


def ways(interpreter, newest):
    """The interpreter again, in the ways that have to be asked for."""
    if "d" in interpreter.abi:
        return
    # docs/limits.md, Interpreters: stacks through the JIT's code of these builds.
    if interpreter.jit and not interpreter.name.startswith("standalone/"):
        yield interpreter.variant("jit", environment=["PYTHON_JIT=1"])
    if newest and interpreter.minor >= (3, 12):
        yield interpreter.variant("perf", ["-X", "perf"])
    if newest and interpreter.minor >= (3, 13):
        yield interpreter.variant("perf_jit", ["-X", "perf_jit"])


@functools.lru_cache(maxsize=None)
def find():
    """All of them, {name: interpreter}, the oldest versions first."""
    found, files = {}, set()
    for where, root, path in candidates():
        if not EXECUTABLE.fullmatch(path.name) or not os.access(root + str(path), os.X_OK):
            continue
        name = "%s/%s" % (where, path.name)
        interpreter = Interpreter(name, [str(path)], root)
        if not interpreter.ask() or (root, interpreter.exe) in files:
            continue
        files.add((root, interpreter.exe))
        found[interpreter.is_known_as(where).name] = interpreter
    # The newest of each version stands for the others in what depends on CPython's source alone.
    newest = {i.minor: i for i in sorted(found.values(), key=Interpreter.release)}
    for interpreter in list(found.values()):
        for variant in ways(interpreter, interpreter is newest[interpreter.minor]):
            found[variant.name] = variant
    order = sorted(found.values(), key=lambda i: (i.minor, i.name))
    return {i.name: i for i in order}


@functools.lru_cache(maxsize=None)
def named(name):
    """The release build of WHERE/VERSION, without a look at the others. None: it is not there."""
    where, version = name.split("/")
    found = None
    for place, root, path in candidates():
        if place == where and path.name == "python" + version and os.access(root + str(path), os.X_OK):
            interpreter = Interpreter("%s/%s" % (where, path.name), [str(path)], root)
            found = interpreter if interpreter.ask() else found
    return found
