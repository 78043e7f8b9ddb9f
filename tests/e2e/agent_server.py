# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The agent's HTTP endpoint without the agent: tests/agent/http_server.c, with sanitizers.

    with Server(token_file=path) as server:
        assert server.status("/metrics") == 401

At the end it has to exit with 0: no leak, no error of a sanitizer.
"""
import contextlib
import http.client
import os
import re
import socket
import subprocess
import tempfile

import harness
from harness import REPO

SERVER = REPO / ".output" / "tests" / "http_server"


class Server:
    """Listens on a free port of the loopback unless `listen` says otherwise."""

    def __init__(self, **config):
        while True:
            with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
                self.port = free.getsockname()[1]
            self.start({"listen": "127.0.0.1:%d" % self.port, **config})
            # Somebody else may have got the port meanwhile.
            if self.ready or "listen" in config or "Address already in use" not in self.end()[1]:
                break

    def start(self, config):
        words = ["%s=%s" % (key.replace("_", "-"), value) for key, value in config.items()]
        # Freed memory is to be seen as free.
        self.messages = tempfile.TemporaryFile()
        self.process = subprocess.Popen([SERVER, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.messages,
                                        env={**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=1"})
        self.ready = self.process.stdout.readline() == b"ready\n"

    def end(self):
        """(exit status, messages)."""
        if not self.messages.closed:
            self.process.communicate(timeout=harness.PATIENCE)
            self.messages.seek(0)
            self.errors = self.messages.read().decode()
            self.messages.close()
        return self.process.returncode, self.errors

    def __enter__(self):
        assert self.ready, self.end()
        return self

    def __exit__(self, *exc):
        status, errors = self.end()
        assert status == 0, errors

    def get(self, path, method="GET", tls=None, **headers):
        """(status, headers, body)."""
        if tls:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=tls,
                                                     timeout=harness.PATIENCE)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                    timeout=harness.PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path,
                               headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def status(self, *args, **kwargs):
        return self.get(*args, **kwargs)[0]

    def raw(self, data=b"", wait=True):
        """What comes back for these bytes until the server closes; without `wait`, the socket."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=harness.PATIENCE)
        try:
            s.sendall(data)
            return s if not wait else read_all(s)
        except OSError:
            return s if not wait else b""

    def resident(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) * 1024


def read_all(s):
    data = b""
    with contextlib.suppress(ConnectionResetError), s:
        while part := s.recv(65536):
            data += part
    return data
