// The orders that change without their buyer's doing: those on their way, those to be paid, and refunds. One request at a
// time asks for all of them, and none while the page is hidden: a browser has six connections for all its tabs.

import * as api from './api.js';
import { pause } from './purchase.js';

const watched = new Set(['pending', 'unpaid', 'refunding']);

// The most orders that are asked for at a time, the newest.
const most = 20;

export class Watch {
  // note is called with each order that was asked for. It calls follow.
  constructor(headers, note) {
    this.headers = headers;
    this.note = note;
    this.orders = new Map();
    this.question = new AbortController();
  }

  // follow takes over an order's state, and asks for it from then on, or no longer.
  follow(order) {
    const known = this.orders.has(order.order_id);
    if (!watched.has(order.status)) this.orders.delete(order.order_id);
    else this.orders.set(order.order_id, order);
    if (!known && this.orders.has(order.order_id)) this.ask();
  }

  stop() {
    this.orders.clear();
    this.question.abort();
  }

  // ask begins to ask anew, at first without waiting: the answer says until when is to be paid.
  async ask() {
    this.question.abort();
    this.question = new AbortController();
    const { signal } = this.question;
    await null; // those that are added in one go are asked for together
    for (let [wait, failed] = [0, 0]; this.orders.size > 0 && !document.hidden && !signal.aborted;) {
      const asked = [...this.orders.values()].slice(-most);
      try {
        const query = asked.map((o) => `${o.order_id}:${o.status}`).join();
        const answer = await api.call('GET', `/api/v1/orders?watch=${query}${wait ? '&wait=20s' : ''}`, { headers: this.headers, wait, signal });
        if (signal.aborted) return;
        const found = new Map(answer.orders.map((o) => [o.order_id, o]));
        for (const o of asked) { // unless the page has learnt of a later state meanwhile
          if (this.orders.get(o.order_id)?.status === o.status) this.note(found.get(o.order_id) ?? { ...o, status: 'lost' });
        }
        if (wait) await pause(500, signal); // a server that is stopping answers at once
        [wait, failed] = [20000, 0];
      } catch (error) {
        if (signal.aborted) return;
        if (!api.temporary(error)) throw error;
        failed++;
        await pause(1000 * (error.retryAfter || Math.min(failed, 5)) + Math.random() * 500, signal);
      }
    }
  }
}
