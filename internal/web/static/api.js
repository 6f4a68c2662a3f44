// Calls of the HTTP API.

import * as clock from './clock.js';

// Refusal is an answer other than 2xx. Its code is one of the API's.
export class Refusal extends Error {
  constructor(response, problem) {
    super(problem.title ?? response.statusText);
    this.status = response.status;
    this.code = problem.code ?? 'internal';
    this.detail = problem.detail ?? '';
    this.field = problem.field ?? ''; // the one that is not valid
    this.most = problem.most ?? 0; // units that can be taken away
    this.reason = problem.reason ?? ''; // of a code, with its values: the laboratory has them
    this.values = problem.values ?? {};
    this.workBits = problem.work_bits ?? 0; // of the proof of work that is asked for, for this commitment
    this.commitment = problem.commitment ?? '';
    this.details = problem.details; // the detail in each language, if the laboratory has it
    this.requestID = problem.request_id ?? response.headers.get('X-Request-ID') ?? '';
    this.retryAfter = Number(response.headers.get('Retry-After')) || 0;
  }
}

// NoAnswer says that the server cannot be reached, or does not answer in time.
export class NoAnswer extends Error {}

// How long an answer may take beyond a wait that was asked for, in ms.
const patience = 20000;

export async function call(method, path, { headers = {}, body, wait = 0, signal, cache = 'no-store' } = {}) {
  const end = new AbortController();
  const giveUp = () => end.abort();
  const timer = setTimeout(giveUp, patience + wait);
  signal?.addEventListener('abort', giveUp);
  const sent = clock.here();
  let response, answer;
  try {
    const init = { method, headers: { ...headers }, signal: end.signal, cache, credentials: 'omit' };
    if (body !== undefined) {
      init.headers['Content-Type'] = 'application/json';
      init.body = typeof body === 'string' ? body : JSON.stringify(body); // a text is JSON, or what is to become of it
    }
    response = await fetch(path, init);
    clock.observe(response.headers, sent, clock.here());
    answer = await response.text();
  } catch (cause) {
    throw new NoAnswer('no answer', { cause });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', giveUp);
  }
  let json = {};
  try {
    json = JSON.parse(answer || '{}');
  } catch { // a proxy's page
    if (response.ok) throw new NoAnswer('not an answer of the API');
  }
  if (!response.ok) throw new Refusal(response, json);
  return json;
}

// temporary says whether the same request may succeed in a moment.
export function temporary(error) {
  return error instanceof NoAnswer
    || error instanceof Refusal && (error.status === 429 || error.status >= 502 || error.code === 'busy');
}

// vouchers returns a page of a list of vouchers: those that are open, soon or over. What the browser has of it already is
// not sent again.
export const vouchers = (state, sort, after = '') =>
  call('GET', `/api/v1/vouchers?state=${state}&sort=${sort}&limit=100${after && `&after=${after}`}`, { cache: 'no-cache' });
