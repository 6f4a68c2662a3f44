// The waiting room of the sale that is steered: who waits, and how fast it lets them in.

import * as api from './api.js';
import { definitions } from './definitions.js';
import { $, show, text } from './dom.js';
import { number, onLanguage, t } from './i18n.js';

const every = 2000; // ms

// The slider goes by powers of ten: from 1 to a million a second.
const rateOf = (value) => Math.round(Number((10 ** value).toPrecision(2)));

let voucher = null;
let room = null; // as everybody sees it
let timer = 0;
let held = false; // somebody has the slider
let changing = false; // the room may be closed by now

// choose shows the room of a voucher; null for none. A hidden page asks nothing.
export function choose(v, sending) {
  if (v?.id !== voucher?.id) room = null;
  [voucher, changing] = [v, sending];
  if (v?.policy.room && !held) $('room-rate').value = Math.log10(v.policy.room.rate);
  draw();
  look();
}

async function look() {
  clearTimeout(timer);
  const of = voucher;
  if (!of?.policy.room || changing || document.hidden) return;
  try {
    const now = await api.call('GET', `/api/v1/vouchers/${of.id}/room`);
    if (of.id === voucher?.id) room = now;
  } catch { // the figures stay as they are
  }
  draw();
  clearTimeout(timer);
  timer = setTimeout(look, every);
}

function draw() {
  const has = Boolean(voucher?.policy.room);
  show($('room'), has);
  if (!has) return;
  text($('room-rate-is'), t('room.rate', { n: number(rateOf($('room-rate').value)) }));
  const drawn = room?.drawn !== undefined;
  definitions($('room-figures'), [
    ['room.arrived', room && number(drawn ? room.waiting + room.serving : room.waiting), '', drawn ? t('room.in_draw', { n: number(room.drawn) }) : ''],
    ['room.waits', room && number(room.waiting)],
    ['room.served', room && number(room.serving)],
    ['room.passes', room && number(room.passes_issued ?? 0), '', room?.passes_issued ? t('room.passes_are', { used: number(room.passes_used), lapsed: number(room.passes_lapsed) }) : ''],
    ['room.units', room?.units_left === undefined ? undefined : number(room.units_left)],
  ]);
}

// setup connects the slider. send changes the voucher.
export function setup(send) {
  onLanguage(draw);
  $('room-rate').addEventListener('input', () => { held = true; draw(); });
  $('room-rate').addEventListener('change', () => {
    held = false;
    send('PATCH', { room: { rate: rateOf($('room-rate').value) } });
  });
  $('room-close').addEventListener('click', () => send('PATCH', { room: null }));
  document.addEventListener('visibilitychange', look);
}
