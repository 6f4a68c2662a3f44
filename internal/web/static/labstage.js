// The stage: a run that goes on, and then what came out of it, with the partner's result beside it.

import { folded, h, list, show, text } from './dom.js';
import { call } from './api.js';
import { duration, own, t } from './i18n.js';
import { played } from './labpicture.js';
import { copying } from './labcopy.js';
import { changes, counts, kindMeans, kindName, latest, prediction } from './labwords.js';

// stage shows them. linked is what the page's address asks for: numbers, and a step of the player.
export function stage(lab, e, linked, run) {
  const live = liveBox(lab);
  const box = h('div', { class: 'outcomes' });
  const partner = lab.experiments.get(e.partner);
  const beside = partnerBox(partner, () => run(partner.id));
  const element = h('section', { class: 'stage', 'aria-label': t('lab.stage') }, live.element, box, beside.element);
  const loaded = new Map(); // by number of the run
  let drawn = '';

  // chosen is the newest run of an experiment: with the numbers that the address has, if there is one.
  const chosen = (id) => id === e.id && linked.step >= 0 && latest(lab.state.runs.filter((r) => withNumbers(r, linked.values)), id) || latest(lab.state.runs, id);

  // newest returns it, as far as it is loaded.
  async function newest(id) {
    const last = chosen(id);
    if (!last) return null;
    if (!loaded.has(last.n)) loaded.set(last.n, call('GET', `/api/runs/${last.n}`));
    try {
      return await loaded.get(last.n);
    } catch (error) {
      loaded.delete(last.n);
      throw error;
    }
  }

  async function draw() {
    const wanted = [e.id, e.partner].map((id) => chosen(id)?.n ?? 0).join();
    if (wanted === drawn) return;
    drawn = wanted;
    try {
      const found = (await Promise.all([newest(e.id), newest(e.partner)])).filter((o) => o !== null);
      if (wanted !== drawn) return; // there is a newer one by now
      const axis = found.length > 1 ? common(found.flatMap((o) => o.pictures.slice(0, 1))) : '';
      const group = new Set();
      list(box, found.map((o) => outcome(lab, lab.experiments.get(o.result.id), o, axis, o.result.id === e.id ? linked : null, group)));
    } catch {
      drawn = ''; // the next event tries again
    }
  }

  return {
    element,
    update() {
      const going = lab.state.run;
      const here = going !== null && (going.experiment === e.id || going.experiment === e.partner);
      live.update(here ? going : null);
      beside.update(lab.state, e);
      draw();
    },
  };
}

// withNumbers says whether a run had these numbers, and the experiment's own otherwise.
const withNumbers = (run, values) => run.changed.length === Object.keys(values).length && run.changed.every((c) => values[c.name] === c.to);

// common is the part of a picture's address that puts it on one axis with others.
function common(pictures) {
  return `from=${Math.min(...pictures.map((p) => p.begin_ms))}&until=${Math.max(...pictures.map((p) => p.end_ms))}`;
}

// liveBox shows a run while it goes on.
function liveBox(lab) {
  const heading = h('h2', {});
  const said = h('p', { class: 'verdict waiting', role: 'status' });
  const doing = h('p', { class: 'small' });
  const stop = h('button', { type: 'button', class: 'quiet', onclick: () => call('POST', '/api/cancel', { body: {} }).catch(() => {}) }, t('lab.cancel'));
  const picture = played(t('lab.live'), { live: true });
  const element = h('div', { class: 'live', hidden: true }, heading, said, doing, h('p', {}, stop), picture.element);
  let n = 0;
  let began = 0;
  let timer = 0;
  return {
    element,
    update(run) {
      show(element, run !== null);
      if (run === null) {
        clearInterval(timer);
        timer = n = 0;
        return;
      }
      if (run.n !== n) {
        n = run.n;
        if (lab.asked) element.scrollIntoView({ block: 'start' });
        lab.asked = false;
        picture.clear();
        began = performance.now() - run.elapsed_ms;
        clearInterval(timer);
        timer = setInterval(() => {
          if (!element.isConnected) clearInterval(timer);
          text(doing, [duration(performance.now() - began), element.dataset.doing].filter(Boolean).join(' · '));
        }, 500);
      }
      const what = run.doing ? own(run.doing) : '';
      element.dataset.doing = what === run.experiment ? '' : what;
      text(heading, t('lab.running', { experiment: run.experiment }));
      const found = counts(lab.kinds, run.found ?? {}, lab.experiments.get(run.experiment).about);
      said.className = `verdict ${found ? 'bad' : 'waiting'}`;
      text(said, found ? t('lab.sofar', { found }) : t('lab.sofar.none'));
      if (run.picture > 0) picture.show('/api/live', `n=${run.n}-${run.picture}`);
    },
  };
}

// partnerBox offers the experiment with the other verdict.
function partnerBox(partner, run) {
  const go = h('button', { type: 'button', onclick: run }, t('lab.partner.run'));
  const element = h('aside', { class: 'partner', hidden: true }, h('h2', {}, t('lab.partner')),
    h('p', {}, own(partner.texts).question),
    h('p', { class: 'row' }, go, h('a', { class: 'button', href: `#/${partner.id}` }, t('lab.partner.open'))));
  return {
    element,
    update(state, e) {
      show(element, state.runs.some((r) => r.experiment === e.id));
      go.disabled = state.run !== null || partner.missing !== null;
    },
  };
}

// outcome shows what came out of a run. linked is null for the partner's: it follows, and asks nothing.
function outcome(lab, e, o, axis, linked, group) {
  const r = o.result;
  const id = `outcome-${o.n}`;
  const after = linked === null ? null : afterwards(lab, e, o);
  const pictures = o.pictures.map((p, i) => {
    const summary = h('p', { class: 'summary', hidden: true }, own(p.summary));
    const main = i === 0 && linked !== null;
    const picture = played(pictureTitle(p), {
      key: `${o.n}-${i}`, group: i === 0 ? group : new Set(), asks: linked !== null, start: main ? linked.step : -1,
      moved(step, of) {
        if (step === of - 1) show(summary, true); // it tells the end
        if (main) after.moved(step, of);
      },
    });
    picture.show(p.url, i === 0 ? axis : '');
    return h('figure', {}, h('figcaption', {}, h('strong', {}, pictureTitle(p)),
      p.key && h('span', { class: 'small' }, ' ', t('lab.key'), ' ', h('code', {}, p.key))), picture.element, summary, main && after.element);
  });
  const [main, ...more] = pictures;
  const told = o.as_written && own(o.texts);
  return h('article', { class: 'outcome-of', 'aria-labelledby': id },
    h('div', { class: 'came-out' }, h('h2', { id }, linked === null ? t('lab.outcome.partner', { experiment: r.id }) : t('lab.outcome', { experiment: r.id })),
      h('p', { class: `verdict ${tone(lab, r)}`, role: 'status' }, sentence(lab, r)),
      r.changed?.length > 0 && h('p', {}, t(r.turned ? 'lab.turned' : 'lab.unturned', { changes: changes(r.changed) })),
      r.prediction && h('p', { class: 'predicted' }, judged(r))),
    main ?? h('div'),
    h('div', { class: 'rest' }, told && h('section', {}, h('h3', {}, t('lab.why')), h('p', {}, told.why)),
      told?.cure && h('section', {}, h('h3', {}, t('lab.cure')), h('p', {}, ...linkedTo(lab, told.cure))),
      more.length > 0 && folded(`${o.n} more`, {}, t('lab.more'), ...more),
      figures(lab, e, o)));
}

// address is where an experiment, its numbers and a step of its player are to be found.
const address = (id, changed, step) => `#/${id}?${new URLSearchParams([...changed.map((c) => [c.name, c.to]), ['step', step + 1]])}`;

// afterwards is what stands below the player: the link to its step, and at its end what comes next on the way through the
// experiments.
function afterwards(lab, e, o) {
  const link = h('code', {});
  const [copy, copied] = copying(link, t('lab.link.copy'));
  const all = [...lab.experiments.values()];
  const ran = new Set(lab.state.runs.map((r) => r.experiment));
  const next = all.slice(all.indexOf(e) + 1).find((x) => x.id !== e.partner && !ran.has(x.id) && x.missing === null);
  const on = next ? h('a', { class: 'button go', href: `#/${next.id}` }, t('lab.next', { question: own(next.texts).question })) : h('span');
  on.hidden = true;
  const element = h('div', { class: 'afterwards' }, h('p', { class: 'row' }, copy, copied, on), h('pre', { hidden: true }, link));
  let first = true;
  return {
    element,
    moved(step, of) {
      const here = address(e.id, o.result.changed ?? [], step);
      text(link, `${location.origin}${location.pathname}${here}`);
      if (!first && location.hash.split('?')[0] === `#/${e.id}`) history.replaceState(null, '', here);
      first = false;
      text(copied, '');
      if (step === of - 1) show(on, true);
    },
  };
}

// linkedTo makes links of the names of experiments in a text.
const linkedTo = (lab, said) => said.split(/([a-z0-9]+(?:-[a-z0-9]+)+)/).map((part) => (lab.experiments.has(part) ? h('a', { href: `#/${part}` }, part) : part));

const pictureTitle = (p) => (p.kind ? t('lab.picture', { kind: kindName(p.kind) }) : t('lab.picture.prevented'));

// tone is green only for what nothing was wrong with.
function tone(lab, r) {
  if (r.observed === 'holds') return counts(lab.kinds, r.anomalies, r.about) ? 'waiting' : 'good';
  return r.observed === 'breaks' ? 'bad' : 'plain';
}

function sentence(lab, r) {
  if (r.skipped) return t('lab.sentence.skipped', { why: r.skipped });
  if (r.failed) return t('lab.sentence.failed', { why: r.failed.split('\n')[0] });
  const found = counts(lab.kinds, r.anomalies, r.about);
  if (r.observed === 'breaks') return t('lab.sentence.breaks', { found });
  return found ? t('lab.sentence.holds.but', { found }) : t('lab.sentence.holds');
}

function judged(r) {
  const said = prediction(r.prediction);
  if (r.prediction_right === undefined) return t('lab.judged.not', { said });
  if (r.prediction_right) return t('lab.judged.right', { said });
  return t(r.prediction.startsWith(r.observed) ? 'lab.judged.otherwise' : 'lab.judged.wrong', { said });
}

function figures(lab, e, { n, result: r, measures: measured }) {
  const rows = lab.kinds.filter((k) => r.anomalies?.[k] > 0 || e.about.includes(k))
    .map((k) => h('tr', {}, h('th', { scope: 'row' }, kindName(k), h('small', {}, kindMeans(k))), h('td', {}, String(r.anomalies?.[k] ?? 0))));
  const measures = measured.map((m) => h('tr', {}, h('th', { scope: 'row' }, own(m.name)), h('td', {}, `${Math.round(m.value * 100) / 100} ${own(m.unit)}`)));
  const engine = [r.engine.redis, r.engine.database, r.engine.zookeeper].filter(Boolean).join(', ');
  return folded(`${n} figures`, { class: 'figures-of' }, t('lab.figures'),
    h('div', { class: 'pair' }, h('table', {}, h('caption', {}, t('lab.anomalies')), h('tbody', {}, ...rows)),
      measures.length > 0 && h('table', {}, h('caption', {}, t('lab.measures')), h('tbody', {}, ...measures))),
    h('p', { class: 'small' }, t('lab.ran', { seconds: (r.duration_ms / 1000).toFixed(1), engine: engine || '–', seed: r.seed })),
    h('pre', { tabindex: '0', 'aria-label': t('lab.command') }, h('code', {}, r.command)));
}
