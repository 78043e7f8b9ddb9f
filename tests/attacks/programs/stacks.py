# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Each sample finds a stack of its own: processes call functions in an order of chance.

usage: stacks.py [FUNCTIONS [DEPTH [PROCESSES [COMM]]]]
"""
import os
import random
import sys

import tenant

NAMES, DEPTH, PROCESSES = (int(a) for a in (sys.argv[1:4] + ["200", "80", "2"][len(sys.argv) - 1:]))


def call(depth):
    for _ in range(3):
        pass
    if depth:
        FUNCTIONS[random.randrange(NAMES)](depth - 1)


FUNCTIONS = [type(call)(call.__code__.replace(co_name="f%d" % n), globals()) for n in range(NAMES)]
sys.setrecursionlimit(DEPTH + 1000)
if len(sys.argv) > 4:
    with open("/proc/self/comm", "w") as comm:
        comm.write(sys.argv[4])
for _ in range(PROCESSES - 1):  # its stdin and alarm are the parent's, too
    if not os.fork():
        break
tenant.begin()
while True:
    FUNCTIONS[random.randrange(NAMES)](DEPTH)
