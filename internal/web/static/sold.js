// The orders of the voucher that is watched, for whoever asks, and the refund of one. They are not looked at again by
// themselves: a row would move under the pointer.

import * as api from './api.js';
import { $, h, list, open, show, text } from './dom.js';
import { moment, money, onLanguage, t, tell } from './i18n.js';
import { statusName, statusTone } from './status.js';

let voucher = null;
let orders = [];
let next = '';
let headers, failed;

// choose shows the orders of another voucher.
export function choose(v) {
  if (v?.id === voucher?.id) return;
  [voucher, orders, next] = [v, [], ''];
  tell('sold-outcome', () => '', '');
  draw();
  load();
}

// load reads the page before an order, or the newest.
async function load(before = '') {
  if (!voucher || !$('sold').open) return;
  const of = voucher;
  try {
    const page = await api.call('GET', `/api/v1/vouchers/${of.id}/orders${before && `?before=${before}`}`, { headers: headers() });
    if (of !== voucher) return;
    orders = before ? [...orders, ...page.orders] : page.orders;
    next = page.next_before ?? '';
    tell('sold-outcome', () => '', '');
    draw();
  } catch (error) {
    tell('sold-outcome', failed(error), 'bad');
  }
}

function draw() {
  list($('sold-list'), orders.map((o) => {
    o.row ??= h('li', {}, h('span', {}), h('b', {}), h('button', { type: 'button', class: 'quiet', onclick: () => refund(o) }), h('small', {}));
    const [state, buyer, button, line] = o.row.children;
    text(state, statusName(o.status));
    state.className = `chip ${statusTone(o.status)}`;
    text(buyer, t('sold.buyer', { id: o.user_id }));
    text(line, t('orders.line', { time: moment(Date.parse(o.created_at)), id: o.order_id }));
    text(button, t('sold.refund'));
    show(button, o.status === 'paid');
    return o.row;
  }));
  show($('sold-none'), orders.length === 0);
  show($('sold-more'), next !== '');
}

// refund asks first: money that went back does not return.
function refund(order) {
  text($('sure-text'), t('sure.refund.text', { id: order.user_id, price: money(voucher.price_cents) }));
  const dialog = $('sure');
  dialog.returnValue = '';
  dialog.onclose = async () => {
    dialog.onclose = null; // an answer counts once
    if (dialog.returnValue !== 'yes') return;
    try {
      Object.assign(order, await api.call('POST', `/api/v1/orders/${order.order_id}/refund`, { headers: headers() }));
      tell('sold-outcome', () => t('sold.refunding', { id: order.user_id }), 'good');
      draw();
    } catch (error) {
      tell('sold-outcome', failed(error), 'bad');
    }
  };
  open(dialog);
}

export function setup(auth, words) {
  [headers, failed] = [auth, words];
  onLanguage(draw);
  $('sold').addEventListener('toggle', () => load());
  $('sold-again').addEventListener('click', () => load());
  $('sold-more').addEventListener('click', () => load(next));
}
