// The form that puts a voucher on sale. Each choice is explained below its field.

import * as api from './api.js';
import * as clock from './clock.js';
import { $, h, list, show, text } from './dom.js';
import { onLanguage, t } from './i18n.js';
import { defaults, fields, here, numbers, policyOf, presets, unsafe } from './policy.js';

const inputs = {}; // by the field's name
const helps = {};

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
    input.addEventListener('input', draw);
  };
  for (const [name, options] of Object.entries(fields)) {
    add(name, h('select', {}, ...options.map((o) => h('option', { value: o, disabled: name === 'lock' && !here(o) }, o))));
    if (name === 'lock' || name === 'fault') {
      for (const [number, [min, max]] of Object.entries(numbers)) {
        if ((number === 'pause_ms') === (name === 'fault')) add(number, h('input', { type: 'number', min, max, required: true }));
      }
    }
  }
  $('preset').append(...Object.keys(presets).map((p) => h('option', { value: p })));
  $('preset').addEventListener('input', preset);
}

function preset() {
  for (const [name, value] of Object.entries({ ...defaults, ...presets[$('preset').value] })) inputs[name].value = value;
  if (!$('title').value) $('title').value = t('offer.name'); // the buyers read it: it tells nothing of the policy
  draw();
}

// draw explains what is chosen, hides what it makes meaningless, and warns.
function draw() {
  const form = values();
  for (const [name, input] of Object.entries(inputs)) {
    const row = input.parentElement;
    text(row.firstElementChild, t(`policy.${name}`));
    text(helps[name], name in numbers ? t(`policy.${name}.help`) : t(`policy.${name}.${input.value}`));
    show(row, name === 'flow' || form.flow === 'locked' && (name !== 'pause_ms' || form.fault !== 'none'));
  }
  for (const option of $('preset').options) text(option, t(`preset.${option.value}`));
  const policy = policyOf(form);
  text($('json'), JSON.stringify(policy, null, 1));
  const found = unsafe(policy);
  const lines = found.map((what) => h('p', { class: 'warning bad' }, t(`unsafe.${what}`)));
  if (found.length === 0) lines.push(h('p', { class: 'warning good' }, t('unsafe.none')));
  else if (document.documentElement.dataset.mode !== 'lab') lines.push(h('p', { class: 'warning plain' }, t('unsafe.refused')));
  if (lines.map((l) => l.textContent).join() !== $('warnings').textContent) list($('warnings'), lines);
}

// setup builds the form. sold is called with the voucher that was put on sale.
export function setup(headers, sold, failed) {
  build();
  preset();
  onLanguage(draw);
  $('offer').addEventListener('submit', async (e) => {
    e.preventDefault();
    const later = Number($('begins').value);
    // The server's clock is known to a second: what opens at once has opened a second ago, for certain.
    const begin = clock.now() + 1000 * (later || -1);
    const iso = (ms) => new Date(ms).toISOString();
    try {
      const voucher = await api.call('POST', '/api/v1/vouchers', { headers: headers(), body: {
        title: $('title').value, stock: Number($('stock').value), price_cents: Math.round(100 * Number($('price').value)),
        begin_at: iso(begin), end_at: iso(begin + 60000 * Number($('lasts').value)), policy: policyOf(values()),
        pay_within_s: Number($('paywithin').value),
      } });
      text($('offer-outcome'), t('offer.done', { title: voucher.title }));
      $('offer-outcome').className = 'outcome good';
      sold(voucher);
    } catch (error) {
      text($('offer-outcome'), failed(error));
      $('offer-outcome').className = 'outcome bad';
    }
  });
}
