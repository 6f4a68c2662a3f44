// The list of the experiments, by the failure that they show.

import { h, show, text } from './dom.js';
import { number, own, t } from './i18n.js';
import { kindName, latest } from './labwords.js';

let wanted = ''; // what was typed, kept while the visitor looks at an experiment

export function listView(lab) {
  const all = [...lab.experiments.values()];
  const groups = new Map();
  for (const e of all) groups.set(own(e.texts).group, [...groups.get(own(e.texts).group) ?? [], e]);
  const rows = [];
  const cards = [...groups].map(([group, experiments]) => {
    const items = experiments.map((e) => {
      const seen = h('span', { class: 'seen' });
      const item = h('li', {},
        h('a', { href: `#/${e.id}` }, h('span', { class: 'question' }, own(e.texts).question),
          h('span', { class: 'of' }, h('code', {}, e.lock), e.missing !== null && h('span', { class: 'chip plain' }, t('lab.missing')), seen)));
      rows.push({ e, item, seen, words: words(e) });
      return item;
    });
    return { items, element: h('section', {}, h('h2', {}, group), h('ul', {}, ...items)) };
  });
  const none = h('p', { class: 'empty', role: 'status' });
  const filter = h('input', { type: 'search', id: 'filter', autocomplete: 'off', value: wanted, oninput: () => { wanted = filter.value; narrow(); } });
  const element = h('div', { class: 'index' },
    h('div', { class: 'lead' }, h('h1', { tabindex: '-1' }, t('lab.heading')), h('p', {}, t('lab.lead', { n: number(all.length) }))),
    h('p', { class: 'start' }, h('a', { class: 'button go', href: '#/naive-wrong-release' }, t('lab.start')),
      h('a', { class: 'button', href: '#/course' }, t('lab.course')),
      h('a', { class: 'button', href: '#/bench' }, t('lab.bench')),
      h('a', { class: 'button', href: '#/scheduler' }, t('lab.scheduler'))),
    h('div', { class: 'field' }, h('label', { for: 'filter' }, t('lab.filter')), filter), none,
    h('div', { class: 'groups' }, ...cards.map((c) => c.element)));

  function narrow() {
    const typed = wanted.toLowerCase().split(/\s+/);
    for (const r of rows) show(r.item, typed.every((w) => r.words.includes(w)));
    for (const c of cards) show(c.element, c.items.some((i) => !i.hidden));
    text(none, rows.some((r) => !r.item.hidden) ? '' : t('lab.filter.none'));
  }

  narrow();
  return {
    element,
    shows: () => false,
    update() {
      for (const { e, seen } of rows) {
        const last = latest(lab.state.runs, e.id);
        seen.className = `seen ${last ? `chip ${tone(last)}` : ''}`;
        text(seen, last ? verdict(last) : '');
      }
    },
  };
}

// What people type, for what the texts say.
const also = [[/oversold/, 'oversell overselling'], [/two holders|at once/, 'split brain split-brain'], [/pause|stopp/, 'gc stop-the-world'], [/lease|expir/, 'ttl timeout']];

// words are what a filter finds an experiment by, in every language.
function words(e) {
  const told = [e.id, e.lock, ...Object.values(e.texts).flatMap((x) => [x.group, x.question, x.arrangement]), ...e.about.flatMap((k) => [k, kindName(k)])].join(' ').toLowerCase();
  return [told, ...also.filter(([found]) => found.test(told)).map(([, typed]) => typed)].join(' ');
}

// verdict names what was seen in a run, and tone how it is coloured.
export function verdict(run) {
  if (run.skipped) return t('lab.skipped');
  if (!run.observed) return t('lab.noverdict');
  return t(run.observed === 'breaks' ? 'lab.breaks' : 'lab.holds');
}

export const tone = (run) => ({ breaks: 'bad', holds: 'good' }[run.observed] ?? 'plain');
