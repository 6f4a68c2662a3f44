// Elements are made here and changed in place, so that the focus and what a screen reader has read stay where they
// are. Text is set as text: nothing from the server is parsed as HTML.

export const $ = (id) => document.getElementById(id);

// h makes an element: h('p', { class: 'price' }, 'text', child). A child that is false or missing is left out.
export function h(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, '');
    else if (value !== false && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c !== false && c !== undefined && c !== null));
  return e;
}

// text sets an element's text if it is another one, so that nothing is announced twice.
export function text(e, value) {
  if (e.textContent !== value) e.textContent = value;
}

// show hides an element or shows it.
export function show(e, visible) {
  if (e.hidden === visible) e.hidden = !visible;
}

// list makes the children of an element those that are given, in their order, and moves only what has to move.
export function list(parent, children) {
  children.forEach((child, i) => {
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}
