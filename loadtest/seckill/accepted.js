// What became of accepted orders. Under the flow admission a 202 says that the order
// will be in the database; its buyer asks until it is, and waits in the asking.

import http from 'k6/http';
import { Counter, Trend } from 'k6/metrics';
import { config } from './config.js';
import { describe } from './outcomes.js';

// The closed list. "late" is still pending at the end of the wait, "unknown" an order
// that its buyer is told does not exist, "unanswered" anything that says nothing.
export const FATES = ['confirmed', 'rejected', 'late', 'unknown', 'unanswered'];

const fates = {};
for (const fate of FATES) fates[fate] = new Counter(`accepted_${fate}`);
// From when the order was asked for until its buyer knew that it is confirmed.
const confirmedAfter = new Trend('accepted_confirmed_after', true);

let complained = false;

// follow asks for an accepted order, at another instance than the one that accepted it
// where there is one.
export function follow(turn, response, headers, asked) {
  const base = config.instances[(turn + 1) % config.instances.length];
  const answer = http.get(`${base}${response.headers.Location}?wait=${config.waitSeconds}s`, {
    headers,
    timeout: `${config.waitSeconds + 10}s`,
    tags: { name: 'accepted order' },
  });
  const fate = fateOf(answer);
  fates[fate].add(1);
  if (fate === 'confirmed') confirmedAfter.add(Date.now() - asked);
  if (fate !== 'confirmed' && fate !== 'late' && !complained) {
    complained = true;
    console.error(`accepted order ${response.headers.Location} at ${base}: ${fate}, ${describe(answer)}`);
  }
}

function fateOf(answer) {
  if (answer.status === 404) return 'unknown';
  if (answer.status !== 200) return 'unanswered';
  switch (answer.json().status) {
    case 'confirmed': return 'confirmed';
    case 'rejected': return 'rejected';
  }
  return 'late';
}
