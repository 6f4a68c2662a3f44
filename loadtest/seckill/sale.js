// The sale around the load: wait for the instances, create a voucher, sell it out, audit it.

import http from 'k6/http';
import exec from 'k6/execution';
import { sleep } from 'k6';
import { Counter, Gauge } from 'k6/metrics';
import { config } from './config.js';
import { headers } from './buyers.js';
import { describe, lostOrders, outcome, promised } from './outcomes.js';

// How long an audit must stay the same to be final, and how long to wait for that at most: accepted orders may
// be many, and become rows one batch after the other.
const SETTLE_SECONDS = 15;
const MOST_SETTLE_SECONDS = 100;

const auditRead = new Counter('audit_read');
const gauges = {};
for (const field of ['orders', 'stock', 'oversold', 'duplicate_orders', 'unaccounted', 'pending']) {
  gauges[field] = new Gauge(`audit_${field}`);
}
const balanced = new Gauge('audit_balanced');

// waitUntilReady returns when every instance is ready. An instance with a debug listener has no /readyz here;
// its list of vouchers is queried instead.
export function waitUntilReady() {
  for (const base of config.instances) {
    const deadline = Date.now() + config.readySeconds * 1000;
    for (;;) {
      let response = http.get(`${base}/readyz`, { responseCallback: http.expectedStatuses(200, 404, 503) });
      if (response.status === 404) response = http.get(`${base}/api/v1/vouchers`);
      if (response.status === 200) break;
      if (Date.now() > deadline) {
        stop(`${base} is not ready after ${config.readySeconds} s: ${describe(response)}`);
      }
      sleep(0.25);
    }
  }
}

// create creates a voucher that is on sale from a minute ago for a day, so that small clock differences do not
// matter, or, with a waiting room, from soon on, and checks that every instance sells it.
export function create() {
  const now = Date.now();
  const opens = config.beginsIn > 0 ? now + config.beginsIn * 1000 : now - 60 * 1000;
  const wanted = {
    title: `load test ${config.scenario} ${config.policy.flow || config.policy.lock || ''}`.trim(),
    stock: config.stock,
    begin_at: new Date(opens).toISOString(),
    end_at: new Date(now + 24 * 3600 * 1000).toISOString(),
    policy: config.policy,
  };
  if (config.payWithin > 0) Object.assign(wanted, { price_cents: config.priceCents, pay_within_s: config.payWithin });
  const first = config.instances[0];
  const response = http.post(`${first}/api/v1/vouchers`, JSON.stringify(wanted), {
    headers: Object.assign({ 'Content-Type': 'application/json' }, adminHeaders()),
  });
  if (response.status !== 201) stop(`${first} refuses the voucher: ${describe(response)}${hint(response)}`);

  const voucher = response.json();
  for (const base of config.instances) {
    const seen = http.get(`${base}/api/v1/vouchers/${voucher.id}`);
    if (seen.status !== 200) {
      stop(`${base} does not know voucher ${voucher.id} (${describe(seen)}): do the instances share one database?`);
    }
  }
  return { id: voucher.id, policy: voucher.policy || config.policy, opens };
}

// sellOut orders for the first buyers until every instance has answered sold_out.
export function sellOut(voucher) {
  const deadline = Date.now() + config.maxSeconds * 1000;
  for (const base of config.instances) {
    let buyer = 0;
    for (;;) {
      const code = outcome(http.post(ordersURL(base, voucher.id), null, { headers: headers(buyer) }));
      if (code === 'sold_out') break;
      if (promised(code)) lostOrders.add(1);
      if (promised(code) || code === 'already_ordered') buyer = (buyer + 1) % config.users;
      if (Date.now() > deadline) {
        stop(`voucher ${voucher.id} is not sold out after ${config.maxSeconds} s; the last answer was ${code}`);
      }
    }
  }
}

// audit turns the audit into metrics, which the thresholds check. It waits until nothing changes any more:
// requests that were cut off may still run, and accepted orders may be in flight. Without an answer audit_read
// stays 0, and the run has failed.
export function audit(voucher) {
  const atLatest = Date.now() + MOST_SETTLE_SECONDS * 1000;
  let deadline = Date.now() + SETTLE_SECONDS * 1000;
  let counted = readAudit(voucher.id);
  for (;;) {
    sleep(0.3);
    const again = readAudit(voucher.id);
    const still = counted && again && counted.orders === again.orders && counted.pending === again.pending;
    counted = again || counted;
    if (still && again.pending === 0) break;
    if (again && !still) deadline = Date.now() + SETTLE_SECONDS * 1000;
    if (Date.now() > Math.min(deadline, atLatest)) break;
  }
  if (!counted) {
    console.error(`no instance answers GET /api/v1/vouchers/${voucher.id}/audit: whether the sale was right is not known`);
    return;
  }
  auditRead.add(1);
  for (const field of Object.keys(gauges)) gauges[field].add(counted[field]);
  balanced.add(counted.balanced ? 1 : 0);
  lostOrders.add(-counted.orders);
}

// Any instance will do: one of them may have been killed on purpose.
function readAudit(id) {
  for (const base of config.instances) {
    const response = http.get(`${base}/api/v1/vouchers/${id}/audit`, { headers: adminHeaders() });
    if (response.status === 200) return response.json();
  }
  return null;
}

export function ordersURL(base, id) {
  return `${base}/api/v1/vouchers/${id}/orders`;
}

export function adminHeaders() {
  return config.adminToken ? { Authorization: `Bearer ${config.adminToken}` } : {};
}

function hint(response) {
  switch (response.status) {
    case 401: return ' (give the SECKILL_ADMIN_TOKEN of the server as ADMIN_TOKEN)';
    case 403: return ' (weak policies and faults need a server in lab mode: SECKILL_LAB=1)';
  }
  return '';
}

function stop(why) {
  exec.test.abort(why);
}
