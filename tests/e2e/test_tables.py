# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Names from the tables of methods and types are those under which the interpreter itself has the function."""
import collections
import json
import re
import subprocess

import pytest

from harness import PROGRAMS, REPO

pytestmark = pytest.mark.beside

TABLES = REPO / ".output" / "oracle" / "tables"
OTHERS = re.compile(r" \+\d+$")


def tables(path):
    """{offset: name}"""
    out = subprocess.run([TABLES, path], check=True, capture_output=True, text=True).stdout
    return {int(offset): name for offset, name in (line.split(" ", 1) for line in out.splitlines())}


def tail(name):
    """A type may be known by its module too: "collections.deque.append"."""
    return ".".join(name.split(".")[-2:])


def agrees(name, truths):
    """One of the names that the interpreter has for the function."""
    name = OTHERS.sub("", name)
    slot = re.fullmatch(r"(.*) \(([a-z]{2}_\w+)\)", name)
    if slot:
        # Python code sees some slots only, and a function may be a method as well.
        kinds = {t[:-len(" (slot)")] for t in truths if t.endswith(" (slot)")}
        return not kinds or slot[1].split(".")[-1] in kinds
    if "." not in name:
        return any(t.split(".")[-1] == name for t in truths)
    return tail(name) in {tail(t) for t in truths}


def test_tables(python):
    run = subprocess.run([python, "-B", PROGRAMS / "descriptors.py"], capture_output=True, text=True)
    if "No module named" in run.stderr and "ctypes" in run.stderr:
        pytest.skip("no ctypes")
    assert run.returncode == 0, run.stderr
    truth = collections.defaultdict(lambda: collections.defaultdict(set))
    for path, offset, name in json.loads(run.stdout):
        truth[path][offset].add(name)
    checked = missing = 0
    wrong = []
    for path, offsets in truth.items():
        ours = tables(path)
        checked += sum(offset in ours for offset in offsets)
        missing += sum(offset not in ours for offset in offsets)
        wrong += [(path, hex(offset), ours[offset], sorted(names)) for offset, names in offsets.items()
                  if offset in ours and not agrees(ours[offset], names)]
    print("%d functions in %d files: %d without a name, %d with another" %
          (checked + missing, len(truth), missing, len(wrong)))
    assert not wrong, wrong[:20]
    assert checked > 800 and missing <= 0.1 * checked, (checked, missing)
