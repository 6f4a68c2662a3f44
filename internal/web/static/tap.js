// A second tap of a double tap belongs to what the first one has hit. What has come into its place meanwhile, or has
// another meaning by now, does not get it; nor what follows, until the finger has rested.

import { changedAt } from './dom.js';

const rest = 700; // ms

let first = -Infinity; // when the taps began between which the finger did not rest
let last = -Infinity;

export function setup() {
  addEventListener('click', (e) => {
    if (!e.isTrusted) return; // a script has no fingers
    if (e.timeStamp - last > rest) first = e.timeStamp;
    last = e.timeStamp;
    const control = e.target.closest('button, a');
    if (!control || first === last || changedAt(control) < first) return;
    e.preventDefault();
    e.stopImmediatePropagation();
  }, true);
}
