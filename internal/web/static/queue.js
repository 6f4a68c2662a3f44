// What the card of a voucher says about its waiting room.

import * as api from './api.js';
import { duration, has, money, moment, number, t } from './i18n.js';

// button returns what the button of a card says: off for one that cannot be pressed, waits for one that cannot be pressed
// now. It is null if there is no room, or nothing to enter.
export function button(card, at) {
  const { room, voucher: v, visit } = card;
  if (!room || at >= card.end) return null;
  const is = visit?.is ?? '';
  switch (is) {
    case 'entering': return { says: t('room.entering'), waits: true };
    case 'draw': return { says: t('room.draw', { left: duration(card.begin - at) }), waits: true };
    case 'waiting': return { says: t('room.place', { n: number(visit.answer.position) }), waits: true };
    case 'called': return { says: t('room.called'), waits: true };
    case 'pass': return { says: v.price_cents > 0 ? t('room.buy', { price: money(v.price_cents) }) : t('room.take') };
    case 'sold_out': return { says: t('card.sold_out'), off: true };
    case 'paused': return { says: t('card.paused'), off: true };
  }
  if (at < card.opens) return { says: t('room.opens', { left: duration(card.opens - at) }), off: true };
  if (at >= card.begin && (v.stock <= 0 || v.paused)) return null;
  return { says: t(is === 'lapsed' || is === 'ordered' ? 'room.again' : 'room.enter'), off: false };
}

// sentence is what a screen reader says: it changes with the state, and not with each look.
export function sentence({ is, answer, trouble, working }) {
  if (working) return [t('room.says.work'), 'waiting'];
  if (trouble && !answer) return [t(key(trouble)), api.temporary(trouble) ? 'waiting' : 'bad'];
  if (trouble) return [t('room.offline'), 'waiting'];
  switch (is) {
    case 'draw': return [t('room.says.draw'), 'waiting'];
    case 'waiting': return [t(scarce(answer) ? 'room.says.scarce' : answer.estimate_s <= 30 ? 'room.says.near' : 'room.says.waiting', { n: number(answer.position) }), 'waiting'];
    case 'called': return [t(answer.awaits === 'units' ? 'room.says.units' : 'room.says.called'), 'waiting'];
    case 'pass': return [t('room.says.pass'), 'good'];
    case 'lapsed': return [t('room.says.lapsed'), 'plain'];
    case 'sold_out': return [t('room.says.sold_out', { n: number(answer.position) }), 'bad'];
    case 'paused': return [t('room.says.paused', { n: number(answer.position) }), 'plain'];
  }
  return ['', ''];
}

// scarce says that there are no more units than people in front: when it is whose turn is not known.
const scarce = (a) => a.units_left !== undefined && a.ahead >= a.units_left;

function key(error) {
  if (error.code === 'room_not_open') return 'room.entering';
  if (api.temporary(error)) return error.status ? 'attempt.busy' : 'attempt.offline';
  return has(`refused.${error.code}`) ? `refused.${error.code}` : 'room.refused';
}

// figures are what changes with each look, and with the time.
export function figures(card, at) {
  const { visit } = card;
  const a = visit?.answer;
  switch (visit?.is ?? '') {
    case '': return at >= card.opens && at < card.begin ? t('room.until', { left: duration(card.begin - at) }) : at < card.opens ? moment(card.begin) : '';
    case 'draw': return t('room.visitors', { n: number(a.waiting) });
    case 'waiting':
      if (scarce(a)) return t('room.ahead.scarce', { n: number(a.ahead), units: number(a.units_left) });
      return t('room.ahead', { n: number(a.ahead), left: duration(1000 * (a.estimate_s ?? 0)) });
    case 'pass': return t('room.left', { left: duration(visit.until - at) });
  }
  return '';
}
