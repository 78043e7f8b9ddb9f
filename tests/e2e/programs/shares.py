# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Three functions with work 1 : 2 : 3. The truth is the CPU time that each was measured to take."""
import random

from common import clock, finish, rounds, start

UNIT = 9000


def work_one():
    x = 1
    for i in range(UNIT):
        x = (x * 31 + i) & 0xffff
    return x


def work_two():
    x = 1
    for i in range(2 * UNIT):
        x = (x * 31 + i) & 0xffff
    return x


def work_three():
    x = 1
    for i in range(3 * UNIT):
        x = (x * 31 + i) & 0xffff
    return x


def main():
    spent = {f.__name__: 0.0 for f in (work_one, work_two, work_three)}
    order = [work_one, work_two, work_three]
    shuffle = random.Random(1).shuffle
    running = start()
    for _ in rounds(running):
        # Many short rounds in changing order: any window sees the same shares, and no period of
        # the sampler can fall in step with the work.
        shuffle(order)
        for work in order:
            begin = clock()
            work()
            spent[work.__name__] += clock() - begin
    total = sum(spent.values())
    finish({"file": __file__, "shares": {name: t / total for name, t in spent.items()}})


main()
