// The buyers and their credentials. Buyers are numbered from 0; their user ids start at FIRST_USER.

import crypto from 'k6/crypto';
import encoding from 'k6/encoding';
import { SharedArray } from 'k6/data';
import { config } from './config.js';

const TOKEN_SECONDS = 3600;
const TOKEN_HEAD = encoding.b64encode(JSON.stringify({ alg: 'HS256', typ: 'JWT' }), 'rawurl');

// Read once and shared: a token has about 150 bytes, and there may be a million.
const tokens = config.tokensFile
  ? new SharedArray('tokens', () => JSON.parse(open(fromShell(config.tokensFile))))
  : null;

if (tokens && tokens.length < needed()) {
  throw new Error(`${config.tokensFile} has ${tokens.length} tokens, and SCENARIO=${config.scenario} needs ${needed()}`);
}

// headers returns the headers of a buyer: a token from the file, one signed with JWT_SECRET, or the plain
// X-User-ID that a server in lab mode accepts.
export function headers(buyer) {
  if (tokens) return { Authorization: `Bearer ${tokens[buyer]}` };
  const id = String(config.firstUser + buyer);
  if (config.jwtSecret) return { Authorization: `Bearer ${sign(id)}` };
  return { 'X-User-ID': id };
}

function sign(sub) {
  const now = Math.floor(Date.now() / 1000);
  const claims = encoding.b64encode(JSON.stringify({ sub, iat: now, exp: now + TOKEN_SECONDS }), 'rawurl');
  const signed = `${TOKEN_HEAD}.${claims}`;
  return `${signed}.${crypto.hmac('sha256', config.jwtSecret, signed, 'base64rawurl')}`;
}

// k6 resolves files relative to the script; a user means the current folder.
function fromShell(path) {
  return path.startsWith('/') || !__ENV.PWD ? path : `${__ENV.PWD}/${path}`;
}

function needed() {
  return config.users + (config.scenario === 'tail' || config.scenario === 'all' ? config.lateBuyers : 0);
}
