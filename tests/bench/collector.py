# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""An end for OTLP over gRPC: agents want one before they sample. Keeps the last request only.

Just enough of HTTP/2 (RFC 9113): settings, pings, room for more data, and one fixed answer to every
request: an empty message (all members of Export*ServiceResponse are optional) and status 0.
"""
import contextlib
import gzip
import socket
import struct
import threading

DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
ACK = END_STREAM = 1
END_HEADERS = 4
PREFACE = 24  # bytes that a client begins with


def header(name, value):
    """HPACK (RFC 7541, 6.2.2): literal, not indexed."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


STATUS_200 = b"\x88"  # index 8 of the static table
CONTENT_TYPE = header(b"content-type", b"application/grpc")
GRPC_OK = header(b"grpc-status", b"0")
EMPTY_MESSAGE = bytes(5)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def answer(stream):
    return (frame(HEADERS, END_HEADERS, stream, STATUS_200 + CONTENT_TYPE) +
            frame(DATA, 0, stream, EMPTY_MESSAGE) +
            frame(HEADERS, END_HEADERS | END_STREAM, stream, GRPC_OK))


def message(body):
    """Of a gRPC request: one byte that says whether it is compressed, four of length, protobuf."""
    return gzip.decompress(body[5:]) if body[:1] == b"\1" else body[5:]


class Collector:
    """Listens on a port of the loopback interface until it is closed."""

    def __init__(self):
        self.last = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        bodies = {}
        with client, client.makefile("rb") as stream, contextlib.suppress(OSError, struct.error):
            stream.read(PREFACE)
            client.sendall(frame(SETTINGS, 0, 0, b""))
            while True:
                length, kind, flags, number = struct.unpack(">IBBI", b"\0" + stream.read(9))
                payload = stream.read(length)
                if kind in (SETTINGS, PING) and not flags & ACK:
                    client.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
                if kind == DATA:
                    bodies[number] = bodies.get(number, b"") + payload
                if kind == DATA and length:
                    room = struct.pack(">I", length)
                    client.sendall(frame(WINDOW_UPDATE, 0, 0, room))
                if kind in (DATA, HEADERS) and flags & END_STREAM:
                    client.sendall(answer(number))
                    self.last = message(bodies.pop(number, b""))
                elif kind == DATA and length:
                    client.sendall(frame(WINDOW_UPDATE, 0, number, room))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
