# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""For mypyc: run() calls Shape.area(), which calls spin()."""
import time


class Shape:
    def area(self, n: int) -> int:
        return spin(n)


def spin(n: int) -> int:
    s = 0
    for i in range(n):
        s = (s + i) & 0xffff
    return s


def run(seconds: float) -> int:
    end = time.process_time() + seconds
    shape = Shape()
    rounds = 0
    while time.process_time() < end:
        shape.area(100000)
        rounds += 1
    return rounds
