// The server's clock, as the Date headers of its answers tell it.
//
// Date has whole seconds. So when an answer was sent, the server's time was at least Date and less than one second
// more; and the answer was sent between the request and its arrival. Each answer bounds the difference between the
// two clocks in this way, and several answers together bound it closely.

let low = -Infinity;
let high = Infinity;

// here is this browser's clock. It runs evenly, whatever the user does to the time of day.
export const here = () => performance.timeOrigin + performance.now();

// observe takes the Date header of an answer to a request that was sent and received at these times of here.
export function observe(header, sent, received) {
  const date = Date.parse(header ?? '');
  if (Number.isNaN(date)) return;
  const from = date - received;
  const to = date + 1000 - sent;
  if (from >= high || to <= low) { // one of the clocks was set, or this machine was asleep
    low = from;
    high = to;
    return;
  }
  low = Math.max(low, from);
  high = Math.min(high, to);
}

// earliest is a time in ms that the server's clock has certainly reached.
export const earliest = () => (Number.isFinite(low) ? here() + low : -Infinity);

// now is the server's time in ms, as far as it is known: half of the bounds' distance can be wrong, either way.
export function now() {
  return here() + (Number.isFinite(low) ? (low + high) / 2 : 0);
}
