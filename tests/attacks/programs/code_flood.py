# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs each function once: all code is new, for ever, and so is each name.

usage: code_flood.py
"""
import tenant

SOURCE = """
def flood_%d_%s():
    x = 1
    for i in range(3000):
        x = (x * 31 + i) & 0xffff
flood_%d_%s()
"""
tenant.begin()
n = 0
while True:
    n += 1
    long = "x" * (n % 500)
    exec(compile(SOURCE % (n, long, n, long), "/nowhere/%d/%s.py" % (n, long), "exec"), {})
