// A flash sale under load, for k6.
//
//   k6 run -e BASE_URL=http://127.0.0.1:8080,http://127.0.0.1:8081 -e LOCK=naive loadtest/seckill.js
//   k6 run -e BASE_URL=http://127.0.0.1:8080,http://127.0.0.1:8081 -e EXPERIMENT=no-lock loadtest/seckill.js
//   k6 run -e BASE_URL=http://127.0.0.1:8080,http://127.0.0.1:8081 -e FLOW=admission loadtest/seckill.js
//
// It creates a voucher with the given policy, sends the orders of the buyers, counts
// the answers by code, and finally compares them with what the database holds. The
// exit code is 0 if the sale was correct, and 99 if it was not (k6's code for failed
// thresholds).
//
// Experiment
//   EXPERIMENT         the id of an experiment in experiments.json: its options apply, except
//                      for those that are given; the exit code is 0 if the result is as
//                      expected, else 99; an unknown id lists them
//
// Load
//   BASE_URL           instances, separated by commas, used in turn  (http://127.0.0.1:8080)
//   INSTANCES          use only the first n of them  (all)
//   SCENARIO           rush: every user orders once, all at once  (rush)
//                      duplicates: every user sends several requests at the same moment
//                      tail: the voucher is sold out first, then come the late buyers
//                      all: a rush, and when it is over its tail
//                      life: the voucher asks for payment; buyers pay, pay twice, cancel, pay
//                      what they have cancelled, or let it expire. The servers need a provider
//                      room: the voucher has a waiting room; visitors wait, leave, come back, and
//                      try to order without a pass, with another's, and twice
//   USERS              buyers in the rush  (2000; for life 300, for room 400)
//   STOCK              units on sale  (100; for duplicates USERS x REQUESTS_PER_USER)
//   VUS                requests (duplicates: users) at once  (200; for duplicates 50, for room USERS)
//   MAX_CONNECTIONS    refuse to run if VUS needs more connections: for duplicates REQUESTS_PER_USER
//                      for each, for all two for each  (no limit; 1000 in docker-compose.yml)
//   REQUESTS_PER_USER  for duplicates  (4)
//   LATE_BUYERS        buyers in the tail  (as USERS)
//   FIRST_USER         the first user id  (1)
//   DURATION           longest time for a phase, such as 90s or 2m  (60s)
//   REQUEST_TIMEOUT    a buyer gives up after  (30s)
//   READY_TIMEOUT      wait for the instances at most  (30s)
//   WAIT               under admission, a buyer with a 202 polls the order at another
//                      instance for at most this long; 0: no polling  (10s)
//   PAY_WITHIN         for life: the time to pay  (5s)
//   ROOM_RATE          for room: passes a second  (50)
//   BEGINS_IN          for room: the sale begins so long after the start of the run  (10s)
//   TAIL_P95_MS        fail when the tail's 95th percentile is above  (no limit)
//
// Policy, as in the voucher's JSON; the server's defaults apply to the rest
//   FLOW               locked: a lock and a transaction for each order
//                      admission: decided in Redis, answered with 202, persisted afterwards
//   BUCKETS            under admission, split the stock into this many buckets
//   LOCK, SCOPE, PLACEMENT, STOCK_MODE (policy.stock), UNIQUE, LOCK_TTL_MS, LOCK_WAIT_MS
//   FAULTS             JSON: [{"point":"critical-section","pause_ms":400,"probability":0.05}]
//   PAUSE_MS           short for one such fault, with PAUSE_POINT (critical-section)
//                      and PAUSE_PROBABILITY (1)
//
// Identity; with none of these, X-User-ID and no admin token, as in lab mode
//   ADMIN_TOKEN        the server's admin token
//   JWT_SECRET         sign the buyers' tokens here
//   ADMIN_TOKEN_FILE, JWT_SECRET_FILE   or the absolute paths of files with them
//   TOKENS             or read them from a file that `lab tokens --format k6` wrote
//
// Result
//   OUT                also write the result as JSON to this file

import http from 'k6/http';
import exec from 'k6/execution';
import { sleep } from 'k6';
import { Counter } from 'k6/metrics';
import { follow } from './seckill/accepted.js';
import { config } from './seckill/config.js';
import { headers } from './seckill/buyers.js';
import { experiment, expectation } from './seckill/experiment.js';
import { live } from './seckill/life.js';
import { awaitFree } from './seckill/locks.js';
import { promised, record, rush as rushPhase, tail as tailPhase } from './seckill/outcomes.js';
import { visit } from './seckill/room.js';
import { audit, create, ordersURL, sellOut, waitUntilReady } from './seckill/sale.js';
import { summarize } from './seckill/summary.js';

const wrongInTail = new Counter('tail_wrong_answers');

export const options = {
  scenarios: scenarios(),
  thresholds: thresholds(),
  summaryTrendStats: ['min', 'med', 'p(95)', 'p(99)', 'max', 'count'],
  batch: config.requestsPerUser,
  batchPerHost: config.requestsPerUser,
  setupTimeout: `${config.readySeconds * config.instances.length + config.maxSeconds + 30}s`,
  teardownTimeout: '2m',
};

// A refusal is an expected answer, not a failed request.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 202 }, 409));

export function setup() {
  waitUntilReady();
  const voucher = create();
  if (config.scenario === 'tail') sellOut(voucher);
  return voucher;
}

export function teardown(voucher) {
  awaitFree(voucher);
  audit(voucher);
}

// rush: each iteration is another buyer.
export function rush(voucher) {
  const buyer = exec.scenario.iterationInTest;
  send(rushPhase, voucher, [buyer], buyer);
}

// room: each iteration is another visitor.
export function room(voucher) {
  const visitor = exec.scenario.iterationInTest;
  rushPhase.clock.add(Date.now());
  visit(voucher, visitor);
  rushPhase.clock.add(Date.now());
}

// duplicates: each iteration is another buyer, who sends several requests to the instances in turn at the same
// moment.
export function duplicates(voucher) {
  const buyer = exec.scenario.iterationInTest;
  send(rushPhase, voucher, Array(config.requestsPerUser).fill(buyer), buyer);
}

// tail: each iteration is another buyer who comes too late. After a rush that left something over, such a buyer
// may still get one.
export function tail(voucher) {
  if (config.scenario === 'all') waitForTheRushToEnd();
  const late = exec.scenario.iterationInTest;
  const [code] = send(tailPhase, voucher, [config.users + late], late);
  const right = config.scenario === 'all' ? ['sold_out', 'busy', 'created', 'pending'] : ['sold_out'];
  if (!right.includes(code)) wrongInTail.add(1);
}

export function handleSummary(data) {
  const { text, result } = summarize(data);
  const files = { stdout: text };
  if (config.out) files[config.out] = `${JSON.stringify(result, null, 2)}\n`;
  return files;
}

function order(voucher, buyer, turn) {
  const base = config.instances[turn % config.instances.length];
  return ['POST', ordersURL(base, voucher.id), null, {
    headers: headers(buyer),
    timeout: config.requestTimeout,
    tags: { name: 'order' },
  }];
}

// send sends the orders of buyers at the same moment, to the instances in turn, and returns the code of each
// answer. A buyer whose order is accepted polls it.
function send(phase, voucher, buyers, turn) {
  const requests = buyers.map((buyer, i) => order(voucher, buyer, turn + i));
  const asked = Date.now();
  phase.clock.add(asked);
  const responses = requests.length === 1 ? [http.request(...requests[0])] : http.batch(requests);
  phase.clock.add(Date.now());
  return responses.map((response, i) => {
    const code = record(phase, response);
    if (config.scenario === 'life' && promised(code)) live(turn + i, response, headers(buyers[i]));
    else if (code === 'pending' && config.waitSeconds > 0) follow(turn + i, response, headers(buyers[i]), asked);
    return code;
  });
}

// Tail iterations finish only after the rush is over, so until then only the rush's iterations count.
function waitForTheRushToEnd() {
  const atLatest = exec.scenario.startTime + config.maxSeconds * 1000;
  while (exec.instance.iterationsCompleted + exec.instance.iterationsInterrupted < config.users) {
    if (Date.now() > atLatest) return;
    sleep(0.01);
  }
}

function scenarios() {
  const phase = (fn, iterations, times) => ({
    executor: 'shared-iterations',
    exec: fn,
    iterations,
    vus: Math.min(config.vus, iterations),
    maxDuration: `${config.maxSeconds * times}s`,
    gracefulStop: '10s',
  });
  switch (config.scenario) {
    case 'duplicates': return { duplicates: phase('duplicates', config.users, 1) };
    case 'room': return { room: phase('room', config.users, 2) };
    case 'tail': return { tail: phase('tail', config.lateBuyers, 1) };
    case 'all': return { rush: phase('rush', config.users, 1), tail: phase('tail', config.lateBuyers, 2) };
  }
  return { rush: phase('rush', config.users, 1) };
}

function thresholds() {
  const t = {
    audit_read: ['count==1'],
    order_outcome_unauthenticated: ['count==0'],
    tail_outcome_unauthenticated: ['count==0'],
    ...(experiment ? expectation() : soldRight()),
  };
  // Where errors are injected on purpose, 500s are expected.
  const injected = (config.policy.faults || []).some((f) => f.effect && f.effect !== 'pause');
  if (!injected) t.order_outcome_other = ['count==0'];
  if (config.tailP95) t.tail_duration = [`p(95)<=${config.tailP95}`];
  return t;
}

function soldRight() {
  return {
    audit_balanced: ['value==1'],
    audit_oversold: ['value==0'],
    audit_duplicate_orders: ['value==0'],
    audit_unaccounted: ['value==0'],
    audit_lost_orders: ['count<=0'],
    audit_pending: ['value==0'],
    accepted_rejected: ['count==0'],
    accepted_unknown: ['count==0'],
    life_wrong: ['count==0'],
    life_open: ['count==0'],
    life_unknown: ['count==0'],
    life_unanswered: ['count==0'],
    room_wrong: ['count==0'],
    room_open: ['count==0'],
    room_unanswered: ['count==0'],
    lock_stuck: ['value==0'],
    tail_wrong_answers: ['count==0'],
  };
}
