# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes are called what people call them: in reports, pages, differences and top, also when they have ended."""
import json
import re
import subprocess

import pytest

import harness
import pages
import pprof_read
from harness import PYPERF, Process, clean_environment, profile
from terminal import Terminal

pytestmark = pytest.mark.beside

SPIN = """
import ctypes, select, sys
def entitle(title):
    # As setproctitle does: over the arguments, where the kernel finds them.
    fields = open("/proc/self/stat").read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    ctypes.memmove(start, title.ljust(end - start, b"\\0")[:end - start], end - start)
def spin(x=1):
    while not select.select([sys.stdin], [], [], 0)[0]:
        for i in range(50000): x = (x * 31 + i) & 0xffff
if sys.argv[-1] == "--entitle":
    entitle(b"gunicorn: worker [shop.wsgi:app]")
print("ready", flush=True)
spin()
"""
BRIEF = "x = 1\nfor i in range(4000000): x = (x * 31 + i) & 0xffff\n"


@pytest.fixture
def programs(any_python, directory):
    """Runs a file of this name with these arguments."""
    running = []

    def run(name, *args):
        path = directory / name
        path.write_text(SPIN)
        running.append(Process([any_python, path, *args]))
        return running[-1].pid

    yield run
    for process in running:
        process.__exit__()


def titles_of_page(path):
    data = pages.data_of(path.read_text())
    return {data["strings"][n] for n in pages.undigits(data["tasks"]["comm"])}


def report(*args, command="report"):
    done = subprocess.run([PYPERF, command, *map(str, args)], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def test_reports_pages_and_differences(programs, directory):
    pids = {
        "gunicorn djapp:application": programs("gunicorn", "-w", "4", "djapp:application"),
        "gunicorn shop.wsgi:app": programs("a_name_that_is_long_enough.py", "--entitle"),
        "celery worker proj": programs("celery", "-A", "proj", "worker"),
    }
    saved, page, text = (directory / name for name in ("x.pb.gz", "x.html", "x.txt"))
    result = profile("-F", 999, "-d", 1, "-p", ",".join(map(str, pids.values())), "-o", saved, "-o", page, "-o", text,
                     glue=False).ok()
    assert result.status == 0
    again = report(saved)
    for title, pid in pids.items():
        row = r"^ +[\d.]+%% .* %d +%s  " % (pid, re.escape(title))
        assert re.search(row, text.read_text(), re.M), text.read_text()
        assert re.search(row, again, re.M), again
    assert titles_of_page(page) == set(pids)
    report(saved, "-o", directory / "source.lines.html")
    assert any("%s and 2 more" % title in (directory / "source.lines.html").read_text() for title in pids)
    report(saved, saved, "-o", directory / "diff.html", command="diff")
    assert titles_of_page(directory / "diff.html") == set(pids)
    labels = [sample["labels"] for sample in pprof_read.read(saved)["samples"]]
    assert {(each["title"], each["pid"]) for each in labels} == set(pids.items())
    # The title chooses, and the command name as well.
    only = report(saved, "--comm", "celery w*")
    assert "celery worker proj" in only and "gunicorn" not in only
    assert "celery worker proj" in report(saved, "--comm", "py*")


def test_dump_and_heap(programs):
    """Their first line says it, also of a title that a program sets itself; so does the JSON."""
    for title, pid in {"gunicorn shop.wsgi:app": programs("unlike_that.py", "--entitle"),
                       "celery worker proj": programs("celery", "-A", "proj", "worker")}.items():
        for command in "dump", "heap":
            text, data = (subprocess.run([PYPERF, command, *json_too, "-p", str(pid)], text=True, capture_output=True, timeout=60)
                          for json_too in ([], ["--json"]))
            assert "Process %d (%s), " % (pid, title) in text.stdout, text
            assert json.loads(data.stdout)["title"] == title, data


def test_ended_before_the_counts_were_read(any_python, directory):
    (directory / "brief.py").write_text(BRIEF)
    (directory / "calls.py").write_text("import subprocess, sys\nsubprocess.check_call([sys.executable, %r])\n"
                                        % str(directory / "brief.py"))
    done = subprocess.run([PYPERF, "-F", "999", "-v", "-o", directory / "x.pb.gz", "--", any_python,
                           directory / "calls.py"], env=clean_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    labels = [sample["labels"] for sample in pprof_read.read(directory / "x.pb.gz")["samples"]]
    # Between fork and exec a child is called as its parent.
    assert {each.get("title") for each in labels} == {"brief.py", "calls.py"}, labels
    assert len({each["pid"] for each in labels if each["title"] == "calls.py"}) in (1, 2)


def test_no_title(any_python, directory):
    """What has none has its command name."""
    code = "import sys\nprint('ready', flush=True)\nx = 1\nwhile x:\n for i in range(9999): x = i | 1\n"
    process = subprocess.Popen([any_python, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        harness.profile("-F", 999, "-d", 1, "-p", process.pid, "-o", directory / "x.html", glue=False).ok()
        comm = open("/proc/%d/comm" % process.pid).read().strip()
        assert titles_of_page(directory / "x.html") == {comm}
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_top(programs):
    pid = programs("gunicorn", "-w", "4", "djapp:application")
    with Terminal([PYPERF, "top", "-i", "0.5", "-p", str(pid)], 24, 120) as terminal:
        terminal.shows(r"^ +%d .* gunicorn djapp:application - \S*python" % pid)
        terminal.press("\r")
        terminal.shows(r"of process %d: .* gunicorn djapp:application *$" % pid)
