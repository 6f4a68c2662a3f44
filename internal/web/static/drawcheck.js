// The check of a draw: from the seed, which is published after it, everybody computes every position. A ticket's lot is
// the SHA-256 of the seed and its number as eight bytes, and the smallest lot is first.

import { $, open, show, text } from './dom.js';
import { number, t } from './i18n.js';

const bytes = (hex) => Uint8Array.from(hex.match(/../g), (b) => parseInt(b, 16));
const digits = (b) => Array.from(b, (n) => n.toString(16).padStart(2, '0')).join('');
const sha256 = async (b) => new Uint8Array(await crypto.subtle.digest('SHA-256', b));

// numberOf reads the number that a ticket has: the eight bytes behind the user's eight.
export function numberOf(ticket) {
  const all = atob(ticket.replace(/-/g, '+').replace(/_/g, '/'));
  return [...all.slice(8, 16)].reduce((n, c) => n * 256 + c.charCodeAt(0), 0);
}

function less(a, b) {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i];
  return false;
}

// position computes the position of one of n tickets, from 1.
async function position(seed, n, mine, progress) {
  const lot = (i) => {
    const content = new Uint8Array(seed.length + 8);
    content.set(seed);
    new DataView(content.buffer).setBigUint64(seed.length, BigInt(i));
    return sha256(content);
  };
  const own = await lot(mine);
  let at = 1;
  for (let from = 0; from < n; from += 1000) {
    const lots = await Promise.all(Array.from({ length: Math.min(1000, n - from) }, (_, i) => lot(from + i)));
    for (const other of lots) if (less(other, own)) at++;
    if (!progress(Math.min(n, from + 1000))) return 0;
  }
  return at;
}

// check shows what the draw of a visit is made of, and computes the position again.
export async function check({ answer, ticket, commitment }) {
  const dialog = $('check');
  const [mine, { seed, drawn }] = [numberOf(ticket), answer];
  text($('check-facts'), `seed = ${seed}\ncommitment = ${commitment}\ntickets = ${drawn}\nnumber = ${mine}\nposition = ${answer.position}`);
  const tell = (says, tone) => {
    text($('check-outcome'), says);
    $('check-outcome').className = `outcome ${tone}`;
  };
  open(dialog);
  if (mine >= drawn) return tell(t('check.behind', { n: number(mine + 1) }), answer.position === mine + 1 ? 'good' : 'bad');
  // A page that is not served over TLS has no crypto.subtle.
  if (!globalThis.crypto.subtle) return tell(t('check.cannot'), 'plain');
  tell(t('check.runs'), 'waiting');
  if (digits(await sha256(bytes(seed))) !== commitment) return tell(t('check.seed'), 'bad');
  show($('check-bar'), true);
  const got = await position(bytes(seed), drawn, mine, (done) => {
    $('check-bar').value = done / drawn;
    return dialog.open;
  });
  show($('check-bar'), false);
  if (got === answer.position) tell(t('check.right', { n: number(got) }), 'good');
  else if (got) tell(t('check.wrong', { n: number(got), told: number(answer.position) }), 'bad');
}
