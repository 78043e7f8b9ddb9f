# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the benchmark profiles. Runs in any CPython from 2.7 on: python -c THIS NAME SIZE

A line "N" on stdin makes it do N laps of fixed work; it answers with [seconds, how often another
process was given its CPU] of each, as JSON, and waits for the next line at the same depth of the
stack. It ends with its stdin, and by itself when nothing was asked for LIMIT seconds; so do the
processes that it starts.
"""
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from timeit import default_timer

LIMIT = 120
RUSAGE_THREAD = 1


def spin(n):
    total = 0
    for i in range(n):
        total += i


def lap():
    for i in range(50):
        spin(1000)


def serve(work):
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        signal.alarm(LIMIT)
        line = sys.stdin.readline()
        if not line:
            return
        laps = []
        for i in range(int(line)):
            before = resource.getrusage(RUSAGE_THREAD).ru_nivcsw
            begin = default_timer()
            work()
            seconds = default_timer() - begin
            laps.append([seconds, resource.getrusage(RUSAGE_THREAD).ru_nivcsw - before])
        sys.stdout.write(json.dumps(laps) + "\n")
        sys.stdout.flush()


# ---- one thread, one stack -----------------------------------------------------------------------

def recurse(n, then):
    if n:
        recurse(n - 1, then)
    else:
        then()


def between(n, then):
    """Each level is a C function that calls Python."""
    if n:
        max([0], key=lambda x: between(n - 1, then))
    else:
        then()


def distinct(n, then):
    """`n` frames of as many functions."""
    functions = {"f%d" % n: then}
    for i in range(n):
        exec("def f%d():\n    f%d()\n" % (i, i + 1), functions)
    functions["f0"]()


def shallow(size):
    serve(lap)


def deep(size):
    """`size` Python frames while it works, most of them of one function."""
    sys.setrecursionlimit(2000)
    recurse(size - 6, lambda: serve(lap))


def chain(size):
    """The same, of as many functions."""
    distinct(size - 6, lambda: serve(lap))


def extensions(size):
    between(size, lambda: serve(lap))


def typical(size):
    """30 Python frames with C between some of them: about 30 native frames from 3.12 on."""
    distinct(14, lambda: between(size, lambda: serve(lap)))


# ---- many stacks ---------------------------------------------------------------------------------

LEVELS = 20


def left(path, n):
    if n:
        (right if path & 1 else left)(path >> 1, n - 1)
    else:
        spin(100)


def right(path, n):
    if n:
        (right if path & 1 else left)(path >> 1, n - 1)
    else:
        spin(100)


def stack_walk(size):
    path = [0]

    def paths():
        at = path[0]
        for i in range(200):
            at = (at + 40503) % size  # odd: all of them come in turn
            left(at, LEVELS)
        path[0] = at

    return paths


def stacks(size):
    """`size` stacks of the same depth, at most 2 ** LEVELS, one after the other."""
    serve(stack_walk(size))


# ---- many threads, many processes ----------------------------------------------------------------

def threads(size):
    """`size` threads that all want to run; a lap is the same work for any number of them."""
    done = threading.Semaphore(0)
    go = [threading.Semaphore(0) for i in range(size)]

    def work(mine):
        while True:
            mine.acquire()
            for i in range(1000 // size):
                spin(1000)
            done.release()

    def all_of_them():
        for one in go:
            one.release()
        for one in go:
            done.acquire()

    for mine in go:
        thread = threading.Thread(target=work, args=(mine,))
        thread.daemon = True
        thread.start()
    serve(all_of_them)


TURNS, SPINS = 1000, 4  # of a lap, of a turn: 0.1 ms, so that the change of process is little of it


def fork(work, ends):
    """A child that calls work() until that returns False; `ends` are the parent's of all pipes."""
    if os.fork():
        return
    signal.alarm(10 * LIMIT)
    for fd in ends:
        os.close(fd)
    while work():
        pass
    os._exit(0)


def processes(busy, idle):
    """Waiting and working ones. A lap is the same work for any number of them."""
    life, ours = os.pipe()
    ends = [ours]
    done, did = os.pipe()
    ends.append(done)
    for i in range(idle):
        fork(lambda: os.read(life, 1), ends)
    go = []

    def work(mine):
        if not os.read(mine, 1):
            return False
        for i in range(500 // busy):
            spin(1000)
        os.write(did, b"x")
        return True

    for i in range(busy):
        theirs, ours = os.pipe()
        ends.append(ours)
        go.append(ours)
        fork(lambda: work(theirs), ends)
        os.close(theirs)

    def all_of_them():
        for one in go:
            os.write(one, b"x")
        left = busy
        while left:
            left -= len(os.read(done, left))

    serve(all_of_them)


def relay(busy, idle):
    """A lap is TURNS turns of the same work, each by the next of the busy processes: sizes differ in
    nothing but how many there are. Each hands on to the next, so they end one after the other behind
    their parent."""
    life, ours = os.pipe()
    for i in range(idle):
        fork(lambda: os.read(life, 1), [ours])
    mine, first = os.pipe()
    ends = [ours, first]

    def turn(take, give):
        if not os.read(take, 1):
            return False
        for i in range(SPINS):
            spin(1000)
        return os.write(give, b"x")

    for i in range(busy):
        theirs, give = os.pipe()
        fork(lambda: turn(mine, give), ends + [theirs])
        os.close(mine)
        os.close(give)
        mine = theirs

    def rounds():
        for i in range(TURNS // busy):
            os.write(first, b"x")
            os.read(mine, 1)

    serve(rounds)


def thread_relay(size):
    """The same of threads in one process."""
    go = [threading.Semaphore(0) for i in range(size + 1)]

    def work(take, give):
        while True:
            take.acquire()
            for i in range(SPINS):
                spin(1000)
            give.release()

    def rounds():
        for i in range(TURNS // size):
            go[0].release()
            go[-1].acquire()

    threading.stack_size(1 << 18)
    for ends in zip(go, go[1:]):
        thread = threading.Thread(target=work, args=ends)
        thread.daemon = True
        thread.start()
    serve(rounds)


def each(work, cpus):
    """A child on each of so many CPUs calls work(). A lap is the same for each of them."""
    done, did = os.pipe()
    go, ends, allowed = [], [done], os.sched_getaffinity(0)

    def turn(mine):
        if not os.read(mine, 1):
            return False
        work()
        return os.write(did, b"x")

    for cpu in sorted(allowed)[:cpus]:
        theirs, ours = os.pipe()
        ends.append(ours)
        go.append(ours)
        os.sched_setaffinity(0, {cpu})
        fork(lambda: turn(theirs), ends)
        os.close(theirs)
    os.sched_setaffinity(0, allowed)

    def all_of_them():
        for one in go:
            os.write(one, b"x")
        for one in go:
            os.read(done, 1)

    serve(all_of_them)


def on_cpus(cpus):
    each(lap, cpus)


def stacks_on_cpus(size, cpus):
    each(stack_walk(size), cpus)


def crowd(size):
    """Two in three are not Python. The one that is asked works."""
    life, ours = os.pipe()
    for i in range(size // 3 - 1):
        fork(lambda: os.read(life, 1), [ours])
    others = [subprocess.Popen(["cat"], stdin=life, preexec_fn=lambda: os.close(ours))
              for i in range(size - size // 3)]
    serve(lap)
    del others


def imports(size):
    """A lap is an interpreter that compiles and imports `size` modules and ends."""
    module = "\n".join("def f%d(x):\n    return [i + x for i in range(%d)]\nf%d(1)\n" % (i, i, i)
                       for i in range(20))
    program = ("import sys, types\n"
               "for i in range(%d):\n"
               "    m = types.ModuleType('m%%d' %% i)\n"
               "    exec(compile(%r, '/m%%d.py' %% i, 'exec'), m.__dict__)\n"
               "    sys.modules[m.__name__] = m\n"
               "import json, decimal, email, http.client, sqlite3, ctypes\n" % (size, module))
    serve(lambda: subprocess.call([sys.executable, "-E", "-c", program]))


# ---- a service -----------------------------------------------------------------------------------

def http_server(port_into):
    """A thread for each connection. A request takes a lock, asks SQLite and answers with JSON."""
    import sqlite3
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    lock, stock = threading.Lock(), sqlite3.connect(":memory:", check_same_thread=False)
    stock.execute("CREATE TABLE stock (name TEXT, number INTEGER)")
    stock.executemany("INSERT INTO stock VALUES (?, ?)", [("thing %d" % i, i) for i in range(300)])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            with lock:
                found = stock.execute("SELECT * FROM stock WHERE number % 7 = 3 ORDER BY name").fetchall()
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    os.write(port_into, b"%d" % server.server_address[1])
    server.serve_forever()


def answer_of(stream):
    """Reads it to its end."""
    length = 0
    for line in iter(stream.readline, b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    stream.read(length)


def service(connections):
    """A lap is ten requests on each connection, all at once, to a server that is a process of its own."""
    import socket
    port, port_into = os.pipe()
    server = os.fork()
    if not server:
        signal.alarm(10 * LIMIT)
        http_server(port_into)
    number = int(os.read(port, 9))
    clients = [socket.create_connection(("127.0.0.1", number)) for i in range(connections)]
    streams = [client.makefile("rb") for client in clients]

    def requests():
        for i in range(10):
            for client in clients:
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for stream in streams:
                answer_of(stream)

    try:
        serve(requests)
    finally:
        os.kill(server, signal.SIGKILL)


# ---- what the kernel does for a program ----------------------------------------------------------

TREE_DEPTH = 8


def descend(n, tree):
    if n:
        descend(n - 1, tree)
    else:
        visit(tree)


def visit(tree):
    for branch in tree:
        visit(branch)


def chunks(size):
    """A recursive visitor at `size` depths in turn. CPython 3.11 to 3.13 map 16 KiB when calls cross the end of a
    chunk of the data stack and unmap them when they return, so wherever that end is, some depth stands on it."""
    tree = []
    for i in range(TREE_DEPTH):
        tree = [tree, tree]

    def depths():
        for n in range(size):
            descend(n, tree)

    serve(depths)


def temporaries(size):
    """Blocks that malloc() maps and free() unmaps, as large arrays are: it never keeps 32 MiB or more."""
    def blocks():
        for i in range(size):
            bytearray(40 << 20)

    serve(blocks)


def execs(size):
    serve(lambda: [subprocess.call(["/bin/true"]) for i in range(size)])


def forks(size):
    def children():
        for i in range(size):
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)

    serve(children)


def compiles(size):
    """A compiler, its assembler and a short-lived Python, as a build runs them."""
    source = "\n".join("int f%d(int x) { return x * %d; }" % (i, i) for i in range(50)).encode()

    def builds():
        for i in range(size):
            cc = subprocess.Popen(["cc", "-O1", "-c", "-x", "c", "-o", "/dev/null", "-"],
                                  stdin=subprocess.PIPE)
            cc.communicate(source)
            subprocess.call([sys.executable, "-E", "-S", "-c", "sum(range(10000))"])

    serve(builds)


def main():
    name, sizes = sys.argv[1], [int(word) for word in sys.argv[2].split("+")]
    {f.__name__: f for f in (shallow, deep, chain, extensions, typical, stacks, threads,
                             processes, relay, thread_relay, on_cpus, stacks_on_cpus,
                             crowd, imports, chunks, temporaries, execs, forks, compiles, service)}[name](*sizes)


if __name__ == "__main__":
    main()
