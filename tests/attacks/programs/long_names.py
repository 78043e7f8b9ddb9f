# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions, files and a thread with names of a megabyte, of what a terminal or a browser would obey.

usage: long_names.py
"""
import threading

import tenant


def spin():
    x = 1
    for i in range(20000):
        x = (x * 31 + i) & 0xffff


def called(name):
    """Code cannot be changed, so it is made again, with the names that it says it has."""
    changes = {"co_name": name, "co_filename": name + ".py"}
    if hasattr(spin.__code__, "co_qualname"):
        changes["co_qualname"] = name
    function = type(spin)(spin.__code__.replace(**changes), {})
    threading.current_thread().name = name[:4096]
    return function


LONG = [called(("\x1b]0;owned\a\x1b[2J</script>\u202e%d;" % n) * (1 << 15)) for n in range(8)]
tenant.begin()
while True:
    for function in LONG:
        function()
