// The numbers of an experiment that can be changed, and the command line that does the same.

import { folded, h, show, text } from './dom.js';
import { own, t } from './i18n.js';
import { copying } from './labcopy.js';

// numbers makes the fields. values keeps what was typed, by name.
export function numbers(e, values, changedNow) {
  const inputs = e.parameters.map((p) => {
    const id = `p-${p.name}`;
    const change = () => {
      values[p.name] = field.value;
      refresh();
      changedNow();
    };
    const now = values[p.name] ?? p.value;
    const field = p.choices.length > 0
      ? h('select', { id, onchange: change }, ...p.choices.map((c) => h('option', { value: c, selected: c === now }, c)))
      : h('input', { id, value: now, autocomplete: 'off', spellcheck: 'false', oninput: change, 'aria-describedby': `${id}-about` });
    return { p, field, element: h('div', { class: 'field' }, h('label', { for: id }, h('code', {}, `--${p.name}`)), field,
      h('small', { id: `${id}-about` }, about(p))) };
  });
  const slow = slowMotion(e.stretches ? inputs : [], () => {
    for (const { p, field } of inputs) values[p.name] = field.value;
    refresh();
    changedNow();
  });
  const command = h('code', {});
  const [copy, copied] = copying(command, t('lab.copy'));
  const reset = h('button', { type: 'button', class: 'quiet', onclick: () => {
    for (const { p, field } of inputs) {
      field.value = p.value;
      delete values[p.name];
    }
    refresh();
    changedNow();
  } }, t('lab.reset'));
  const element = h('div', { class: 'numbers-form' },
    inputs.length > 0 && folded(`${e.id} numbers`, { open: Object.keys(changed()).length > 0 }, t('lab.numbers'),
      slow.element, h('div', { class: 'two' }, ...inputs.map((i) => i.element)), h('p', {}, reset)),
    h('div', { class: 'command' }, h('pre', { tabindex: '0', 'aria-label': t('lab.command') }, command), h('p', { class: 'row' }, copy, copied)));

  function changed() {
    const all = {};
    for (const { p, field } of inputs) {
      const value = field.value.trim();
      if (value !== '' && value !== p.value) all[p.name] = value;
    }
    return all;
  }

  function refresh() {
    const words = Object.entries(changed()).map(([name, value]) => ` --${name} ${/^[\w.-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`}`);
    text(command, e.command + words.join(''));
    text(copied, '');
    slow.read();
    show(reset, words.length > 0);
  }

  refresh();
  return { element, changed };
}

// about says what a number is, and its bounds.
function about(p) {
  if (p.choices.length > 0) return own(p.about);
  const [least, most] = p.bounds.split(' to ');
  return t('lab.numbers.about', { about: own(p.about), least, most });
}

// The times of an experiment that can be stretched. With the same factor for each, the same things happen in the same
// order, more slowly.
const times = ['lease', 'work', 'pause'];
const factors = [1, 2, 3, 5];

// slowMotion chooses by how much the times are stretched, within their bounds.
function slowMotion(inputs, changedNow) {
  const stretched = inputs.filter(({ p }) => times.includes(p.name));
  const possible = factors.filter((f) => stretched.every(({ p }) => milliseconds(p.value) * f <= milliseconds(p.bounds.split(' to ')[1])));
  if (stretched.length === 0) return { element: false, read() {} };
  const choose = h('select', { id: 'slow', onchange: () => {
    for (const { p, field } of stretched) field.value = choose.value === '1' ? p.value : inWords(milliseconds(p.value) * Number(choose.value));
    changedNow();
  } }, h('option', { value: '', hidden: true }, '–'), ...possible.map((f) => h('option', { value: f }, t('lab.slow.factor', { f }))));
  return {
    element: h('div', { class: 'field' }, h('label', { for: 'slow' }, t('lab.slow')), choose, h('small', {}, t('lab.slow.help'))),
    // read shows the factor that the fields have, if they have one.
    read() {
      const now = possible.find((f) => stretched.every(({ p, field }) => Math.abs(milliseconds(field.value) - milliseconds(p.value) * f) < 0.5));
      choose.value = now ?? '';
    },
  };
}

const units = { ms: 1, s: 1000, m: 60000, h: 3600000 };

// milliseconds reads a duration as Go writes it, such as 1m30s or 1.5s; NaN if it is none.
function milliseconds(text) {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)];
  if (parts.length === 0 || parts.map((p) => p[0]).join('') !== text) return NaN;
  return parts.reduce((sum, [, n, unit]) => sum + Number(n) * units[unit], 0);
}

const inWords = (ms) => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`);
