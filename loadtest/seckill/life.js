// An order's lifecycle after it was placed: buyers pay, pay twice, cancel, pay what they have cancelled, or do nothing.
// Each buyer then waits for the end of the order, and compares its state with the money.

import http from 'k6/http';
import { sleep } from 'k6';
import { Counter, Trend } from 'k6/metrics';
import { config } from './config.js';
import { describe, lostOrders } from './outcomes.js';

// The things that buyers do, in turn.
const PLANS = ['pay', 'pay_twice', 'pay', 'cancel', 'pay_late', 'abandon'];

// The closed list of ends. "open" had no end when its buyer went, "unknown" is an order that does not exist according
// to the service, "unanswered" is any other answer.
export const ENDS = ['paid', 'cancelled', 'expired', 'refunded', 'open', 'unknown', 'unanswered'];

const ends = {};
for (const end of ENDS) ends[end] = new Counter(`life_${end}`);
// Orders whose state and money do not belong together: paid without money or with more than the price, or not paid
// and money that was not returned.
const wrong = new Counter('life_wrong');
const payments = new Counter('life_payments');
const refunds = new Counter('life_refunds');
// From the button on the payment page until the buyer knew that the order is paid.
const paidAfter = new Trend('life_paid_after', true);

// How long a buyer waits for an end, after the time to pay is over.
const PATIENCE_SECONDS = 30;

// How often a call without an answer, or with a 503, is repeated.
const ATTEMPTS = 50;

// The answers of an instance that cannot serve the request. A refusal (409) is an answer: the order has moved on.
const ANSWERS = http.expectedStatuses({ min: 200, max: 303 }, 404, 409);

let complained = false;

// live is what a buyer does with an order that was promised.
export function live(turn, response, headers) {
  const plan = PLANS[turn % PLANS.length];
  const order = `/api/v1/orders/${response.json().order_id}`;
  const deadline = Date.now() + (config.payWithin + PATIENCE_SECONDS) * 1000;
  const buyer = { turn, headers, order };
  if (!awaitOrder(buyer, (o) => o.status !== 'pending', deadline, '&state=pending')) return;

  let pressed = 0;
  if (plan === 'cancel') ask(buyer, 'POST', `${order}/cancel`);
  if (plan === 'pay' || plan === 'pay_twice' || plan === 'pay_late') {
    const payment = ask(buyer, 'POST', `${order}/payment`);
    if (plan === 'pay_late') ask(buyer, 'POST', `${order}/cancel`);
    if (payment.status === 201) {
      pressed = Date.now();
      for (let i = 0; i < (plan === 'pay_twice' ? 2 : 1); i += 1) press(payment.json().pay_url);
    }
  }
  const settled = (o) => o.status !== 'unpaid' && o.status !== 'refunding'
    && (pressed === 0 || money(o).length > 0) && money(o).every((p) => p.refund !== 'due');
  let o = awaitOrder(buyer, settled, deadline);
  if (o && !agrees(o)) { // the answer has the state of one moment and the money of the next
    sleep(0.2);
    o = awaitOrder(buyer, settled, deadline);
  }
  if (o) close(o, plan, pressed);
}

// awaitOrder asks for the order until it is as wanted, and returns it. If it is not by the deadline, or the service
// does not know it, it counts that and returns null.
function awaitOrder(buyer, wanted, deadline, state = '') {
  for (;;) {
    const answer = ask(buyer, 'GET', `${buyer.order}?wait=2s${state}`);
    if (answer.status !== 200) return ended(answer.status === 404 ? 'unknown' : 'unanswered', buyer, answer);
    const o = answer.json();
    if (wanted(o)) return o;
    if (Date.now() > deadline) return ended('open', buyer, answer);
    sleep(0.05 + 0.1 * Math.random());
  }
}

function ended(end, buyer, answer) {
  ends[end].add(1);
  complain(`${buyer.order}: ${end}, ${describe(answer)} ${answer.body || ''}`);
  return null;
}

function money(o) {
  return o.payments || [];
}

// kept is the money of an order that did not go back.
function kept(o) {
  return money(o).filter((p) => !p.refund);
}

// agrees says that a paid order was paid once, and that all money of another one went back.
function agrees(o) {
  return kept(o).reduce((sum, p) => sum + p.amount_cents, 0) === (o.status === 'paid' ? config.priceCents : 0);
}

// close counts an order that has come to its end.
function close(o, plan, pressed) {
  payments.add(money(o).length);
  refunds.add(money(o).length - kept(o).length);
  (ends[o.status] || ends.unanswered).add(1);
  if (!agrees(o)) {
    wrong.add(1);
    complain(`order ${o.order_id} of the plan ${plan} is ${o.status}, with ${JSON.stringify(money(o))}`);
  }
  if (o.status === 'paid' && pressed > 0) paidAfter.add(Date.now() - pressed);
  if (o.status !== 'paid') lostOrders.add(-1); // it is not among the audit's orders, and is not lost
}

// ask sends a call to an instance, and to the next one if it has no answer.
function ask(buyer, method, path) {
  let answer;
  for (let i = 0; i < ATTEMPTS; i += 1) {
    const base = config.instances[(buyer.turn + 1 + i) % config.instances.length];
    answer = http.request(method, `${base}${path}`, null, {
      headers: buyer.headers, timeout: config.requestTimeout, responseCallback: ANSWERS, tags: { name: 'life' },
    });
    if (answer.status !== 0 && answer.status !== 503) return answer;
    sleep(0.1 + 0.2 * Math.random());
  }
  return answer;
}

// press presses the button on a payment page.
function press(page) {
  for (let i = 0; i < ATTEMPTS; i += 1) {
    const answer = http.post(page, { decision: 'pay' }, {
      redirects: 0, timeout: config.requestTimeout, responseCallback: ANSWERS, tags: { name: 'payment page' },
    });
    if (answer.status === 303) return;
    sleep(0.2);
  }
  complain(`the payment page ${page} does not answer`);
}

function complain(what) {
  if (!complained) console.error(what); // once per virtual user is enough to see what is wrong
  complained = true;
}
