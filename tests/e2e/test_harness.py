# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The checks of the other tests see what they are there for: each goes red on a wrong profile."""
import types

import pytest

import conftest
import harness
from harness import KERNEL, MARKER, NATIVE, PYTHON, Result, check_stacks, parse_folded

pytestmark = pytest.mark.host

TRUTH = [{"label": "one", "leaf_lines": [3, 4], "native": [],
          "frames": [["<module>", "/p.py", 20], ["C.f", "/p.py", 10], ["spin", "/p.py", 2]]}]
GOOD = ("py;_start [python3];<module> (/p.py:20);list_sort [libpython.so];C.f (/p.py:10);"
        "spin (/p.py:4);0x12 [libz.so];do_syscall_64_[k] 7\n")


def test_kinds():
    (stack,) = parse_folded(GOOD)
    kinds = [f.kind for f in stack.frames]
    assert kinds == [NATIVE, PYTHON, NATIVE, PYTHON, PYTHON, NATIVE, KERNEL]
    assert (stack.comm, stack.count, stack.leaf().line) == ("py", 7, 4)
    for text, kind, name, file in (
            ("[no-unwind-info libx.so]", MARKER, "no-unwind-info libx.so", ""),
            ("<listcomp> (<frozen importlib._bootstrap>:3)", PYTHON, "<listcomp>",
             "<frozen importlib._bootstrap>"),
            ("f (a b.py)", PYTHON, "f", "a b.py"),
            ("std::sort(int*, long) [x.so]", NATIVE, "std::sort(int*, long)", "x.so"),
            ("__vdso_gettimeofday [[vdso]]", NATIVE, "__vdso_gettimeofday", "[vdso]")):
        frame = harness.parse_frame(text)
        assert (frame.kind, frame.name, frame.file) == (kind, name, file)


def test_threads():
    (stack,) = parse_folded("py;thread a b (12);f (x:1) 3\n", threads=True)
    assert (stack.thread, stack.tid, stack.count) == ("a b", 12, 3)
    with pytest.raises(AssertionError):
        parse_folded("py;f (x:1) 3\n", threads=True)


def test_good_stack():
    assert [len(s) for s in check_stacks(parse_folded(GOOD), TRUTH).values()] == [1]


@pytest.mark.parametrize("old, new", [
    ("C.f (/p.py:10);", ""), ("C.f (/p.py:10)", "C.f (/p.py:11)"), ("C.f (", "C.g ("),
    ("/p.py:20", "/q.py:20"), ("spin (/p.py:4)", "spin (/p.py:9)"),
    ("C.f (/p.py:10);", "C.f (/p.py:10);C.f (/p.py:10);"), ("<module> (/p.py:20);", ""),
    ("spin (", "spun ("),
])
def test_wrong_stacks(old, new):
    assert old in GOOD
    with pytest.raises(AssertionError):
        check_stacks(parse_folded(GOOD.replace(old, new)), TRUTH)


def test_native_between():
    (stack,) = parse_folded(GOOD)
    gaps = [[f.file for f in frames] for _, _, frames in harness.native_between(stack)]
    assert gaps == [["libpython.so"], []]
    assert harness.in_order(["a", "b", "a"], ["a", "c", "b", "a"])
    assert not harness.in_order(["b", "a"], ["a", "b"])
    assert not harness.in_order(["a", "a"], ["a", "b"])


def test_readable():
    """A failed read now and then is left out; any other marker, and more of them, are not."""
    good, cut, lost = (parse_folded("py;%smain (/p.py:1) %d\n" % (marker, count)) for marker, count in (
        ("", 1000), ("[read-failed];", 5), ("[no-unwind-info libx.so];", 1)))
    assert harness.readable(good + cut + lost) == good + lost
    with pytest.raises(AssertionError):
        harness.readable(good + cut * 4)


COUNTERS = {"delivered": 10, "counted": 7, "filtered_idle": 2, "lost_no_proc": 1, "complete": 7,
            "user_stacks": 7}


@pytest.mark.parametrize("changed, good", [
    ({}, True), ({"delivered": 11}, False), ({"lost_no_proc": 0}, False), ({"complete": 8}, False),
    ({"counted": 6, "lost_no_proc": 2, "complete": 6, "user_stacks": 6}, False),
])
def test_balance(changed, good):
    stderr = "".join("counter %s %d\n" % c for c in {**COUNTERS, **changed}.items())
    result = Result(["pyperf-bpf", "-v", "-f"], 0, GOOD, "a message\n" + stderr)
    assert result.messages == ["a message"]
    if good:
        result.ok().complete()
    else:
        with pytest.raises(AssertionError):
            result.ok()


def test_who_is_missing():
    """The failure says what there is instead, and what the profiler said: not more than fits on a page."""
    lines = ["py;<module> (/p.py:%d);[no-python-state] %d\n" % (n, n) for n in range(1, 40)]
    said = ["counter delivered 780", *("counter lost_%d %d" % (n, n) for n in range(200)), *("message %d" % n for n in range(50))]
    with pytest.raises(AssertionError) as failed:
        Result(["pyperf-bpf", "-f"], 0, GOOD + "".join(lines), "\n".join(said)).only("spin", "missing")
    told = str(failed.value).split("\n")
    assert told[0] == "missing is missing among ['<module>', 'spin']" and len(told) <= 40, told
    assert "counters: delivered 780, lost_0 0, " in told[2] and "  message 49" in told and "  message 9" not in told, told
    assert "787 samples, by command and innermost place:" in told
    assert told[-2:] == ["       26  py: <module> (/p.py:26) [no-python-state]", "      332  at 26 other places"], told


@pytest.mark.parametrize("there, few", [
    (["3.9", "3.11", "3.12", "system"], ["3.9", "3.12", "system"]), (["3.10"], ["3.10", "system"]), ([], ["3.8", "3.13", "system"])])
def test_few_pythons(monkeypatch, there, few):
    """What is marked runs on three of those that there are, unless it is to run on every one."""
    marked = types.SimpleNamespace(get_closest_marker=lambda name: name == "few_pythons")
    plain = types.SimpleNamespace(get_closest_marker=lambda name: None)
    monkeypatch.setattr(conftest, "INTERPRETERS", dict.fromkeys(there))
    monkeypatch.delenv("PYPERF_TEST_EVERY", raising=False)
    every = [*conftest.VERSIONS, "system"]
    assert conftest.slots_of(marked) == few and conftest.slots_of(plain) == every
    monkeypatch.setenv("PYPERF_TEST_EVERY", "1")
    assert conftest.slots_of(marked) == every
