# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions and generators that do little but call and return. Their frames are of different sizes, so where a
new frame lies there was something else before. Every stack that can be is recorded, by the interpreter's profile hook."""
import sys

import common


def leaf(x):
    return x


def few(x):
    return leaf(x)


def many(a, b=1, c=2, d=3, e=4, f=5, g=6, h=7):
    i = j = k = l = m = n = (a, b, c, d, e, f, g, h)
    return few(leaf(a)) + len(i) + len(j) + len(k) + len(l) + len(m) + len(n)


def numbers(x):
    for i in range(3):
        yield leaf(i) + x


def delegate(x):
    for number in numbers(x):
        yield number


try:
    exec("def delegate(x):\n    yield from numbers(x)\n")
except SyntaxError:
    pass  # 2.7


def deep(depth, x):
    return deep(depth - 1, x) + few(x) if depth else leaf(x)


def deeper(depth):
    """More than a chunk of the data stack, which is 16 KiB: somewhere leaf() begins one."""
    for i in range(10):
        leaf(i)
    return deeper(depth - 1) if depth else leaf(depth)


class Thing(object):
    def __init__(self, x):
        self.x = few(x)

    @property
    def value(self):
        return leaf(self.x)

    def __add__(self, other):
        return many(self.value) + few(other)


def once():
    few(1)
    many(2)
    deep(3, 1)
    for number in delegate(4):
        few(number)
    [few(number) for number in numbers(5)]
    for number in numbers(6):
        many(number)
    sorted((3, 1, 2), key=few)
    Thing(7) + Thing(8).value
    deep(12, 2)
    deeper(180 if sys.version_info >= (3, 11) else 10)


def work(running):
    while running.now:
        once()


class Once(object):
    """Runs work()'s loop once: the recorded stacks are those of the loop."""

    def __init__(self):
        self.asked = 0

    @property
    def now(self):
        sys.setprofile(None if self.asked else record)
        self.asked += 1
        return self.asked == 1


chains = set()


def record(frame, event, _):
    """Calls, and the resumption of generators. The frames above work() are those of now."""
    chain = []
    while frame and frame.f_code is not work.__code__:
        chain.append(common.qualname(frame.f_code))
        frame = frame.f_back
    if event == "call":
        chains.add(tuple(reversed(chain)))


def main():
    work(Once())
    running = common.start()
    work(running)
    common.finish({"chains": sorted(chains)})


if __name__ == "__main__":
    main()
