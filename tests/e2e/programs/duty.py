# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Works a share of its time, duty.py SHARE, and says how much CPU time that took."""
import sys
import time

from common import clock, finish, rounds, start

PERIOD = 0.02


def burn(seconds):
    x = 1
    end = clock() + seconds
    while clock() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def main():
    share = float(sys.argv[1])
    running = start()
    for _ in rounds(running):
        burn(share * PERIOD)
        time.sleep((1 - share) * PERIOD)
    finish({"cpu": clock()})


main()
