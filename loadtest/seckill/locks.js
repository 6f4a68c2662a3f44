// Whether the lock is free again when all requests were answered. Only a server in lab mode reports that, and
// only for a key that all buyers share: under SCOPE=user each buyer has a key of its own, which blocks nobody
// else.

import http from 'k6/http';
import { sleep } from 'k6';
import { Counter, Gauge } from 'k6/metrics';
import { config } from './config.js';
import { adminHeaders } from './sale.js';

// A key may stay taken until its lease is over, plus this time. A lock with a very long lease is not waited for.
const GRACE_SECONDS = 3;
const MOST_SECONDS = 45;

const asked = new Counter('lock_asked');
const taken = new Gauge('lock_taken');
const stuck = new Gauge('lock_stuck');
const freedAfter = new Gauge('lock_freed_after');

// awaitFree checks whether the voucher's lock is taken, and if so waits until it is free. A lock is stuck if it
// outlives its lease, or if it has no lease and nobody releases it.
export function awaitFree(voucher) {
  if (voucher.policy.scope !== 'voucher') return;
  const began = Date.now();
  let state = inspect(voucher);
  if (!state) return;
  asked.add(1);
  taken.add(state.held ? 1 : 0);
  const lease = (state.ttl_ms || 0) / 1000;
  const seconds = Math.min(lease + GRACE_SECONDS, MOST_SECONDS);
  while (state.held && Date.now() < began + seconds * 1000) {
    sleep(0.25);
    state = inspect(voucher) || state;
  }
  if (!state.held) freedAfter.add((Date.now() - began) / 1000);
  stuck.add(state.held && lease <= MOST_SECONDS ? 1 : 0);
}

// path is the address for inspecting and releasing the lock.
export function path(voucherID, lock) {
  return `/api/v1/locks/stock:${voucherID}?lock=${lock}`;
}

// inspect returns null if no instance knows: outside lab mode, or for a mechanism without inspection.
function inspect(voucher) {
  for (const base of config.instances) {
    const response = http.get(base + path(voucher.id, voucher.policy.lock), {
      headers: adminHeaders(),
      responseCallback: http.expectedStatuses(200, 400, 403),
    });
    if (response.status === 200) return response.json().locks[0];
  }
  return null;
}
