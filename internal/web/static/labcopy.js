// A line that a visitor takes along: a command, or a link.

import { h, text } from './dom.js';
import { t } from './i18n.js';

// copying returns a button that copies what an element says, and the place that says that it was copied.
export function copying(line, label) {
  const copied = h('span', { class: 'small', role: 'status' });
  const copy = h('button', { type: 'button', class: 'quiet', onclick: async () => {
    try {
      await navigator.clipboard.writeText(line.textContent);
      text(copied, t('lab.copied'));
    } catch { // the browser does not allow it: the line is selected, to be copied by hand
      getSelection().selectAllChildren(line);
    }
  } }, label);
  return [copy, copied];
}
