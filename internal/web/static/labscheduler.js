// Be the scheduler: no message of the lock arrives and no time passes unless the visitor says so. The steps are in the
// page's address, and the server plays them all anew each time, in virtual time.

import { h, list, show, text } from './dom.js';
import { copying } from './labcopy.js';
import { call } from './api.js';
import { own, t } from './i18n.js';
import { played } from './labpicture.js';
import { kindMeans, kindName, refusal } from './labwords.js';
import { browser } from './store.js';

const stored = 'seckill.ladder'; // the levels that were won, with the number of steps

function won() {
  try {
    return JSON.parse(browser.get(stored) || '{}') ?? {};
  } catch {
    return {};
  }
}

function keep(id, steps) {
  const all = won();
  if (all[id] !== undefined && all[id] <= steps) return;
  browser.set(stored, JSON.stringify({ ...all, [id]: steps }));
}

const address = (level, steps) => `#/scheduler?${new URLSearchParams(level.id ? { level: level.id, steps } : { schedule: `${level.lock}~${level.buyers}~${steps}` })}`;

// costs says what a budget has: "1 × pause".
const costs = (budget) => Object.entries(budget).filter(([, n]) => n > 0).map(([name, n]) => t('lab.scheduler.times', { n, what: t(`lab.scheduler.cost.${name}`) }));

// chosen is the level of the address, or a schedule that belongs to none.
function chosen(lab, linked) {
  const [lock, buyers, ...steps] = (linked.get('schedule') ?? '').split('~');
  if (lock) return [{ id: '', lock, buyers: Number(buyers) || 0, budget: lab.freePlay, aim: '' }, steps.join('~')];
  const level = lab.levels.find((l) => l.id === linked.get('level')) ?? lab.levels.find((l) => won()[l.id] === undefined) ?? lab.levels[0];
  return [level, level.id === linked.get('level') ? linked.get('steps') ?? '' : ''];
}

export function schedulerView(lab, linked) {
  const [level, begun] = chosen(lab, linked);
  let steps = begun === '' ? [] : begun.split('-');
  let asked = 0;
  let answered = false;

  const said = h('p', { class: 'error', role: 'alert' });
  const levels = h('ol', { class: 'levels', 'aria-label': t('lab.scheduler.levels') });
  const verdict = h('p', { class: 'verdict', role: 'status' });
  const after = h('div', { class: 'after', hidden: true });
  const left = h('p', { class: 'budget' });
  const cards = h('div', { class: 'drivers' });
  const undo = h('button', { type: 'button', onclick: () => go(steps.slice(0, -1)) }, t('lab.scheduler.undo'));
  const restart = h('button', { type: 'button', onclick: () => go([]) }, t('lab.scheduler.restart'));
  const never = h('button', { type: 'button', class: 'quiet', onclick: claim }, t('lab.scheduler.never'));
  const told = h('ol', { class: 'moves' });
  const link = h('code', {});
  const [copy, copied] = copying(link, t('lab.bench.copy'));
  const picture = played(t('lab.scheduler.picture'), { live: true });
  const meaning = h('dl', { class: 'kinds' });
  const element = h('article', { class: 'experiment bench scheduler' },
    h('p', { class: 'crumbs' }, h('a', { href: '#/' }, t('lab.back'))),
    h('h1', { tabindex: '-1' }, t('lab.scheduler')), h('p', {}, t('lab.scheduler.lead')), levels,
    h('section', { class: 'live', 'aria-label': level.lock },
      h('h2', {}, level.aim ? t('lab.scheduler.aim', { lock: level.lock, aim: t(`lab.scheduler.aim.${level.aim}`) }) : level.lock),
      level.aim && h('p', { class: 'small' }, t('lab.scheduler.each')),
      left, said, verdict, after, cards, h('p', { class: 'row' }, undo, restart, level.aim && never), picture.element, meaning,
      h('h3', {}, t('lab.scheduler.steps')), told,
      h('details', { class: 'command' }, h('summary', {}, t('lab.scheduler.link')),
        h('pre', { tabindex: '0', 'aria-label': t('lab.scheduler.link') }, link), h('p', { class: 'row' }, copy, copied))));

  function drawLadder() {
    const all = won();
    list(levels, lab.levels.map((l) => h('li', {}, h('a', { class: 'button', href: `#/scheduler?level=${l.id}`, 'aria-current': l.id === level.id && 'step' },
      l.lock, all[l.id] !== undefined && h('span', { class: 'chip good' }, t('lab.scheduler.won'))))));
  }

  async function go(wanted) {
    const n = ++asked;
    text(said, '');
    let now;
    try {
      now = await call('POST', '/api/schedule', { body: { lock: level.lock, buyers: level.buyers, steps: wanted.join('-'), budget: level.budget, aim: level.aim } });
    } catch (error) {
      if (n === asked) text(said, refusal(error));
      return;
    }
    if (n !== asked) return; // another step was taken meanwhile
    steps = wanted;
    history.replaceState(null, '', address(level, steps.join('-')));
    if (now.reached) keep(level.id, steps.length);
    draw(now);
  }

  // claim says that the level cannot be won.
  async function claim() {
    const answer = await ask();
    if (answer === null) return;
    answered = true;
    if (answer.unbreakable) keep(level.id, 0);
    verdict.className = `verdict ${answer.unbreakable ? 'good' : 'bad'}`;
    text(verdict, answer.unbreakable ? t('lab.scheduler.right') : t('lab.scheduler.wrong', { par: answer.par }));
    if (answer.unbreakable) explain();
    else {
      after.replaceChildren(h('p', { class: 'row' }, h('button', { type: 'button', class: 'quiet', onclick: () => go(answer.shortest.split('-')) }, t('lab.scheduler.reveal'))));
      show(after, true);
    }
    drawLadder();
  }

  async function ask() {
    try {
      return await call('POST', '/api/schedule/answer', { body: { level: level.id } });
    } catch (error) {
      text(said, refusal(error));
      return null;
    }
  }

  // explain says what the level has shown, and leads to the next one.
  function explain() {
    const next = lab.levels[lab.levels.findIndex((l) => l.id === level.id) + 1];
    after.replaceChildren(h('p', {}, t(`lab.scheduler.after.${level.id}`)),
      h('p', { class: 'row' }, next ? h('a', { class: 'button go', href: `#/scheduler?level=${next.id}` }, t('lab.scheduler.next', { lock: next.lock }))
        : h('span', { class: 'predicted' }, t('lab.scheduler.end'))));
    show(after, true);
  }

  async function celebrate() {
    const length = steps.length;
    const answer = await ask();
    if (answer !== null && length === steps.length) text(verdict, t(reached(length, answer), { n: length, par: answer.par }));
  }

  // reached is the key of the text for a level that was won. A shortest schedule that was sampled is the shortest known.
  function reached(length, { par, sampled }) {
    if (sampled) return `lab.scheduler.reached.${length < par ? 'better' : length === par ? 'best' : 'known'}`;
    return length <= par ? 'lab.scheduler.reached.par' : 'lab.scheduler.reached';
  }

  function draw(now) {
    if (!answered || steps.length > 0) {
      answered = false;
      show(after, false);
      const found = now.found.map((f) => kindName(f.kind)).join(t('lab.and'));
      verdict.className = `verdict ${now.reached ? 'good' : now.over ? 'bad' : 'waiting'}`;
      text(verdict, now.reached ? t('lab.scheduler.done') : now.over ? t('lab.scheduler.over')
        : now.next.length === 0 ? t('lab.scheduler.stuck') : found ? t('lab.scheduler.sofar', { found }) : t('lab.sofar.none'));
      if (now.reached) {
        explain();
        celebrate();
      }
    }
    drawLadder();
    const rest = costs(now.left);
    text(left, rest.length > 0 ? t('lab.scheduler.left', { what: rest.join(t('lab.and')) }) : t('lab.scheduler.left.none'));
    undo.disabled = restart.disabled = steps.length === 0;
    const at = [...cards.children].findIndex((c) => c.contains(document.activeElement)); // a keyboard's place stays in its card
    list(cards, cardsOf(level, now.next));
    if (at >= 0) (cards.children[at].querySelector('button') ?? cards.querySelector('button') ?? undo).focus({ preventScroll: true });
    list(told, now.steps.map((s) => h('li', {}, own(s.says))));
    const kinds = [...new Set(now.found.map((f) => f.kind))];
    meaning.replaceChildren(...kinds.flatMap((k) => [h('dt', {}, kindName(k)), h('dd', {}, kindMeans(k))]));
    text(link, `${location.origin}${location.pathname}${address(level, steps.join('-'))}`);
    show(picture.element, now.picture !== '');
    if (now.picture !== '') picture.show(now.picture);
  }

  // cardsOf are the processes, and what is nobody's: time and the servers.
  function cardsOf(of, next) {
    const all = Array.from({ length: of.buyers }, (_, i) => card(t('lab.bench.process', { n: i + 1 }), next.filter((c) => c.process === i + 1)));
    return [...all, card(t('lab.scheduler.others'), next.filter((c) => c.process === 0))];
  }

  function card(name, choices) {
    const buttons = choices.map((c) => {
      const price = costs(c.cost);
      return h('button', { type: 'button', class: `step ${price.length > 0 ? 'quiet' : ''}`, 'data-step': c.step, onclick: () => go([...steps, c.step]) },
        h('strong', {}, t(`lab.scheduler.do.${c.action}`)), h('span', {}, own(c.says)),
        price.length > 0 && h('span', { class: 'chip waiting' }, t('lab.scheduler.costs', { what: price.join(t('lab.and')) })));
    });
    return h('div', { class: 'driver', role: 'group', 'aria-label': name }, h('h3', {}, name), ...buttons, buttons.length === 0 && h('p', { class: 'small' }, t('lab.scheduler.idle')));
  }

  drawLadder();
  go(steps);
  return { element, shows: () => false, update() {} };
}
