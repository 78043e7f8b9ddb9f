# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What this interpreter says about its own line tables and strings, for test_pylines.c.

Runs on 2.7 and 3.x:  dump_python.py CODES SECONDS   (0: no limit)

    python VERSION HEXVERSION
    code LENGTH FIRSTLINE TABLE RUN...     TABLE in hex or "-"; RUN: BYTESxLINE, 0: no line
    string WIDTH ASCII DATA UTF8           as in memory and encoded, in hex or "-"
    end CODES ASKED DIFFERENT              offsets at which PyCode_Addr2Line() was asked, too, and
                                           did not agree with the line shown here
"""
from __future__ import print_function

import binascii
import dis
import os
import random
import sys
import time
import types

try:
    import ctypes

    addr2line = ctypes.pythonapi.PyCode_Addr2Line
    addr2line.argtypes = [ctypes.py_object, ctypes.c_int]
    addr2line.restype = ctypes.c_int
except Exception:  # built without ctypes, or its symbols are hidden
    ctypes = addr2line = None

VERSION = sys.version_info[:2]
UNIT = 1 if VERSION < (3, 6) else 2
CACHE = 0  # opcode of the units that belong to the instruction in front of them (3.11+)


def as_hex(data):
    return binascii.hexlify(data).decode("ascii") or "-"


def table_of(code):
    return code.co_linetable if VERSION >= (3, 10) else code.co_lnotab


def ranges_of(code):
    """(start, end, line) of dis or of the code object itself."""
    size = len(code.co_code)
    if VERSION >= (3, 10):
        return [(start, end, line or 0) for start, end, line in code.co_lines()]
    starts = list(dis.findlinestarts(code))
    ends = [start for start, _ in starts[1:]] + [size]
    return [(start, end, line) for (start, line), end in zip(starts, ends)]


def lines_of(code):
    """The line of every unit; units of a cache have that of their instruction."""
    lines = [0] * (len(code.co_code) // UNIT)
    for start, end, line in ranges_of(code):
        for i in range(start // UNIT, min(end // UNIT, len(lines))):
            lines[i] = max(line, 0)
    if VERSION >= (3, 11):
        ops = code.co_code[::2]
        for i in range(1, len(lines)):
            if ops[i] == CACHE:
                lines[i] = lines[i - 1]
    return lines


class Dump(object):
    def __init__(self, codes, seconds):
        self.codes = codes
        self.deadline = time.time() + seconds if seconds else None
        self.done = self.asked = self.different = 0

    def full(self):
        return (self.codes and self.done >= self.codes) or (
            self.deadline and time.time() > self.deadline)

    def ask(self, code, lines):
        """The function that tracebacks use: is it of the same opinion?"""
        for i, line in enumerate(lines):
            self.asked += 1
            self.different += max(addr2line(code, i * UNIT), 0) != line

    def show(self, code, lines):
        runs = []
        for line in lines:
            if runs and runs[-1][1] == line:
                runs[-1][0] += UNIT
            else:
                runs.append([UNIT, line])
        print("code", len(code.co_code), code.co_firstlineno, as_hex(table_of(code)),
              " ".join("%dx%d" % (size, line) for size, line in runs))
        self.done += 1

    def code(self, code):
        """A code object and those within."""
        todo = [code]
        while todo and not self.full():
            code = todo.pop()
            lines = lines_of(code)
            if addr2line:
                self.ask(code, lines)
            self.show(code, lines)
            todo.extend(c for c in code.co_consts if isinstance(c, types.CodeType))

    def source(self, text, name):
        try:
            code = compile(text, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, UnicodeError, RecursionError, MemoryError):
            return  # files that are wrong on purpose
        self.code(code)

    def library(self):
        """Modules in an order that mixes all parts of the library, the same in every run."""
        top = os.path.dirname(os.__file__)
        paths = []
        for where, dirs, files in os.walk(top):
            dirs[:] = [d for d in dirs if d not in ("site-packages", "dist-packages")]
            paths += [os.path.join(where, f) for f in files if f.endswith(".py")]
        paths.sort()
        random.Random(1).shuffle(paths)
        for path in paths:
            if self.full():
                break
            with open(path, "rb") as f:
                text = f.read()
            self.source(text, os.path.basename(path))

    def random_tables(self, count):
        """Code objects with tables of random bytes: what a damaged process would show. Only
        where the interpreter does not read beyond such a table."""
        if not addr2line or not (3, 8) <= VERSION <= (3, 10):
            return
        field = "co_linetable" if VERSION == (3, 10) else "co_lnotab"
        base = compile("x = 1\n" * 400, "random", "exec")
        rand = random.Random(2)
        for _ in range(count):
            size = 2 * rand.randrange(200)
            steps = rand.choice([range(256), range(8), [0, 1, 127, 128, 129, 255]])
            table = bytearray(rand.choice(steps) for _ in range(size))
            if VERSION == (3, 10) and table:
                table[-2] |= 1  # PyLineTable_NextAddressRange() runs past an empty last range
            code = base.replace(**{field: bytes(table), "co_firstlineno": rand.randrange(1, 100000)})
            self.show(code, [max(addr2line(code, i), 0) for i in range(0, len(code.co_code), 2)])


def stress():
    """Sources with steps that need more than one entry in every format."""
    for gap in (1, 126, 127, 128, 129, 254, 255, 256, 257, 511, 512, 1000, 70000):
        yield "a = 1\n" + "\n" * gap + "b = 2\n"
        yield "def f(a):\n" + "\n" * gap + "  return a\nf(1)\n"
        yield "f(" + "\n" * gap + "a," + "\n" * gap + "b)\n"
        yield "x = [" + "a + b, " * gap + "\n\n\nc]\ny = 1\n" if gap < 1001 else ""
        yield "x = [" + "a.b,\n" * min(gap, 2000) + "]\ny = (a\n\n\n\n\n,b)\n"
        yield "for a in b:\n" + " c\n" * min(gap, 3000) + " if d:\n  break\nelse:\n e\n"
        yield ("try:\n  a()\nexcept B as c:\n  d()\n" + "\n" * gap +
               "finally:\n  with e as f:\n    g()\n")
        yield "a = (b if c else\n" + "\n" * gap + "d)(*e,\n **f)\nlambda: (\n1,\n2)\n"


class Strings(object):
    def __init__(self):
        samples = [u"", u"a", u"<module>", u"f" * 300, u"\x00\x01\x7f", u"\x80\xff", u"na\xefve",
                   u"\u0100", u"\u07ff\u0800", u"\uffff", u"\ufffd", u"\u20ac" * 50,
                   u"\U0001f40d", u"a\xe9\u20ac\U0001f40d", u"\U0010ffff", u"\U00010000",
                   u"\ud800", u"a\udc80b", u"\udfff\ud800", u"\ud83d" + u"\udc0d",
                   u"\U0001f40d\ud800\udfff"]
        rand = random.Random(3)
        for top in (0x7f, 0xff, 0xffff, 0x10ffff):
            for size in (1, 7, 100):
                samples.append(u"".join(chr(rand.randrange(top + 1)) for _ in range(size)))
        for sample in samples:
            self.show(sample)

    @staticmethod
    def show(s):
        top = max([ord(c) for c in s] or [0])
        width = 1 if top < 0x100 else 2 if top < 0x10000 else 4
        # The characters and a NUL are the last part of a compact string; one made just now, as
        # this is, has no second part in UTF-8.
        fresh = u"".join([s[:1], s[1:]]) if len(s) > 1 else s
        start = id(fresh) + sys.getsizeof(fresh) - (len(fresh) + 1) * width
        data = ctypes.string_at(start, len(fresh) * width)
        utf8 = u"".join(u"\ufffd" if u"\ud800" <= c <= u"\udfff" else c for c in s)
        print("string", width, int(top < 0x80), as_hex(data), as_hex(utf8.encode("utf-8")))


def main():
    if VERSION < (3, 5):
        globals()["RecursionError"] = RuntimeError
    print("python", "%d.%d.%d" % sys.version_info[:3], "%x" % (sys.hexversion >> 16))
    dump = Dump(int(sys.argv[1]), float(sys.argv[2]))
    for text in stress():
        dump.source(text, "stress")
    dump.random_tables(300)
    dump.codes += dump.done if dump.codes else 0
    dump.library()
    if ctypes and VERSION >= (3, 3):
        Strings()
    print("end", dump.done, dump.asked, dump.different)


if __name__ == "__main__":
    main()
