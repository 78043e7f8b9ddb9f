# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Functions, files and a thread with names of a megabyte, of what a terminal or a browser would obey.

usage: long_names.py
"""
import threading

import tenant

LONG = []
for n in range(8):
    name = ("\x1b]0;owned\a\x1b[2J</script>\u202e%d;" % n) * (1 << 15)
    LONG.append(tenant.named(name))
    threading.current_thread().name = name[:4096]
tenant.begin()
while True:
    for function in LONG:
        function(20000)
