// The console: put a voucher on sale, watch what the stores have, and send a rush.

import * as api from './api.js';
import * as chart from './chart.js';
import { definitions } from './definitions.js';
import { $, h, list, open, set, show, text } from './dom.js';
import { follow } from './events.js';
import { duration, has, number, onLanguage, setup, t, tell } from './i18n.js';
import * as offer from './offer.js';
import { named } from './policy.js';
import * as sold from './sold.js';
import * as steer from './steer.js';
import { tab } from './store.js';

const lab = document.documentElement.dataset.mode === 'lab';
const stored = 'seckill.admin';

// ---- who

function headers() {
  const token = tab.get(stored);
  return lab || !token ? {} : { Authorization: `Bearer ${token}` };
}

// failed returns what says in words why a call has failed, and asks for the token if that is why.
function failed(error) {
  if (!(error instanceof api.Refusal)) return () => t('attempt.offline');
  if (error.status === 401 && !lab) askForToken(tab.get(stored) ? t('console.admin.refused') : '');
  const key = error.field ? 'refused.invalid_field' : `refused.${error.code}`;
  return () => t(has(key) ? key : api.temporary(error) ? 'console.busy' : 'refused.internal', {
    field: label(error.field), most: number(error.most), id: error.requestID,
  });
}

// label is the name that a field of the API has on this page.
function label(field) {
  const key = labels[field] ?? field; // that of a policy is the key
  return has(key) ? t(key) : field;
}

const labels = {
  title: 'offer.title', stock: 'offer.stock', price_cents: 'offer.price', value_cents: 'offer.value', pay_within_s: 'offer.pay',
  'policy.room.rate': 'offer.rate', 'policy.room.draw_s': 'offer.draw', 'policy.room.pass_s': 'offer.pass', 'policy.room.work_bits': 'offer.work',
  'room.rate': 'offer.rate', begin_at: 'offer.begins', end_at: 'offer.lasts', 'stock.add': 'steer.add',
};

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
    watched = ''; // what was refused is asked for again
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
  if (vouchers.some((v) => v.id === was)) $('sale').value = was; // otherwise it is gone, and the first one is chosen
  show($('finder'), vouchers.length > 8);
}

// ---- live

let stop = new AbortController();
let seen = []; // figures, the newest last
let gap = false;
let connected = false;
const kept = 120;

let watched = ''; // the voucher's id
const voucher = () => vouchers.find((v) => v.id === watched);
let position = {}; // how far its stream was read

// watch follows the voucher that is chosen, and goes on where it was if that is the same. A hidden page follows nothing.
function watch() {
  stop.abort();
  stop = new AbortController();
  connected = false;
  if ($('sale').value !== watched) {
    [watched, position, seen, gap] = [$('sale').value, { last: '' }, [], false];
    steer.choose(watched);
    sold.choose(voucher());
  }
  draw();
  const { signal } = stop;
  if (!watched || document.hidden) return;
  follow(`/api/v1/vouchers/${watched}/live`, headers, (name, figures) => {
    if (name === 'gap') gap = true;
    else seen = [...seen.slice(1 - kept), figures];
    draw();
  }, (now) => { connected = now; draw(); }, signal, position).catch((error) => text($('link'), failed(error)()));
}

function draw() {
  const now = seen.at(-1);
  text($('link'), !connected ? t('watch.connecting') : gap ? t('watch.gap') : '');
  drawVerdict(now?.audit);
  const policy = voucher()?.policy;
  text($('policy-of'), policy ? t('watch.policy', { policy: named(policy) }) : '');
  drawFigures(now?.audit);
  drawOutcomes(now?.outcomes ?? {});
  drawLock(now);
  const says = chart.draw($('chart'), seen);
  $('chart').setAttribute('aria-label', says || t('watch.waiting'));
  text($('chart-text'), says);
}

function drawFigures(a) {
  const minute = chart.lastMinute(seen);
  const rates = minute.map((now, i) => rate(minute[i - 1], now));
  const took = minute.map((s) => s.latency).filter(Boolean).at(-1);
  const ms = (n) => t(n < 1000 ? 'watch.ms' : 'watch.s', { n: number(Number((n < 1000 ? n : n / 1000).toPrecision(2))) });
  const [redis, database] = a ? [a.stock, a.database_stock] : [];
  definitions($('figures'), [
    ['watch.orders', a && number(a.orders), '', a && t(a.pending ? 'watch.of.pending' : 'watch.of', { n: number(a.initial_stock), pending: number(a.pending) })],
    ['watch.left', a && number(redis), '', a && (database === undefined ? t('watch.left.database') : t('watch.left.redis', { n: number(database) }))],
    ['watch.rate', a && number(rates.at(-1)), '', a && t('watch.rate.most', { n: number(Math.max(...rates)) })],
    ['watch.latency', took && ms(took.p50_ms), '', took && t('watch.latency.rest', { p95: ms(took.p95_ms), p99: ms(took.p99_ms) })],
  ]);
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

// rate is the number of orders per second between two looks.
function rate(before, now) {
  if (!before?.audit || !now?.audit) return 0;
  const seconds = (Date.parse(now.at) - Date.parse(before.at)) / 1000;
  return seconds > 0 ? Math.max(0, Math.round((now.audit.orders - before.audit.orders) / seconds)) : 0;
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
  const none = voucher()?.policy.lock === 'none';
  const rows = l ? [
    ['lock.holder', l.held ? l.owner || t('lock.unnamed') : t('lock.free')],
    ['lock.left', l.held ? (l.ttl_ms === null ? t('lock.forever') : duration(l.ttl_ms)) : undefined],
    ['lock.waiting', l.waiting === null ? undefined : number(l.waiting)],
  ] : [['lock.holder', now && t(passed && !none ? 'lock.mute' : noLock()), true]];
  if (passed && !none) {
    rows.push(['lock.granted', number(passed.found_free + passed.in_process + passed.by_store)]);
    rows.push(['lock.handed', t(`lock.handed.${passed.passing}`,
      { n: number(passed.in_process + passed.by_store), process: number(passed.in_process), store: number(passed.by_store) }), true]);
  }
  definitions($('lock'), rows);
  text($('lock-help'), passed?.passing === 'told' ? t('lock.handed.help') : '');
}

// noLock says why there is no lock that the buyers of the voucher share.
function noLock() {
  const { flow, lock } = voucher()?.policy ?? {};
  if (lock === 'none') return 'lock.none';
  return flow === 'admission' ? 'lock.unseen' : 'lock.each';
}

// ---- rush

function setupRush() {
  tell('rush-outcome', () => t('rush.help'), 'plain');
  $('rush').addEventListener('submit', async (e) => {
    e.preventDefault();
    $('rush-go').disabled = true;
    tell('rush-outcome', () => t('rush.running'), 'waiting');
    try {
      const r = await api.call('POST', `/api/v1/vouchers/${$('sale').value}/rush`, { body: { buyers: Number($('buyers').value) }, wait: 60000 });
      tell('rush-outcome', () => t('rush.done', { sent: number(r.sent), seconds: number(r.took_ms / 1000) }), 'plain');
    } catch (error) {
      tell('rush-outcome', failed(error), 'bad');
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

// ---- for a projector

// project shows one thing alone: 'sale', 'invite', or '' for the whole page again.
function project(what) {
  document.body.dataset.projector = what;
  show($('projector-end'), what !== '');
  if (!what && document.fullscreenElement) document.exitFullscreen();
  draw();
}

function setupProjector() {
  for (const button of document.querySelectorAll('[data-project]')) {
    button.addEventListener('click', async () => {
      await document.documentElement.requestFullscreen?.().catch(() => {}); // the whole window will do
      project(button.dataset.project);
    });
  }
  $('projector-end').addEventListener('click', () => project(''));
  addEventListener('keydown', (e) => e.key === 'Escape' && project(''));
  document.addEventListener('fullscreenchange', () => document.fullscreenElement || project(''));
  addEventListener('resize', draw);
}

// ---- start

setup('console.title');
steer.setup(headers, failed, () => load(), offer.copy);
sold.setup(headers, failed);
offer.setup(headers, load, failed);
setupProjector();
onLanguage(draw);
onLanguage(drawInvitation);
$('sale').addEventListener('input', watch);
$('search').addEventListener('input', drawSales);
document.addEventListener('visibilitychange', watch);
if (lab) setupRush();
else setupToken();
load();
