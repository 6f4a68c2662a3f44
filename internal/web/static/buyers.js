// The buyers' page: what is on sale, one tap to buy, and what became of the order.

import * as api from './api.js';
import * as buyer from './buyer.js';
import * as clock from './clock.js';
import { Card, refusalText } from './card.js';
import { $, h, list, open, set, show, text } from './dom.js';
import { duration, number, onLanguage, setup, t, when } from './i18n.js';
import * as orderPage from './order.js';
import * as purchase from './purchase.js';
import { Visit } from './room.js';
import { live, statusName, statusTone } from './status.js';
import { Watch } from './watch.js';

const cards = new Map(); // by the voucher's id
let known = false; // whether the sales were listed once
let trouble = null; // why the last look at the sales failed

// ---- the sales

let polling = 0;

// The lists of sales: what is open or comes is asked for again and again, what is over once.
const lists = {
  open: { sort: '-begin_at', pages: 1, more: false },
  soon: { sort: 'begin_at', pages: 1, more: false },
  over: { sort: '-begin_at', pages: 1, more: false },
};

// look takes over the pages of a list that are shown.
async function look(state) {
  const of = lists[state];
  let after = '';
  for (let page = 0; page < of.pages; page++) {
    const answer = await api.vouchers(state, of.sort, after);
    for (const v of answer.vouchers) {
      if (!cards.has(v.id)) cards.set(v.id, new Card(v.id, { buy, pay, cancel, check }));
      const card = cards.get(v.id);
      if (!card.offer(v)) continue;
      visit(card);
      card.draw();
    }
    after = answer.next_after ?? '';
    of.more = after !== '';
    if (!after) return;
  }
}

// more shows the next page of each list that has one.
async function more() {
  for (const of of Object.values(lists)) if (of.more) of.pages++;
  await poll(true);
}

// poll looks at the sales again and again while the page is seen.
async function poll(over = false) {
  clearTimeout(polling);
  try {
    const wanted = ['open', 'soon'];
    if (over || !known) wanted.push('over');
    await Promise.all(wanted.map(look));
    trouble = null;
  } catch (error) {
    trouble = error;
  }
  text($('notice'), trouble ? t('shop.trouble') : '');
  show($('notice'), trouble !== null);
  if (!trouble) {
    if (!known) {
      known = true;
      drawOrders();
      place();
      document.body.classList.add('ready');
    }
    lay();
  }
  clearTimeout(polling);
  if (!document.hidden) polling = setTimeout(poll, interval() * (0.8 + 0.4 * Math.random()));
}

// interval is short while something can change: during a sale and just before one.
function interval() {
  if (trouble) return 3000;
  const at = clock.now();
  const busy = [...cards.values()].some((c) => c.end > at && c.begin - at < 60000 && (c.voucher.stock > 0 || c.voucher.pay_within_s > 0));
  return busy ? 2000 : 10000;
}

// ---- where the cards are

let chosen = ''; // the chip that is pressed
let shown = []; // cards

const groups = {
  open: (card, at) => card.phase(at) === 'open' && !card.gone(at),
  soon: (card, at) => card.phase(at) === 'soon',
  mine: (card) => card.order !== null,
  sold_out: (card, at) => card.soldOut(at),
};

function wanted(card, at) {
  const sought = $('search').value.trim().toLowerCase();
  return (!chosen || groups[chosen](card, at)) && card.voucher.title.toLowerCase().includes(sought);
}

// rank sorts the cards: what is to be paid, what can be bought, what comes next, and the rest.
function rank(card, at) {
  if (card.order?.status === 'unpaid') return [0, 0];
  if (groups.open(card, at)) return [1, -card.begin];
  if (groups.soon(card, at)) return [2, card.begin];
  return [card.phase(at) === 'open' ? 3 : 4, -card.end];
}

// place lays the cards out anew. In between a card keeps its place, whatever becomes of its sale: somebody's thumb is
// above it.
function place() {
  const at = clock.now();
  const ranks = new Map([...cards.values()].map((c) => [c, rank(c, at)]));
  shown = [...cards.values()].filter((c) => wanted(c, at)).sort((a, b) => {
    const [x, y] = [ranks.get(a), ranks.get(b)];
    return x[0] - y[0] || x[1] - y[1];
  });
  lay();
}

// lay puts what is new behind what is there.
function lay() {
  const at = clock.now();
  const there = new Set(shown);
  for (const card of cards.values()) if (!there.has(card) && wanted(card, at)) shown.push(card);
  list($('cards'), shown.map((c) => c.element));
  text($('empty'), !known || shown.length > 0 ? '' : t(cards.size === 0 ? 'sales.none' : 'sales.no_such'));
  show($('finder'), cards.size > 8);
  show($('more'), Object.values(lists).some((of) => of.more));
  for (const chip of $('chips').children) {
    const n = [...cards.values()].filter((c) => groups[chip.value](c, at)).length;
    text(chip, t(`chip.${chip.value}`, { n: number(n) }));
    set(chip, 'aria-pressed', String(chip.value === chosen));
  }
  drawStrip();
}

// drawStrip says what comes next: the buyer's turn, an order that is to be paid, or the next sale.
function drawStrip() {
  const at = clock.now();
  const all = [...cards.values()];
  const turn = all.find((c) => ['called', 'pass'].includes(c.visit?.is) && c.queueing);
  const bill = all.find((c) => c.order?.status === 'unpaid' && c.order.pay_by);
  const next = all.filter((c) => c.begin > at).sort((a, b) => a.begin - b.begin)[0];
  const card = turn ?? bill ?? next;
  const ends = turn ? turn.visit.until : bill ? Date.parse(bill.order.pay_by) : next?.begin;
  const left = ends ? duration(ends - at) : '';
  text($('next-what'), turn ? t('strip.turn') : bill ? t('strip.pay') : next ? t('strip.next') : '');
  text($('next-title'), card ? card.voucher.title : '');
  $('next-left').textContent = left;
  show($('next'), card !== undefined);
  if (card) set($('next'), 'href', `#card-${card.id}`);
  const soon = bill || next && next.begin - at < 3600000;
  const title = turn ? `${t('strip.turn')} ${left || turn.voucher.title}` : soon ? `${left} · ${t('title')}` : t('title');
  if (document.title !== title) document.title = title;
}

// tick draws what the clock changes, at every full second of the shop's clock.
function tick() {
  const at = clock.now();
  for (const card of cards.values()) card.tick(at);
  if (known) drawStrip();
  setTimeout(tick, 1000 - clock.now() % 1000 + 5);
}

// jump shows a card, also one that a chip or the search hides.
function jump(e) {
  e.preventDefault();
  const card = cards.get($('next').getAttribute('href').slice('#card-'.length));
  if (!shown.includes(card)) {
    [chosen, $('search').value] = ['', ''];
    place();
  }
  card.element.scrollIntoView({ block: 'center' });
}

// ---- buying

let ends = new AbortController(); // what is under way for the buyer of now

async function buy(card) {
  if (!buyer.headers()) {
    buyer.ask(t('who.first'));
    return;
  }
  if (card.queueing && card.visit.is !== 'pass') {
    if (card.buy.getAttribute('aria-disabled') === 'false') card.visit.enter();
    return;
  }
  const end = new AbortController();
  const stop = () => end.abort();
  ends.signal.addEventListener('abort', stop);
  card.stop = stop;
  const whose = ends;
  await purchase.buy(card.id, card.begin, card.visit?.answer?.pass, (state) => {
    if (whose !== ends) return; // another buyer has the page now
    card.attempt = state.is === 'order' ? null : state;
    if (state.is === 'order') noteOrder(state.order);
    else card.draw();
    if (state.is === 'refused') refused(card, state.error);
    if (state.is === 'stopped') setTimeout(() => whose === ends && loadOrders(), 1000); // the order may be placed all the same
    if (state.is === 'order' || state.is === 'refused') poll(); // the stock is another one
    if (state.is === 'order') tellTabs();
  }, end.signal);
}

function refused(card, error) {
  if (error.status === 401) buyer.ask(t('who.refused'));
  if (error.code === 'already_ordered') loadOrders();
  if (error.code !== 'pass_required' || !card.visit) return;
  card.attempt = null; // the room says what has become of the pass
  card.visit.again();
}

// visit goes on with the buyer's visit to the waiting room of a voucher.
function visit(card) {
  if (!card.room) {
    card.visit?.stop();
    card.visit = null;
  }
  if (!card.room || card.visit || !buyer.headers()) return;
  card.visit = new Visit(card.id, () => {
    card.draw();
    drawStrip();
  });
  card.visit.resume();
}

const check = async (card) => (await import('./drawcheck.js')).check(card.visit);

// pay leaves for the provider's page. Back here, the order tells what came of it.
const pay = (card) => act(card, async (order, headers) => {
  const address = new URL((await purchase.pay(order.order_id, headers)).pay_url, location.href);
  if (/^https?:$/.test(address.protocol)) location.assign(address);
});

// cancel asks before it gives the voucher back: somebody else may have it in the next moment.
function cancel(card) {
  const dialog = $('sure');
  text($('sure-text'), t('sure.text', { title: card.voucher.title }));
  open(dialog);
  dialog.onclose = () => {
    if (dialog.returnValue !== 'yes') return;
    act(card, async (order, headers) => {
      noteOrder(await purchase.cancel(order.order_id, headers));
      tellTabs();
      poll();
    });
  };
  dialog.returnValue = '';
}

// act does something with the unpaid order of a card. A refusal is shown beside what the order has become meanwhile.
async function act(card, what) {
  const [order, headers, whose] = [card.order, buyer.headers(), ends];
  if (card.busy || !headers || !order) return;
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
let watch = new Watch(null, () => {});

function noteOrder(order) {
  const known = orders.find((o) => o.order_id === order.order_id);
  const now = known ? Object.assign(known, order) : { created_at: new Date(clock.now()).toISOString(), ...order };
  if (!known) orders.unshift(now);
  purchase.known(now);
  watch.follow(now);
  orderPage.note(now);
  drawOrders();
}

async function loadOrders(before = '') {
  const headers = buyer.headers();
  const whose = ends;
  const known = new Map(orders.map((o) => [o.order_id, o]));
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
  const listed = answer.orders.map((o) => Object.assign(known.get(o.order_id) ?? {}, o));
  const rest = orders.filter((o) => !listed.includes(o));
  if (before) orders = [...rest, ...listed];
  else orders = [...rest.filter((o) => o.status === 'pending' || !known.has(o.order_id)), ...listed];
  next = answer.next_before ?? '';
  for (const o of orders) watch.follow(o);
  drawOrders();
}

function drawOrders() {
  const latest = new Map();
  for (const o of orders) if (!latest.has(o.voucher_id)) latest.set(o.voucher_id, o);
  for (const card of cards.values()) {
    const order = latest.get(card.id) ?? null;
    const told = JSON.stringify(order);
    if (told === card.toldOrder) continue;
    [card.order, card.toldOrder] = [order, told];
    if (order && live(order.status) && card.attempt?.is === 'stopped') card.attempt = null;
    card.draw();
  }
  list($('orders'), orders.map((o) => {
    o.row ??= h('li', {}, h('a', { href: `#order=${o.order_id}` }, h('strong', { dir: 'auto' }), h('span'), h('small')));
    const [title, status, line] = o.row.firstElementChild.children;
    text(title, cards.get(o.voucher_id)?.voucher.title ?? t('orders.voucher', { id: o.voucher_id }));
    text(status, statusName(o.status));
    status.className = `chip ${statusTone(o.status)}`;
    text(line, t('orders.line', { time: o.created_at ? when(Date.parse(o.created_at), clock.now()) : '–', id: o.order_id }));
    return o.row;
  }));
  text($('no-orders'), orders.length === 0 ? t('orders.none') : '');
  text($('to-mine'), t('strip.mine', { n: number(orders.length) + (next && '+') }));
  show($('older'), next !== '');
  if (known) drawStrip();
}

// another is called when another buyer has the page.
function another() {
  begin();
  place();
}

function begin() {
  ends.abort();
  watch.stop();
  ends = new AbortController();
  const whose = ends;
  watch = new Watch(buyer.headers(), (o) => whose === ends && noteOrder(o));
  orders = [];
  next = '';
  for (const card of cards.values()) {
    card.attempt = null;
    card.visit?.stop();
    card.visit = null;
    visit(card);
    card.draw();
  }
  drawOrders();
  loadOrders();
}

// The other tabs of this buyer are told that there is news of an order.
const tabs = 'BroadcastChannel' in globalThis ? new BroadcastChannel('seckill.orders') : null;
const tellTabs = () => tabs?.postMessage(buyer.id());

// ---- start

setup('title');
buyer.setup(another);
orderPage.setup();
onLanguage(() => {
  for (const card of cards.values()) card.draw();
  drawOrders();
  lay();
});
$('chips').append(...Object.keys(groups).map((group) => h('button', { type: 'button', value: group, onclick: () => {
  chosen = chosen === group ? '' : group;
  place();
} })));
$('search').addEventListener('input', place);
$('more').addEventListener('click', more);
$('next').addEventListener('click', jump);
$('check-close').addEventListener('click', () => $('check').close());
$('older').addEventListener('click', () => loadOrders(next));
if (tabs) tabs.onmessage = (e) => e.data === buyer.id() && loadOrders();
document.addEventListener('visibilitychange', async () => {
  if (document.hidden) {
    watch.question.abort();
    return;
  }
  watch.ask();
  for (const card of cards.values()) card.visit?.look();
  loadOrders();
  await poll();
  place();
});
begin();
poll().then(tick);
