// The console: put a voucher on sale, watch what the stores have, and send a rush.

import * as api from './api.js';
import { $, h, list, open, set, show, text } from './dom.js';
import { follow } from './events.js';
import { duration, has, number, onLanguage, setup, t } from './i18n.js';
import * as offer from './offer.js';
import { named } from './policy.js';
import * as steer from './steer.js';
import { tab } from './store.js';

const lab = document.documentElement.dataset.mode === 'lab';
const stored = 'seckill.admin';

// ---- who

function headers() {
  const token = tab.get(stored);
  return lab || !token ? {} : { Authorization: `Bearer ${token}` };
}

// failed says in words why a call has failed, and asks for the token if that is why.
function failed(error) {
  if (!(error instanceof api.Refusal)) return t('attempt.offline');
  if (error.status === 401 && !lab) askForToken(tab.get(stored) ? t('console.admin.refused') : '');
  const key = `refused.${error.code}`;
  return t(has(key) ? key : api.temporary(error) ? 'console.busy' : 'refused.internal', { detail: error.detail, id: error.requestID });
}

// askForToken opens the dialog. The reason is why it was opened, or ''.
function askForToken(reason = '') {
  text($('identity-error'), reason);
  open($('identity'));
  $('token').focus();
}

function setupToken() {
  $('admin').addEventListener('click', () => askForToken());
  $('identity-cancel').addEventListener('click', () => $('identity').close());
  $('identity').querySelector('form').addEventListener('submit', (e) => {
    e.preventDefault();
    tab.set(stored, $('token').value.trim());
    $('token').value = '';
    $('identity').close();
    watch();
  });
  if (!tab.get(stored)) askForToken();
}

// ---- which sale

let vouchers = [];

// load lists what is open, what comes next, and what was over last. created is a voucher that the lists may not have yet.
async function load(created = null) {
  try {
    const pages = await Promise.all([api.vouchers('open', '-begin_at'), api.vouchers('soon', 'begin_at'), api.vouchers('over', '-begin_at')]);
    vouchers = pages.flatMap((page) => page.vouchers).filter((v) => v.id !== created?.id);
    if (created) vouchers.unshift(created);
    show($('notice'), false);
  } catch {
    text($('notice'), t('shop.trouble'));
    show($('notice'), true);
    setTimeout(load, 3000, created);
    return;
  }
  drawSales();
  if (created) $('sale').value = created.id;
  watch();
}

// drawSales lists the vouchers whose titles have what is searched for.
function drawSales() {
  const was = $('sale').value;
  const sought = $('search').value.trim().toLowerCase();
  list($('sale'), vouchers.filter((v) => v.id === was || v.title.toLowerCase().includes(sought)).map((v) => h('option', { value: v.id }, v.title)));
  if (was) $('sale').value = was;
  show($('finder'), vouchers.length > 8);
}

// ---- live

let stop = new AbortController();
let seen = []; // figures, the newest last
let gap = false;
let connected = false;
const kept = 300;

let watched = ''; // the voucher
let position = {}; // how far its stream was read

// watch follows the voucher that is chosen, and goes on where it was if that is the same. A hidden page follows nothing.
function watch() {
  stop.abort();
  stop = new AbortController();
  connected = false;
  if ($('sale').value !== watched) steer.choose($('sale').value);
  if ($('sale').value !== watched) [watched, position, seen, gap] = [$('sale').value, { last: '' }, [], false];
  draw();
  const { signal } = stop;
  if (!watched || document.hidden) return;
  follow(`/api/v1/vouchers/${watched}/live`, headers, (name, figures) => {
    if (name === 'gap') gap = true;
    else seen = [...seen.slice(1 - kept), figures];
    draw();
  }, (now) => { connected = now; draw(); }, signal, position).catch((error) => text($('link'), failed(error)));
}

function draw() {
  const now = seen.at(-1);
  text($('link'), !connected ? t('watch.connecting') : gap ? t('watch.gap') : '');
  drawVerdict(now?.audit);
  const policy = vouchers.find((v) => v.id === watched)?.policy;
  text($('policy-of'), policy ? t('watch.policy', { policy: named(policy) }) : '');
  const a = now?.audit;
  definitions($('figures'), [
    ['watch.orders', a && number(a.orders)], ['watch.rate', a && number(rate())], ['watch.pending', a && number(a.pending)],
    ['watch.initial', a && number(a.initial_stock)],
    ['watch.stock.redis', a && (a.database_stock === undefined ? t('watch.unused') : number(a.stock))],
    ['watch.stock.database', a && number(a.database_stock ?? a.stock)],
  ]);
  drawOutcomes(now?.outcomes ?? {});
  drawLock(now);
  drawChart();
}

// drawVerdict is the audit at a glance.
function drawVerdict(a) {
  let [says, tone] = [t('watch.waiting'), 'plain'];
  if (a === null) [says, tone] = [t('watch.unknown'), 'waiting'];
  else if (a?.oversold > 0) [says, tone] = [t('watch.oversold', { n: number(a.oversold) }), 'alarm'];
  else if (a?.duplicate_orders > 0) [says, tone] = [t('watch.duplicates', { n: number(a.duplicate_orders) }), 'alarm'];
  else if (a && !a.balanced && a.pending === 0) [says, tone] = [t('watch.unaccounted', { n: number(a.unaccounted) }), 'alarm'];
  else if (a?.pending > 0) [says, tone] = [t('watch.under_way'), 'plain'];
  else if (a) [says, tone] = [t('watch.balanced'), 'good'];
  text($('verdict'), says);
  $('verdict').className = `verdict ${tone}`;
}

// rate is the number of orders per second between the last two looks.
function rate() {
  const [before, now] = [seen.at(-2), seen.at(-1)];
  if (!before?.audit || !now?.audit) return 0;
  const seconds = (Date.parse(now.at) - Date.parse(before.at)) / 1000;
  return seconds > 0 ? Math.round((now.audit.orders - before.audit.orders) / seconds) : 0;
}

// definitions writes rows of a name, a value and whether the value is words rather than a number.
function definitions(dl, rows) {
  list(dl, rows.map(([key, value, words], i) => {
    const row = dl.children[i] ?? h('div', {}, h('dt'), h('dd'));
    text(row.firstElementChild, t(key));
    text(row.lastElementChild, value ?? '–');
    row.className = words ? 'words' : '';
    return row;
  }));
}

function drawOutcomes(outcomes) {
  const all = Object.entries(outcomes).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...all.map(([, n]) => n));
  list($('outcomes'), all.map(([code, n], i) => {
    const row = $('outcomes').children[i] ?? h('li', {}, h('span'), h('b'), h('i', { 'aria-hidden': 'true' }));
    const key = `answer.${code}`;
    text(row.children[0], has(key) ? t(key) : code);
    text(row.children[1], number(n));
    row.children[2].style.inlineSize = `${100 * n / most}%`;
    row.children[2].className = ['confirmed', 'pending', 'unpaid', 'replayed'].includes(code) ? 'sold' : '';
    return row;
  }));
}

// drawLock shows the lock on the voucher: who has it, and how it came to its holders.
function drawLock(now) {
  const [l, passed] = [now?.lock, now?.handovers];
  const rows = l ? [
    ['lock.holder', l.held ? l.owner || t('lock.unnamed') : t('lock.free')],
    ['lock.left', l.held ? (l.ttl_ms === null ? t('lock.forever') : duration(l.ttl_ms)) : undefined],
    ['lock.waiting', l.waiting === null ? undefined : number(l.waiting)],
  ] : [['lock.holder', now && t(passed ? 'lock.mute' : noLock()), true]];
  if (passed) {
    rows.push(['lock.granted', number(passed.found_free + passed.in_process + passed.by_store)]);
    rows.push(['lock.handed', t(`lock.handed.${passed.passing}`,
      { n: number(passed.in_process + passed.by_store), process: number(passed.in_process), store: number(passed.by_store) }), true]);
  }
  definitions($('lock'), rows);
  text($('lock-help'), passed?.passing === 'told' ? t('lock.handed.help') : '');
}

// noLock says why there is no lock that the buyers of the voucher share.
function noLock() {
  const policy = vouchers.find((v) => v.id === $('sale').value)?.policy;
  return policy?.flow === 'admission' ? 'lock.unseen' : 'lock.each';
}

const svg = (name, attributes) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return e;
};

// drawChart draws the orders that were counted, over the time of the looks, and the initial stock.
function drawChart() {
  const points = seen.filter((s) => s.audit);
  const parts = [];
  let says = '';
  if (points.length > 1) {
    const [from, to] = [Date.parse(points[0].at), Date.parse(points.at(-1).at)];
    const stock = points.at(-1).audit.initial_stock;
    const top = 1.08 * Math.max(stock, ...points.map((p) => p.audit.orders));
    const y = (n) => (156 - 150 * n / top).toFixed(1);
    const x = (p) => (600 * (Date.parse(p.at) - from) / Math.max(1, to - from)).toFixed(1);
    parts.push(svg('line', { x1: 0, x2: 600, y1: y(stock), y2: y(stock), class: 'limit' }));
    parts.push(svg('polyline', { points: points.map((p) => `${x(p)},${y(p.audit.orders)}`).join(' '), class: 'orders' }));
    says = t('watch.chart.text', { seconds: number(Math.round((to - from) / 1000)), orders: number(points.at(-1).audit.orders), stock: number(stock) });
  }
  $('chart').replaceChildren(...parts);
  $('chart').setAttribute('aria-label', says || t('watch.waiting'));
  text($('chart-text'), says);
}

// ---- rush

function setupRush() {
  $('rush').addEventListener('submit', async (e) => {
    e.preventDefault();
    $('rush-go').disabled = true;
    text($('rush-outcome'), t('rush.running'));
    $('rush-outcome').className = 'outcome waiting';
    try {
      const r = await api.call('POST', `/api/v1/vouchers/${$('sale').value}/rush`, { body: { buyers: Number($('buyers').value) }, wait: 60000 });
      text($('rush-outcome'), t('rush.done', { sent: number(r.sent), seconds: number(r.took_ms / 1000) }));
      $('rush-outcome').className = 'outcome plain';
    } catch (error) {
      text($('rush-outcome'), failed(error));
      $('rush-outcome').className = 'outcome bad';
    }
    $('rush-go').disabled = false;
  });
}

// ---- the invitation

function drawInvitation() {
  const address = `${location.origin}/`;
  set($('qr'), 'src', `/qr.svg?text=${encodeURIComponent(address)}`);
  $('qr').alt = t('invite.code', { address });
  text($('address'), address);
  const local = ['localhost', '[::1]'].includes(location.hostname) || location.hostname.startsWith('127.');
  text($('invite-help'), t(local ? 'invite.local' : 'invite.room'));
}

// ---- start

setup('console.title');
steer.setup(headers, failed, () => load());
offer.setup(headers, load, failed);
onLanguage(draw);
onLanguage(drawInvitation);
$('sale').addEventListener('input', watch);
$('search').addEventListener('input', drawSales);
document.addEventListener('visibilitychange', watch);
if (lab) setupRush();
else setupToken();
load();
