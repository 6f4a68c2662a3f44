// One experiment: its question, the prediction, its numbers, the run, and what came out.

import { folded, h, show, text } from './dom.js';
import { call } from './api.js';
import { own, t } from './i18n.js';
import { numbers } from './labnumbers.js';
import { stage } from './labstage.js';
import { kindMeans, kindName, latest, refusal } from './labwords.js';

const drafts = new Map(); // what was chosen and typed, by experiment, also when the language changes

let opened = ''; // the link that was opened last

export function experimentView(lab, e, address) {
  if (!drafts.has(e.id)) drafts.set(e.id, { predict: '', kind: '', values: {}, linked: { values: {}, step: -1 } });
  const draft = drafts.get(e.id);
  const { step, ...linked } = Object.fromEntries(address);
  if (step !== undefined && opened !== location.hash) {
    opened = location.hash;
    const values = Object.fromEntries(e.parameters.map((p) => [p.name, linked[p.name]]).filter(([, value]) => value !== undefined));
    draft.values = { ...values };
    draft.linked = { values, step: Math.max(0, Number(step) - 1 || 0) };
  }
  const deciding = e.about.length > 0 ? e.about : lab.kinds;
  const play = playForm(lab, e, draft, deciding);
  const result = stage(lab, e, draft.linked, (of) => play.run(of));
  const element = h('article', { class: 'experiment' },
    h('p', { class: 'crumbs' }, h('a', { href: '#/' }, t('lab.back')), ' · ', own(e.texts).group),
    h('h1', { tabindex: '-1' }, own(e.texts).question),
    h('p', { class: 'of' }, t('lab.lock'), ' ', h('code', {}, e.lock), ' · ', h('code', {}, e.id)),
    h('div', { class: 'brief' }, description(lab, e, deciding), play.element),
    result.element);
  return {
    element,
    shows: (id) => id === e.id || id === e.partner,
    update() {
      play.update();
      result.update();
    },
  };
}

function description(lab, e, deciding) {
  const what = own(e.texts).arrangement;
  const steps = e.refers_to === '' ? [what] : [
    t('lab.done.first', { experiment: e.refers_to, what: own(lab.experiments.get(e.refers_to).texts).arrangement }), t('lab.done.here', { what })];
  return h('div', { class: 'what' },
    h('section', {}, h('h2', {}, t('lab.done')), ...steps.map((p) => h('p', {}, p))),
    h('section', {}, h('h2', {}, t('lab.decides')), h('dl', { class: 'kinds' },
      ...deciding.flatMap((k) => [h('dt', {}, kindName(k)), h('dd', {}, kindMeans(k))]))),
    e.sources.length + e.reports.length > 0 && folded(`${e.id} sources`, {}, t('lab.sources'), h('ul', { class: 'sources' }, ...e.sources.map((s) =>
      h('li', { lang: 'en' }, `${s.document} · ${s.title}: “${s.section}”`)),
    ...e.reports.map((r) => h('li', {}, h('a', { href: r.url }, r.name))))));
}

function playForm(lab, e, draft, deciding) {
  const choice = (value, label) => h('label', { class: 'choice' },
    h('input', { type: 'radio', name: 'predict', value, checked: draft.predict === value, onchange: () => { draft.predict = value; update(); } }), h('span', {}, label));
  const kind = h('select', { id: 'kind', onchange: () => { draft.kind = kind.value; } },
    h('option', { value: '' }, t('lab.predict.any')), ...deciding.map((k) => h('option', { value: k, selected: draft.kind === k }, kindName(k))));
  const how = h('label', { class: 'field', for: 'kind' }, h('span', {}, t('lab.predict.how')), kind);
  const fields = numbers(e, draft.values, () => update());
  const go = h('button', { class: 'go buy' }, t('lab.run'));
  const outcome = h('p', { class: 'error', role: 'alert' });
  const help = h('p', { class: 'small', id: 'run-help' });
  go.setAttribute('aria-describedby', 'run-help');
  const element = h('form', { class: 'play', onsubmit: (event) => { event.preventDefault(); run(e.id); } },
    h('fieldset', {}, h('legend', {}, t('lab.predict')),
      h('div', { class: 'choices' }, choice('breaks', t('lab.predict.breaks')), choice('holds', t('lab.predict.holds')), choice('none', t('lab.predict.none'))), how),
    fields.element, help, go, outcome);

  async function run(id) {
    text(outcome, '');
    const mine = id === e.id;
    const predict = !mine || draft.predict === 'none' ? '' : draft.predict + (draft.predict === 'breaks' && draft.kind ? `:${draft.kind}` : '');
    try {
      lab.asked = true; // it is shown when it begins
      if (mine && latest(lab.state.runs, e.id)) draft.linked.step = -1; // the first run is what the link leads to
      await call('POST', '/api/runs', { body: { experiment: id, values: mine ? fields.changed() : {}, predict } });
    } catch (error) {
      text(outcome, refusal(error));
    }
  }

  function update() {
    const busy = lab.state.run !== null;
    show(how, draft.predict === 'breaks');
    go.disabled = busy || draft.predict === '' || e.missing !== null;
    text(help, e.missing ? t('lab.needs', { what: own(e.missing) }) : busy ? t('lab.busy') : draft.linked.step >= 0 && !latest(lab.state.runs, e.id) ? t('lab.link.run', { step: draft.linked.step + 1 }) : draft.predict === '' ? t('lab.predict.first') : '');
  }

  update();
  return { element, update, run };
}
