// The check of a draw: from the seed, which is published after it, everybody computes every position. A ticket's lot is
// the SHA-256 of the seed and its number as eight bytes, and the smallest lot is first.

import { $, open, show, text } from './dom.js';
import { number, t } from './i18n.js';
import { hasher, inPieces } from './sha256.js';

const bytes = (hex) => Uint8Array.from(hex.match(/../g), (b) => parseInt(b, 16));
const digits = (words) => Array.from(words, (n) => n.toString(16).padStart(8, '0')).join('');

// numberOf reads the number that a ticket has: the eight bytes behind the user's eight.
function numberOf(ticket) {
  const all = atob(ticket.replace(/-/g, '+').replace(/_/g, '/'));
  return [...all.slice(8, 16)].reduce((n, c) => n * 256 + c.charCodeAt(0), 0);
}

function less(a, b) {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i];
  return false;
}

// position computes the position of one of n tickets, from 1.
function position(seed, n, mine, progress, signal) {
  const [hash, content] = [hasher(seed), new Uint8Array(8)];
  const lot = (i) => {
    new DataView(content.buffer).setUint32(4, i); // there are fewer than 2^32
    return hash(content);
  };
  const own = lot(mine);
  let [i, at] = [0, 1];
  return inPieces(() => {
    for (const to = Math.min(n, i + 100); i < to; i++) if (less(lot(i), own)) at++;
    progress(i / n);
    return i === n ? at : undefined;
  }, signal);
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
  if (digits(hasher(bytes(seed))(new Uint8Array(0))) !== commitment) return tell(t('check.seed'), 'bad');
  tell(t('check.runs'), 'waiting');
  show($('check-bar'), true);
  const closed = new AbortController();
  dialog.addEventListener('close', () => closed.abort(), { once: true });
  const got = await position(bytes(seed), drawn, mine, (done) => { $('check-bar').value = done; }, closed.signal);
  show($('check-bar'), false);
  if (got === answer.position) tell(t('check.right', { n: number(got) }), 'good');
  else if (got) tell(t('check.wrong', { n: number(got), told: number(answer.position) }), 'bad');
}
