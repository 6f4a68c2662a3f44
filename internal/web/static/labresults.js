// The session's results.

import { h } from './dom.js';
import { inLanguage, t } from './i18n.js';
import { tone, verdict } from './lablist.js';
import { changes, prediction } from './labwords.js';

// cell has the name of its column, which a phone shows beside it.
const cell = (column, ...what) => h('td', { 'data-label': t(`lab.results.${column}`) }, h('span', {}, ...what.filter((w) => w !== false)));

export function resultsView(lab) {
  const tally = h('p', {});
  const rows = h('tbody');
  const element = h('div', { class: 'results' },
    h('p', { class: 'crumbs' }, h('a', { href: '#/' }, t('lab.back'))),
    h('h1', { tabindex: '-1' }, t('lab.results.heading')), tally,
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': t('lab.results.heading') },
      h('table', {}, h('thead', {}, h('tr', {},
        ...['experiment', 'changed', 'observed', 'predicted'].map((c) => h('th', { scope: 'col' }, t(`lab.results.${c}`))))), rows)),
    h('p', {}, h('a', { class: 'button', href: inLanguage('/api/report'), download: 'lab-report.html' }, t('lab.results.export'))));
  let drawn = '';
  return {
    element,
    shows: () => false,
    update() {
      const { runs } = lab.state;
      const key = JSON.stringify(runs);
      if (key === drawn) return;
      drawn = key;
      const judged = runs.filter((r) => r.right !== null);
      tally.textContent = judged.length > 0
        ? t('lab.results.tally', { right: judged.filter((r) => r.right).length, of: judged.length }) : t('lab.results.unpredicted');
      rows.replaceChildren(...[...runs].reverse().map((r) => h('tr', {},
        h('th', { scope: 'row' }, h('a', { href: `#/${r.experiment}` }, r.experiment)),
        cell('changed', changes(r.changed) || '–'),
        cell('observed', h('span', { class: `chip ${tone(r)}` }, verdict(r))),
        cell('predicted', r.predicted ? prediction(r.predicted) : '–', ' ',
          r.right !== null && h('span', { class: `chip ${r.right ? 'good' : 'bad'}` }, t(r.right ? 'lab.right' : 'lab.wrong'))))));
    },
  };
}
