// The configuration from the environment, checked before anything runs. seckill.js lists the parameters.

import { optionsFor } from './experiment.js';

const SCENARIOS = ['rush', 'duplicates', 'tail', 'all', 'life', 'room'];
const FLOWS = ['locked', 'admission'];

// The payments of the buyers of SCENARIO=life.
const PRICE_CENTS = 8000;

// The longest wait for an order that the service allows.
const MOST_WAIT_SECONDS = 30;

// Accepted values for "yes" and "no" in UNIQUE.
const YES = ['true', '1', 'yes', 'on'];
const NO = ['false', '0', 'no', 'off'];

export const config = read(optionsFor(__ENV));

function read(env) {
  const scenario = env.SCENARIO || 'rush';
  if (!SCENARIOS.includes(scenario)) {
    throw new Error(`SCENARIO is "${scenario}"; one of ${SCENARIOS.join(', ')}`);
  }
  const users = integer(env, 'USERS', { life: 300, room: 400 }[scenario] || 2000, 1);
  const requestsPerUser = integer(env, 'REQUESTS_PER_USER', 4, 1);
  // Duplicates need enough stock: a sold-out voucher would hide them.
  const stock = integer(env, 'STOCK', scenario === 'duplicates' ? users * requestsPerUser : 100, 1);
  if (scenario === 'tail' && users < stock) {
    throw new Error(`SCENARIO=tail sells out first, which needs USERS (${users}) to be at least STOCK (${stock})`);
  }
  const vus = Math.min(users, integer(env, 'VUS', { duplicates: 50, room: users }[scenario] || 200, 1));
  fits(env, scenario, vus, requestsPerUser);
  return {
    scenario,
    instances: instances(env),
    users,
    lateBuyers: integer(env, 'LATE_BUYERS', users, 1),
    firstUser: integer(env, 'FIRST_USER', 1, 1),
    requestsPerUser,
    stock,
    payWithin: payWithin(env, scenario),
    priceCents: PRICE_CENTS,
    vus,
    beginsIn: scenario === 'room' ? seconds(env, 'BEGINS_IN', 10) : 0,
    maxSeconds: seconds(env, 'DURATION', 60),
    requestTimeout: `${seconds(env, 'REQUEST_TIMEOUT', 30)}s`,
    readySeconds: seconds(env, 'READY_TIMEOUT', 30),
    tailP95: env.TAIL_P95_MS ? integer(env, 'TAIL_P95_MS', 0, 1) : null,
    adminToken: secret(env, 'ADMIN_TOKEN'),
    jwtSecret: secret(env, 'JWT_SECRET'),
    tokensFile: env.TOKENS || '',
    out: env.OUT || '',
    admission: env.FLOW === 'admission',
    waitSeconds: wait(env),
    policy: policy(env, scenario),
  };
}

// A container that needs more memory than it may have is killed without a word, so there the load has a bound.
function fits(env, scenario, vus, requestsPerUser) {
  const most = integer(env, 'MAX_CONNECTIONS', Infinity, 1);
  const each = scenario === 'duplicates' ? requestsPerUser : scenario === 'all' ? 2 : 1;
  if (vus * each > most) {
    throw new Error(`VUS is ${vus}, which needs ${vus * each} connections in SCENARIO=${scenario}, and MAX_CONNECTIONS is ${most}`);
  }
}

// A secret, or the content of the file whose absolute path NAME_FILE is, without a newline at its end.
function secret(env, name) {
  const file = env[`${name}_FILE`];
  if (!file) return env[name] || '';
  if (env[name]) throw new Error(`${name} and ${name}_FILE are both given: want one of them`);
  return open(file).replace(/\r?\n$/, '');
}

// Only the parameters that were given: the server's defaults apply to the rest.
function policy(env, scenario) {
  const p = {};
  if (scenario === 'room') p.room = room(env);
  if (env.FLOW) p.flow = flow(env);
  if (env.BUCKETS) p.buckets = buckets(env);
  if (env.LOCK) p.lock = env.LOCK;
  if (env.SCOPE) p.scope = env.SCOPE;
  if (env.PLACEMENT) p.placement = env.PLACEMENT;
  if (env.STOCK_MODE) p.stock = env.STOCK_MODE;
  if (env.UNIQUE) p.unique = yesOrNo('UNIQUE', env.UNIQUE);
  if (env.LOCK_TTL_MS) p.lock_ttl_ms = integer(env, 'LOCK_TTL_MS', 0, 0);
  if (env.LOCK_WAIT_MS) p.lock_wait_ms = integer(env, 'LOCK_WAIT_MS', 0, 0);
  const f = faults(env);
  if (f.length > 0) p.faults = f;
  return p;
}

// room is for SCENARIO=room. A pass that nobody uses goes to the next visitor after five seconds.
function room(env) {
  return { rate: integer(env, 'ROOM_RATE', 50, 1), draw_s: 3600, pass_s: 5 };
}

function flow(env) {
  if (FLOWS.includes(env.FLOW)) return env.FLOW;
  throw new Error(`FLOW is "${env.FLOW}"; one of ${FLOWS.join(', ')}`);
}

function buckets(env) {
  if (env.FLOW === 'admission') return integer(env, 'BUCKETS', 1, 1);
  throw new Error('BUCKETS needs FLOW=admission');
}

// payWithin is 0 if nothing is to be paid.
function payWithin(env, scenario) {
  if (scenario === 'life') return seconds(env, 'PAY_WITHIN', 5);
  if (env.PAY_WITHIN) throw new Error('PAY_WITHIN needs SCENARIO=life');
  return 0;
}

// wait is 0 if buyers do not poll their accepted orders.
function wait(env) {
  if (env.WAIT && env.FLOW !== 'admission') throw new Error('WAIT needs FLOW=admission');
  if (env.FLOW !== 'admission' || /^0s?$/.test(env.WAIT || '')) return 0;
  const n = seconds(env, 'WAIT', 10);
  if (n > MOST_WAIT_SECONDS) throw new Error(`WAIT is "${env.WAIT}"; ${MOST_WAIT_SECONDS}s at most`);
  return n;
}

function faults(env) {
  if (env.FAULTS && env.PAUSE_MS) {
    throw new Error('give FAULTS or PAUSE_MS, not both');
  }
  if (env.PAUSE_MS) {
    const pause = { point: env.PAUSE_POINT || 'critical-section', pause_ms: integer(env, 'PAUSE_MS', 0, 1) };
    if (env.PAUSE_PROBABILITY) pause.probability = Number(env.PAUSE_PROBABILITY);
    return [pause];
  }
  if (!env.FAULTS) return [];
  let parsed;
  try {
    parsed = JSON.parse(env.FAULTS);
  } catch (e) {
    throw new Error(`FAULTS is not JSON: ${e.message}`);
  }
  if (!Array.isArray(parsed)) throw new Error('FAULTS is not a JSON array');
  return parsed;
}

// INSTANCES is for policies that are safe with one instance and unsafe with two.
function instances(env) {
  const all = addresses(env.BASE_URL || 'http://127.0.0.1:8080');
  const wanted = integer(env, 'INSTANCES', all.length, 1);
  if (wanted > all.length) throw new Error(`INSTANCES is ${wanted}, and BASE_URL has ${all.length}`);
  return all.slice(0, wanted);
}

function addresses(list) {
  return list.split(',').map((s) => {
    const url = s.trim().replace(/\/+$/, '');
    if (!/^https?:\/\/[^/]+/.test(url)) {
      throw new Error(`BASE_URL has "${s}"; http://host:port, several separated by commas`);
    }
    return url;
  });
}

function integer(env, name, fallback, least) {
  if (!env[name]) return fallback;
  const n = Number(env[name]);
  if (!Number.isSafeInteger(n) || n < least) {
    throw new Error(`${name} is "${env[name]}"; a whole number from ${least}`);
  }
  return n;
}

// "90", "90s" or "2m".
function seconds(env, name, fallback) {
  if (!env[name]) return fallback;
  const m = /^(\d+)(s|m)?$/.exec(env[name]);
  if (!m || Number(m[1]) === 0) throw new Error(`${name} is "${env[name]}"; such as 30s or 2m`);
  return Number(m[1]) * (m[2] === 'm' ? 60 : 1);
}

function yesOrNo(name, text) {
  if (YES.includes(text.toLowerCase())) return true;
  if (NO.includes(text.toLowerCase())) return false;
  throw new Error(`${name} is "${text}"; true or false`);
}
