// The proof of work that a waiting room may ask for: a text with which the SHA-256 of commitment:user:text begins with so many
// zero bits.

import { hasher, inPieces } from './sha256.js';

// prove finds one. A page cannot have a worker here: its policy lets no script make one.
export function prove(commitment, user, bits, signal) {
  const utf8 = new TextEncoder();
  const hash = hasher(utf8.encode(`${commitment}:${user}:`));
  let n = 0;
  return inPieces(() => {
    for (let i = 0; i < 100; i++) {
      const text = (n++).toString(36);
      if (Math.clz32(hash(utf8.encode(text))[0]) >= bits) return text; // at most 24 bits are asked for
    }
    return undefined;
  }, signal);
}
