// One purchase: from the tap to the order's final state.

import * as api from './api.js';
import * as buyer from './buyer.js';
import * as clock from './clock.js';

// The states of an order in which it will change without the buyer's doing.
const onItsWay = new Set(['pending']);

export const waits = (status) => onItsWay.has(status);

// The states that the page watches: these, and those that end by a payment, by its refund or by the time to pay.
const toChange = new Set(['pending', 'unpaid', 'refunding']);

export const watched = (status) => toChange.has(status);

// How long one tap keeps trying, in ms.
const perseverance = 120000;

// By how much the clocks of the instances behind one address may differ, in ms.
const skew = 2000;

// early says whether a sale that was open by the page's clock had not begun by the server's when the order was sent, at
// that time of the server's clock. The page knows that clock to a fraction of a second only, and most buyers tap in the
// sale's first second. The refusal says nothing about later: the sale may have begun while it was on its way.
function early(error, sent, begin) {
  return error instanceof api.Refusal && error.code === 'sale_not_started' && sent < begin + skew;
}

// The key of an attempt is kept until its outcome is known. A repetition, even after the page was loaded again,
// finds the same order and never makes a second one.
const keyName = (voucherID) => `seckill.key.${buyer.id()}.${voucherID}`;

function keyOf(voucherID) {
  let key = sessionStorage.getItem(keyName(voucherID));
  if (!key) {
    // crypto.randomUUID is missing where the page is not served over TLS, as in a room.
    key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
    sessionStorage.setItem(keyName(voucherID), key);
  }
  return key;
}

// forget removes the key of an attempt, but not that of a later one.
function forget(voucherID, key) {
  if (sessionStorage.getItem(keyName(voucherID)) === key) sessionStorage.removeItem(keyName(voucherID));
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); });
  });
}

// buy orders a voucher whose sale begins at begin, in ms. It reports each state:
//
//	{is: 'trying'}                        the request is under way
//	{is: 'again', error, until}           busy, overloaded, unreachable, or not yet open by the server's clock; it tries
//	                                      again at that time of performance
//	{is: 'order', order}                  there is an order, in the state that order.status names
//	{is: 'refused', error}                a final no, with its reason
//	{is: 'stopped'}                       the buyer stopped it, or it has tried for long enough
export async function buy(voucherID, begin, report, signal) {
  const headers = buyer.headers();
  const started = performance.now();
  for (let attempt = 1; ; attempt++) {
    report({ is: 'trying' });
    const key = keyOf(voucherID);
    const sent = clock.earliest();
    try {
      const placed = await api.call('POST', `/api/v1/vouchers/${voucherID}/orders`, { headers: { ...headers, 'Idempotency-Key': key }, signal });
      const told = (order) => {
        if (!waits(order.status)) forget(voucherID, key);
        report({ is: 'order', order });
      };
      told(placed);
      told(await follow(placed, headers, told, signal));
      return;
    } catch (error) {
      if (signal.aborted) break;
      const opens = early(error, sent, begin);
      if (!opens && !api.temporary(error)) {
        if (!(error instanceof api.Refusal)) throw error;
        if (error.status < 500 && error.status !== 401) forget(voucherID, key);
        report({ is: 'refused', error });
        return;
      }
      if (opens) forget(voucherID, key); // a definite no: there is no order to find
      if (performance.now() - started > perseverance) break;
      // Not all at the same moment: they came at the same moment.
      const wait = opens ? 200 + Math.random() * 200 : 1000 * (error.retryAfter || Math.min(attempt, 5)) + Math.random() * 700;
      report({ is: 'again', error, until: performance.now() + wait });
      await pause(wait, signal);
      if (signal.aborted) break;
    }
  }
  report({ is: 'stopped' });
}

// follow waits until an order is in a state that stays, and returns it. A look-up that finds no answer is repeated.
export async function follow(order, headers, report, signal) {
  let wait = order.status === 'unpaid' ? 0 : 20000; // until when it is to be paid is asked for at once
  for (let attempt = 1; watched(order.status) && !signal.aborted;) {
    try {
      order = await api.call('GET', `/api/v1/orders/${order.order_id}` + (wait ? `?wait=20s&state=${order.status}` : ''), { headers, wait, signal });
      report(order);
      attempt = 1;
      if (wait && watched(order.status)) await pause(500, signal); // a server that is stopping answers at once
      wait = 20000;
    } catch (error) {
      if (signal.aborted) break;
      if (error instanceof api.Refusal && error.code === 'order_not_found') return { ...order, status: 'lost' };
      if (!api.temporary(error)) throw error;
      await pause(1000 * (error.retryAfter || Math.min(attempt++, 5)) + Math.random() * 500, signal);
    }
  }
  return order;
}

// pay returns the payment of an unpaid order, the same one each time.
export const pay = (id, headers) => api.call('POST', `/api/v1/orders/${id}/payment`, { headers });

// cancel gives an unpaid order back, and returns it.
export const cancel = (id, headers) => api.call('POST', `/api/v1/orders/${id}/cancel`, { headers });

export const look = (id, headers) => api.call('GET', `/api/v1/orders/${id}`, { headers });
