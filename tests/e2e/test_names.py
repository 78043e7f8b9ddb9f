# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Names and paths that are hard to carry, deep stacks."""
import json
import subprocess
import unicodedata
from dataclasses import replace

import pytest

import pprof_read
from harness import MARKER, PYPERF, Target, check_stacks, profile_target, profile_work, readable, total

pytestmark = pytest.mark.beside

ELLIPSIS = "\u2026"


def restore(stacks, truth):
    """Undoes the cuts that the text formats may make, of names over 500 characters only."""
    whole = {text for t in truth for name, file, _ in t["frames"] for text in (name, file)}

    def full(text):
        if not text.endswith(ELLIPSIS) or len(text) < 500:
            return text
        fitting = [w for w in whole if w.startswith(text[:-1])]
        return fitting[0] if len(fitting) == 1 else text

    return [replace(s, frames=[replace(f, name=full(f.name), file=full(f.file)) for f in s.frames])
            for s in stacks]


def test_names(python, directory):
    pprof = directory / "names.pb.gz"
    with Target(python, "names.py") as target:
        result = profile_work(target.pid, 1, "-o", pprof)
        truth = target.stop()["stacks"]
    result.complete()
    check_stacks(restore(result.stacks, truth), truth)
    # pprof has no need to cut anything.
    functions = {(f["func"], f["file"])
                 for sample in pprof_read.read(pprof)["samples"] for f in sample["stack"]}
    for t in truth:
        name, file, _ = t["frames"][-1]
        assert (name, file) in functions, "%s is not in the pprof" % t["label"]


@pytest.mark.few_pythons
def test_hostile_names(python):
    result, truth = profile_target(python, "hostile.py", seconds=1)
    bad = {c for c in result.stdout if c != "\n" and unicodedata.category(c) in ("Cc", "Cs")}
    assert not bad and not set("\u202e\u2028\u2029") & set(result.stdout)
    seen = {f.file for s in result.stacks for f in s.python() if f.file.startswith("/hostile/")}
    assert {"/hostile/%d.py" % n for n in range(truth["names"])} <= seen
    names = {f.name for s in result.stacks for f in s.python()}
    assert {"path_of_%d" % n for n in range(truth["names"])} <= names
    for stack in result.stacks:
        # <module>, main, one of them: no name was taken for two frames, none broke its line
        if stack.leaf() and stack.leaf().file.startswith("/hostile/") and not stack.markers():
            assert [f.name for f in stack.python()[:-1]][-2:] == ["<module>", "main"], stack
            assert len(stack.python()) == 3, stack


@pytest.mark.parametrize("mode, depth", [("python", 300), ("mixed", 60)])
def test_deep(python, mode, depth):
    result, truth = profile_target(python, "deep.py", mode, depth, seconds=1)
    (true,) = truth["stacks"]
    whole = 0
    for stack in at_bottom(result.stacks):
        # Up to 3.10 every call of a function takes native frames, too: those may be too many.
        if len(stack.frames) < 500:
            assert not stack.markers(), stack
        check_callers(stack, true["frames"])
        whole += stack.count
    assert whole > 0


def test_too_deep(python):
    """The innermost frames are kept, and a marker stands for the others."""
    result, truth = profile_target(python, "deep.py", "python", 1500, seconds=1)
    (true,) = truth["stacks"]
    stacks = at_bottom(result.stacks)
    for stack in stacks:
        assert stack.markers(), stack
        kept = len(stack.python())
        assert 512 <= kept < len(true["frames"]), kept
        check_callers(stack, true["frames"][-kept:])
        # What is cut is outermost.
        first = next(n for n, f in enumerate(stack.frames) if f.kind == MARKER)
        assert not any(f.name == "<module>" for f in stack.frames[first:])
    assert total(stacks) > 0
    assert result.counters["note_truncated"] + result.counters["note_python_lost"] > 0


def at_bottom(stacks):
    return readable([s for s in stacks if s.leaf() and s.leaf().name == "bottom"])


def check_callers(stack, frames):
    callers = [(f.name, f.file, f.line) for f in stack.python()[:-1]]
    assert callers == [tuple(f) for f in frames[:-1]], stack


def json_pairs(path):
    """{(caller, current line, first line)} of the frames named work."""
    document = json.loads(path.read_text())
    for stack in document["stacks"]:
        frames = [f for f in (document["frames"][i] for i in stack["frames"])
                  if f["kind"] == "python"]
        for caller, f in zip(frames, frames[1:]):
            if f["function"] == "work":
                yield caller["function"], f["line"], f["start_line"]


def firefox_pairs(path):
    for thread in json.loads(path.read_text())["threads"]:
        frames, funcs, stacks = (thread[t] for t in ("frameTable", "funcTable", "stackTable"))

        def name(node):
            func = frames["func"][stacks["frame"][node]]
            return thread["stringArray"][funcs["name"][func]], funcs["lineNumber"][func]

        for node in range(stacks["length"]):
            if name(node)[0] == "work":
                caller = stacks["prefix"][node]
                while not name(caller)[0].startswith("caller_of_"):  # up to 3.10: C functions
                    caller = stacks["prefix"][caller]
                yield name(caller)[0], frames["line"][stacks["frame"][node]], name(node)[1]


def pprof_pairs(path):
    for sample in pprof_read.read(path)["samples"]:
        frames = [f for f in sample["stack"][::-1] if f["mapping"] == "[python]"]
        for caller, f in zip(frames, frames[1:]):
            if f["func"] == "work":
                yield caller["func"], f["line"], f["start_line"]


@pytest.mark.few_pythons
def test_definitions(python, directory):
    """Two functions of one name and file at the same line: each has its own first line, in every format that
    shows one, and after a round trip through pprof."""
    outputs = {suffix: directory / ("x." + suffix) for suffix in ("json", "firefox.json", "pb.gz")}
    with Target(python, "definitions.py") as target:
        result = profile_work(target.pid, 1, *(a for o in outputs.values() for a in ("-o", o)))
        truth = target.stop()
    result.complete()
    first = {(caller, n) for caller, n in truth["first"].items()}
    imported = directory / "imported.json"
    subprocess.run([PYPERF, "report", "-o", imported, outputs["pb.gz"]], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)
    for pairs in (json_pairs(outputs["json"]), json_pairs(imported),
                  firefox_pairs(outputs["firefox.json"]), pprof_pairs(outputs["pb.gz"])):
        pairs = set(pairs)
        assert {(caller, begins) for caller, _, begins in pairs} == first, pairs
        assert (truth["line"] in {line for _, line, _ in pairs}), pairs
    assert imported.read_text().count('"function":"work"') == \
        outputs["json"].read_text().count('"function":"work"')
