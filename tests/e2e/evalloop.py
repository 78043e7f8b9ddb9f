# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Where an interpreter's eval loop is in its file, by binutils: the exported function, and what a
compiler with a profile put elsewhere (".cold"), whose symbol stripping removes."""
import bisect
import functools
import re
import subprocess

SYMBOL = re.compile(r" ([0-9a-f]{8,16}) +(0x[0-9a-f]+|\d+) FUNC +GLOBAL \S+ +\d+ "
                    r"(_PyEval_EvalFrameDefault|PyEval_EvalFrameEx)$", re.M)
FDE = re.compile(r" FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)$", re.M)
SEGMENT = re.compile(r"^ +LOAD +(0x[0-9a-f]+) (0x[0-9a-f]+) 0x[0-9a-f]+ (0x[0-9a-f]+)", re.M)
JUMP = re.compile(r"^ *[0-9a-f]+:\s+(?:bnd )?j[a-z]+ +([0-9a-f]+)", re.M)


def run(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, errors="replace").stdout


class Loop:
    """`symbol`, and `parts`: [(begin, end), ...] in link addresses, the exported function first."""

    def __init__(self, path):
        found = {name: (int(value, 16), int(size, 0)) for value, size, name
                 in SYMBOL.findall(run("readelf", "-W", "--dyn-syms", path))}
        self.symbol = max(found)  # 2.7 has PyEval_EvalFrameEx only; later that is a wrapper
        value, size = found[self.symbol]
        self.parts = [(value, value + size)]
        fdes = [(int(begin, 16), int(end, 16)) for begin, end
                in FDE.findall(run("readelf", "-W", "--debug-dump=frames", path))]
        code = run("objdump", "-d", "--no-show-raw-insn", "--start-address=%d" % value,
                   "--stop-address=%d" % (value + size), path)
        # Into the middle of a function goes no call, nor what stands in for one.
        targets = sorted(int(target, 16) for target in JUMP.findall(code))
        self.parts += sorted((begin, end) for begin, end in fdes
                             if not value <= begin < value + size
                             and bisect.bisect_left(targets, end) > bisect.bisect(targets, begin))
        self.segments = [tuple(int(n, 16) for n in s)
                         for s in SEGMENT.findall(run("readelf", "-W", "--segments", path))]

    def holds(self, frame):
        """Whether a native frame of that file is the loop's."""
        if not frame.name.startswith("0x"):
            return re.fullmatch(self.symbol + r"(\.cold.*)?", frame.name) is not None
        at = int(frame.name, 16)
        for offset, vaddr, size in self.segments:
            if offset <= at < offset + size:
                return any(begin <= at - offset + vaddr < end for begin, end in self.parts)
        return False

    def __str__(self):
        return " + ".join("%.0f KiB" % ((end - begin) / 1024) for begin, end in self.parts)


@functools.lru_cache(maxsize=None)
def loop_of(path):
    return Loop(path)
