// The buyers' page: what is on sale, one tap to buy, and what became of the order.

import * as api from './api.js';
import * as buyer from './buyer.js';
import * as clock from './clock.js';
import { Card, refusalText } from './card.js';
import { $, h, list, show, text } from './dom.js';
import { clockTime, onLanguage, setup, t } from './i18n.js';
import * as purchase from './purchase.js';
import { statusName, statusTone } from './status.js';

const cards = new Map(); // by the voucher's id
let vouchers = null; // null until the first answer
let trouble = null; // why the last look at the sales failed

// ---- the sales

let polling = 0;

// poll looks at the sales again and again while the page is seen.
async function poll() {
  clearTimeout(polling);
  try {
    vouchers = await api.vouchers();
    trouble = null;
  } catch (error) {
    trouble = error;
  }
  draw();
  if (!document.hidden) polling = setTimeout(poll, interval() * (0.8 + 0.4 * Math.random()));
}

// interval is short while something can change: during a sale and just before one.
function interval() {
  if (trouble) return 3000;
  const at = clock.now();
  const busy = vouchers.some((v) => Date.parse(v.end_at) > at && Date.parse(v.begin_at) - at < 60000 && v.stock > 0);
  return busy ? 2000 : 10000;
}

function draw() {
  text($('notice'), trouble ? t('shop.trouble') : '');
  show($('notice'), trouble !== null);
  if (!vouchers) return;
  for (const v of vouchers) {
    if (!cards.has(v.id)) cards.set(v.id, new Card(v.id, { buy, pay, cancel }));
    cards.get(v.id).voucher = v;
  }
  sort();
  drawOrders();
}

// sort puts each card where it belongs: by the clock, and newest first.
function sort() {
  const at = clock.now();
  const parts = { open: [], soon: [], over: [] };
  for (const v of vouchers) {
    const [begin, end] = [Date.parse(v.begin_at), Date.parse(v.end_at)];
    parts[at >= end ? 'over' : at >= begin ? 'open' : 'soon'].unshift(v);
  }
  parts.soon.sort((a, b) => Date.parse(a.begin_at) - Date.parse(b.begin_at));
  for (const [id, of] of Object.entries(parts)) {
    show($(id), of.length > 0);
    list($(id).querySelector('ul'), of.map((v) => cards.get(v.id).element));
  }
  for (const v of vouchers) cards.get(v.id).draw();
  text($('empty'), vouchers.length === 0 ? t('sales.none') : '');
}

// tick draws the countdowns at every full second of the shop's clock.
function tick() {
  if (vouchers) sort();
  setTimeout(tick, 1000 - clock.now() % 1000 + 5);
}

// ---- buying

let ends = new AbortController(); // what is under way for the buyer of now

async function buy(card) {
  if (!buyer.headers()) {
    buyer.ask(t('who.first'));
    return;
  }
  const end = new AbortController();
  const stop = () => end.abort();
  ends.signal.addEventListener('abort', stop);
  card.stop = stop;
  const whose = ends;
  await purchase.buy(card.id, Date.parse(card.voucher.begin_at), (state) => {
    if (whose !== ends) return; // another buyer has the page now
    const latest = card.stop === stop; // if not, this order was cancelled, and the card is about a later attempt
    if (latest) {
      card.attempt = state;
      card.draw();
    }
    if (state.is === 'order') noteOrder({ ...state.order, voucher_id: card.id });
    if (latest && state.is === 'refused') refused(card, state.error);
    if (state.is === 'order' || state.is === 'refused') poll(); // the stock is another one
  }, end.signal);
}

function refused(card, error) {
  if (error.status === 401) buyer.ask(t('who.refused'));
  if (error.code === 'already_ordered') loadOrders();
}

// pay leaves for the provider's page. Back here, the order tells what came of it.
const pay = (card) => act(card, async (order, headers) => {
  const address = new URL((await purchase.pay(order.order_id, headers)).pay_url, location.href);
  if (/^https?:$/.test(address.protocol)) location.assign(address);
});

const cancel = (card) => act(card, async (order, headers) => {
  noteOrder(await purchase.cancel(order.order_id, headers));
  poll();
});

// act does something with the unpaid order of a card. A refusal is shown beside what the order has become meanwhile.
async function act(card, what) {
  const [order, headers, whose] = [card.current(), buyer.headers(), ends];
  if (card.busy || !headers) return;
  card.busy = true;
  card.problem = '';
  card.draw();
  try {
    await what(order, headers);
  } catch (error) {
    if (!(error instanceof api.Refusal) && !(error instanceof api.NoAnswer)) throw error;
    if (whose === ends) {
      card.problem = api.temporary(error) ? t('bill.again') : refusalText(error);
      if (error.status === 409) purchase.look(order.order_id, headers).then((o) => whose === ends && noteOrder(o), () => {});
    }
  } finally {
    card.busy = false;
    card.draw();
  }
}

// ---- my orders

let orders = []; // newest first
let next = '';
let followed = new Set();

function noteOrder(order) {
  const known = orders.find((o) => o.order_id === order.order_id);
  if (known) Object.assign(known, order);
  else orders.unshift({ created_at: new Date(clock.now()).toISOString(), ...order });
  drawOrders();
}

async function loadOrders(before = '') {
  const headers = buyer.headers();
  const whose = ends;
  const known = new Set(orders);
  let answer = { orders: [] };
  if (headers) {
    try {
      answer = await api.call('GET', '/api/v1/orders' + (before && `?before=${before}`), { headers });
    } catch (error) {
      if (whose !== ends) return;
      if (error.status === 401) buyer.ask(t('who.refused'));
      else if (api.temporary(error)) setTimeout(() => whose === ends && loadOrders(before), 3000);
      else throw error;
      return;
    }
  }
  if (whose !== ends) return;
  const listed = new Set(answer.orders.map((o) => o.order_id));
  if (before) orders.push(...answer.orders);
  else orders = [...orders.filter((o) => !listed.has(o.order_id) && (purchase.waits(o.status) || !known.has(o))), ...answer.orders];
  next = answer.next_before ?? '';
  drawOrders();
  for (const o of orders) follow(o, headers, whose);
}

// follow watches an order of an earlier visit that is still on its way, or is to be paid.
async function follow(order, headers, whose) {
  if (!purchase.watched(order.status) || followed.has(order.order_id)) return;
  followed.add(order.order_id);
  const note = (o) => whose === ends && noteOrder(o);
  note(await purchase.follow(order, headers, note, whose.signal));
}

function drawOrders() {
  const titles = new Map((vouchers ?? []).map((v) => [v.id, v.title]));
  list($('orders'), orders.map((o) => {
    o.row ??= h('li', {}, h('strong'), h('span'), h('small'));
    const [title, status, when] = o.row.children;
    text(title, titles.get(o.voucher_id) ?? t('orders.voucher', { id: o.voucher_id }));
    text(status, statusName(o.status));
    status.className = `chip ${statusTone(o.status)}`;
    text(when, t('orders.line', { time: o.created_at ? clockTime(o.created_at) : '', id: o.order_id }));
    return o.row;
  }));
  text($('no-orders'), orders.length === 0 ? t('orders.none') : '');
  show($('older'), next !== '');
  const latest = new Map();
  for (const o of orders.toReversed()) latest.set(o.voucher_id, o);
  for (const card of cards.values()) {
    card.order = latest.get(card.id) ?? null;
    if (card.voucher) card.draw();
  }
}

// another is called when another buyer has the page.
function another() {
  ends.abort();
  ends = new AbortController();
  orders = [];
  next = '';
  followed = new Set();
  for (const card of cards.values()) card.attempt = null;
  drawOrders();
  loadOrders();
}

// ---- start

setup('title');
buyer.setup(another);
onLanguage(draw);
$('older').addEventListener('click', () => loadOrders(next));
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) poll();
});
poll().then(tick);
loadOrders();
