// The outcome of accepted orders. Under the admission flow a 202 says that the order will be in the database. Its
// buyer polls until it is there; the server holds each poll until the order is final or the wait is over.

import http from 'k6/http';
import { Counter, Trend } from 'k6/metrics';
import { config } from './config.js';
import { describe } from './outcomes.js';

// The closed list of outcomes. "late" is still pending at the end of the wait, "unknown" is an order that does not
// exist according to the service, "unanswered" is any other answer.
export const ACCEPTED_OUTCOMES = ['confirmed', 'rejected', 'late', 'unknown', 'unanswered'];

const acceptedOutcomes = {};
for (const outcome of ACCEPTED_OUTCOMES) acceptedOutcomes[outcome] = new Counter(`accepted_${outcome}`);
// From the request for the order until its buyer knew that it is confirmed.
const confirmedAfter = new Trend('accepted_confirmed_after', true);

let complained = false;

// follow polls an accepted order, at another instance than the one that accepted it if there is one.
export function follow(turn, response, headers, asked) {
  const base = config.instances[(turn + 1) % config.instances.length];
  const answer = http.get(`${base}${response.headers.Location}?wait=${config.waitSeconds}s`, {
    headers,
    timeout: `${config.waitSeconds + 10}s`,
    tags: { name: 'accepted order' },
  });
  const outcome = acceptedOutcomeOf(answer);
  acceptedOutcomes[outcome].add(1);
  if (outcome === 'confirmed') confirmedAfter.add(Date.now() - asked);
  if (outcome !== 'confirmed' && outcome !== 'late' && !complained) {
    complained = true;
    console.error(`accepted order ${response.headers.Location} at ${base}: ${outcome}, ${describe(answer)}`);
  }
}

function acceptedOutcomeOf(answer) {
  if (answer.status === 404) return 'unknown';
  if (answer.status !== 200) return 'unanswered';
  switch (answer.json().status) {
    case 'confirmed': return 'confirmed';
    case 'rejected': return 'rejected';
  }
  return 'late';
}
