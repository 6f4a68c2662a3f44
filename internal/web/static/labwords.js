// Names of what is predicted, found and changed.

import { Refusal } from './api.js';
import { has, own, t } from './i18n.js';

export const kindName = (kind) => (has(`lab.kind.${kind}`) ? t(`lab.kind.${kind}`) : kind);

export const kindMeans = (kind) => (has(`lab.means.${kind}`) ? t(`lab.means.${kind}`) : '');

// prediction shows "holds", "breaks" or "breaks:KIND".
export function prediction(text) {
  const [verdict, kind] = text.split(':');
  const words = t(verdict === 'breaks' ? 'lab.breaks' : 'lab.holds');
  return kind ? `${words}: ${kindName(kind)}` : words;
}

export const changes = (list) => list.map((c) => t('lab.change', { name: c.name, to: c.to, from: c.from })).join(t('lab.and'));

// counts names what was counted: what decides first, then the gravest.
export function counts(kinds, anomalies, deciding) {
  return [...new Set([...deciding, ...kinds])].filter((k) => anomalies[k] > 0).map((k) => `${kindName(k)} ${anomalies[k]}`).join(t('lab.and'));
}

// latest returns the latest run of an experiment, if there is one.
export const latest = (runs, id) => runs.filter((r) => r.experiment === id).pop();

// refusal says why something was not done.
export function refusal(error) {
  if (!(error instanceof Refusal)) return t('lab.trouble');
  if (has(`lab.bench.wrong.${error.reason}`)) return t(`lab.bench.wrong.${error.reason}`, error.values);
  const detail = error.details ? own(error.details) : error.detail;
  return t(has(`lab.refused.${error.code}`) ? `lab.refused.${error.code}` : 'lab.refused.internal', { detail });
}
