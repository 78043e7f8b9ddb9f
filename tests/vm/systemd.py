# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What scripts/test-systemd runs inside a virtual machine that systemd has booted: the Debian package and the unit,
from `apt install` to `apt purge`.

The cases are a story: each begins where the one before has ended. One that fails ends it, as what comes after has
nothing to stand on.
"""
import contextlib
import http.server
import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from cases import run_cases, say

UNIT = "pyperf-bpf-agent.service"
SOCKET_UNIT = "pyperf-bpf-agent.socket"
UNITS = Path("/lib/systemd/system")
DROP_IN = Path("/etc/systemd/system/%s.d/push.conf" % UNIT)
LISTEN = Path("/etc/systemd/system/pyperf-bpf-agent.socket.d/listen.conf")
EXAMPLE = Path("/usr/share/doc/pyperf-bpf/examples/push.conf")
CONFIG = Path("/etc/pyperf-bpf/agent.conf")
STORE = Path("/var/lib/pyperf-bpf/store.db")
SOCKET = Path("/run/pyperf-bpf/agent.sock")
CAPABILITIES = {"bpf": 39, "checkpoint_restore": 40, "dac_read_search": 2, "perfmon": 38, "sys_ptrace": 19, "syslog": 34}
CAP_SYS_ADMIN = 21
WINDOW = 10
# All is emulated, some twelve times slower than life. Whoever takes longer is stuck.
PATIENCE = 150

SHOP = """
def price():
    return sum(i * i for i in range(1000))

def checkout():
    while True:
        price()

checkout()
"""
SHOP_UNIT = """
[Service]
ExecStart=/usr/bin/python3 /opt/shop.py
DynamicUser=yes
CPUQuota=30%
"""


def run(*args, status=0):
    done = subprocess.run(list(map(str, args)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    assert status is None or done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout


def poll(what, name):
    end = time.monotonic() + PATIENCE
    while not (value := what()):
        assert time.monotonic() < end, name
        time.sleep(0.3)
    return value


# What was there before the package. Not looked at: what other programs write at any time.
FILES = set()
ELSEWHERE = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/log", "/var/cache", "/var/backups",
             "/var/lib/apt", "/var/lib/dpkg", "/var/lib/systemd", "/repo")


def files():
    found = set()
    for directory, inner, names in os.walk("/"):
        inner[:] = [name for name in inner if os.path.join(directory, name) not in ELSEWHERE]
        found |= {os.path.join(directory, name) for name in inner + names if name != "__pycache__"}
    return {name for name in found if "/__pycache__/" not in name and not name.endswith(".dpkg-old")}


def configure(more="", frequency="99"):
    CONFIG.write_text("[agent]\nfrequency = %s\nwindow = %d\n[budget]\ncpu = 100\n%s" % (frequency, WINDOW, more))


# ---- the unit ------------------------------------------------------------------------------------

def show(*names):
    """Properties of the unit, as systemd sees them: one, or a list."""
    lines = run("systemctl", "show", UNIT, *("-p" + name for name in names)).splitlines()
    values = dict(line.split("=", 1) for line in lines)
    return values[names[0]] if len(names) == 1 else [values[name] for name in names]


def main_pid():
    return int(show("MainPID"))


def status(pid):
    return dict(line.split(":\t", 1) for line in Path("/proc/%d/status" % pid).read_text().splitlines()
                if ":\t" in line)


def messages(since=0):
    """What the agent has said, of now and before."""
    lines = run("journalctl", "-u", UNIT, "-o", "json", "--no-pager").splitlines()
    return [m["MESSAGE"] for m in map(json.loads, lines) if m.get("_COMM", "").startswith("pyperf")][since:]


def said(words, since=0):
    return [m for m in messages(since) if words in m]


def started():
    """When the agent of now began, by the wall clock."""
    return time.time() - time.monotonic() + int(show("ActiveEnterTimestampMonotonic")) / 1e6


def restarts():
    return int(show("NRestarts"))


def wait_restarted(before, pid):
    """systemd has started another one, and it has said that it samples."""
    def is_there():
        state, count, now = show("ActiveState", "NRestarts", "MainPID")
        return state == "active" and int(count) > before and int(now) not in (0, pid)
    poll(is_there, "the agent is not started again")


# ---- its page, and where it sends to -----------------------------------------------------------

def healthy():
    """Its port answers, now or when there is an agent again."""
    return urllib.request.urlopen("http://127.0.0.1:4041/healthz", timeout=PATIENCE).status == 200


def own_network():
    return os.stat("/proc/%d/ns/net" % main_pid()).st_ino != os.stat("/proc/self/ns/net").st_ino


@contextlib.contextmanager
def clients():
    """One after the other, all the time: none is refused."""
    end, refused, answered = threading.Event(), [], []

    def ask():
        while not end.is_set():
            try:
                answered.append(healthy())
            except urllib.error.URLError as error:
                refused.append(error.reason)
            except OSError:  # taken by the agent that ends
                pass

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert answered and not [r for r in refused if isinstance(r, ConnectionRefusedError)], refused


@contextlib.contextmanager
def backend():
    """Takes windows; yields the list of them."""
    taken = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            taken.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 4100), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield taken
    finally:
        server.shutdown()
        server.server_close()


PUSH = "[push.here]\nkind = put\nurl = http://127.0.0.1:4100/{id}\n"


# ---- the store -----------------------------------------------------------------------------------

def windows():
    """(begin, end, labels, frequency) of each window of the shop, in seconds of the wall clock."""
    if not STORE.exists():
        return []
    with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % STORE, uri=True, timeout=30)) as db:
        found = db.execute("""SELECT w.start, w.duration, w.series, w.hz FROM window w JOIN label l
                              ON l.id = w.service WHERE l.value = 'shop' ORDER BY w.start""").fetchall()
        labels = {series: dict(db.execute("""SELECT l.name, l.value FROM series_label s JOIN label l
                                             ON l.id = s.label WHERE s.series = ?""", (series,)))
                  for series in {row[2] for row in found}}
    return [(start / 1e9, (start + duration) / 1e9, labels[series], hz) for start, duration, series, hz in found]


def wait_windows(cnt, since=0):
    """So many windows of the shop that began after a moment."""
    def there():
        found = [w for w in windows() if w[0] >= since]
        return len(found) >= cnt and found
    return poll(there, "%d windows of the shop" % cnt)


# ---- cases ---------------------------------------------------------------------------------------

def machine():
    """What systemd has booted is fit to be asked."""
    run("systemctl", "is-system-running", "--wait", status=None)
    failed = run("systemctl", "--failed", "--no-legend", "--plain")
    assert not failed.strip(), failed


def install():
    """All that it depends on comes with it, and nothing is started."""
    FILES.update(files())
    run("apt-get", "-qq", "update")
    run("apt-get", "-qq", "install", "--yes", "/srv/pyperf-bpf.deb")
    assert not run("apt-get", "-qq", "check") and not run("dpkg", "--audit")
    assert not run("dpkg", "--verify", "pyperf-bpf")
    assert run("dpkg-query", "-W", "-f", "${Status}", "libmicrohttpd12") == "install ok installed"
    assert run("systemctl", "is-enabled", UNIT, status=None).strip() == "disabled"
    assert run("systemctl", "is-active", UNIT, status=None).strip() == "inactive"
    assert "pyperf-bpf" in run("pyperf-bpf", "--version")
    run("pyperf-bpf", "agent", "--check-config")


def verify():
    """systemd understands all of the units; the exposure is what docs/installing.md says."""
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", UNIT, SOCKET_UNIT], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout + done.stderr, done
    exposure = re.search(r"Overall exposure level for .*: ([\d.]+)", run("systemd-analyze", "security", UNIT))
    say("figure", "exposure", exposure[1])
    assert float(exposure[1]) <= 2.0


def starts():
    """`systemctl start` returns when it has said READY."""
    configure()
    Path("/opt/shop.py").write_text(SHOP)
    Path("/etc/systemd/system/shop.service").write_text(SHOP_UNIT)
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "shop")
    begin = time.monotonic()
    run("systemctl", "enable", "--now", UNIT)
    say("figure", "start", "%.1f s" % (time.monotonic() - begin))
    assert said("sampling at 99 Hz, windows of %d s" % WINDOW)
    assert show("ActiveState", "SubState", "StatusText") == ["active", "running", "sampling"]
    assert restarts() == 0


def unprivileged():
    """Nobody's user with six capabilities. The seventh of the unit is given up, although this kernel asks for it: Debian's
    opens no perf event for less."""
    assert int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2
    process = status(main_pid())
    users = set(process["Uid"].split()) | set(process["Gid"].split())
    assert len(users) == 1 and 61184 <= int(users.pop()) <= 65519, process  # DynamicUser's range
    mask = sum(1 << number for number in CAPABILITIES.values())
    for name in "CapPrm", "CapEff":
        assert int(process[name], 16) == mask, (name, process[name])
    for task in Path("/proc/%d/task" % main_pid()).iterdir():
        assert "CapPrm:\t%016x\n" % mask in (task / "status").read_text(), task
    assert int(process["CapBnd"], 16) == mask | 1 << CAP_SYS_ADMIN  # which no_new_privs makes of no use
    assert int(process["CapAmb"], 16) == 0  # taken, and not handed on
    assert process["NoNewPrivs"] == "1" and process["Seccomp"] == "2"


def hardened():
    """The options are in force, and the agent has nothing to say about them."""
    pid = main_pid()
    mounts = {}
    for line in Path("/proc/%d/mountinfo" % pid).read_text().splitlines():
        mounts[line.split()[4]] = line.split()[5].split(",")
    assert "ro" in mounts["/"] and "rw" in mounts["/var/lib/private/pyperf-bpf"], mounts
    home = Path("/home", "somebody")
    home.mkdir()
    assert not (Path("/proc/%d/root" % pid) / home.relative_to("/")).exists()
    home.rmdir()
    group = Path("/sys/fs/cgroup/system.slice") / UNIT
    limits = {name: (group / name).read_text().split()[0] for name in ("memory.max", "pids.max", "cpu.max")}
    assert limits == {"memory.max": str(512 << 20), "pids.max": "64", "cpu.max": "100000"}, limits
    assert Path("/proc/%d/oom_score_adj" % pid).read_text().strip() == "500"
    for path, mode in ("/var/lib/private/pyperf-bpf", 0o700), (STORE, 0o600), ("/etc/pyperf-bpf", 0o755):
        assert os.stat(path).st_mode & 0o777 == mode, (path, oct(os.stat(path).st_mode))
    for path in "/proc/sys", "/sys":
        assert "ro" in mounts[path], mounts[path]
    assert own_network()
    interfaces = Path("/proc/%d/net/dev" % pid).read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"], interfaces


def samples():
    """Of another unit's Python, as its service, with the unit as label; for root to read."""
    labels = wait_windows(2)[-1][2]
    assert labels["unit"] == "shop.service" and labels["service_name"] == "shop", labels
    assert labels["python"].startswith("3.11") and labels["exe"].startswith("/usr/bin/python3"), labels

    def report():
        """With a sample in the kernel, which is not in every window."""
        folded = run("pyperf-bpf", "report", "--from", "-1h", "--service", "shop", "--folded")
        return "_[k]" in folded and folded

    folded = poll(report, "a function of the kernel")
    total = sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines())
    priced = sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()
                 if re.search("checkout .*;price ", line))
    assert priced > 0.8 * total > 0, folded
    # What a start says, also one that takes the guest long, and nothing that went wrong since.
    usual = ("sampling at", "the page: http://127.0.0.1:4041/", "store.db: 0 windows", "has stood still for 10 s, starting:",
             "sampling continues after")
    assert all(any(words in m for words in usual) for m in messages()), messages()
    assert healthy()  # although neither addresses nor a network are allowed: systemd listens
    current = int((Path("/sys/fs/cgroup/system.slice") / UNIT / "memory.current").read_text())
    say("figure", "memory", "%.1f MiB" % (current / (1 << 20)))


def reloads():
    """`systemctl reload`: the same process, another configuration."""
    pid, since = main_pid(), len(messages())
    configure("[http]\nlisten = unix:%s\n" % SOCKET, frequency="49")
    run("systemctl", "reload", UNIT)
    poll(lambda: said(": reloaded", since), "the configuration is not reloaded")
    assert main_pid() == pid and show("ActiveState", "StatusText") == ["active", "sampling"]
    poll(SOCKET.exists, "no socket")
    assert len(said("the socket at 127.0.0.1:4041 (%s) of the service manager is not used" % SOCKET_UNIT, since)) == 1
    assert SOCKET.stat().st_mode & 0o777 == 0o660
    poll(lambda: windows()[-1][3] == 49, "no window has the new frequency")
    configure(frequency="many")
    run("systemctl", "reload", UNIT)
    poll(lambda: said("frequency", since), "the mistake is not said")
    assert main_pid() == pid and show("ActiveState", "StatusText") == ["active", "sampling"]
    configure()
    run("systemctl", "reload", UNIT)
    poll(lambda: len(said(": reloaded", since)) == 2, "the configuration is not reloaded")
    poll(lambda: not SOCKET.exists(), "the socket is still there")
    assert healthy()


def pushes():
    """Not without the network, which one message says; with the drop-in. No client of the page is refused meanwhile."""
    since = len(messages())
    with backend() as taken:
        configure(PUSH)
        run("systemctl", "reload", UNIT)
        poll(lambda: said(": reloaded", since), "the configuration is not reloaded")
        wait_windows(1, since=time.time())
        told = [m for m in messages(since) if "push" in m]
        assert len(told) == 1 and "push: the agent has no network: " in told[0], told
        assert "RestrictAddressFamilies=" in told[0] and "push.conf" in told[0] and not taken
        DROP_IN.parent.mkdir(parents=True)
        DROP_IN.write_text(EXAMPLE.read_text())
        run("systemctl", "daemon-reload")
        since = len(messages())
        with clients():
            run("systemctl", "restart", UNIT)
            poll(lambda: len(taken) > 1, "nothing arrives")  # what waited, and what came since
    assert not own_network() and not [m for m in messages(since) if "no network" in m]
    DROP_IN.unlink()
    DROP_IN.parent.rmdir()


def make_older():
    """As it was before the agent got its socket from systemd."""
    text = (UNITS / UNIT).read_text()
    for line in "Wants=pyperf-bpf-agent.socket\nAfter=pyperf-bpf-agent.socket\n", "PrivateNetwork=yes\nIPAddressDeny=any\n":
        assert line in text
        text = text.replace(line, "")
    (UNITS / UNIT).write_text(text.replace("Families=AF_UNIX\n", "Families=AF_UNIX AF_INET AF_INET6\n"))
    (UNITS / SOCKET_UNIT).unlink()


def upgraded():
    """From an agent with a port and destinations of its own: that of the new package runs, what was stored is there, page
    and destinations work as before."""
    run("systemctl", "stop", UNIT)
    make_older()
    at = "0.0.0.0:4041"
    text = CONFIG.read_text()
    CONFIG.write_text(text + "[http]\nlisten = %s\nallow-remote = yes\n" % at)
    run("systemctl", "daemon-reload")
    run("systemctl", "start", UNIT)
    assert healthy() and not own_network()
    pid, before = main_pid(), windows()
    with backend() as taken:
        out = run("apt-get", "-qq", "install", "--yes", "--reinstall", "/srv/pyperf-bpf.deb")
        assert "pyperf-bpf-agent: allowed the network" in out, out
        assert DROP_IN.read_text() == EXAMPLE.read_text()
        assert run("systemctl", "show", SOCKET_UNIT, "-P", "Listen").strip() == at + " (Stream)", out
        assert main_pid() not in (0, pid) and show("ActiveState") == "active"
        assert run("systemctl", "is-active", SOCKET_UNIT).strip() == "active" and healthy()
        poll(lambda: taken, "nothing arrives")
    assert windows()[:len(before)] == before
    assert restarts() == 0
    LISTEN.unlink()
    LISTEN.parent.rmdir()
    configure()
    run("systemctl", "stop", UNIT)
    run("systemctl", "daemon-reload")
    run("systemctl", "start", UNIT)


def killed():
    """kill -9: another one is started, no finished window is lost, and a client of this moment gets an answer."""
    wait_windows(2, since=started())
    pid, before, count = main_pid(), windows(), restarts()
    os.kill(pid, signal.SIGKILL)
    assert healthy()
    wait_restarted(count, pid)
    assert windows()[:len(before)] == before
    with contextlib.closing(sqlite3.connect(STORE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    wait_windows(1, since=started())


def clock_set():
    """The period ends, and goes on at the new time."""
    since, pid = len(messages()), main_pid()
    time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600)
    poll(lambda: said("the clock was set forward by 3", since), "nothing is said")
    found = wait_windows(2, since=time.time() - 600)
    assert all(0 < end - begin < 2 * WINDOW for begin, end, _, _ in windows()), found
    assert main_pid() == pid


def stops():
    """The open window is written, and the directory for the socket goes."""
    now = wait_windows(1, since=time.time())[-1][1]
    poll(lambda: time.time() > now + 2, "time stands still")
    begin = time.time()
    run("systemctl", "stop", UNIT)
    say("figure", "stop", "%.1f s" % (time.time() - begin))
    assert show("ActiveState", "Result", "ExecMainStatus") == ["inactive", "success", "0"]
    begin_of_last, end_of_last, _, _ = windows()[-1]
    assert begin - 1 < end_of_last < time.time() and end_of_last - begin_of_last < WINDOW + 1
    counted = re.search(r"ended: (\d+) samples counted, (\d+) in .* (\d+) dropped", messages()[-1])
    assert counted and int(counted[1]) == int(counted[2]) > 0 and counted[3] == "0", messages()[-1]
    assert not SOCKET.parent.exists() and STORE.exists()
    # Who asks for the page does not start it again.
    assert run("systemctl", "is-active", SOCKET_UNIT, status=None).strip() == "inactive"
    try:
        healthy()
        raise AssertionError("somebody listens")
    except urllib.error.URLError as error:
        assert isinstance(error.reason, ConnectionRefusedError), error
    assert show("ActiveState") == "inactive"


def stuck():
    """One that does not move is missed by the watchdog, and another one is started."""
    assert show("WatchdogUSec") == "1min"
    drop_in = Path("/run/systemd/system/%s.d/watchdog.conf" % UNIT)
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nWatchdogSec=12\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "start", UNIT)
    wait_windows(2, since=started())  # it is not missed while it works
    assert restarts() == 0
    pid = main_pid()
    os.kill(pid, signal.SIGSTOP)
    wait_restarted(0, pid)
    log = run("journalctl", "-u", UNIT, "--no-pager")
    assert "Watchdog timeout" in log and "Failed with result 'watchdog'" in log, log[-2000:]
    drop_in.unlink()
    run("systemctl", "daemon-reload")


def removed():
    """Also while it runs. The configuration and the store stay."""
    pid = main_pid()
    assert pid
    run("apt-get", "-qq", "remove", "--yes", "pyperf-bpf")
    assert not Path("/proc/%d" % pid).exists()
    assert CONFIG.exists() and STORE.exists() and not Path("/usr/bin/pyperf-bpf").exists()
    assert DROP_IN.exists()


def purged():
    """Nothing is left: neither file nor unit."""
    run("systemctl", "stop", "shop")
    for path in Path("/opt/shop.py"), Path("/etc/systemd/system/shop.service"):
        path.unlink()
    run("apt-get", "-qq", "purge", "--yes", "pyperf-bpf")
    run("apt-get", "-qq", "autoremove", "--yes")
    left = files() - FILES
    assert not left, left
    assert not FILES - files(), FILES - files()
    units = run("systemctl", "list-units", "--all", "--no-legend", "pyperf-bpf*")
    assert not units.strip() and "pyperf-bpf" not in run("systemctl", "--failed"), units
    assert not run("dpkg-query", "-W", "-f", "${Status}", "pyperf-bpf", status=None)


CASES = [machine, install, verify, starts, unprivileged, hardened, samples, reloads, pushes, upgraded, killed,
         clock_set, stops, stuck, removed, purged]


def show_journal(*_):
    """Of the case that failed; it ends the story."""
    print(run("journalctl", "-n", "40", "-o", "short-monotonic", "--no-pager"), flush=True)
    return False


if __name__ == "__main__":
    run_cases(CASES, show_journal)
