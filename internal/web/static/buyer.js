// The buyer of this tab: in lab mode a number, otherwise the subject of a token. Each tab keeps its own, so several tabs
// are several buyers.

import { $, open, text } from './dom.js';
import { onLanguage, t } from './i18n.js';
import { browser, tab } from './store.js';

const lab = document.documentElement.dataset.mode === 'lab';
const stored = lab ? 'seckill.buyer' : 'seckill.token';

let listeners = [];

// draw returns a number that is most likely nobody else's in the room.
function draw() {
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return String(100000000 + random % 900000000);
}

// The number of a tab that was closed is taken by the next one that is opened: so a buyer who comes back is the same.
const left = 'seckill.buyer.left';

function value() {
  let v = tab.get(stored);
  if (!v && lab) {
    v = browser.get(left) || draw();
    tab.set(stored, v);
  }
  return v;
}

function take() {
  if (browser.get(left) === value()) browser.set(left, '');
}

// headers are the headers that say who buys; null while nobody does.
export function headers() {
  const v = value();
  if (!v) return null;
  return lab ? { 'X-User-ID': v } : { Authorization: `Bearer ${v}` };
}

// id is the buyer's number, or '' if there is none.
export function id() {
  if (lab) return value();
  try { // for the display only: the server checks the token
    const payload = value().split('.')[1].replace(/-/g, '+').replace(/_/g, '/');
    return String(JSON.parse(atob(payload)).sub ?? '');
  } catch {
    return '';
  }
}

const grouped = (n) => n.replace(/\B(?=(\d{3})+$)/g, ' '); // a narrow space

// ask opens the dialog. The reason is why it was opened, or ''.
export function ask(reason = '') {
  const field = lab ? $('number') : $('token');
  field.value = lab ? value() : '';
  text($('identity-error'), reason);
  open($('identity'));
  field.focus();
  field.select();
}

function accept() {
  const field = lab ? $('number') : $('token');
  const v = field.value.replace(lab ? /\s/g : /^\s*(Bearer\s)?\s*|\s+$/gi, '');
  const valid = lab ? /^[1-9]\d{0,18}$/.test(v) && BigInt(v) < 2n ** 63n : /^[\w-]+\.[\w-]+\.[\w-]+$/.test(v);
  if (!valid) {
    text($('identity-error'), t(lab ? 'who.lab.invalid' : 'who.token.invalid'));
    field.focus();
    return;
  }
  $('identity').close();
  if (v === tab.get(stored)) return;
  tab.set(stored, v);
  changed();
}

function changed() {
  label();
  for (const f of listeners) f();
}

function label() {
  const known = id();
  let says = t('who.nobody');
  if (known) says = t('who.buyer', { id: grouped(known) });
  else if (headers()) says = t('who.somebody');
  text($('who'), says);
  $('who').title = t('who.change');
}

// setup connects the button and the dialog. changed is called when another buyer was chosen.
export function setup(whenChanged) {
  listeners.push(whenChanged);
  $('who').addEventListener('click', () => ask());
  $('identity-cancel').addEventListener('click', () => $('identity').close());
  $('draw')?.addEventListener('click', () => { $('number').value = draw(); });
  $('identity').querySelector('form').addEventListener('submit', (e) => {
    e.preventDefault();
    accept();
  });
  onLanguage(label);
  if (!lab) return;
  take();
  addEventListener('pageshow', take);
  addEventListener('pagehide', () => browser.set(left, value()));
}
