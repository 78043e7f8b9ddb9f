# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the profiler itself opens and reads, as strace sees it.

Only two processes of ours may open what others own (pyperf-opener) or read their memory (pyperf-reader). All others
may open what is on a list: the program's own libraries, the kernel's files, and those files of /proc/PID that the
kernel answers without the process.
"""
import re

CALLS = "open,openat,openat2,creat,process_vm_readv,process_vm_writev,ptrace"
LINE = re.compile(r"^(?P<pid>\d+)<(?P<comm>[^>]*)> +(?P<call>\w+)\((?P<args>.*)")
PLACE = re.compile(r'^(?:(?P<at>AT_FDCWD|\d+)(?:<(?P<dir>[^>]*)>)?, )?"(?P<path>[^"]*)"')

OURS = ("pyperf-opener", "pyperf-reader")
ALLOWED = re.compile(r"""
    /etc/(ld\.so\.|localtime|passwd|group|nsswitch|debuginfod|locale|terminfo) | /usr/share/ | /usr/lib/locale | /lib/terminfo
  | /(usr/)?lib(64)?/.*\.so[.\d]*$ | /usr/lib/.*/gconv/ | /.*/terminfo/
  | /.*/pyperf-bpf[^/]*$ | /.*/\.output/(sanitized/)?(\./)?names$ | /sys/ | /dev/(null|tty|fuse)$
  | /$ | /proc/?$ | /proc/(self|thread-self|sys|cgroups|kallsyms|modules|mounts|filesystems|stat|cpuinfo|meminfo|version|uptime
                    |loadavg|filesystems|config\.gz|cmdline)\b
  | /proc/\d+/?$ | /proc/\d+/(stat|statm|status|comm|cgroup|task|ns|ns/user|sched|wchan)$
  | /proc/\d+/task/\d+/(comm|status|stat|children|schedstat)$
  | /uprobe_events$ | /events/pyperf_bpf_\d+/  # of a tracefs that is mounted nowhere
""", re.X)
TENANTS = re.compile(r"^/proc/\d+/(root|cwd|exe|fd|map_files|mem|maps|smaps|pagemap|environ|cmdline|syscall|auxv)\b")


def wrapper(directory, program):
    """A program that runs `program` under strace, as if it were it; and the file of what was seen."""
    log, path = directory / "own.strace", directory / "traced"
    path.write_text("#!/bin/sh\nexec strace -D -f -qq -Y -y -s 4096 -e signal=none -e trace=%s -A -o %s -- %s \"$@\"\n"
                    % (CALLS, log, program))
    path.chmod(0o755)
    return path, log


def where(args):
    place = PLACE.match(args)
    if not place:
        return None
    path = place["path"]
    if not path.startswith("/"):
        path = "%s/%s" % (place["dir"] or "?", path)
    return path.replace("//", "/")


def faults(text, allowed=()):
    """Lines that should not be there. `allowed`: paths that this run was told to write or read."""
    bad, seen = [], set()
    first = text.split("<", 1)[0]
    for line in text.splitlines():
        m = LINE.match(line)
        if not m:
            continue
        seen.add(m["comm"])
        if m["comm"] in OURS:
            continue
        if not m["call"].startswith(("open", "creat")):
            bad.append(line)
            continue
        path = where(m["args"])
        if path and path.startswith("/proc/%s/" % first):
            continue
        if path and any(path.startswith(str(a)) for a in allowed):
            continue
        if not path or TENANTS.match(path) or not ALLOWED.match(path):
            bad.append(line)
    return bad, seen
