// The outcome of each order request, counted by the code of the answer.

import { Counter, Trend } from 'k6/metrics';

// The closed list of outcomes. "network" is no answer at all; "other" is an answer that a correct run never
// gets, such as 400, 404 or 500.
export const CODES = [
  'created', 'pending', 'sold_out', 'already_ordered', 'busy', 'sale_not_started', 'sale_ended', 'sale_paused',
  'unavailable', 'rate_limited', 'unauthenticated', 'other', 'network',
];

const FROM_BODY = CODES.filter((c) => !['created', 'pending', 'other', 'network'].includes(c));

// A phase is a part of a run whose answers are counted and timed together.
export const rush = phase('order');
export const tail = phase('tail');

// Orders that a client was promised and the database does not have: plus one for each 201 or 202, minus the
// audit's orders at the end. A negative number is legal: an order whose reply was lost.
export const lostOrders = new Counter('audit_lost_orders');

function phase(name) {
  const counters = {};
  for (const code of CODES) counters[code] = new Counter(`${name}_outcome_${code}`);
  return {
    name,
    counters,
    duration: new Trend(`${name}_duration`, true),
    // Wall-clock times of the first request and the last answer, for the rate.
    clock: new Trend(`${name}_clock`),
  };
}

let complained = false;

// record counts one answer and returns its code.
export function record(phase, response) {
  const code = outcome(response);
  phase.counters[code].add(1);
  if (promised(code)) lostOrders.add(1);
  if (code !== 'network') phase.duration.add(response.timings.duration);
  if (code === 'other' && !complained) {
    complained = true; // once per virtual user is enough to see what is wrong
    console.error(`unexpected answer: ${describe(response)}`);
  }
  return code;
}

// promised reports whether the answer tells the buyer that the order is theirs.
export function promised(code) {
  return code === 'created' || code === 'pending';
}

export function outcome(response) {
  switch (response.status) {
    case 0: return 'network';
    case 201: return 'created';
    case 202: return 'pending';
  }
  const code = problem(response).code;
  return FROM_BODY.includes(code) ? code : 'other';
}

// describe returns a server's answer as a text for people.
export function describe(response) {
  if (response.status === 0) return `no answer (${response.error})`;
  const p = problem(response);
  return [response.status, p.code, p.detail || p.title].filter((s) => s).join(' ');
}

// problem returns the answer's application/problem+json, or {} if it is not one.
function problem(response) {
  try {
    return response.json() || {};
  } catch (_) {
    return {};
  }
}
