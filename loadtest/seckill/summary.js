// The result, as text and as an object.

import { ACCEPTED_OUTCOMES } from './accepted.js';
import { config } from './config.js';
import { anomalies, conclusion, experiment } from './experiment.js';
import { ENDS } from './life.js';
import { path } from './locks.js';
import { CODES } from './outcomes.js';
import { ENDS as ROOM_ENDS } from './room.js';

// summarize reads the metrics of a finished run. If the run stopped before the audit, it says so.
export function summarize(data) {
  const result = collect(data);
  return { text: words(result), result };
}

function collect(data) {
  const metrics = data.metrics;
  const value = (name, stat) => (metrics[name] ? metrics[name].values[stat] : undefined);
  const result = {
    scenario: config.scenario,
    instances: config.instances,
    voucher_id: (data.setup_data || {}).id,
    policy: (data.setup_data || {}).policy || config.policy,
    users: config.users,
    initial_stock: config.stock,
    audit: null,
    lock: null, // null where it was not asked
    phases: {},
    accepted: collectAccepted(value), // null where nobody asked
    life: collectLife(value), // null where nothing was to be paid
    room: collectRoom(value), // null where there was none
    failed_thresholds: failedThresholds(metrics),
  };
  if (value('audit_read', 'count') > 0) {
    result.audit = { lost_orders: value('audit_lost_orders', 'count') || 0 };
    for (const field of ['orders', 'stock', 'oversold', 'duplicate_orders', 'unaccounted', 'pending']) {
      result.audit[field] = value(`audit_${field}`, 'value');
    }
    result.audit.balanced = value('audit_balanced', 'value') === 1;
  }
  if (value('lock_asked', 'count') > 0) {
    result.lock = { taken: value('lock_taken', 'value') === 1, stuck: value('lock_stuck', 'value') === 1 };
    if (result.lock.taken && !result.lock.stuck) result.lock.freed_after_s = value('lock_freed_after', 'value');
  }
  for (const name of ['order', 'tail']) {
    const phase = collectPhase(name, value);
    if (phase.requests > 0) result.phases[name] = phase;
  }
  return experiment ? judged(result) : Object.assign(result, { right: passed(result) });
}

function passed(result) {
  return result.audit !== null && result.failed_thresholds.length === 0;
}

// The thresholds of an experiment are about what was expected, not about the sale.
function judged(result) {
  const a = result.audit;
  return Object.assign(result, {
    right: a !== null && a.balanced && a.lost_orders <= 0 && !(result.lock && result.lock.stuck),
    experiment: experiment.id,
    expect: experiment.expect,
    as_expected: passed(result),
    anomalies: anomalies(result),
  });
}

function collectPhase(name, value) {
  const phase = { requests: 0, outcomes: {} };
  for (const code of CODES) {
    const n = value(`${name}_outcome_${code}`, 'count') || 0;
    if (n > 0) phase.outcomes[code] = n;
    phase.requests += n;
  }
  phase.seconds = ((value(`${name}_clock`, 'max') || 0) - (value(`${name}_clock`, 'min') || 0)) / 1000;
  phase.requests_per_second = phase.seconds > 0 ? phase.requests / phase.seconds : 0;
  phase.latency_ms = spread(`${name}_duration`, value);
  return phase;
}

function collectAccepted(value) {
  const accepted = { orders: 0, fates: {} };
  for (const outcome of ACCEPTED_OUTCOMES) {
    const n = value(`accepted_${outcome}`, 'count') || 0;
    if (n > 0) accepted.fates[outcome] = n;
    accepted.orders += n;
  }
  if (accepted.orders === 0) return null;
  accepted.confirmed_after_ms = spread('accepted_confirmed_after', value);
  return accepted;
}

function collectLife(value) {
  const life = { orders: 0, ends: {} };
  for (const end of ENDS) {
    const n = value(`life_${end}`, 'count') || 0;
    if (n > 0) life.ends[end] = n;
    life.orders += n;
  }
  if (life.orders === 0) return null;
  life.payments = value('life_payments', 'count') || 0;
  life.refunds = value('life_refunds', 'count') || 0;
  life.wrong = value('life_wrong', 'count') || 0;
  life.paid_after_ms = spread('life_paid_after', value);
  return life;
}

function collectRoom(value) {
  const room = { visitors: 0, ends: {} };
  for (const end of ROOM_ENDS) {
    const n = value(`room_${end}`, 'count') || 0;
    if (n > 0) room.ends[end] = n;
    room.visitors += n;
  }
  if (room.visitors === 0) return null;
  room.polls = value('room_polls', 'count') || 0;
  room.wrong = value('room_wrong', 'count') || 0;
  room.pass_after_ms = spread('room_pass_after', value);
  return room;
}

function spread(trend, value) {
  return { p50: value(trend, 'med'), p95: value(trend, 'p(95)'), p99: value(trend, 'p(99)'), max: value(trend, 'max') };
}

function failedThresholds(metrics) {
  const failed = [];
  for (const [name, metric] of Object.entries(metrics)) {
    for (const [condition, state] of Object.entries(metric.thresholds || {})) {
      if (!state.ok) failed.push(`${name} ${condition}`);
    }
  }
  return failed;
}

function words(r) {
  const lines = experiment ? ['', `  ${conclusion(r)}`] : [];
  lines.push('', `  ${headline(r)}`);
  for (const finding of findings(r)) lines.push(`  - ${finding}`);
  for (const [name, phase] of Object.entries(r.phases)) {
    lines.push('', `  ${title(r, name)}: ${phaseLine(phase)}`, ...outcomeTable(phase));
  }
  if (r.accepted) lines.push('', `  ${acceptedLine(r.accepted)}`);
  if (r.life) lines.push('', `  ${lifeLine(r.life)}`);
  if (r.room) lines.push('', `  ${roomLine(r.room)}`);
  lines.push('', `  policy     ${policyLine(r.policy)}`, `  instances  ${r.instances.join(' ')}`);
  if (r.voucher_id) lines.push(`  voucher    ${r.voucher_id}`);
  if (r.failed_thresholds.length > 0) lines.push(`  failed     ${r.failed_thresholds.join(', ')}`);
  return `${lines.join('\n')}\n\n`;
}

function headline(r) {
  const sale = `${how(r.policy)}: ${r.users} buyers, ${r.initial_stock} units`;
  if (!r.audit) return `${sale}: NOT KNOWN whether the sale was right, there is no audit`;
  return `${sale}, ${r.audit.orders} ${plural(r.audit.orders, 'order')}: ${verdict(r)}`;
}

function how(policy) {
  if (policy.flow !== 'admission') return policy.lock || "the server's default lock";
  return policy.buckets > 1 ? `admission, ${policy.buckets} buckets` : 'admission';
}

function verdict(r) {
  const a = r.audit;
  const wrong = [];
  if (a.oversold > 0) wrong.push(`OVERSOLD by ${a.oversold}`);
  if (a.duplicate_orders > 0) wrong.push(`${a.duplicate_orders} DUPLICATE ${plural(a.duplicate_orders, 'ORDER')}`);
  if (a.lost_orders > 0) wrong.push(`${a.lost_orders} accepted ${plural(a.lost_orders, 'order')} LOST`);
  if (a.pending > 0) wrong.push(`${a.pending} accepted ${plural(a.pending, 'order')} STILL PENDING`);
  if (wrong.length === 0 && !a.balanced) wrong.push('THE BOOKS DO NOT BALANCE');
  if (r.lock && r.lock.stuck) wrong.push('THE LOCK IS STUCK');
  if (wrong.length > 0) return wrong.join(', ');
  if (!r.right && !experiment) return 'sold right, but the run FAILED';
  return a.stock > 0 ? `sold right, ${a.stock} left` : 'sold right';
}

function findings(r) {
  const a = r.audit;
  if (!a) return [];
  const list = [];
  const rush = r.phases.order || { requests: 0, outcomes: {} };
  if (!['tail', 'room'].includes(r.scenario) && rush.requests < r.users) {
    list.push(`Cut short: only ${rush.requests} requests were answered.`);
  }
  if (rush.outcomes.unauthenticated) {
    list.push('Buyers were not recognized: give JWT_SECRET or TOKENS, or run the server in lab mode.');
  }
  if (r.scenario === 'rush' && a.stock > 0 && rush.outcomes.busy > 0) {
    list.push(`${rush.outcomes.busy} ${plural(rush.outcomes.busy, 'buyer')} went home as busy, with ${a.stock} left: ` +
      'somebody holds the lock and does not come back, or LOCK_WAIT_MS is too short for the queue.');
  }
  if (r.lock && r.lock.taken) list.push(stillTaken(r));
  if (a.oversold > 0 || a.unaccounted < 0) list.push(notGuarded(r));
  if (a.unaccounted < 0) {
    list.push(`${-a.unaccounted} ${plural(-a.unaccounted, 'order')} took nothing from the stock: one buyer's write was lost under another's.`);
  }
  if (a.unaccounted > 0) {
    list.push(`${a.unaccounted} of the stock ${a.unaccounted === 1 ? 'is' : 'are'} gone without an order.`);
  }
  if (a.duplicate_orders > 0) {
    list.push("Two requests of one user both found that the user had no order yet, and nothing behind them refused the second.");
  }
  if (a.lost_orders > 0) {
    list.push(`${a.lost_orders} ${plural(a.lost_orders, 'buyer')} got a ${config.admission ? 202 : 201} for an order that the database does not have.`);
  }
  if (a.lost_orders < 0) {
    list.push(`${-a.lost_orders} ${plural(-a.lost_orders, 'order')} stand in the database whose buyers never saw the answer; they can still ask for it.`);
  }
  if (r.room && r.room.wrong > 0) {
    list.push(`${r.room.wrong} ${plural(r.room.wrong, 'thing')} happened that a waiting room must not allow; the first ones are in the log above.`);
  }
  if (a.orders === 0) list.push('Nothing was sold at all.');
  if (r.life && r.life.wrong > 0) {
    list.push(`${r.life.wrong} ${plural(r.life.wrong, 'order')} and their money do not belong together; the first ones are in the log above.`);
  }
  return list;
}

function stillTaken(r) {
  const left = 'Everybody has had an answer, and the lock was still taken';
  if (!r.lock.stuck) {
    return r.lock.freed_after_s === undefined ? `${left}; its lease is too long to wait for.`
      : `${left}; it was free ${r.lock.freed_after_s.toFixed(1)} s later.`;
  }
  return `${left}: nobody gives it back. GET ${path(r.voucher_id, r.policy.lock)} says whose it is, DELETE takes it away.`;
}

function notGuarded(r) {
  if (r.policy.lock === 'none') return 'Nothing kept the buyers apart at the stock.';
  if (r.policy.scope === 'voucher') {
    return `The lock let more than one buyer at a time at the stock, and "${r.policy.stock || 'conditional'}" does not stop them.`;
  }
  return 'The stock was not guarded: a lock of scope "user" keeps apart the requests of one user only.';
}

function title(r, name) {
  if (name === 'tail') return 'tail';
  if (r.scenario === 'room') return 'orders with a pass';
  return r.scenario === 'duplicates' ? 'duplicates' : 'rush';
}

function phaseLine(p) {
  return `${p.requests} requests in ${p.seconds.toFixed(2)} s, ${p.requests_per_second.toFixed(0)} requests/s; ` +
    `latency ${spreadLine(p.latency_ms)}`;
}

function acceptedLine(accepted) {
  const acceptedOutcomes = Object.entries(accepted.fates).map(([outcome, n]) => `${n} ${outcome}`).join(', ');
  return `accepted: ${accepted.orders} asked for with ?wait=${config.waitSeconds}s, ${acceptedOutcomes}; ` +
    `confirmed after ${spreadLine(accepted.confirmed_after_ms)}`;
}

function lifeLine(life) {
  const ends = Object.entries(life.ends).map(([end, n]) => `${n} ${end}`).join(', ');
  return `life: ${life.orders} orders ended: ${ends}; ${life.payments} payments, ${life.refunds} of them refunded; ` +
    `paid after ${spreadLine(life.paid_after_ms)}`;
}

function roomLine(room) {
  const ends = Object.entries(room.ends).map(([end, n]) => `${n} ${end}`).join(', ');
  return `room: ${room.visitors} visitors: ${ends}; ${(room.polls / room.visitors).toFixed(1)} polls each; ` +
    `a pass after the opening: ${spreadLine(room.pass_after_ms)}`;
}

function spreadLine(l) {
  const ms = (n) => (n === undefined ? '-' : n >= 100 ? n.toFixed(0) : n.toFixed(1));
  return `p50 ${ms(l.p50)} ms, p95 ${ms(l.p95)} ms, p99 ${ms(l.p99)} ms, max ${ms(l.max)} ms`;
}

// The lock options of a policy; under the admission flow there are none.
const OF_LOCKS = ['lock', 'lock_ttl_ms', 'lock_wait_ms', 'placement', 'scope', 'stock'];

// k6 passes objects in no particular order.
function policyLine(policy) {
  const shown = Object.keys(policy).filter((k) => policy.flow !== 'admission' || !OF_LOCKS.includes(k));
  const fields = shown.sort().map((k) => `${k}=${JSON.stringify(policy[k])}`);
  return fields.join(' ') || "the server's default";
}

function outcomeTable(p) {
  return Object.entries(p.outcomes)
    .sort((x, y) => y[1] - x[1])
    .map(([code, n]) => `    ${code.padEnd(17)}${String(n).padStart(9)}  ${((100 * n) / p.requests).toFixed(1).padStart(5)} %`);
}

function plural(n, word) {
  if (n === 1) return word;
  return word === word.toUpperCase() ? `${word}S` : `${word}s`;
}
