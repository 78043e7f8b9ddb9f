# -*- coding: utf-8 -*-
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Waits in known functions and says which: the target of test_pyproc_live.c.

Output, one line each, read by the test:
    V hexversion interpreters free_threaded
    T thread_ident                                  for each thread, then its frames, innermost first:
    F name file firstlineno lasti linetable hash(name) qualname
    E
Strings are hex of UTF-32-LE (bytes in 2.7). lasti is -9 for the innermost frame, which still moves.
"""
import binascii
import os
import sys
import threading

PY2 = sys.version_info[0] == 2


def hexed(s):
    if not isinstance(s, bytes):
        s = s.encode("utf-32-le", "surrogatepass")
    return binascii.hexlify(s).decode("ascii") or "-"


def frame_line(f, innermost):
    code = f.f_code
    table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    return "F %s %s %d %d %s %d %s" % (
        hexed(code.co_name), hexed(code.co_filename), code.co_firstlineno,
        -9 if innermost else f.f_lasti, hexed(table), hash(code.co_name),
        hexed(getattr(code, "co_qualname", code.co_name)))


def report(interpreters):
    # not sys.flags: the build, not how it was started
    t = "t" in getattr(sys, "abiflags", "")
    lines = ["V %x %d %d" % (sys.hexversion, interpreters, t)]
    for ident, f in sys._current_frames().items():
        if ident == threading.current_thread().ident:
            f = sys._getframe(1)
        lines.append("T %d" % ident)
        innermost = True
        while f is not None:
            lines.append(frame_line(f, innermost))
            innermost = False
            f = f.f_back
    lines.append("E\n")
    return "\n".join(lines).encode("ascii")


def wait_main(interpreters):
    os.write(1, report(interpreters))
    os.read(0, 1)


def wait_thread(ends):
    os.write(ends[0], b"x")
    os.read(ends[1], 1)


# ---- ways to call ----

def generator(leaf, arg):
    yield (leaf(arg), 1)[1]


def delegating(leaf, arg):
    for x in generator(leaf, arg):
        yield x


class Thing(object):
    def __init__(self, leaf, arg):
        self.result = self.method(leaf, arg)

    def method(self, leaf, arg):
        return [x for x in delegating(leaf, arg)]

    def __getitem__(self, i):
        return self.__call__(*i)

    def __call__(self, leaf, arg):
        return Thing(leaf, arg).result


OTHER = u"""
def gr\u00fcn(leaf, arg):
    return wei\u00df_\u4f60\u597d(leaf, arg)
def wei\u00df_\u4f60\u597d(leaf, arg):
    return \U00020000x(leaf, arg)
def \U00020000x(leaf, arg):
    return recurse(7, leaf, arg)
"""
if PY2:
    gr = recurse_via = None
else:
    exec(compile(OTHER, u"/tmp/f\u00fcr \u4f60.py", "exec"))
    recurse_via = globals()[u"gr\u00fcn"]


def recurse(n, leaf, arg):
    if n:
        return recurse(n - 1,
                       leaf,
                       arg)
    thing = object.__new__(Thing)
    return (lambda: thing[leaf, arg])()


def start(leaf, arg):
    return sorted([1], key=lambda _: (recurse_via or (lambda *a: recurse(3, *a)))(leaf, arg) and 1)


def subinterpreters():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = __import__(name)
            keep.append(module.create())
            return 2
        except ImportError:
            pass
    return 1


keep = []


def main():
    for _ in range(100):  # let inline caches settle: calls of classes are inlined from 3.13 on
        start(id, 0)
    interpreters = subinterpreters()
    for _ in range(2):
        ready = os.pipe()
        block = os.pipe()
        t = threading.Thread(target=start, args=(wait_thread, (ready[1], block[0])))
        t.daemon = True
        t.start()
        os.read(ready[0], 1)
    start(wait_main, interpreters)
    os._exit(0)


main()
