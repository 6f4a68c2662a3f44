// The form that puts a voucher on sale. Each choice is explained below its field.

import * as api from './api.js';
import * as clock from './clock.js';
import { $, h, list, show, text } from './dom.js';
import { has, onLanguage, t, tell } from './i18n.js';
import { brief, fields, formOf, here, numbers, policyOf, presets, unsafe } from './policy.js';

const inputs = {}; // by the field's name
const helps = {};
let policy; // that is sent; a copied one may say more than the form

// values is what the form says about the policy.
function values() {
  const of = {};
  for (const [name, input] of Object.entries(inputs)) of[name] = name in numbers ? Number(input.value) : input.value;
  return of;
}

function build() {
  const add = (name, input) => {
    inputs[name] = input;
    input.id = `policy-${name}`;
    helps[name] = h('small', { id: `help-${name}` });
    input.setAttribute('aria-describedby', helps[name].id);
    $('policy').append(h('label', { class: 'field', for: input.id }, h('span', { 'data-field': name }), input, helps[name]));
    input.addEventListener('input', () => {
      policy = policyOf(values());
      draw();
    });
  };
  for (const [name, options] of Object.entries(fields)) {
    add(name, h('select', {}, ...options.map((o) => h('option', { value: o, disabled: name === 'lock' && !here(o) }, o))));
    if (name === 'lock' || name === 'fault') {
      for (const [number, [min, max]] of Object.entries(numbers)) {
        if ((number === 'pause_ms') === (name === 'fault')) add(number, h('input', { type: 'number', min, max, required: true }));
      }
    }
  }
  for (const name of Object.keys(presets)) {
    const radio = h('input', { type: 'radio', name: 'preset', value: name, oninput: () => choose(presets[name]) });
    $('presets').append(h('label', { class: 'preset' }, radio, h('b'), h('small'), h('span')));
  }
}

// choose takes over a policy.
function choose(chosen) {
  policy = brief(chosen);
  const form = formOf(policy);
  for (const [name, input] of Object.entries(inputs)) {
    input.value = form[name];
    if (input.value === String(form[name])) continue;
    input.append(h('option', { value: form[name] }, form[name])); // a fault that the form does not offer
    input.value = form[name];
  }
  draw();
}

// draw explains what is chosen, hides what it makes meaningless, and warns.
function draw() {
  const form = values();
  for (const [name, input] of Object.entries(inputs)) {
    const row = input.parentElement;
    const help = name in numbers ? `policy.${name}.help` : `policy.${name}.${input.value}`;
    text(row.firstElementChild, t(`policy.${name}`));
    text(helps[name], has(help) ? t(help) : '');
    show(row, name === 'flow' || form.flow === 'locked' && (name !== 'pause_ms' || form.fault !== 'none'));
  }
  const told = JSON.stringify(policy);
  for (const card of $('presets').querySelectorAll('label')) {
    const [radio, title, help, safety] = card.children;
    const of = presets[radio.value];
    const safe = unsafe(of).length === 0;
    radio.checked = JSON.stringify(of) === told;
    card.classList.toggle('chosen', radio.checked);
    text(title, t(`preset.${radio.value}`));
    text(help, t(`preset.${radio.value}.help`));
    text(safety, t(safe ? 'preset.safe' : 'preset.unsafe'));
    safety.className = `chip ${safe ? 'good' : 'bad'}`;
  }
  show($('offer-room'), $('with-room').checked);
  for (const name of ofRoom) $(name).disabled = !$('with-room').checked; // what is hidden is not checked
  text($('json'), JSON.stringify(whole(), null, 1));
  const found = unsafe(policy);
  const lines = found.map((what) => h('p', { class: 'warning bad' }, t(`unsafe.${what}`)));
  if (found.length === 0) lines.push(h('p', { class: 'warning good' }, t('unsafe.none')));
  else if (document.documentElement.dataset.mode !== 'lab') lines.push(h('p', { class: 'warning plain' }, t('unsafe.refused')));
  if (lines.map((l) => l.textContent).join() !== $('warnings').textContent) list($('warnings'), lines);
}

// The fields of a waiting room.
const ofRoom = ['rate', 'draw_s', 'pass_s', 'work_bits'];

// whole is the policy with the waiting room of the form.
function whole() {
  if (!$('with-room').checked) return policy;
  return { ...policy, room: { ...rest, ...Object.fromEntries(ofRoom.map((name) => [name, Number($(name).value)])) } };
}

let rest = {}; // what a copied room says that the form does not

// copy fills the form with what a voucher was put on sale with.
export function copy(v) {
  $('title').value = v.title;
  $('stock').value = v.initial_stock;
  $('price').value = v.price_cents / 100;
  $('value').value = v.value_cents / 100;
  $('lasts').value = Math.max(1, Math.round((Date.parse(v.end_at) - Date.parse(v.begin_at)) / 60000));
  $('paywithin').value = v.pay_within_s ?? 0;
  const { room, ...of } = v.policy;
  $('with-room').checked = room !== undefined;
  rest = room ?? {};
  for (const name of ofRoom) if (room) $(name).value = room[name] ?? 0;
  choose(of);
  tell('offer-outcome', () => '', '');
  $('title').scrollIntoView({ block: 'center' });
  $('title').focus();
}

// setup builds the form. sold is called with the voucher that was put on sale.
export function setup(headers, sold, failed) {
  build();
  $('title').value = t('offer.name'); // the buyers read it: it tells nothing of the policy
  choose(presets.admission);
  for (const name of ['with-room', ...ofRoom]) $(name).addEventListener('input', draw);
  onLanguage(draw);
  $('offer').addEventListener('submit', async (e) => {
    e.preventDefault();
    const later = Number($('begins').value);
    // The server's clock is known to a second: what opens at once has opened a second ago, for certain.
    const begin = clock.now() + 1000 * (later || -1);
    const iso = (ms) => new Date(ms).toISOString();
    try {
      const voucher = await api.call('POST', '/api/v1/vouchers', { headers: headers(), body: {
        title: $('title').value, stock: Number($('stock').value),
        price_cents: Math.round(100 * Number($('price').value)), value_cents: Math.round(100 * Number($('value').value)),
        begin_at: iso(begin), end_at: iso(begin + 60000 * Number($('lasts').value)), policy: whole(),
        pay_within_s: Number($('paywithin').value),
      } });
      tell('offer-outcome', () => t('offer.done', { title: voucher.title }), 'good');
      sold(voucher);
    } catch (error) {
      tell('offer-outcome', failed(error), 'bad');
    }
  });
}
