// One purchase: from the tap to the order.

import * as api from './api.js';
import * as buyer from './buyer.js';
import * as clock from './clock.js';
import { tab } from './store.js';

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

// The key of an attempt is kept until its outcome is known, with the order that it has led to. A repetition, even after
// the page was loaded again, finds the same order and never makes a second one.
const keyName = (voucherID) => `seckill.key.${buyer.id()}.${voucherID}`;

function keyOf(voucherID) {
  let [key] = tab.get(keyName(voucherID)).split(' ');
  if (!key) {
    // crypto.randomUUID is missing where the page is not served over TLS, as in a room.
    key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
    tab.set(keyName(voucherID), key);
  }
  return key;
}

// known forgets the key of an attempt when its order is no longer on its way.
export function known(order) {
  const name = keyName(order.voucher_id);
  if (order.status !== 'pending' && tab.get(name).split(' ')[1] === order.order_id) tab.set(name, '');
}

// pause ends early if the signal is aborted.
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); });
  });
}

// buy orders a voucher whose sale begins at begin, in ms, with the pass of its waiting room if it has one. It reports each
// state:
//
//	{is: 'trying'}                        the request is under way
//	{is: 'again', error}                  busy, overloaded, unreachable, or not yet open by the server's clock; it tries
//	                                      again in a moment
//	{is: 'order', order}                  there is an order, in the state that order.status names
//	{is: 'refused', error}                a final no, with its reason
//	{is: 'stopped'}                       the buyer stopped it, or it has tried for long enough
export async function buy(voucherID, begin, pass, report, signal) {
  const headers = { ...buyer.headers(), ...(pass && { 'Room-Pass': pass }) };
  const started = performance.now();
  for (let attempt = 1; ; attempt++) {
    report({ is: 'trying' });
    const key = keyOf(voucherID);
    const sent = clock.earliest();
    try {
      const order = await api.call('POST', `/api/v1/vouchers/${voucherID}/orders`, { headers: { ...headers, 'Idempotency-Key': key }, signal });
      tab.set(keyName(voucherID), `${key} ${order.order_id}`);
      report({ is: 'order', order: { ...order, voucher_id: voucherID } });
      return;
    } catch (error) {
      if (signal.aborted) break;
      const opens = early(error, sent, begin);
      if (!opens && !api.temporary(error)) {
        if (!(error instanceof api.Refusal)) throw error;
        if (error.status < 500 && error.status !== 401) tab.set(keyName(voucherID), '');
        report({ is: 'refused', error });
        return;
      }
      if (opens) tab.set(keyName(voucherID), ''); // a definite no: there is no order to find
      if (performance.now() - started > perseverance) break;
      report({ is: 'again', error });
      // Not all at the same moment: they came at the same moment.
      await pause(opens ? 200 + Math.random() * 200 : 1000 * (error.retryAfter || Math.min(attempt, 5)) + Math.random() * 700, signal);
      if (signal.aborted) break;
    }
  }
  report({ is: 'stopped' });
}

// pay returns the payment of an unpaid order, the same one each time.
export const pay = (id, headers) => api.call('POST', `/api/v1/orders/${id}/payment`, { headers });

// cancel gives an unpaid order back, and returns it.
export const cancel = (id, headers) => api.call('POST', `/api/v1/orders/${id}/cancel`, { headers });

export const look = (id, headers) => api.call('GET', `/api/v1/orders/${id}`, { headers });
