// The card of a voucher. It has one place for what can be done now, and one below it for what there is to say: neither
// changes its size, so that no card moves because of another one.

import * as clock from './clock.js';
import { h, set, show, text } from './dom.js';
import { duration, has, moment, money, number, t, when } from './i18n.js';
import * as queue from './queue.js';
import { live, statusName, statusSentence, statusTone } from './status.js';

// The reasons of a refusal after which this voucher cannot be bought by this buyer.
const closed = new Set(['already_ordered', 'sale_ended']);

// A clock that nobody sees costs nothing: a card counts down while it is in sight, or nearly.
const sight = new IntersectionObserver((changed) => {
  for (const { target, isIntersecting } of changed) {
    const card = cards.get(target);
    card.seen = isIntersecting;
    if (card.voucher) card.tick(clock.now());
  }
}, { rootMargin: '50%' });
const cards = new WeakMap(); // by their elements

export class Card {
  // does has what the buttons do: buy, pay, cancel, and check the draw of a waiting room.
  constructor(id, does) {
    this.id = id;
    this.voucher = null;
    this.order = null; // the buyer's latest order of it
    this.attempt = null; // the last state that purchase.buy has reported, unless there is an order
    this.visit = null; // to the waiting room, if the voucher has one
    this.stop = () => {};
    this.busy = false; // while a payment or a cancellation is asked for
    this.problem = ''; // why that was refused
    const button = (name, act) => h('button', { type: 'button', class: name, onclick: act });
    this.title = h('h3', { id: `v${id}`, dir: 'auto' });
    this.pays = h('strong');
    this.worth = h('s');
    this.off = h('span', { class: 'off' });
    this.level = h('i');
    this.left = h('p');
    this.buy = button('go buy', () => this.trying() || does.buy(this));
    this.pay = button('go pay', () => does.pay(this));
    this.see = h('a', { class: 'go see' });
    this.outcome = h('p', { class: 'outcome', role: 'status', tabindex: -1 });
    this.when = h('p', { class: 'when' });
    this.halt = button('link stop', () => this.stop());
    this.cancel = button('link cancel', () => does.cancel(this));
    this.check = button('link check', () => does.check(this));
    this.element = h('li', { id: `card-${id}` }, h('article', { class: 'card', 'aria-labelledby': `v${id}` },
      h('div', { class: 'face' }, this.title, h('p', { class: 'price' }, this.pays, ' ', this.worth, ' ', this.off)),
      h('div', { class: 'stub' },
        h('div', { class: 'stock' }, h('span', { class: 'bar', 'aria-hidden': 'true' }, this.level), this.left),
        h('div', { class: 'slot' }, this.buy, this.pay, this.see),
        h('div', { class: 'note' }, this.outcome, this.when, this.halt, this.cancel, this.check))));
    cards.set(this.element, this);
    sight.observe(this.element);
  }

  // offer takes over a voucher, and reports whether anything about it is new.
  offer(v) {
    const told = JSON.stringify(v);
    if (told === this.told) return false;
    [this.told, this.voucher, this.begin, this.end] = [told, v, Date.parse(v.begin_at), Date.parse(v.end_at)];
    this.room = v.policy.room ?? null;
    this.opens = this.room ? this.begin - 1000 * this.room.draw_s : Infinity; // the waiting room
    return true;
  }

  trying() {
    return this.attempt?.is === 'trying' || this.attempt?.is === 'again';
  }

  phase(at) {
    return at >= this.end ? 'over' : at >= this.begin ? 'open' : 'soon';
  }

  soldOut(at) {
    return this.voucher.stock <= 0 && at >= this.begin;
  }

  // gone says that nobody can buy this any more, or for the moment.
  gone(at) {
    return this.soldOut(at) || at >= this.end;
  }

  // draw shows the card as it is at this moment of the shop's clock.
  draw() {
    const v = this.voucher;
    text(this.title, v.title);
    text(this.pays, v.price_cents > 0 ? money(v.price_cents) : t('card.free'));
    text(this.worth, v.value_cents > v.price_cents ? money(v.value_cents) : '');
    text(this.off, v.value_cents > v.price_cents ? t('card.off', { percent: Math.round(100 - 100 * v.price_cents / v.value_cents) }) : '');
    const stock = Math.max(0, this.queueing ? this.visit?.answer?.units_left ?? v.stock : v.stock);
    this.level.style.inlineSize = `${v.initial_stock > 0 ? 100 * Math.min(1, stock / v.initial_stock) : 0}%`;
    text(this.left, t('card.left', { left: number(stock), of: number(v.initial_stock) }));
    const focused = this.element.contains(document.activeElement) ? document.activeElement : null;
    this.element.classList.toggle('roomy', this.room !== null);
    this.drawSlot(clock.now());
    this.drawNote();
    this.tick(clock.now(), true);
    if (focused?.hidden || focused?.disabled) this.outcome.focus();
  }

  // tick shows what the clock alone changes.
  tick(at, drawn = false) {
    const phase = this.phase(at);
    const stage = phase + (at >= this.opens);
    if (!drawn && stage !== this.drawnIn) {
      this.draw();
      return;
    }
    this.drawnIn = stage;
    if (!drawn && !this.seen) return;
    if (this.queueing && !this.buy.hidden) this.name(this.buy, queue.button(this, at).says);
    else if (phase === 'soon' && !this.buy.hidden && !this.trying()) this.name(this.buy, t('card.opens', { left: duration(this.begin - at) }));
    const { pay_by: payBy } = this.order ?? {};
    const unpaid = this.order?.status === 'unpaid';
    let says = '';
    if (unpaid && payBy && !this.problem) says = t('bill.left', { left: duration(Date.parse(payBy) - at) });
    else if (this.queueing && !this.attempt && (says = queue.figures(this, at)));
    else if (this.outcome.textContent || unpaid) says = '';
    else if (phase === 'soon') says = moment(this.begin);
    else if (phase === 'over') says = t('card.ended', { when: moment(this.end) });
    else if (this.voucher.stock <= 0) says = this.voucher.returns_at ? t('card.reserved', { at: when(Date.parse(this.voucher.returns_at), at) }) : '';
    else says = t('card.ends', { left: duration(this.end - at) });
    if (this.when.textContent !== says) this.when.textContent = says;
  }

  // name gives a control its text, and for those who do not see the card the voucher's title.
  name(control, says) {
    if (control.firstChild?.data === says) return;
    text(control, says);
    set(control, 'aria-label', `${says}: ${this.voucher.title}`);
  }

  // drawSlot shows what can be done now: buy, pay, or see what was bought.
  drawSlot(at) {
    const v = this.voucher;
    const phase = this.phase(at);
    const owned = this.order !== null && live(this.order.status) && !this.trying();
    const status = owned ? this.order.status : '';
    const refusal = this.attempt?.is === 'refused' ? this.attempt.error.code : '';
    const possible = phase === 'open' && v.stock > 0 && !v.paused && !closed.has(refusal);
    const bought = status === 'confirmed' || status === 'paid';
    const waits = owned || this.trying() || phase === 'over' ? null : queue.button(this, at);
    this.queueing = waits !== null;
    if (this.trying()) this.name(this.buy, t('card.trying'));
    else if (waits) this.name(this.buy, waits.says);
    else if (status === 'pending' || status === 'refunding') this.name(this.buy, statusName(status));
    else if (phase === 'over') this.name(this.buy, t('card.over'));
    else if (phase === 'open' && v.paused && v.stock > 0) this.name(this.buy, t('card.paused'));
    else if (phase === 'open' && !possible) this.name(this.buy, refusal === 'already_ordered' ? t('card.yours') : t(v.returns_at ? 'card.all_reserved' : 'card.sold_out'));
    else if (phase === 'open') this.name(this.buy, v.price_cents > 0 ? t('card.buy', { price: money(v.price_cents) }) : t('card.take'));
    this.buy.disabled = waits ? waits.off : !this.trying() && (owned || !possible);
    set(this.buy, 'aria-disabled', String(this.trying() || waits?.waits === true)); // disabled would lose the focus
    show(this.buy, status !== 'unpaid' && !bought);
    show(this.pay, status === 'unpaid');
    this.name(this.pay, t('bill.pay', { price: money(v.price_cents) }));
    set(this.pay, 'aria-disabled', String(this.busy));
    show(this.see, bought);
    this.name(this.see, t('card.see'));
    if (bought) set(this.see, 'href', `#order=${this.order.order_id}`);
  }

  // drawNote says what became of the attempt, or else of the order.
  drawNote() {
    const [a, order] = [this.attempt, this.order];
    if (order?.status !== 'unpaid') this.problem = '';
    let [says, tone] = ['', ''];
    if (this.problem) [says, tone] = [this.problem, 'bad'];
    else if (a?.is === 'trying') [says, tone] = [t('attempt.trying'), 'waiting'];
    else if (a?.is === 'again') [says, tone] = [t(delay(a.error)), 'waiting'];
    else if (a?.is === 'stopped') [says, tone] = [t('attempt.stopped'), 'plain'];
    else if (a?.is === 'refused') [says, tone] = [refusalText(a.error), a.error.code === 'already_ordered' ? 'plain' : 'bad'];
    else if (this.queueing && (this.visit?.is || this.visit?.trouble)) [says, tone] = queue.sentence(this.visit);
    else if (order) [says, tone] = [statusSentence(order.status), statusTone(order.status)];
    text(this.outcome, says);
    this.outcome.className = `outcome ${tone}`; // never hidden: a screen reader says what changes in what it can see
    show(this.halt, this.trying());
    this.name(this.halt, t('card.stop'));
    show(this.cancel, order?.status === 'unpaid' && !this.trying());
    this.name(this.cancel, t('bill.cancel'));
    set(this.cancel, 'aria-disabled', String(this.busy));
    show(this.check, Boolean(this.visit?.answer?.seed && this.visit.answer.position) && this.queueing);
    this.name(this.check, t('room.check'));
  }
}

// delay names why an attempt waits before it tries again.
function delay(error) {
  if (error.code === 'sale_not_started') return 'attempt.early';
  return error.status ? 'attempt.busy' : 'attempt.offline';
}

export function refusalText(error) {
  const values = { id: error.requestID };
  return has(`refused.${error.code}`) ? t(`refused.${error.code}`, values) : t('refused.internal', values);
}
