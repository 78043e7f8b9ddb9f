# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Thousands of threads that wait, until stdin ends.

usage: crowd.py COUNT
"""
import signal
import sys
import threading

signal.alarm(600)
threading.stack_size(256 << 10)
gate = threading.Event()


def held():
    gate.wait()


for _ in range(int(sys.argv[1])):
    threading.Thread(target=held, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
