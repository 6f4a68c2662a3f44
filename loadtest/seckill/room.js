// A voucher with a waiting room: visitors take a ticket, wait, leave, come back, and order with their pass. Some try what
// must not work: to order without a pass, with the pass of somebody else, or twice.

import http from 'k6/http';
import { sleep } from 'k6';
import { Counter, Trend } from 'k6/metrics';
import { headers } from './buyers.js';
import { config } from './config.js';
import { describe, promised, record, rush } from './outcomes.js';
import { ordersURL } from './sale.js';

// What visitors do, in turn.
const PLANS = ['wait', 'come_back', 'wait', 'leave', 'share', 'late', 'abandon', 'gatecrash'];

// The closed list of ends. "abandoned" had a pass and did not use it; "open" waited until the run was over.
export const ENDS = ['ordered', 'sold_out', 'left', 'abandoned', 'open', 'unanswered'];

const ends = {};
for (const end of ENDS) ends[end] = new Counter(`room_${end}`);
// What must not happen: an order without a pass of one's own, a second one with a pass, another ticket for the same user,
// a pass that finds no unit.
const wrong = new Counter('room_wrong');
const polls = new Counter('room_polls');
const passAfter = new Trend('room_pass_after', true);

// A refusal is an answer.
const ANSWERS = http.expectedStatuses({ min: 200, max: 202 }, 403, 409);

const REFUSALS = ['pass_required', 'sold_out'];

// How often a call without an answer, or with a 503, is repeated.
const ATTEMPTS = 50;

let complained = false;

// visit is the way of one visitor through the room.
export function visit(voucher, turn) {
  const v = { voucher, turn, headers: headers(turn), plan: PLANS[turn % PLANS.length], until: voucher.opens + config.maxSeconds * 1000 };
  if (v.plan === 'late' || v.plan === 'gatecrash') sleep(Math.max(0, voucher.opens - Date.now()) / 1000 + 1 + Math.random());
  if (v.plan === 'gatecrash') refused(v, v.headers, '', 'without a pass');
  const entered = ask(v, 'POST', {});
  if (entered.status !== 201) return ended('unanswered', entered);
  v.ticket = entered.json().ticket;
  if (v.plan === 'leave') return ended('left');
  if (v.plan === 'come_back') comeBack(v);

  const answer = awaitPass(v);
  if (!answer) return;
  passAfter.add(Math.max(0, Date.now() - voucher.opens));
  if (v.plan === 'abandon') return ended('abandoned');
  if (v.plan === 'share') refused(v, headers((turn + 1) % config.users), answer.pass, 'with the pass of somebody else');
  return buy(v, answer.pass);
}

// comeBack asks for a ticket again, at another instance and without showing the one that there is.
function comeBack(v) {
  sleep(1 + 2 * Math.random());
  const again = ask(v, 'POST', {}, 1);
  if (again.status !== 201) return;
  if (again.json().ticket !== v.ticket) wronged(`user ${v.turn} came back and got another ticket`);
}

// awaitPass asks as often as it is told to, and returns the answer with the pass, or null at another end.
function awaitPass(v) {
  for (;;) {
    const answer = ask(v, 'GET', { 'Room-Ticket': v.ticket });
    polls.add(1);
    if (answer.status !== 200) return ended('unanswered', answer);
    const a = answer.json();
    if (a.pass) return a;
    if (a.state === 'sold_out' || a.state === 'ended') return ended('sold_out');
    if (Date.now() > v.until) return ended('open', answer);
    sleep((a.poll_after_ms || 1000) / 1000);
  }
}

// buy orders with a pass. A live pass finds a unit; once it is spent it is refused.
function buy(v, pass) {
  const response = send(v, v.headers, pass);
  const code = record(rush, response);
  if (code === 'sold_out') wronged(`a pass of user ${v.turn} found no unit`);
  if (!promised(code)) return ended('unanswered', response);
  const second = send(v, v.headers, pass);
  if (second.status === 201 || second.status === 202) wronged(`a second order with the pass of user ${v.turn}`);
  return ended('ordered');
}

// refused is an order that must be refused.
function refused(v, as, pass, why) {
  const response = send(v, as, pass);
  if (!REFUSALS.includes(response.json().code)) wronged(`an order ${why}: ${describe(response)}`);
}

function send(v, as, pass) {
  const all = pass ? Object.assign({ 'Room-Pass': pass }, as) : as;
  return repeated(v, (base) => http.post(ordersURL(base, v.voucher.id), null, params(all, 'order')));
}

// ask calls the room at an instance: at the first one after the visitor's own if others are 1.
function ask(v, method, more, others = 0) {
  const all = params(Object.assign({}, v.headers, more), 'room');
  return repeated(v, (base) => http.request(method, `${base}/api/v1/vouchers/${v.voucher.id}/room`, null, all), others);
}

function params(all, name) {
  return { headers: all, timeout: config.requestTimeout, responseCallback: ANSWERS, tags: { name } };
}

function repeated(v, call, others = 0) {
  let answer;
  for (let i = 0; i < ATTEMPTS; i += 1) {
    answer = call(config.instances[(v.turn + i + others) % config.instances.length]);
    if (answer.status !== 0 && answer.status !== 503) break;
    sleep(0.1 + 0.2 * Math.random());
  }
  return answer;
}

function ended(end, answer) {
  ends[end].add(1);
  if (end === 'unanswered') complain(`${describe(answer)} ${answer.body || ''}`);
  return null;
}

function wronged(what) {
  wrong.add(1);
  complain(what);
}

function complain(what) {
  if (!complained) console.error(what); // once per virtual user is enough to see what is wrong
  complained = true;
}
