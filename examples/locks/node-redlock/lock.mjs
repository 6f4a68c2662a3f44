// node-redlock as a program that lab judge judges:
//
//   npm install --prefix examples/locks/node-redlock
//   go run ./cmd/lab judge -- node examples/locks/node-redlock/lock.mjs
//
// It speaks the protocol of internal/lab/lockjudge/wire: one JSON object per line, requests on
// standard input, answers on standard output. The lock has one node here; its limits as a lock on
// several nodes are those of the experiments about red.
import { createInterface } from "node:readline";
import Redis from "ioredis";
import redlock from "redlock";

const Redlock = redlock.default ?? redlock;
const DEFAULT_LEASE = 10_000; // milliseconds, for an acquisition that names none
const POLL = 10;

const leases = new Map();
const cancelled = new Set();
let client, locks;

const send = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// codeOf asks each node's error whether the lock is taken or the node did not answer.
async function codeOf(error) {
  for (const attempt of await Promise.all(error.attempts ?? [])) {
    for (const vote of attempt.votesAgainst?.values() ?? []) {
      if (vote.name !== "ResourceLockedError") return "unavailable";
    }
  }
  return error.attempts ? "not-acquired" : "unavailable";
}

const doing = {
  async open(request) {
    client = new Redis(request.redis, {
      lazyConnect: true, maxRetriesPerRequest: 1, commandTimeout: 1000, retryStrategy: () => 20,
    });
    client.on("error", () => {}); // commands report it
    await client.connect();
    locks = new Redlock([client], { retryCount: 0 });
    locks.on("error", () => {});
    return {}; // a lease is renewed only by using(), which takes a function and no lease
  },
  async acquire(request) {
    const lease = request.ttl_ms || DEFAULT_LEASE;
    const deadline = Date.now() + request.wait_ms;
    for (;;) {
      try {
        const lock = await locks.acquire(["lock:" + request.key], lease);
        leases.set(lock.value, lock);
        return { lease: lock.value, owner: lock.value, left_ms: lock.expiration - Date.now() };
      } catch (error) {
        const code = await codeOf(error);
        if (cancelled.has(request.id)) return { error: "cancelled" };
        if (code !== "not-acquired" || Date.now() >= deadline) return { error: code, text: error.message };
      }
      await sleep(POLL);
    }
  },
  async release(request) {
    try {
      await leases.get(request.lease).release();
      return {};
    } catch (error) {
      const code = await codeOf(error);
      return { error: code === "not-acquired" ? "lost" : code, text: error.message };
    }
  },
};

createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const request = JSON.parse(line);
    if (request.do === "cancel") return cancelled.add(request.of);
    const act = doing[request.do] ?? (async () => ({ error: "invalid" }));
    const answer = await act(request).catch((error) => ({ error: "failed", text: String(error) }));
    send({ ...answer, id: request.id });
  })
  .on("close", () => process.exit(0));
