// The laboratory's page: which view is shown, and what the server says of the session.

import { $, h, show, text } from './dom.js';
import { call } from './api.js';
import { followWhileSeen } from './events.js';
import { onLanguage, setup, t } from './i18n.js';
import { listView } from './lablist.js';
import { resultsView } from './labresults.js';

const lab = { experiments: new Map(), kinds: [], bench: { locks: [], no_replica: null }, levels: [], freePlay: {}, state: { run: null, runs: [], bench: null } };
let view = null;
let left = null; // where the visitor was in the list, and what was chosen there

// route reads the address: #/ is the list, #/results the session's results, #/bench?... the bench,
// #/scheduler?... the levels, #/course the course, #/ID an experiment.
function route() {
  return decodeURIComponent(location.hash.replace(/^#\/?/, '').split('?')[0]);
}

// The views that a visitor opens later, if ever.
const later = {
  experiment: async () => (await import('./labrun.js')).experimentView,
  bench: async () => (await import('./labbench.js')).benchView,
  scheduler: async () => (await import('./labscheduler.js')).schedulerView,
  course: async () => (await import('./labcourse.js')).courseView,
};

const makes = {}; // what has come of them

async function render({ focus }) {
  const id = route();
  const main = $('main');
  if (id === 'main') return; // the link that skips to the content
  const of = lab.experiments.get(id);
  const kind = of ? 'experiment' : id;
  if (later[kind] && !makes[kind]) makes[kind] = await later[kind]();
  const make = makes[kind];
  const asked = new URLSearchParams(location.hash.split('?')[1] ?? '');
  if (id !== route()) return; // the visitor has gone on
  if (id === 'results') view = resultsView(lab);
  else if (of) view = make(lab, of, asked);
  else if (make) view = make(lab, asked);
  else view = listView(lab);
  main.replaceChildren(view.element);
  view.update();
  if (!focus) return;
  const back = id === '' && left !== null; // to the place in the list that the visitor has left
  scrollTo(0, back ? left.at : 0);
  (back && main.querySelector(`.groups a[href="${left.for}"]`) || main.querySelector('h1')).focus({ preventScroll: true });
}

function update() {
  const { run, runs } = lab.state;
  show($('results-link'), runs.length > 0);
  text($('results-link'), t('lab.results.link', { n: runs.length }));
  const elsewhere = run && !view?.shows(run.experiment);
  show($('going'), Boolean(elsewhere));
  if (elsewhere && $('going').dataset.run !== String(run.n)) {
    $('going').dataset.run = run.n;
    $('going').replaceChildren(t('lab.going'), ' ', h('a', { href: `#/${run.experiment}` }, run.experiment === 'bench' ? t('lab.bench') : run.experiment));
  }
  view?.update();
}

async function begin() {
  let found;
  for (;;) {
    try {
      found = await call('GET', '/api/experiments');
      break;
    } catch (error) {
      show($('notice'), true);
      text($('notice'), t('lab.trouble'));
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
    }
  }
  show($('notice'), false);
  lab.kinds = found.kinds.map((k) => k.kind);
  lab.bench = found.bench;
  lab.levels = found.levels;
  lab.freePlay = found.free_play;
  for (const e of found.experiments) lab.experiments.set(e.id, e);
  $('skip').addEventListener('click', (event) => {
    event.preventDefault();
    $('main').focus();
  });
  document.addEventListener('click', (event) => {
    const chosen = event.target.closest?.('.groups a');
    if (chosen) left = { at: scrollY, for: chosen.getAttribute('href') };
  });
  addEventListener('hashchange', () => render({ focus: true }));
  onLanguage(() => {
    delete $('going').dataset.run;
    render({ focus: false });
    update();
  });
  followWhileSeen('/api/events', () => ({}), (name, data) => {
    if (name === 'gap') return; // the next event is the whole state
    lab.state = data;
    update();
  }, (connected) => {
    show($('notice'), !connected);
    text($('notice'), t('lab.trouble'));
  }).catch(reportError);
}

setup('lab.title');
begin();
