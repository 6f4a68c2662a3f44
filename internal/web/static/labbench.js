// The bench: a few processes and one key, driven by hand, and the picture of what happens on the real server. What was
// done is a script, which is kept in the page's address and replayed from there.

import { h, list, show, text } from './dom.js';
import { copying } from './labcopy.js';
import { call } from './api.js';
import { has, own, t } from './i18n.js';
import { played } from './labpicture.js';
import { counts, kindMeans, kindName, refusal } from './labwords.js';

const usual = { lock: 'naive', processes: '3', lease: '10', wait: '30', renew: '', replica: '' };
const leases = ['2', '5', '10', '20', '60'];
const waits = ['0', '30', '60'];
const ofProcess = ['a', 'w', 'r', 'p', 'c', 'k', 'n', 'b'];
const ofNode = ['h', 's'];
const maxFile = 64 * 1024;

const draft = { ...usual }; // what was chosen, also when the language changes
let opened = ''; // the link that was opened last

// address is where a setup, and a script if there is one, are to be found.
const address = (setup, script) => `#/bench?${new URLSearchParams({ ...setup, script })}`;

// storeActions are the buttons of the store. What it can never suffer is off, and says why.
function storeActions(b) {
  return b.setup.replica ? ['x', 'd', 'l', 'u', 'f'] : ['x', 'd', 'f'];
}

export function benchView(lab, linked) {
  const script = linked.get('script') ?? '';
  if (linked.get('lock') !== null && opened !== linked.toString()) {
    opened = linked.toString();
    for (const name of Object.keys(usual)) draft[name] = linked.get(name) ?? usual[name];
  }
  const said = h('p', { class: 'error', role: 'alert' });

  // send returns the answer, or says what is wrong and returns null.
  async function send(path, body) {
    text(said, '');
    try {
      return await call('POST', path, { body });
    } catch (error) {
      text(said, refusal(error));
      return null;
    }
  }

  async function load(file) {
    if (file.size > maxFile) {
      text(said, t('lab.bench.wrong.size', { most: maxFile / 1024 }));
      return;
    }
    const found = await send('/api/bench/file', await file.text());
    if (found === null) return;
    const { script: steps, ...setup } = found;
    opened = ''; // also if it is the same once more
    if (location.hash === address(setup, steps)) dispatchEvent(new HashChangeEvent('hashchange'));
    else location.hash = address(setup, steps);
  }

  const form = setupForm(lab, script, load, (steps) => send('/api/bench', {
    lock: draft.lock, processes: Number(draft.processes), lease: Number(draft.lease), wait: Number(draft.wait),
    renew: draft.renew === 'true', replica: draft.replica === 'true', script: steps,
  }));
  const board = boardOf(lab, (move) => send('/api/bench/act', { do: move }), () => send('/api/cancel', {}),
    (b) => send('/api/bench', { ...b.setup, script: b.script }));
  const element = h('article', { class: 'experiment bench' },
    h('p', { class: 'crumbs' }, h('a', { href: '#/' }, t('lab.back'))),
    h('h1', { tabindex: '-1' }, t('lab.bench')), h('p', {}, t('lab.bench.lead')), form.element, said, board.element);
  return {
    element,
    shows: (id) => id === 'bench',
    update() {
      const { run, bench } = lab.state;
      const mine = run !== null && run.experiment === 'bench';
      form.update(run, mine);
      board.update(bench, mine);
    },
  };
}

// setupForm chooses what is on the bench.
function setupForm(lab, script, load, start) {
  const { locks, no_replica: noReplica } = lab.bench;
  const seconds = (v) => t('lab.bench.seconds', { n: v });
  const selects = {};
  const choose = (name, options) => {
    const field = h('select', { id: `bench-${name}`, 'aria-describedby': 'bench-help', onchange: () => { draft[name] = field.value; fit(); } }, ...options);
    selects[name] = field;
    return h('div', { class: 'field' }, h('label', { for: field.id }, t(`lab.bench.set.${name}`)), field);
  };
  const option = (name, value, words, disabled = false) => h('option', { value, disabled, selected: value === draft[name] }, words);
  const among = (name, values, words) => choose(name, (values.includes(draft[name]) ? values : [...values, draft[name]]).map((v) => option(name, v, words(v))));
  const mechanisms = () => [...new Set(locks.map((m) => m.store))].map((store) => h('optgroup', { label: t(`lab.bench.in.${store}`) },
    ...locks.filter((m) => m.store === store).map((m) => option('lock', m.lock, m.lock, m.missing !== null))));
  // A link with a script is opened to see it: that is the main button then.
  const moves = script === '' ? 0 : script.split('.').length;
  const go = h('button', { class: 'go buy' }, moves > 0 ? t('lab.bench.start.script', { n: moves }) : t('lab.bench.start'));
  const bare = h('button', { type: 'button', onclick: () => { if (!bare.disabled) start(''); } }, t('lab.bench.start.bare'));
  const file = h('input', { type: 'file', accept: '.json,application/json', hidden: true, onchange: () => {
    if (file.files.length > 0) load(file.files[0]);
    file.value = '';
  } });
  const open = h('button', { type: 'button', class: 'quiet', onclick: () => file.click() }, t('lab.bench.open'));
  const help = h('p', { class: 'small' });
  const about = h('p', { class: 'small', id: 'bench-help' });
  const lacking = [...new Set(locks.map((m) => m.missing && own(m.missing)).filter(Boolean)), noReplica !== null && t('lab.bench.noreplica', { what: own(noReplica) })]
    .filter((what) => what !== false);
  const element = h('form', { class: 'play', onsubmit: (event) => { event.preventDefault(); if (!go.disabled) start(script); } },
    h('div', { class: 'two' }, choose('lock', mechanisms()), among('processes', ['2', '3', '4'], (v) => v),
      among('lease', leases, seconds), choose('renew', ['', 'true'].map((v) => option('renew', v, t(v ? 'lab.bench.renewed' : 'lab.bench.fixed')))),
      among('wait', waits, (v) => (v === '0' ? t('lab.bench.once') : seconds(v))),
      choose('replica', ['', 'true'].map((v) => option('replica', v, t(v ? 'lab.bench.replica' : 'lab.bench.alone'))))),
    about, lacking.length > 0 && h('details', {}, h('summary', {}, t('lab.bench.lacking')), h('ul', { class: 'sources' }, ...lacking.map((what) => h('li', {}, what)))),
    help, h('p', { class: 'row' }, go, moves > 0 && bare, open, file));

  // fit leaves what the mechanism has.
  function fit() {
    const m = locks.find((one) => one.lock === draft.lock);
    const ends = m?.ends ?? 'lease';
    selects.lease.disabled = ends === 'never' || ends === 'connection';
    selects.renew.disabled = ends !== 'renewed';
    selects.replica.disabled = m?.store !== 'redis' || noReplica !== null;
    for (const name of ['renew', 'replica']) if (selects[name].disabled) selects[name].value = draft[name] = '';
    text(about, `${t(`lab.bench.ends.${ends}`)} ${t(`lab.bench.kept.${m?.store ?? 'redis'}`)}`);
  }
  if (draft.lock && !locks.some((m) => m.lock === draft.lock)) selects.lock.append(option('lock', draft.lock, draft.lock)); // the server says what is wrong
  fit();
  return {
    element,
    update(run, mine) {
      show(element, !mine);
      go.disabled = bare.disabled = open.disabled = run !== null;
      text(help, run !== null ? t('lab.busy') : moves > 0 ? t('lab.bench.linked', { n: moves }) : '');
    },
  };
}

// boardOf shows a bench that goes on, with its buttons, or how the last one has ended.
function boardOf(lab, act, end, again) {
  const heading = h('h2', {});
  const verdict = h('p', { class: 'verdict waiting', role: 'status' });
  const meaning = h('dl', { class: 'kinds' });
  const going = h('p', { class: 'small', role: 'status' });
  const cards = h('div', { class: 'drivers' });
  const stop = h('button', { type: 'button', class: 'quiet', onclick: end }, t('lab.bench.end'));
  let now = null;
  const replay = h('button', { type: 'button', onclick: () => again(now) }, t('lab.bench.replay'));
  const link = h('code', {});
  const [copy, copied] = copying(link, t('lab.bench.copy'));
  const save = h('a', { class: 'button', href: '/api/bench.json', download: true }, t('lab.bench.save'));
  const share = h('details', { class: 'command' }, h('summary', {}, t('lab.bench.link')),
    h('pre', { tabindex: '0', 'aria-label': t('lab.bench.link') }, link), h('p', { class: 'row' }, copy, save, copied));
  const picture = played(t('lab.live'), { live: true });
  const moves = h('ol', { class: 'moves' });
  const element = h('section', { class: 'live', hidden: true, 'aria-label': t('lab.bench') }, heading, cards, going, verdict,
    picture.element, meaning, h('p', { class: 'row' }, stop, replay), share,
    h('details', {}, h('summary', {}, t('lab.bench.moves')), moves));
  let shown = 0;
  let explained = '';
  let drivers = [];

  return {
    element,
    update(b, mine) {
      show(element, b !== null);
      if (b === null) return;
      now = b;
      if (b.n !== shown) {
        shown = b.n;
        picture.clear();
        drivers = driversOf(b, act);
        list(cards, drivers.map((d) => d.element));
      }
      text(heading, headingOf(b));
      const found = counts(lab.kinds, b.found ?? {}, []);
      verdict.className = `verdict ${found ? 'bad' : 'waiting'}`;
      text(verdict, found ? t('lab.sofar', { found }) : t('lab.sofar.none'));
      const kinds = lab.kinds.filter((k) => b.found?.[k] > 0);
      if (kinds.join() !== explained) {
        explained = kinds.join();
        meaning.replaceChildren(...kinds.flatMap((k) => [h('dt', {}, kindName(k)), h('dd', {}, kindMeans(k))]));
      }
      for (const d of drivers) d.update(b);
      show(cards, mine);
      show(stop, mine);
      show(replay, !mine && b.script !== '');
      replay.disabled = lab.state.run !== null;
      show(share, b.script !== '');
      text(link, `${location.origin}${location.pathname}${address(b.setup, b.script)}`);
      text(going, sentence(b, mine));
      list(moves, b.turns.map((turn, i) => move(moves.children[i], turn, b.kind.store)));
      if (b.picture > 0) picture.show('/api/bench', `n=${b.n}-${b.picture}`);
    },
  };
}

function sentence(b, mine) {
  if (b.failed) return t('lab.bench.failed', { why: b.failed.split('\n')[0] });
  if (!mine) return t(`lab.bench.over.${b.ending || 'ended'}`);
  if (!b.ready) return t('lab.bench.starting');
  if (b.replaying) return t('lab.bench.replaying');
  return b.stopped ? t('lab.bench.stopped') : '';
}

// headingOf says what is on the bench.
function headingOf(b) {
  const { lock, lease, renew, replica } = b.setup;
  const words = [lock];
  if (b.kind.ends === 'session') words.push(t('lab.bench.on.session', { lease }));
  else if (b.kind.ends === 'lease' || b.kind.ends === 'renewed') words.push(t(renew ? 'lab.bench.on.renewed' : 'lab.bench.on.lease', { lease }));
  if (replica) words.push(t('lab.bench.on.replica'));
  return words.join(t('lab.and'));
}

// driversOf makes the cards: the processes, the nodes if there are several, and the store.
function driversOf(b, act) {
  const all = b.processes.map((_, i) => driver(t('lab.bench.process', { n: i + 1 }), '', ofProcess.map((action) => [action + (i + 1), action, t(`lab.bench.do.${action}`)]),
    act, (now) => {
      const p = now.processes[i];
      return { can: p.can, chips: [[t(`lab.bench.is.${p.is}`), p.holds ? 'good' : 'plain'], p.cut && [t('lab.bench.is.cut'), 'bad']] };
    }));
  if (b.nodes.length > 0) {
    all.push(driver(t('lab.bench.nodes'), 'pairs', b.nodes.flatMap((_, i) => ofNode.map((action) => [action + (i + 1), action + (i + 1),
      t('lab.bench.onnode', { what: t(`lab.bench.do.${action}`), n: i + 1 })])), act, (now) => {
      const down = now.nodes.filter((n) => !n.up).length;
      return { can: now.nodes.flatMap((n, i) => n.can.map((action) => action + (i + 1))), chips: [down > 0 && [t('lab.bench.is.down', { n: down }), 'bad']] };
    }));
  }
  const buttons = storeActions(b);
  const whys = [...new Set(buttons.map((action) => b.off[action]).filter((why) => why !== undefined))];
  all.push(driver(t(`lab.bench.store.${b.kind.store}`), 'column', buttons.map((action) => [action, action, t(`lab.bench.do.${action}`)]), act, (now) => ({
    can: now.store,
    chips: [now.expiring && [t('lab.bench.expiring'), 'plain'], now.lagging && [t('lab.bench.is.lagging'), 'bad'], now.failed_over && [t('lab.bench.is.failedover'), 'plain']],
  }), whys.map((why) => t(`lab.bench.why.${why}`))));
  return all;
}

// driver is what has buttons: [move, what is possible, words]. They stay where they are and keep the focus.
function driver(name, layout, moves, act, look, notes = []) {
  const chips = h('p', { class: 'chips', role: 'status' }); // below the buttons, which stay where they are
  const why = h('p', { class: 'small', id: `why-${moves[0][0]}` }, notes.join(' '));
  const buttons = moves.map(([move, action, words]) => {
    const button = h('button', { type: 'button', 'data-do': move, 'aria-disabled': 'true', 'aria-describedby': notes.length > 0 && why.id, onclick: () => {
      if (button.getAttribute('aria-disabled') === 'false') act(move);
    } }, words);
    return [action, button];
  });
  const element = h('div', { class: `driver ${layout}`, role: 'group', 'aria-label': name }, h('h3', {}, name),
    h('div', { class: 'row' }, ...buttons.map(([, button]) => button)), chips, notes.length > 0 && why);
  let shown = '';
  return {
    element,
    update(b) {
      const { can, chips: all } = look(b);
      for (const [action, button] of buttons) button.setAttribute('aria-disabled', String(!can.includes(action)));
      const wanted = all.filter((chip) => chip !== false);
      if (JSON.stringify(wanted) === shown) return;
      shown = JSON.stringify(wanted);
      chips.replaceChildren(...wanted.map(([words, kind]) => h('span', { class: `chip ${kind}` }, words)));
    },
  };
}

// move is one line of what was done. A line that is there is changed in place.
function move(line, turn, store) {
  const e = line ?? h('li', {});
  const what = t(`lab.bench.do.${turn.do}`);
  const by = turn.process > 0 ? t('lab.bench.process', { n: turn.process }) : turn.node > 0 ? t('lab.bench.node', { n: turn.node }) : t(`lab.bench.store.${store}`);
  const told = !turn.told ? '…' : has(`lab.bench.told.${turn.told}`) ? t(`lab.bench.told.${turn.told}`) : turn.told;
  text(e, t('lab.bench.line', { at: (turn.at_ms / 1000).toFixed(1), by, what, told }));
  return e;
}
