#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Measure what the events of waits cost, by how often threads leave their CPUs.

Two Python processes on one CPU answer each other through pipes, so often that the CPU switches between them 1,000, 10,000 and
100,000 times a second (or as often as it can). Each event runs beside them in turn, and perf sched record if it is installed. Prints
one line for each rate and tool:

  switches/s   what the pair did meanwhile, by the kernel's count of its context switches; "alone": without any tool
  BPF          time in BPF programs (run_time_ns of kernel.bpf_stats), as a share of one CPU, and per switch
  user         CPU time of the tool itself, as a share of one CPU; of perf, which has no BPF programs, this is half of the truth

Usage: tests/bench/waits.py [-d SECONDS] [-n ROUNDS] [RATE...]

Needs root, a built program (make) and a quiet machine.
"""
import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import profilers  # noqa: E402
import runs  # noqa: E402

RATES = (1000, 10000, 100000)
EVENTS = ("off-cpu", "wall", "gil", "wakers", "cpu-clock")
SETTLE_S = 1.0

# Bursts of 10 ms, a round is two switches. A rate that cannot be reached never pauses.
PAIR = """
import os, sys, time
rate = int(sys.argv[1])
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
a, b = os.pipe(), os.pipe()
read, write = os.read, os.write
def answer(out, into):
    while write(into, read(out, 1)): pass
if os.fork() == 0: answer(a[0], b[1])
os.write(1, b"ready\\n")
n = max(1, rate // 200)
at = time.monotonic()
while True:
    for _ in range(n):
        write(a[1], b"x"); read(b[0], 1)
    at = max(at + 2 * n / rate, time.monotonic() - 1)
    time.sleep(max(0, at - time.monotonic()))
"""


class Pair:
    def __init__(self, rate):
        self.process = subprocess.Popen([sys.executable, "-c", PAIR, str(rate)], stdout=subprocess.PIPE, start_new_session=True)
        self.process.stdout.readline()
        self.pid = self.process.pid
        with open("/proc/%d/task/%d/children" % (self.pid, self.pid)) as f:
            self.pids = [self.pid, int(f.read())]

    def switches(self):
        n = 0
        for pid in self.pids:
            with open("/proc/%d/status" % pid) as f:
                n += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
        return n

    def end(self):
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


def bpf_ns(pid):
    return sum(ns for ns, _ in runs.all_programs(pid).values())


def measure(pair, argv, seconds):
    """(switches, BPF, user) a second."""
    tool = argv and subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(SETTLE_S)
        begin = time.monotonic(), pair.switches(), bpf_ns(tool.pid) if tool else 0, runs.cpu_seconds(tool.pid) if tool else 0
        time.sleep(seconds)
        end = time.monotonic(), pair.switches(), bpf_ns(tool.pid) if tool else 0, runs.cpu_seconds(tool.pid) if tool else 0
    finally:
        if tool:
            tool.send_signal(signal.SIGINT)
            tool.wait()
    took = end[0] - begin[0]
    return (end[1] - begin[1]) / took, (end[2] - begin[2]) / 1e9 / took, (end[3] - begin[3]) / took


def tools(pid, seconds, directory):
    yield "alone", None
    for event in EVENTS:
        yield "-e " + event, [profilers.OURS, "-q", "-e", event, "-p", str(pid), "-o", os.path.join(directory, "x.folded")]
    if profilers.find("perf"):
        yield "perf sched record", [profilers.find("perf"), "sched", "record", "-o", os.path.join(directory, "x.data"),
                                    "sleep", str(seconds + 30)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-d", type=float, default=3, metavar="SECONDS", help="of each measurement (3)")
    p.add_argument("-n", type=int, default=3, metavar="ROUNDS", help="the median of so many is shown (3)")
    p.add_argument("rates", nargs="*", type=int, default=RATES, metavar="RATE", help="switches a second")
    args = p.parse_args()
    print("load %.1f at the beginning" % os.getloadavg()[0])
    with runs.bpf_stats(), tempfile.TemporaryDirectory() as directory:
        for rate in args.rates:
            pair = Pair(rate)
            found = {}
            try:
                for _ in range(args.n):
                    for name, argv in tools(pair.pid, args.d, directory):
                        found.setdefault(name, []).append(measure(pair, argv, args.d))
            finally:
                pair.end()
            for name, all_of in found.items():
                switches, bpf, user = (sorted(x)[len(all_of) // 2] for x in zip(*all_of))
                print("%-18s %8.0f switches/s  BPF %5.2f%% (%4.0f ns each)  user %5.2f%%"
                      % (name, switches, 100 * bpf, 1e9 * bpf / switches, 100 * user), flush=True)


main()
