#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Writes pprof files with any names in them, and large ones. Shares no code with the program.

Usage: pprof_write.py FILE.pb.gz [STACKS [DEPTH]]    a synthetic profile, 100000 stacks of 40 frames
"""
import gzip
import random
import sys


def varint(n):
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n & (1 << 64) - 1)


def data(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


class Profile:
    """Functions are (name, file) or (name, file, start line); a frame is (function, line)."""

    def __init__(self, hz=99):
        self.strings = {b"": 0}
        self.functions, self.locations, self.samples = {}, {}, []
        types = [("samples", "count"), ("cpu", "nanoseconds")]
        self.period = 10 ** 9 // hz
        self.head = b"".join(data(1, self.value_type(*t)) for t in types)
        self.tail = data(11, self.value_type(*types[1])) + number(12, self.period)

    def string(self, text):
        text = text if isinstance(text, bytes) else text.encode()
        return self.strings.setdefault(text, len(self.strings))

    def value_type(self, name, unit):
        return number(1, self.string(name)) + number(2, self.string(unit))

    def location(self, frame):
        function, line = frame
        function_id = self.functions.setdefault(function, len(self.functions) + 1)
        return self.locations.setdefault((function_id, line), len(self.locations) + 1)

    def add(self, frames, count, labels=()):
        """Frames outermost first; labels (key, str or int)."""
        sample = data(1, b"".join(varint(self.location(f)) for f in reversed(frames)))
        sample += data(2, varint(count) + varint(count * self.period))
        for key, value in labels:
            text = isinstance(value, (str, bytes))
            sample += data(3, number(1, self.string(key)) +
                           number(2 if text else 3, self.string(value) if text else value))
        self.samples.append(data(2, sample))

    def pack(self):
        out = [self.head, *self.samples]
        for (function, line), i in self.locations.items():
            out.append(data(4, number(1, i) + data(4, number(1, function) + number(2, line))))
        for (name, file, *start), i in self.functions.items():
            out.append(data(5, number(1, i) + number(2, self.string(name)) +
                            number(4, self.string(file)) + number(5, start[0] if start else 1)))
        out += [data(6, s) for s in self.strings]
        return gzip.compress(b"".join(out) + self.tail, 1)


def synthetic(stacks, depth, seed=1):
    """Stacks that share their callers, as real ones do: 3000 functions of 8 lines in 200 files."""
    rng = random.Random(seed)
    functions = [("Class%d.method_%d" % (i % 77, i), "/srv/app/package/module_%d.py" % (i % 200), 1)
                 for i in range(3000)]
    profile, stack = Profile(), []
    for i in range(stacks):
        del stack[rng.randrange(depth // 2, depth):]
        while len(stack) < depth:
            stack.append((rng.choice(functions), rng.randrange(10, 18)))
        pid = 1000 + i * 20 // stacks
        profile.add(stack, rng.randrange(1, 50), [("pid", pid), ("comm", "worker")])
    return profile


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    numbers = list(map(int, sys.argv[2:]))
    with open(sys.argv[1], "wb") as f:
        f.write(synthetic(*numbers, *[100000, 40][len(numbers):]).pack())
