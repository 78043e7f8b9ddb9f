# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs as process 1 of a pid namespace: starts a spinner and profiles it by the pid it has there.

usage: in_pidns.py PROFILER [OPTION]...       "-p PID" is added
"""
import json
import os
import subprocess
import sys

spinner = subprocess.Popen([sys.executable, "-B",
                            os.path.join(os.path.dirname(__file__), "spinner.py"), "spin_inside"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert spinner.stdout.readline() == b"ready\n"
run = subprocess.run([*sys.argv[1:], "-p", str(spinner.pid)], stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
spinner.stdin.close()
spinner.wait()
json.dump({"pid": spinner.pid, "own": os.getpid(), "status": run.returncode,
           "stdout": run.stdout.decode(), "stderr": run.stderr.decode()}, sys.stdout)
