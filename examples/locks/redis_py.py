#!/usr/bin/env python3
"""redis-py's Lock as a program that lab judge judges (Debian: python3-redis):

    go run ./cmd/lab judge -- python3 examples/locks/redis_py.py

It speaks the protocol of internal/lab/lockjudge/wire: one JSON object per line, requests on
standard input, answers on standard output.
"""
import json
import sys
import threading
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError, RedisError

DEFAULT_LEASE = 10.0  # seconds, for an acquisition that names none


class Program:
    def __init__(self):
        self.client = None
        self.mutex = threading.Lock()
        self.leases = {}
        self.cancelled = set()

    def send(self, answer):
        with self.mutex:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()

    def open(self, request):
        self.client = redis.Redis.from_url(request["redis"])
        return {}  # redis-py's Lock has no watchdog

    def acquire(self, request):
        lease = request["ttl_ms"] / 1000 or DEFAULT_LEASE
        # One Lock object for each acquisition; its token is not bound to a thread.
        lock = self.client.lock("lock:" + request["key"], timeout=lease, sleep=0.01, thread_local=False)
        asked = time.monotonic()
        deadline = asked + request["wait_ms"] / 1000
        while not lock.acquire(blocking=False):
            if request["id"] in self.cancelled:
                return {"error": "cancelled"}
            if time.monotonic() >= deadline:
                return {"error": "not-acquired"}
            time.sleep(0.01)
        name = lock.local.token.decode()
        with self.mutex:
            self.leases[name] = lock
        left = lease - (time.monotonic() - asked)
        return {"lease": name, "owner": name, "left_ms": int(left * 1000)}

    def release(self, request):
        with self.mutex:
            lock = self.leases[request["lease"]]
        try:
            lock.release()
        except LockNotOwnedError as error:  # redis-py does not tell expired from another's
            return {"error": "lost", "text": str(error)}
        except LockError as error:  # released before
            return {"error": "not-held", "text": str(error)}
        return {}

    def handle(self, request):
        try:
            answer = getattr(self, request["do"])(request)
        except RedisError as error:
            answer = {"error": "unavailable", "text": str(error)}
        answer["id"] = request["id"]
        self.send(answer)

    def main(self):
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "cancel":
                self.cancelled.add(request["of"])
            elif request["do"] in ("open", "acquire", "release"):
                threading.Thread(target=self.handle, args=(request,), daemon=True).start()
            else:
                self.send({"id": request["id"], "error": "invalid"})


Program().main()
