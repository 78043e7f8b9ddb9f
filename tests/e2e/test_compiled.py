# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Names of compiled Python: what Cython and mypyc make of a function has the function's own name."""
import shutil
import subprocess

import pytest

from harness import HZ, NATIVE, PROGRAMS, find_tool, profile, share

# The distribution's compilers make extensions for the distribution's Python.
PYTHON = "/usr/bin/python3"
RUN = "import sys; sys.path.insert(0, sys.argv[1]); import %s; %s.run(1.5)"


def need(name):
    tool = find_tool(name)
    if not tool:
        pytest.skip(name + " is not installed")
    return tool


def run(module, directory):
    """The stacks of run() of the compiled module, from run() inwards."""
    result = profile("-f", "-F", HZ, "--", PYTHON, "-c", RUN % (module, module), directory).ok()
    stacks = [s for s in result.stacks if "run (%s." % module in str(s)]
    assert share(result.stacks, lambda s: s in stacks) > 0.5, result.stdout[:2000]
    return stacks


def named(stack, module):
    """Names of the functions of the module, outermost first, each once."""
    names = []
    for frame in stack.frames:
        if frame.kind == NATIVE and "(%s." % module in frame.name and frame.name not in names:
            names.append(frame.name)
    return names


def raw(stack, *prefixes):
    return [f for f in stack.frames if f.kind == NATIVE and f.name.startswith(prefixes)]


def test_cython(directory):
    cython = need("cython3")
    include = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                             capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([cython, "-3", "-o", directory / "shapes.c", PROGRAMS / "shapes.pyx"], check=True)
    subprocess.run([need("gcc"), "-O1", "-fno-inline", "-shared", "-fPIC", "-I", include,
                    "-o", directory / "shapes.so", directory / "shapes.c"], check=True)
    stacks = run("shapes", directory)
    spin = "spin (shapes.pyx)"
    for caller in "Shape.area (shapes.pyx)", "generator (shapes.pyx)", "outer.closure (shapes.pyx)":
        chain = ["run (shapes.pyx)", caller, spin]
        assert share(stacks, lambda s: named(s, "shapes") == chain) > 0.05, (caller, stacks)
    left = {f.name for s in stacks for f in raw(s, "__pyx_pw_", "__pyx_pf_", "__pyx_f_", "__pyx_gb_")}
    assert not left, left


def test_mypyc(directory):
    mypyc = need("mypyc")
    shutil.copy(PROGRAMS / "typed.py", directory)
    subprocess.run([mypyc, "typed.py"], cwd=directory, check=True, capture_output=True)
    (directory / "typed.py").unlink()  # the extension has to be what is imported
    stacks = run("typed", directory)
    chain = ["run (typed.py)", "Shape.area (typed.py)", "spin (typed.py)"]
    assert share(stacks, lambda s: named(s, "typed")[:3] == chain[:len(named(s, "typed"))]) == 1, stacks
    left = {f.name for s in stacks for f in raw(s, "CPyDef_", "CPyPy_")}
    assert not left, left
