#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An HTTP/1.1 backend on loopback that goes wrong as it is told, and writes down what it took.

    with fault_server.Server() as server:
        server.plan("500", "429:2", "ok")       # what becomes of the next requests; then "ok" for ever
        ...
        server.taken                            # [Request]: those that were answered with success

Faults: ok, a status such as 500, a status with Retry-After such as 429:2 or 503:DATE, and

    close       closes when it has half of the body
    half        answers half of a success, then closes: the request was taken, the answer is lost
    lost        takes the request and closes without any answer
    slow        answers after `slow_seconds`
    hang        never answers
    huge        a success with a body of 10 MB
    garbage     an answer that is not HTTP
"""
import collections
import dataclasses
import email.utils
import gzip
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path


@dataclasses.dataclass
class Request:
    method: str
    path: str
    headers: dict
    body: bytes
    fault: str
    at: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def id(self):
        return self.headers.get("idempotency-key", "").strip('"')


class Server:
    def __init__(self, context=None, slow_seconds=0.3, port=0):
        self.context, self.slow_seconds, self.port = context, slow_seconds, port
        self.lock = threading.Lock()
        self.seen, self.taken = [], []  # all whole requests; those that count as sent
        self.connections = 0
        self.slow = self.most_slow = 0  # requests that are answered slowly: now, and at most at once
        self.faults = collections.deque()
        self.default = "ok"
        self.listener = None

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.down()

    @property
    def url(self):
        return f"{'https' if self.context else 'http'}://localhost:{self.port}"

    def plan(self, *faults, default="ok"):
        with self.lock:
            self.faults = collections.deque(faults)
            self.default = default

    def up(self):
        """Also after down(), on the same port."""
        self.stop = threading.Event()
        self.sockets, self.threads = set(), []
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.listener.settimeout(0.05)
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def down(self):
        """Refuses connections; those that are there are cut."""
        self.stop.set()
        self.acceptor.join()
        self.listener.close()
        with self.lock:
            for s in self.sockets:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        for t in self.threads:
            t.join()

    def _accept(self):
        while not self.stop.is_set():
            try:
                s, _ = self.listener.accept()
            except socket.timeout:
                continue
            s.settimeout(None)
            with self.lock:
                self.sockets.add(s)
                self.connections += 1
            t = threading.Thread(target=self._serve, args=(s,), daemon=True)
            self.threads.append(t)
            t.start()

    def _serve(self, s):
        raw = s
        try:
            if self.context:
                s = self.context.wrap_socket(s, server_side=True)  # takes the descriptor away from raw
                with self.lock:
                    self.sockets.add(s)
            f = s.makefile("rb")
            while not self.stop.is_set() and self._request(s, f):
                pass
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.sockets -= {raw, s}
            s.close()

    def _next_fault(self):
        with self.lock:
            return self.faults.popleft() if self.faults else self.default

    def _request(self, s, f):
        line = f.readline().decode("latin-1").split()
        if len(line) != 3:
            return False
        headers = {}
        while (header := f.readline().strip()):
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        size = int(headers.get("content-length", 0))
        fault = self._next_fault()
        if fault == "close":
            f.read(size // 2)
            return False
        r = Request(line[0], line[1], headers, f.read(size), fault)
        if len(r.body) != size:
            return False
        return self._answer(s, r)

    def _answer(self, s, r):
        status, _, after = r.fault.partition(":")
        takes = r.fault in ("ok", "half", "lost", "slow", "huge")
        with self.lock:
            self.seen.append(r)
            if takes:
                self.taken.append(r)
        if r.fault == "lost":
            return False
        if r.fault == "half":
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            return False
        if r.fault == "garbage":
            s.sendall(b"\x00\xff\x13 what\r\n\r\n" * 20)
            return False
        if r.fault == "hang":
            self.stop.wait(60)
            return False
        if r.fault == "slow":
            with self.lock:
                self.slow += 1
                self.most_slow = max(self.most_slow, self.slow)
            self.stop.wait(self.slow_seconds)
            with self.lock:
                self.slow -= 1
        body = b"x" * 10_000_000 if r.fault == "huge" else b""
        if not takes:
            body = b"no: \x1b[31m" + r.fault.encode()
        if after == "DATE":
            after = email.utils.formatdate(time.time() + 2, usegmt=True)
        head = f"HTTP/1.1 {200 if takes else int(status)} X\r\nContent-Length: {len(body)}\r\n"
        if after:
            head += f"Retry-After: {after}\r\n"
        s.sendall(head.encode() + b"\r\n" + body)
        return True


# ---- gRPC ----------------------------------------------------------------------------------------

DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4


class GrpcServer(Server):
    """Speaks just enough HTTP/2 without TLS to take unary calls. Faults: ok, or a gRPC status and what it says, such as
    "14:try%20again"; "cut" ends the stream without a status. A request's body is the message, unpacked."""

    def _request(self, s, f):
        if f.read(24) != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
            return False
        s.sendall(self._frame(SETTINGS, 0, 0, b""))
        bodies = {}
        while not self.stop.is_set():
            head = f.read(9)
            if len(head) < 9:
                return False
            size, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")
            payload = f.read(size)
            if kind == SETTINGS and not flags & ACK:
                s.sendall(self._frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                s.sendall(self._frame(PING, ACK, 0, payload))
            elif kind == DATA:
                bodies[stream] = bodies.get(stream, b"") + payload
                grow = len(payload).to_bytes(4, "big")
                if payload:
                    s.sendall(self._frame(WINDOW_UPDATE, 0, 0, grow))
                if payload and not flags & END_STREAM:
                    s.sendall(self._frame(WINDOW_UPDATE, 0, stream, grow))
                if flags & END_STREAM:
                    self._call(s, stream, bodies.pop(stream))
        return False

    @staticmethod
    def _frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    @staticmethod
    def _header(name, value):
        """RFC 7541, 6.2.2: a literal that is not indexed."""
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

    def _call(self, s, stream, body):
        packed, size = body[0], int.from_bytes(body[1:5], "big")
        assert len(body) == 5 + size, "one whole message"
        fault = self._next_fault()
        status, _, said = fault.partition(":")
        r = Request("POST", "", {}, gzip.decompress(body[5:]) if packed else body[5:], fault)
        with self.lock:
            self.seen.append(r)
            if fault == "ok":
                self.taken.append(r)
        answer = self._frame(HEADERS, END_HEADERS, stream,
                             b"\x88" + self._header(b"content-type", b"application/grpc"))  # :status 200
        if fault == "ok":
            answer += self._frame(DATA, 0, stream, bytes(5))
        if fault == "cut":
            answer += self._frame(DATA, END_STREAM, stream, b"")
        else:
            trailer = self._header(b"grpc-status", b"0" if fault == "ok" else status.encode())
            trailer += self._header(b"grpc-message", said.encode())
            answer += self._frame(HEADERS, END_HEADERS | END_STREAM, stream, trailer)
        s.sendall(answer)


# ---- certificates --------------------------------------------------------------------------------

def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def make_certificates(directory):
    """ca.pem, and signed by it: good (for localhost), expired, other (for another host); stranger signed by itself;
    client for clients. Each NAME.pem with NAME.key."""
    d = Path(directory)

    def key(name):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(d / f"{name}.key"))

    def sign(name, host, *dates):
        key(name)
        (d / f"{name}.cnf").write_text(f"subjectAltName=DNS:{host}\n")
        openssl("req", "-new", "-key", str(d / f"{name}.key"), "-subj", f"/CN={host}",
                "-out", str(d / f"{name}.csr"))
        openssl("x509", "-req", "-in", str(d / f"{name}.csr"), "-CA", str(d / "ca.pem"), "-CAkey",
                str(d / "ca.key"), "-CAcreateserial", "-extfile", str(d / f"{name}.cnf"), "-out",
                str(d / f"{name}.pem"), *(dates or ("-days", "2")))

    for name in ("ca", "stranger"):
        key(name)
        openssl("req", "-x509", "-new", "-key", str(d / f"{name}.key"), "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-out", str(d / f"{name}.pem"))
    sign("good", "localhost")
    sign("other", "elsewhere.example")
    sign("client", "client")
    sign("expired", "localhost", "-days", "-1")
    return d


def server_context(directory, name, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(directory) / f"{name}.pem", Path(directory) / f"{name}.key")
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(Path(directory) / f"{client_ca}.pem")
    return context
