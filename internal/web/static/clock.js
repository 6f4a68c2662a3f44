// The server's clock, as its answers tell it: X-Time in milliseconds, Date in whole seconds.
//
// When an answer was sent, the server's time was at least what it says, and less than one unit more; and the answer was
// sent between the request and its arrival. Each answer bounds the difference between the two clocks in this way, and
// several answers together bound it closely.

let low = -Infinity;
let high = Infinity;

// here is this browser's clock. It runs evenly, whatever the user does to the time of day.
export const here = () => performance.timeOrigin + performance.now();

// observe takes the headers of an answer to a request that was sent and received at these times of here.
export function observe(headers, sent, received) {
  const exact = headers.get('X-Time');
  const told = exact ? Number(exact) : Date.parse(headers.get('Date') ?? '');
  if (Number.isNaN(told)) return;
  const from = told - received;
  const to = told + (exact ? 1 : 1000) - sent;
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
