// Lists of figures.

import { h, list, text } from './dom.js';
import { t } from './i18n.js';

// definitions writes rows of a name, a value, whether the value is words rather than a number, and what there is to add.
export function definitions(dl, rows) {
  list(dl, rows.map(([key, value, words, more], i) => {
    const row = dl.children[i] ?? h('div', {}, h('dt'), h('dd'), h('dd', { class: 'small' }));
    const [name, of, rest] = row.children;
    text(name, t(key));
    text(of, value ?? '–');
    text(rest, more ?? '');
    row.className = words ? 'words' : '';
    return row;
  }));
}
