# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""FastAPI on uvicorn, whose handler waits for another server by a synchronous call; argv: the URL of that one.

Prints "ready" and its port. Ends with its stdin.
"""
import json
import os
import socket
import sys
import threading
import urllib.request

import fastapi
import uvicorn

app = fastapi.FastAPI()
listener = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))


def fetch_rates():
    with urllib.request.urlopen(sys.argv[1]) as answer:
        return json.load(answer)


@app.get("/price")
async def price():
    return fetch_rates()


@app.get("/health")
async def health():
    return "well"


def end():
    os.read(0, 1)
    server.should_exit = True


threading.Thread(target=end, daemon=True).start()
print("ready\n%d" % listener.getsockname()[1], flush=True)
server.run(sockets=[listener])
