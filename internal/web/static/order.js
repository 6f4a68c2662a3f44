// The page of an order, at #order=ID: what was bought, its code, and what can be done about it.

import * as api from './api.js';
import * as buyer from './buyer.js';
import * as clock from './clock.js';
import { refusalText } from './card.js';
import { $, open, set, show, text } from './dom.js';
import { money, onLanguage, t, when } from './i18n.js';
import * as purchase from './purchase.js';
import { statusSentence, statusTone } from './status.js';

let shown = null; // the order
let voucher = null;
let trouble = null;

const asked = () => /^#order=(\d+)$/.exec(location.hash)?.[1] ?? '';

async function load() {
  const id = asked();
  const headers = buyer.headers();
  if (!id || !headers) {
    $('order').close();
    return;
  }
  if (shown?.order_id !== id) [shown, voucher] = [null, null];
  trouble = null;
  draw();
  open($('order'));
  try {
    const order = await purchase.look(id, headers);
    const of = await api.call('GET', `/api/v1/vouchers/${order.voucher_id}`);
    if (id === asked()) [shown, voucher] = [order, of];
  } catch (error) {
    trouble = error;
  }
  draw();
}

function draw() {
  text($('order-heading'), voucher?.title ?? t('orders.order'));
  const sentence = trouble ? (api.temporary(trouble) ? t('shop.trouble') : refusalText(trouble)) : shown ? statusSentence(shown.status) : '';
  text($('order-state'), sentence);
  $('order-state').className = `outcome ${trouble ? 'bad' : shown ? statusTone(shown.status) : ''}`;
  const bought = shown !== null && ['confirmed', 'paid'].includes(shown.status);
  show($('order-code'), bought);
  if (bought) {
    set($('order-qr'), 'src', `/qr.svg?text=${encodeURIComponent(`${location.origin}/#order=${shown.order_id}`)}`);
    $('order-qr').alt = t('order.qr');
  }
  text($('order-line'), shown ? t('orders.line', { time: shown.created_at ? when(Date.parse(shown.created_at), clock.now()) : '–', id: shown.order_id }) : '');
  text($('order-price'), voucher ? (voucher.price_cents > 0 ? money(voucher.price_cents) : t('card.free')) : '');
}

// note takes over what the page has learnt of an order.
export function note(order) {
  if (shown?.order_id !== order.order_id) return;
  Object.assign(shown, order);
  draw();
}

export function setup() {
  addEventListener('hashchange', load);
  $('order').addEventListener('close', () => asked() && history.replaceState(null, '', location.pathname));
  $('order-close').addEventListener('click', () => $('order').close());
  onLanguage(draw);
  load();
}
