// Steering a sale: pause it, add units, move its end, copy or delete it, and see who did what before.

import * as api from './api.js';
import * as clock from './clock.js';
import { $, h, list, text } from './dom.js';
import { moment, number, onLanguage, t, tell } from './i18n.js';
import * as room from './steerroom.js';

let chosen = '';
let voucher = null;
let changes = [];
let sending = false;
let headers, failed, gone;

const path = () => `/api/v1/vouchers/${chosen}`;

// choose shows another voucher, or what has become of the same one.
export async function choose(id) {
  if (id !== chosen) [voucher, changes] = [null, []];
  chosen = id;
  draw();
  if (!id) return;
  try {
    const [v, c] = await Promise.all([api.call('GET', path()), api.call('GET', `${path()}/changes?limit=5`, { headers: headers() })]);
    if (id === chosen) [voucher, changes] = [v, c.changes];
  } catch (error) {
    if (id !== chosen) return;
    tell('steer-outcome', failed(error), 'bad');
    if (api.temporary(error)) setTimeout(() => id === chosen && choose(id), 3000);
  }
  draw();
}

function draw() {
  for (const e of $('steer').querySelectorAll('button, input')) e.disabled = !voucher || sending;
  room.choose(voucher, sending);
  text($('steer-pause'), t(voucher?.paused ? 'steer.resume' : 'steer.pause'));
  text($('steer-state'), voucher ? t(voucher.paused ? 'steer.is_paused' : 'steer.ends', { at: moment(Date.parse(voucher.end_at)) }) : '');
  list($('changes'), changes.map((c) => h('li', {}, `${moment(Date.parse(c.at))} · ${c.by} · ${c.address} · ${c.fields.map(change).join(', ')}`)));
}

// change is one field of a change, in words.
function change({ field, from, to }) {
  if (field === 'room') return t('steer.room_closed');
  if (field === 'paused') return t(to ? 'steer.was_paused' : 'steer.was_resumed');
  const value = (v) => (field.endsWith('_at') ? moment(Date.parse(v)) : typeof v === 'number' ? number(v) : String(v));
  return t(`steer.field.${field.replace('.', '_')}`, { from: value(from), to: value(to) });
}

// send changes the voucher as it was seen. Who has been overtaken by somebody else is told so, and sees it as it is.
async function send(method, body) {
  const [id, revision] = [chosen, voucher.revision];
  sending = true; // until the voucher is read again
  draw();
  try {
    await api.call(method, path(), { headers: { ...headers(), 'If-Match': `"${revision}"` }, body });
    tell('steer-outcome', () => t('steer.done'), 'good');
    if (method === 'DELETE') await gone();
  } catch (error) {
    tell('steer-outcome', failed(error), 'bad');
  }
  if (id === chosen) await choose(id); // another sale may have been chosen meanwhile
  sending = false;
  draw();
}

export function setup(auth, words, deleted, copy) {
  [headers, failed, gone] = [auth, words, deleted];
  room.setup(send);
  onLanguage(draw);
  $('steer').addEventListener('submit', (e) => {
    e.preventDefault();
    send('PATCH', { stock: { add: Number($('steer-add').value) } });
  });
  $('steer-pause').addEventListener('click', () => send('PATCH', { paused: !voucher.paused }));
  $('steer-end-go').addEventListener('click', () => send('PATCH', { end_at: new Date(clock.now() + 60000 * Number($('steer-end').value)).toISOString() }));
  $('steer-copy').addEventListener('click', () => copy(voucher));
  $('steer-delete').addEventListener('click', () => send('DELETE'));
}
