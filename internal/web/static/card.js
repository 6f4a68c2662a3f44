// The card of a voucher.

import * as clock from './clock.js';
import { h, show, text } from './dom.js';
import { duration, has, moment, money, number, t } from './i18n.js';
import { live, statusSentence, statusTone } from './status.js';

const lab = document.documentElement.dataset.mode === 'lab';

// The reasons of a refusal after which this voucher cannot be bought by this buyer.
const closed = new Set(['already_ordered', 'sale_ended']);

export class Card {
  // does has what the buttons do: buy, pay and cancel.
  constructor(id, does) {
    this.id = id;
    this.voucher = null;
    this.order = null; // the buyer's latest order of it
    this.attempt = null; // the last state that purchase.buy has reported
    this.stop = () => {};
    this.busy = false; // while a payment or a cancellation is asked for
    this.problem = ''; // why that was refused
    this.title = h('h3', { id: `v${id}` });
    this.pays = h('strong');
    this.worth = h('s');
    this.off = h('span', { class: 'off' });
    this.policy = h('p', { class: 'policy' });
    this.big = h('p', { class: 'countdown' });
    this.level = h('i');
    this.left = h('span');
    this.when = h('time');
    this.button = h('button', { type: 'button', class: 'go buy', onclick: () => (this.trying() ? this.stop() : does.buy(this)) });
    this.outcome = h('p', { class: 'outcome', role: 'status', tabindex: -1 });
    this.due = h('p', { class: 'due' });
    this.pay = h('button', { type: 'button', class: 'go pay', onclick: () => does.pay(this) });
    this.cancel = h('button', { type: 'button', class: 'cancel', onclick: () => does.cancel(this) });
    this.bill = h('div', { class: 'bill' }, this.due, this.pay, this.cancel);
    this.element = h('li', {}, h('article', { class: 'card', 'aria-labelledby': `v${id}` },
      h('div', { class: 'face' }, this.title, h('p', { class: 'price' }, this.pays, ' ', this.worth, ' ', this.off), this.policy),
      h('div', { class: 'stub' }, this.big,
        h('div', { class: 'stock' }, h('span', { class: 'bar', 'aria-hidden': 'true' }, this.level), h('p', {}, this.left, this.when)),
        this.button, this.outcome, this.bill)));
  }

  // current is the order that the card is about: the one that was just placed, or the latest of an earlier visit.
  current() {
    const placed = this.attempt?.is === 'order' ? this.attempt.order : null;
    return placed && this.order?.order_id !== placed.order_id ? placed : this.order;
  }

  trying() {
    return this.attempt?.is === 'trying' || this.attempt?.is === 'again';
  }

  // draw shows the card as it is at this moment of the shop's clock.
  draw() {
    const v = this.voucher;
    const at = clock.now();
    const [begin, end] = [Date.parse(v.begin_at), Date.parse(v.end_at)];
    const phase = at >= end ? 'over' : at >= begin ? 'open' : 'soon';
    text(this.title, v.title);
    text(this.pays, v.price_cents > 0 ? money(v.price_cents) : t('card.free'));
    text(this.worth, v.value_cents > v.price_cents ? money(v.value_cents) : '');
    text(this.off, v.value_cents > v.price_cents ? t('card.off', { percent: Math.round(100 - 100 * v.price_cents / v.value_cents) }) : '');
    text(this.policy, lab ? policyName(v.policy) : '');
    text(this.big, phase === 'soon' ? duration(begin - at) : '');
    show(this.big, phase === 'soon');
    const stock = Math.max(0, v.stock);
    this.level.style.inlineSize = `${v.initial_stock > 0 ? 100 * Math.min(1, stock / v.initial_stock) : 0}%`;
    text(this.left, t('card.left', { left: number(stock), of: number(v.initial_stock) }));
    this.when.dateTime = phase === 'soon' ? v.begin_at : v.end_at;
    this.when.title = moment(this.when.dateTime);
    text(this.when, phase === 'soon' ? t('card.opens', { when: moment(v.begin_at) })
      : phase === 'open' ? t('card.ends', { left: duration(end - at) }) : t('card.ended', { when: moment(v.end_at) }));
    const lost = this.drawButton(phase, stock);
    this.drawOutcome();
    if (this.drawBill() || lost) this.outcome.focus();
  }

  // drawButton reports whether the focus was on the button and cannot stay there.
  drawButton(phase, stock) {
    const v = this.voucher;
    const order = this.current();
    const owned = order !== null && live(order.status);
    const refusal = this.attempt?.is === 'refused' ? this.attempt.error.code : '';
    const possible = phase === 'open' && stock > 0 && !closed.has(refusal);
    let says = v.price_cents > 0 ? t('card.buy', { price: money(v.price_cents) }) : t('card.take');
    if (this.trying()) says = t('card.stop');
    else if (phase === 'soon') says = t('card.soon');
    else if (phase === 'over') says = t('card.over');
    else if (!possible) says = refusal === 'already_ordered' ? t('card.yours') : t('card.sold_out');
    text(this.button, says);
    this.button.setAttribute('aria-label', `${says}: ${v.title}`);
    this.button.classList.toggle('stop', this.trying());
    const focused = document.activeElement === this.button;
    this.button.disabled = !this.trying() && !possible;
    show(this.button, !owned || this.trying());
    return focused && (this.button.hidden || this.button.disabled);
  }

  // drawBill shows how an unpaid order is paid or cancelled. It reports whether the focus was there and cannot stay.
  drawBill() {
    const order = this.current();
    const unpaid = order?.status === 'unpaid';
    const focused = this.bill.contains(document.activeElement);
    show(this.bill, unpaid);
    if (!unpaid) {
      this.problem = '';
      return focused;
    }
    const left = order.pay_by ? Math.max(0, Date.parse(order.pay_by) - clock.now()) : null;
    text(this.due, this.problem || (left === null ? '' : t('bill.left', { left: duration(left) })));
    for (const [button, says] of [[this.pay, t('bill.pay', { price: money(this.voucher.price_cents) })], [this.cancel, t('bill.cancel')]]) {
      text(button, says);
      button.setAttribute('aria-label', `${says}: ${this.voucher.title}`);
      button.setAttribute('aria-disabled', this.busy); // disabled would lose the focus
    }
    return false;
  }

  // drawOutcome says what became of the attempt, or else of the order.
  drawOutcome() {
    const [a, order] = [this.attempt, this.current()];
    let [says, tone] = ['', ''];
    if (a?.is === 'trying') [says, tone] = [t('attempt.trying'), 'waiting'];
    else if (a?.is === 'again') [says, tone] = [t(delay(a.error)), 'waiting'];
    else if (a?.is === 'stopped') [says, tone] = [t('attempt.stopped'), 'plain'];
    else if (a?.is === 'refused') [says, tone] = [refusalText(a.error), a.error.code === 'already_ordered' ? 'plain' : 'bad'];
    else if (order) [says, tone] = [statusSentence(order.status), statusTone(order.status)];
    text(this.outcome, says);
    this.outcome.className = `outcome ${tone}`; // never hidden: a screen reader says what changes in what it can see
  }
}

// delay names why an attempt waits before it tries again.
function delay(error) {
  if (error.code === 'sale_not_started') return 'attempt.early';
  return error.status ? 'attempt.busy' : 'attempt.offline';
}

export function refusalText(error) {
  const values = { id: error.requestID, detail: error.detail };
  return has(`refused.${error.code}`) ? t(`refused.${error.code}`, values) : t('refused.internal', values);
}

function policyName(policy) {
  if (policy.flow === 'admission') return t('policy.admission');
  return t('policy.locked', { lock: policy.lock, stock: policy.stock });
}
