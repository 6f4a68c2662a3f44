// An experiment of the laboratory, as load over HTTP. experiments.json has the options and the expected result
// of each experiment; `go run ./cmd/lab catalogue --write` generates it from the experiments' own data.

const FAULTS = ['FAULTS', 'PAUSE_MS', 'PAUSE_POINT', 'PAUSE_PROBABILITY'];

// The kinds of anomaly that are visible from outside: the threshold that holds if it was seen, the one that
// holds if it was not, and the number of times it was seen in a run.
const KINDS = {
  oversold: {
    name: 'oversold',
    seen: { audit_oversold: 'value>0' },
    none: { audit_oversold: 'value==0' },
    count: (r) => r.audit.oversold,
  },
  duplicate_orders: {
    name: 'duplicates',
    seen: { audit_duplicate_orders: 'value>0' },
    none: { audit_duplicate_orders: 'value==0' },
    count: (r) => r.audit.duplicate_orders,
  },
  lost_orders: {
    name: 'lost orders',
    seen: { audit_lost_orders: 'count>0' },
    none: { audit_lost_orders: 'count<=0' },
    count: (r) => Math.max(0, r.audit.lost_orders),
  },
  // An order that did not reduce the stock: its write was overwritten, or repeated what another order had written.
  lost_updates: {
    name: 'lost updates',
    seen: { audit_unaccounted: 'value<0' },
    none: { audit_unaccounted: 'value>=0' },
    count: (r) => Math.max(0, -r.audit.unaccounted),
  },
  // For a rush with more buyers than stock, in which nothing should be left.
  turned_away: {
    name: 'turned away',
    seen: { order_outcome_busy: 'count>0', audit_stock: 'value>0' },
    none: { audit_stock: 'value==0' },
    count: (r) => (r.users > r.initial_stock ? Math.min(told(r, 'busy'), r.audit.stock) : 0),
  },
  stuck_keys: {
    name: 'stuck keys',
    seen: { lock_asked: 'count==1', lock_stuck: 'value==1' },
    none: { lock_asked: 'count==1', lock_stuck: 'value==0' },
    count: (r) => (r.lock && r.lock.stuck ? 1 : 0),
  },
  // All requests were answered, so nobody holds the lock, and yet the key is taken.
  locked_out: {
    name: 'locked out',
    seen: { lock_asked: 'count==1', lock_taken: 'value==1', order_outcome_busy: 'count>0' },
    none: { lock_asked: 'count==1', lock_taken: 'value==0' },
    count: (r) => (r.lock && r.lock.taken && !r.lock.stuck ? told(r, 'busy') : 0),
  },
  unavailable: {
    name: 'unavailable',
    seen: { order_outcome_unavailable: 'count>0' },
    none: { order_outcome_unavailable: 'count==0' },
    count: (r) => told(r, 'unavailable'),
  },
};

// Two holders at the same time are not visible from outside. Their consequences are, if the stock is unguarded.
const SHOWN_BY = {
  overlaps: { name: 'two holders', kind: 'lost_updates' },
  wrong_releases: { name: 'wrong releases', kind: 'lost_updates' },
  stale_writes: { name: 'stale writes', kind: 'lost_updates' },
};

// experiment is the one that EXPERIMENT names; null without it.
export const experiment = __ENV.EXPERIMENT ? find(__ENV.EXPERIMENT) : null;

function find(id) {
  const all = JSON.parse(open(import.meta.resolve('../experiments.json')));
  if (!Object.hasOwn(all, id)) {
    throw new Error(`EXPERIMENT is "${id}"; one of ${Object.keys(all).sort().join(', ')}`);
  }
  const found = Object.assign({ id }, all[id]);
  found.deciding = [...new Set(found.about.map(shownAs))].filter((kind) => kind);
  if (found.deciding.length === 0 || (found.expect === 'breaks' && !shownAs(found.about[0]))) {
    throw new Error(`EXPERIMENT=${id}: ${found.about.join(', ')} cannot be seen from outside`);
  }
  return found;
}

function shownAs(kind) {
  if (KINDS[kind]) return kind;
  return SHOWN_BY[kind] ? SHOWN_BY[kind].kind : null;
}

// optionsFor returns the experiment's options, except for those that were given. A given fault replaces all
// faults of the experiment.
export function optionsFor(env) {
  if (!experiment) return env;
  const options = Object.assign({}, experiment.options);
  if (FAULTS.some((name) => env[name])) FAULTS.forEach((name) => delete options[name]);
  for (const [name, value] of Object.entries(env)) {
    if (value) options[name] = value;
  }
  return options;
}

// expectation returns the thresholds that decide whether the result is as expected: an experiment that breaks
// must show the first of its kinds, an experiment that holds must show none.
export function expectation() {
  const thresholds = {};
  const demand = (conditions) => {
    for (const [metric, condition] of Object.entries(conditions)) thresholds[metric] = [condition];
  };
  if (experiment.expect === 'breaks') {
    demand(KINDS[shownAs(experiment.about[0])].seen);
  } else {
    thresholds.audit_orders = ['value>0']; // where nothing is sold, nothing can go wrong
    experiment.deciding.forEach((kind) => demand(KINDS[kind].none));
  }
  return thresholds;
}

// anomalies counts the anomalies of a run, by kind.
export function anomalies(result) {
  const counts = {};
  for (const [kind, { count }] of Object.entries(KINDS)) {
    const n = result.audit ? count(result) : 0;
    if (n > 0) counts[kind] = n;
  }
  return counts;
}

// conclusion says in one line what was expected and what was seen.
export function conclusion(result) {
  const { id, expect, about, deciding } = experiment;
  const verb = expect === 'breaks' ? 'break' : 'hold';
  const outcome = result.as_expected ? 'as expected' : 'NOT AS EXPECTED';
  return `${id}: expected to ${verb} (${about.map(nameOf).join(', ')}), seen: ${seen(result.anomalies, deciding)} – ${outcome}`;
}

function nameOf(kind) {
  if (KINDS[kind]) return KINDS[kind].name;
  if (!SHOWN_BY[kind]) return kind.replaceAll('_', ' ');
  const { name, kind: shown } = SHOWN_BY[kind];
  return experiment.about.includes(shown) ? name : `${name} as ${KINDS[shown].name}`;
}

// The anomalies of the kinds that decide, and of the others.
function seen(counts, deciding) {
  const list = (kinds) => kinds.filter((kind) => counts[kind]).map((kind) => `${KINDS[kind].name} ${counts[kind]}`).join(', ');
  const others = list(Object.keys(KINDS).filter((kind) => !deciding.includes(kind)));
  return `${list(deciding) || 'none'}${others ? `, beside ${others}` : ''}`;
}

function told(result, code) {
  return result.phases.order ? result.phases.order.outcomes[code] || 0 : 0;
}
