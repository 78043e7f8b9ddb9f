# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Debug files of a stripped library: from a server, on the loopback, and from a container's root."""
import contextlib
import ctypes.util
import http.server
import itertools
import re
import shutil
import socket
import socketserver
import subprocess
import threading

import pytest

import harness
import pprof_read
from harness import HZ, PROGRAMS, Target, clean_environment, find_tool, profile
from test_namespaces import MOUNTNS, need

pytestmark = pytest.mark.beside

SOURCE = PROGRAMS / "inlined.c"


@pytest.fixture
def stripped(directory):
    """(library without symbols of its static functions, directory with its debug file, build id)"""
    for tool in ("gcc", "objcopy", "readelf"):
        if not find_tool(tool):
            pytest.skip(tool + " is not installed")
    whole, library = directory / "whole.so", directory / "inlined.so"
    # The name that is missed: outer() is not exported.
    subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id=sha1",
                    "-fvisibility=hidden", "-Dwork=__attribute__((visibility(\"default\")))work",
                    "-o", whole, SOURCE], check=True)
    notes = subprocess.run(["readelf", "-n", whole], capture_output=True, text=True, check=True)
    build_id = re.search(r"Build ID: (\w+)", notes.stdout)[1]
    place = directory / "www" / "buildid" / build_id
    place.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", whole, place / "debuginfo"], check=True)
    subprocess.run(["strip", "-o", library, whole], check=True)
    return library, directory / "www", build_id


@pytest.fixture
def client():
    if not ctypes.util.find_library("debuginfod"):
        pytest.skip("libdebuginfod is not installed")


@contextlib.contextmanager
def server(root, asked):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(root))

        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield "http://127.0.0.1:%d" % httpd.server_port
        httpd.shutdown()


def run(any_python, library, directory, url, *options, **more):
    popen = {"prefix": more.pop("prefix", ())}
    env = clean_environment(DEBUGINFOD_CACHE_PATH=str(directory / "cache"), **more)
    if url:
        env["DEBUGINFOD_URLS"] = url
    with Target(any_python, "inlined.py", library) as target:
        result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, *options, env=env, **popen).ok()
        target.stop()
    names = {f.name for s in result.stacks for f in s.frames if f.file == "inlined.so"}
    assert "work" in {n.split()[0] for n in names}, names
    return result, names


def asked_lines(result):
    return [line for line in result.messages
            if line.startswith("pyperf-bpf: debuginfod:") and "asking" not in line]


def test_names_from_a_server(any_python, client, stripped, directory):
    library, root, build_id = stripped
    asked = []
    with server(root, asked) as url:
        result, names = run(any_python, library, directory, url)
        assert names == {"work", "outer"}, (names, result.stderr)
        assert asked.count("/buildid/%s/debuginfo" % build_id) == 1, asked
        # By name: what the server does not have.
        for line in asked_lines(result):
            assert re.search(r"build id [0-9a-f]{8,}", line), line
        shutil.rmtree(directory / "cache")
        _, names = run(any_python, library, directory, url, "--inlines")
        assert any(n.startswith("outer (%s:" % SOURCE) for n in names), names


def test_off_without_urls(any_python, stripped, directory):
    library, root, _ = stripped
    result, names = run(any_python, library, directory, "")
    assert "outer" not in names and any("+0x" in n for n in names), names
    assert not asked_lines(result)


def test_wrong_file(any_python, client, stripped, directory):
    """A server gives the debug file of another build: not believed."""
    library, root, build_id = stripped
    other = directory / "other.so"
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o", other, SOURCE],
                   check=True)
    shutil.copy(other, root / "buildid" / build_id / "debuginfo")
    with server(root, []) as url:
        result, names = run(any_python, library, directory, url)
    assert "outer" not in names, names
    assert ["is not the debug file" in line for line in asked_lines(result) if build_id in line] == [True], result.stderr


def test_option(any_python, client, stripped, directory):
    """--debuginfod=URLS, several of them, and before the environment."""
    library, root, build_id = stripped
    asked, others = [], []
    with server(directory / "empty", others) as empty, server(root, asked) as url:
        _, names = run(any_python, library, directory, "", "--debuginfod=%s %s" % (empty, url))
        assert names == {"work", "outer"} and "/buildid/%s/debuginfo" % build_id in others, (names, asked, others)
        shutil.rmtree(directory / "cache")
        others.clear()
        _, names = run(any_python, library, directory, empty, "--debuginfod=" + url)
        assert names == {"work", "outer"} and not others


# What the distribution says, in a mount namespace of the profiler's own.
SYSTEM_URLS = """set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay none -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
mkdir -p /etc/debuginfod
rm -f /etc/debuginfod/*
[ -z "$2" ] || echo "$2" >/etc/debuginfod/test.urls
shift 2
exec "$@"
"""


def test_urls_of_the_system(any_python, client, stripped, directory):
    """--debuginfod alone reads /etc/debuginfod/*.urls; where they name no server it says so, and begins nothing."""
    need(MOUNTNS)
    library, root, _ = stripped
    (directory / "etc").mkdir()

    def prefix(url):
        return [*MOUNTNS, "sh", "-c", SYSTEM_URLS, "sh", str(directory / "etc"), url]

    with server(root, []) as url:
        _, names = run(any_python, library, directory, "", "--debuginfod", prefix=prefix(url))
        assert names == {"work", "outer"}
    refused = profile("--debuginfod", "-d", 1, prefix=prefix(""))
    assert refused.status == 2 and "/etc/debuginfod has none" in refused.stderr, refused.stderr


class Raw(socketserver.StreamRequestHandler):
    """Says one size and sends another."""

    def handle(self):
        while self.rfile.readline().strip():
            pass
        said, body = self.server.answer
        self.wfile.write(b"HTTP/1.0 200 OK\r\n" + (b"Content-Length: %d\r\n" % said if said else b"") + b"\r\n")
        with contextlib.suppress(OSError):
            for part in body:
                self.wfile.write(part)


@contextlib.contextmanager
def liar(said, body):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Raw) as tcp:
        tcp.answer = said, body
        threading.Thread(target=tcp.serve_forever, daemon=True).start()
        yield "http://127.0.0.1:%d" % tcp.server_address[1]
        tcp.shutdown()


@pytest.mark.parametrize("what", ["less", "more"])
def test_wrong_size(any_python, client, stripped, directory, what):
    """Less is sent than was said, or more: of what arrives nothing is believed, and it is said once."""
    library, root, build_id = stripped
    whole = (root / "buildid" / build_id / "debuginfo").read_bytes()
    said = 10 * len(whole) if what == "less" else len(whole) // 3
    with liar(said, [whole]) as url:
        result, names = run(any_python, library, directory, "", "--debuginfod=" + url)
    assert "outer" not in names
    lines = asked_lines(result)
    assert lines and len({line.split(", build id")[0] for line in lines}) == len(lines), lines


def test_endless(any_python, client, stripped, directory):
    """It sends without end: the child's limit for files ends it, and nothing stays in the cache."""
    library, _, _ = stripped
    with liar(0, itertools.repeat(bytes(1 << 20), 1 << 10)) as url:
        result, names = run(any_python, library, directory, "", "--debuginfod=" + url,
                            prefix=["prlimit", "--fsize=%d" % (64 << 20)])
    assert "outer" not in names
    assert len(asked_lines(result)) == 1, result.stderr
    assert max((p.stat().st_size for p in (directory / "cache").rglob("*") if p.is_file()), default=0) < 1 << 20


def test_no_server(any_python, client, stripped, directory):
    """One line for all files, with build id, reason and remedy."""
    library, _, _ = stripped
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        url = "http://127.0.0.1:%d" % closed.getsockname()[1]
        result, names = run(any_python, library, directory, url)
    assert "outer" not in names
    (line,) = asked_lines(result)
    assert re.search(r"build id [0-9a-f]{40}: .*DEBUGINFOD_URLS", line), line


def test_silent_server(any_python, client, stripped, directory):
    """It takes the connection and never answers."""
    library, _, _ = stripped
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        url = "http://127.0.0.1:%d" % silent.getsockname()[1]
        result, names = run(any_python, library, directory, url, DEBUGINFOD_TIMEOUT="1")
    assert "outer" not in names
    assert len(asked_lines(result)) == 1, result.stderr


# Everything of the machine but /usr/lib/debug, as the root of a process.
OTHER_ROOT = """set -e
root=$1/root
mkdir -p "$root"
mount --rbind / "$root"
mount -t tmpfs none "$root/usr/lib/debug"
mkdir -p "$root/usr/lib/debug/.build-id/$3"
cp "$2" "$root/usr/lib/debug/.build-id/$3/$4.debug"
shift 4
exec chroot "$root" "$@"
"""


def test_other_root(any_python, stripped, directory):
    """The debug file is below the root of the process, and nowhere else."""
    need(MOUNTNS)
    library, root, build_id = stripped
    prefix = [*MOUNTNS, "sh", "-c", OTHER_ROOT, "sh", directory,
              root / "buildid" / build_id / "debuginfo", build_id[:2], build_id[2:]]
    with Target(any_python, "inlined.py", library, prefix=list(map(str, prefix))) as target:
        result = profile("-f", "-F", HZ, "-d", 1, "-p", target.pid, "--inlines").ok()
        target.stop()
    names = {f.name.split()[0] for s in result.stacks for f in s.frames if f.file == "inlined.so"}
    assert names == {"work", "outer"}, (names, result.stderr)
    assert any(f.name.startswith("leaf (%s:" % SOURCE) for s in result.stacks for f in s.frames)


def test_inside_in_pprof(any_python, stripped, directory):
    """What has no name keeps it: a label says who called it, as Go's pprof reads it."""
    go = harness.find_go()
    if not go:
        pytest.skip("go is not installed")
    library, _, _ = stripped
    saved = directory / "x.pb.gz"
    _, names = run(any_python, library, directory, "", "-o", saved)
    assert any("+0x" in name for name in names), names

    def pprof(*args):
        return subprocess.run([go, "tool", "pprof", "-symbolize=none", *args, saved], capture_output=True, text=True, check=True,
                              timeout=120).stdout

    assert re.search(r"^ +inside: .*\n(.*\n)*? .*: work$", pprof("-tags"), re.M), pprof("-tags")
    assert "inside" not in pprof("-top")
    assert re.search(r" work$", pprof("-top", "-tagleaf", "inside", "-tagfocus", "inside=work"), re.M)
    labelled = [s for s in pprof_read.read(saved)["samples"] if s["labels"].get("inside") == "work"]
    assert labelled
    for sample in labelled:
        functions = [f["func"] for f in sample["stack"]]
        below = functions[:functions.index("work")]
        assert below and all("+0x" in name for name in below), functions
    # The report says the same of the saved file.
    shown = subprocess.run([harness.PYPERF, "report", "--native", saved], capture_output=True, text=True, check=True)
    assert "inside work" in shown.stdout, shown.stdout
