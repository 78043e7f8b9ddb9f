# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Works in a library that was made of inlined.c: inlined.py LIBRARY."""
import ctypes
import sys

from common import finish, rounds, start


def main():
    library = ctypes.CDLL(sys.argv[1])
    running = start()
    for _ in rounds(running):
        library.work(20000)
    finish({})


main()
