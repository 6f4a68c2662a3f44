// The choices of a policy, and which of them are not safe. The server decides.

import { t } from './i18n.js';
import locks from './locks.js';

export const fields = {
  flow: ['locked', 'admission'],
  lock: locks.map((l) => l.name),
  scope: ['user', 'voucher'],
  placement: ['around-tx', 'inside-tx'],
  stock: ['conditional', 'rows', 'units', 'grouped', 'version', 'fenced', 'unguarded'],
  unique: ['true', 'false'],
  fault: ['none', 'critical-section', 'before-commit', 'before-release'],
};

export const numbers = { lock_wait_ms: [0, 60000], lock_ttl_ms: [0, 600000], pause_ms: [1, 60000] };

export const defaults = {
  flow: 'locked', lock: 'reentrant', scope: 'user', placement: 'around-tx', stock: 'conditional', unique: 'true', fault: 'none',
  lock_wait_ms: 0, lock_ttl_ms: 0, pause_ms: 400,
};

// Policies to begin with: two that are safe, and two that visibly are not.
const preset = (changes) => policyOf({ ...defaults, ...changes });
export const presets = {
  admission: preset({ flow: 'admission' }),
  locked: preset({ scope: 'voucher', lock_wait_ms: 5000 }),
  oversell: preset({ lock: 'none', scope: 'voucher', stock: 'unguarded', fault: 'critical-section', pause_ms: 1000 }),
  naive: preset({ lock: 'naive', scope: 'voucher', stock: 'unguarded', lock_ttl_ms: 200, lock_wait_ms: 10000, fault: 'critical-section', pause_ms: 300 }),
};

// policyOf makes the API's policy of what the form says.
export function policyOf(form) {
  if (form.flow === 'admission') return { flow: 'admission' };
  const policy = {
    flow: form.flow, lock: form.lock, scope: form.scope, placement: form.placement, stock: form.stock, unique: form.unique === 'true',
    lock_wait_ms: form.lock_wait_ms, lock_ttl_ms: form.lock_ttl_ms,
  };
  if (form.fault !== 'none') policy.faults = [{ point: form.fault, pause_ms: form.pause_ms }];
  return policy;
}

// With these the database alone sells every unit once.
const needNoLock = ['conditional', 'rows', 'units', 'grouped'];

// formOf is what the form says about the API's policy, as far as it can say it.
export function formOf(policy) {
  const [fault] = policy.faults ?? [];
  return { ...defaults, ...policy, unique: String(policy.unique ?? true), fault: fault?.point ?? 'none', pause_ms: fault?.pause_ms ?? defaults.pause_ms };
}

// brief returns the policy as the form puts it, or as it is if it says more than the form can.
export function brief(policy) {
  const of = policyOf(formOf(policy));
  const all = Object.keys(policy).every((key) => key in defaults || key === 'faults') && JSON.stringify(policy.faults) === JSON.stringify(of.faults);
  return all ? of : policy;
}

// unsafe returns the names of what is not safe about a policy.
export function unsafe(policy) {
  if (policy.flow === 'admission') return [];
  const found = here(policy.lock) ? [] : ['missing'];
  const alone = policy.lock === 'none' && needNoLock.includes(policy.stock);
  if (!alone && !locks.some((l) => l.name === policy.lock && l.safe)) found.push('lock');
  if (policy.stock === 'unguarded') found.push('stock');
  if (policy.placement === 'inside-tx') found.push('placement');
  if (!policy.unique) found.push('unique');
  if (policy.faults) found.push('faults');
  return found;
}

// here says whether this server has a lock.
export const here = (name) => locks.some((l) => l.name === name && l.here);

// named says in a few words how a voucher is sold.
export function named(policy) {
  if (policy.flow === 'admission') return t('policy.admission');
  return t('policy.locked', { lock: policy.lock, stock: policy.stock });
}
