// SHA-256, for pages that are not served over TLS, where the browser's own is missing, and for many hashes one after the
// other, for which the browser's own is slow.

const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32);

// The fractions of the cube roots of the first 64 primes, and of the square roots of the first 8.
const rounds = new Int32Array(64);
const initial = new Int32Array(8);
for (let n = 2, found = 0; found < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) prime &&= n % d !== 0;
  if (!prime) continue;
  if (found < 8) initial[found] = fraction(Math.sqrt(n));
  rounds[found++] = fraction(Math.cbrt(n));
}

const w = new Int32Array(64);

// compress adds 64 bytes to a state.
function compress(state, bytes, at) {
  for (let i = 0; i < 16; i++, at += 4) w[i] = bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
    const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1 | 0;
  }
  let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (let i = 0; i < 64; i++) {
    const s1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7);
    const t1 = h + s1 + (e & f ^ ~e & g) + rounds[i] + w[i] | 0;
    const s0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10);
    const t2 = s0 + (a & b ^ a & c ^ b & c) | 0;
    h = g;
    g = f;
    f = e;
    e = d + t1 | 0;
    d = c;
    c = b;
    b = a;
    a = t1 + t2 | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

// hasher returns what hashes the prefix and some bytes behind it, to eight words of 32 bits.
export function hasher(prefix) {
  const whole = prefix.length - prefix.length % 64;
  const begun = initial.slice();
  for (let at = 0; at < whole; at += 64) compress(begun, prefix, at);
  const rest = prefix.subarray(whole);
  return (bytes) => {
    const n = rest.length + bytes.length;
    const tail = new Uint8Array((n + 8 >> 6) + 1 << 6);
    tail.set(rest);
    tail.set(bytes, rest.length);
    tail[n] = 0x80;
    new DataView(tail.buffer).setUint32(tail.length - 4, 8 * (whole + n));
    const state = begun.slice();
    for (let at = 0; at < tail.length; at += 64) compress(state, tail, at);
    return new Uint32Array(state.buffer);
  };
}

// The most that the page is kept busy at a time, in ms.
const busy = 12;

// inPieces calls step until it returns something, and lets the page breathe in between. It returns undefined if the signal
// is aborted.
export async function inPieces(step, signal) {
  while (!signal.aborted) {
    for (const until = performance.now() + busy; performance.now() < until;) {
      const found = step();
      if (found !== undefined) return found;
    }
    await new Promise((resolve) => { setTimeout(resolve); });
  }
  return undefined;
}
