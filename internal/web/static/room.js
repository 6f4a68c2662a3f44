// A visit to the waiting room of a voucher: from the ticket to the pass.
//
// The ticket is the buyer's: another device gets the same one, and this browser keeps it. A page that is hidden looks
// seldom, and claims no pass: whose turn it is, for them it stays, and a pass has its time only once somebody can see it.

import * as api from './api.js';
import * as buyer from './buyer.js';
import * as clock from './clock.js';
import { pause } from './purchase.js';
import { browser } from './store.js';

// How seldom a hidden page looks, in ms, unless the turn comes earlier.
const hiddenPause = 60000;

const name = (voucherID) => `seckill.room.${buyer.id()}.${voucherID}`;

// The states in which nothing comes by itself.
const still = new Set(['ordered', 'lapsed', 'ended']);

export class Visit {
  // told is called with each change.
  constructor(voucherID, told) {
    this.path = `/api/v1/vouchers/${voucherID}/room`;
    this.name = name(voucherID);
    this.headers = buyer.headers();
    this.told = told;
    // What was committed to when the ticket was given is what the draw is checked with.
    [this.ticket, this.commitment = ''] = browser.get(this.name).split(' ');
    this.answer = null; // the last one about this ticket
    this.trouble = null; // why there is none
    this.until = 0; // when the pass lapses, by the page's clock
    this.entering = false;
    this.proof = ''; // of work
    this.working = false;
    this.end = new AbortController();
    this.asleep = new AbortController();
  }

  // is returns the state of the visit: one of the API's, 'entering', or '' without a ticket.
  get is() {
    if (this.entering) return 'entering';
    return this.ticket ? this.answer?.state ?? 'entering' : '';
  }

  // enter asks for a ticket, and follows it. Whose pass has lapsed gets another ticket.
  enter() {
    if (this.entering) return;
    this.entering = true;
    this.restart();
  }

  // resume follows the ticket that was kept, if there is one.
  resume() {
    if (this.ticket) this.restart();
  }

  stop() {
    this.end.abort();
  }

  // look asks at once, when somebody sees the page again.
  look() {
    if (this.ticket && !still.has(this.is)) this.asleep.abort();
  }

  restart() {
    this.end.abort();
    this.end = new AbortController();
    this.told(this);
    this.run(this.end.signal);
  }

  // again looks anew at what has become of a pass: it may have lapsed.
  again() {
    this.answer = { ...this.answer, state: 'called', pass: undefined };
    this.restart();
  }

  async run(signal) {
    for (let failed = 0; !signal.aborted;) {
      this.asleep = new AbortController();
      let wait;
      try {
        const answer = this.entering ? await this.take(signal) : await this.ask(signal);
        if (signal.aborted) return;
        this.note(answer);
        if (still.has(answer.state)) return;
        [failed, wait] = [0, this.next(answer)];
      } catch (error) {
        if (signal.aborted) return;
        if (error.workBits && !this.proof) {
          await this.work(error, signal);
          continue;
        }
        if (!this.fail(error)) return;
        failed++;
        wait = 1000 * (error.retryAfter || Math.min(failed, 5)) + Math.random() * 700;
      }
      const wake = () => this.asleep.abort();
      signal.addEventListener('abort', wake);
      await pause(wait, this.asleep.signal);
      signal.removeEventListener('abort', wake);
    }
  }

  // take gets the ticket.
  async take(signal) {
    const shown = this.ticket ? { 'Room-Ticket': this.ticket } : {};
    const proof = this.proof ? { 'Room-Work': this.proof } : {};
    const answer = await api.call('POST', this.path, { headers: { ...this.headers, ...shown, ...proof }, signal });
    if (answer.ticket !== this.ticket) {
      [this.ticket, this.commitment] = [answer.ticket, answer.commitment];
      browser.set(this.name, `${this.ticket} ${this.commitment}`);
    }
    this.entering = false;
    return answer;
  }

  // work does what the room asks for before it gives a ticket.
  async work({ commitment, workBits }, signal) {
    this.working = true;
    this.told(this);
    const { prove } = await import('./work.js');
    this.proof = await prove(commitment, buyer.id(), workBits, signal) ?? '';
    this.working = false;
  }

  // ask looks at the room. Nobody claims a pass that nobody sees.
  async ask(signal) {
    const had = this.answer;
    if (!document.hidden || had?.pass) return api.call('GET', this.path, { headers: { ...this.headers, 'Room-Ticket': this.ticket }, signal });
    if (!had?.position) return this.take(signal); // it tells the position, and claims nothing
    const now = await api.call('GET', this.path, { signal });
    const ahead = Math.max(0, had.position - now.serving - 1);
    const called = now.state === 'waiting' && now.serving >= had.position;
    const estimate = called || had.estimate_s === undefined ? undefined : Math.ceil(had.estimate_s * (ahead + 1) / (had.ahead + 1));
    return { ...had, ...now, ahead, estimate_s: estimate, state: called ? 'called' : now.state };
  }

  note(answer) {
    this.answer = answer;
    this.trouble = null;
    if (answer.pass) this.until = clock.now() + answer.pass_for_ms;
    this.told(this);
  }

  // next is when to ask again, in ms.
  next(answer) {
    if (answer.pass) return answer.pass_for_ms + 1000;
    if (!document.hidden) return answer.poll_after_ms;
    if (answer.state === 'draw') return Math.max(answer.poll_after_ms, Date.parse(answer.opens_at) - clock.now() - 20000);
    // Twice as near each time.
    return Math.max(answer.poll_after_ms, answer.estimate_s === undefined ? hiddenPause : 500 * answer.estimate_s);
  }

  // fail reports whether asking again may help.
  fail(error) {
    if (!(error instanceof api.Refusal) && !(error instanceof api.NoAnswer)) throw error;
    this.trouble = error;
    // The clocks of instances differ a little.
    const opens = error.code === 'room_not_open';
    const again = opens || api.temporary(error);
    if (!again) {
      this.entering = false;
      this.forget();
    }
    this.told(this);
    return again;
  }

  // forget is for a ticket that is of no use any more.
  forget() {
    browser.set(this.name, '');
    [this.ticket, this.answer] = ['', null];
  }
}
