// Elements are made here and changed in place, so that the focus and what a screen reader has read stay where they
// are. Text is set as text: nothing from the server is parsed as HTML.

export const $ = (id) => document.getElementById(id);

// When an element was shown last, or got another text.
const changes = new WeakMap();
export const changed = (e) => changes.set(e, performance.now());

// changedAt returns when an element, or one around it, has last changed or come into sight, by the clock of events.
export function changedAt(e) {
  let at = -Infinity;
  for (; e; e = e.parentElement) at = Math.max(at, changes.get(e) ?? -Infinity);
  return at;
}

// h makes an element: h('p', { class: 'price' }, 'text', child). A child that is false or missing is left out.
export function h(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  changed(e);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, '');
    else if (value !== false && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c !== false && c !== undefined && c !== null));
  return e;
}

const unfolded = new Set();

// folded makes details that are open again when they are made anew, as after a change of the language.
export function folded(key, { open = false, ...attributes }, summary, ...content) {
  if (open) unfolded.add(key);
  return h('details', { ...attributes, open: unfolded.has(key), ontoggle: (e) => unfolded[e.target.open ? 'add' : 'delete'](key) },
    h('summary', {}, summary), ...content);
}

// text sets an element's text if it is another one, so that nothing is announced twice.
export function text(e, value) {
  if (e.textContent === value) return;
  e.textContent = value;
  changed(e);
}

// show hides an element or shows it.
export function show(e, visible) {
  if (e.hidden !== visible) return;
  e.hidden = !visible;
  changed(e);
}

// set sets an attribute if it has another value.
export function set(e, name, value) {
  if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

// list makes the children of an element those that are given, in their order, and moves only what has to move.
export function list(parent, children) {
  children.forEach((child, i) => {
    if (parent.children[i] !== child) {
      parent.insertBefore(child, parent.children[i] ?? null);
      changed(child);
    }
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

// open opens a dialog, if it is not open.
export function open(dialog) {
  if (dialog.open) return;
  dialog.showModal();
  changed(dialog);
}
