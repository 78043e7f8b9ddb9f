# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Each sample finds a stack of its own: two processes call functions in an order of chance, 80 deep.

usage: stacks.py
"""
import os
import random

import tenant

NAMES = 200
SOURCE = """
def f%d(depth):
    for _ in range(3):
        pass
    if depth:
        FUNCTIONS[random.randrange(NAMES)](depth - 1)
"""
FUNCTIONS = []
for n in range(NAMES):
    exec(SOURCE % n)
    FUNCTIONS.append(globals()["f%d" % n])
os.fork()  # its stdin and alarm are the parent's, too
tenant.begin()
while True:
    FUNCTIONS[random.randrange(NAMES)](80)
