// The player: a picture's history, step by step. One sentence follows the cursor, and the store, the stock and the actors
// show their state at that moment. It imports nothing, so that a report can carry it.

const kept = new Map(); // where a player stood, by its key, for when the page makes it anew

function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value !== false) e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

const say = (e, text) => { if (e.textContent !== text) e.textContent = text; };

// player plays the pictures in place, an element whose content may change. Players of one group go in step: at the same time.
//
//   tell(data)      gives it a history, or the same one that has gone on
//   drawn()         there is another picture in place
//   start           stands behind that step
//   key             remembers the step under it
//   asks            asks before what matters
//   live            stands at the end, and goes on with a history that goes on
//   moved(step, of) is called when it stands elsewhere, and scaled() when another scale is chosen
export function player(place, { key = '', asks = true, live = false, start: begin = -1, group = new Set(), moved = () => {}, scaled = () => {} } = {}) {
  const was = kept.get(key);
  const state = was ?? { at: 0, scale: 'steps', passed: new Set(), speed: 1 };
  if (key) kept.set(key, state);
  if (begin >= 0 && !was) state.at = begin;
  let data = null;
  let timer = 0;
  let words = {};
  let answered = null; // the question, and which answer was chosen

  const moment = make('span', { class: 'when' });
  const sentence = make('span');
  const told = make('p', { class: 'told', 'aria-live': live ? 'off' : 'polite', 'aria-atomic': 'true' }, moment, ' ', sentence);
  const question = make('p', { class: 'question', role: 'status' });
  const answers = [0, 1].map((i) => make('button', { type: 'button', onclick: () => answer(i) }));
  const ask = make('div', { class: 'ask', role: 'group' }, question, ...answers);
  const board = make('dl', { class: 'board' });
  const line = make('div', { class: 'line', role: 'slider', tabindex: '0', onpointerdown: pick });
  const button = (sign, act) => make('button', { type: 'button', onclick: act }, sign);
  const first = button('|◀', () => go(0));
  const back = button('◀', () => { halt(); step(-1); });
  const play = make('button', { type: 'button', class: 'play-pause', onclick: () => (timer ? halt() : start()) });
  const on = button('▶', () => { halt(); step(1); });
  const last = button('▶|', () => go(data.steps.length - 1));
  const speed = make('select', { onchange: () => { state.speed = Number(speed.value); if (timer) start(); } },
    ...[0.5, 1, 2, 4].map((f) => make('option', { value: f }, `${f}×`)));
  const time = make('input', { type: 'checkbox', onchange: () => { for (const p of group) p.rescale(time.checked ? 'time' : 'steps'); } });
  const timeWord = make('span');
  const speedWord = make('span', { class: 'small' });
  const keys = make('div', { class: 'keys' }, first, back, play, on, last,
    make('label', { class: 'speed' }, speedWord, speed), make('label', { class: 'scale' }, time, timeWord));
  const element = make('div', { class: 'player', role: 'group', onkeydown: typed }, keys, line, told, ask, board, place);

  element.hidden = true; // until there is something to play
  const self = { element, tell, drawn: draw, seek, next, rescale, state };
  group.add(self);
  speed.value = String(state.speed);
  time.checked = state.scale === 'time';

  function tell(found) {
    const atEnd = data !== null && state.at >= data.steps.length - 1;
    data = found;
    words = data.words;
    for (const [e, word] of [[first, 'first'], [back, 'back'], [on, 'on'], [last, 'last'], [line, 'line'], [element, 'player']]) e.setAttribute('aria-label', words[word]);
    for (const b of [first, back, on, last]) b.title = b.getAttribute('aria-label');
    say(timeWord, words.time);
    say(speedWord, words.speed);
    element.hidden = data.steps.length === 0;
    if (live && (atEnd || !state.began)) state.at = data.steps.length - 1;
    state.began = true;
    state.at = Math.max(0, Math.min(state.at, data.steps.length - 1));
    for (const a of data.asks) if (a.step <= state.at) state.passed.add(a.step);
    marks();
    show();
  }

  function rescale(scale) {
    state.scale = scale;
    time.checked = scale === 'time';
    if (!data) return;
    marks();
    show();
    scaled();
  }

  // position is where a step stands on the line, in percent.
  function position(i) {
    const all = data.steps;
    const [from, to] = [all[0].at_ms, all[all.length - 1].at_ms];
    if (state.scale === 'time') return to > from ? 100 * (all[i].at_ms - from) / (to - from) : 0;
    return all.length > 1 ? 100 * i / (all.length - 1) : 0;
  }

  function marks() {
    line.replaceChildren(...data.steps.map((s, i) => {
      const mark = make('span', { class: `tick ${hidden(i) ? '' : s.tone}`, title: hidden(i) ? '' : `${s.when}: ${s.says}` });
      mark.style.left = `${position(i)}%`;
      return mark;
    }), make('span', { class: 'thumb' }));
  }

  // pending is the question that comes next, and hidden says whether a step would answer it.
  const pending = () => (asks && !live && data.asks.find((a) => !state.passed.has(a.step) && a.step > state.at)) || null;
  const hidden = (i) => pending() !== null && i >= pending().step;

  function show() {
    if (!data || data.steps.length === 0) return;
    const s = data.steps[state.at];
    say(moment, s.when);
    say(sentence, s.says);
    told.className = `told ${s.tone}`;
    const open = pending();
    const asked = open !== null && open.step === state.at + 1;
    const judged = !asked && answered?.ask.step === state.at ? answered : null; // until the visitor goes on
    ask.hidden = !asked && judged === null;
    if (!ask.hidden) {
      const { answers: said, right } = asked ? open : judged.ask;
      say(question, asked ? words.ask : judged.chosen === right ? words.right : words.wrong);
      answers.forEach((b, i) => {
        say(b, `${judged === null ? '' : i === right ? '✓ ' : '✗ '}${said[i]}`);
        b.disabled = !asked;
        b.className = judged === null ? '' : i === right ? 'right' : 'not';
      });
    }
    board.replaceChildren(...data.stores.flatMap((name, i) => chip(name, '', s.keys[i].text || words.free, s.keys[i].who ? data.actors[s.keys[i].who - 1].colour : '', s.keys[i].text ? 'key' : 'free')),
      ...(data.stock ? chip(data.stock, '', s.stock === null ? words.nothing : String(s.stock), '', 'stock') : []),
      ...data.actors.flatMap((a, i) => chip(a.name, a.letter, s.actors[i].says || words.nothing, a.colour, s.actors[i].does || 'free')));
    const beliefs = s.actors.filter((a) => ['holds', 'believes'].includes(a.does)).length;
    board.classList.toggle('several', beliefs > 1);
    [...line.children].forEach((mark, i) => mark.classList.toggle('past', i <= state.at && i < data.steps.length));
    line.lastElementChild.style.left = `${position(state.at)}%`;
    for (const [name, value] of [['min', 1], ['max', data.steps.length], ['now', state.at + 1]]) line.setAttribute(`aria-value${name}`, value);
    line.setAttribute('aria-valuetext', `${words.step.replace('{n}', state.at + 1).replace('{of}', data.steps.length)}: ${s.when}, ${s.says}`);
    back.disabled = first.disabled = state.at === 0;
    on.disabled = last.disabled = asked || state.at === data.steps.length - 1 && theirs() === null;
    last.disabled = state.at === data.steps.length - 1;
    say(play, timer ? words.pause : words.play);
    play.disabled = asked;
    draw();
    moved(state.at, data.steps.length);
  }

  function chip(name, letter, text, colour, kind) {
    const title = make('dt', {}, ...(letter ? [make('span', { class: `letter-of ${colour}` }, letter), ' '] : []), name);
    const value = make('dd', { class: `${kind} ${letter ? '' : colour}` }, text);
    return [make('div', { class: `state ${kind}` }, title, value)];
  }

  // draw shows of the picture what has happened by now.
  function draw() {
    if (!data) return;
    for (const picture of place.querySelectorAll('svg.picture')) {
      const now = picture.querySelector('.now');
      const x = Number(now?.dataset.x.trim().split(' ')[state.at]);
      if (Number.isNaN(x)) continue; // it is of another history, and the next one is on its way
      const cover = now.querySelector('rect');
      cover.setAttribute('x', x);
      const edge = now.querySelector('line');
      edge.setAttribute('x1', x);
      edge.setAttribute('x2', x);
      now.classList.toggle('over', state.at === data.steps.length - 1);
      for (const e of picture.querySelectorAll('[data-s]')) {
        e.classList.toggle('later', Number(e.dataset.s) > state.at);
        e.classList.toggle('here', Number(e.dataset.s) === state.at);
      }
    }
  }

  // seek stands behind what has happened by a time.
  function seek(ms) {
    if (!data || data.steps.length === 0) return;
    let n = data.steps.findIndex((s) => s.at_ms > ms);
    if (n < 0) n = data.steps.length;
    stand(Math.max(0, n - 1));
  }

  // next is when the next step is; null: there is none.
  function next() {
    return data && state.at + 1 < data.steps.length ? data.steps[state.at + 1].at_ms : null;
  }

  // theirs is when another player of the group has its next step.
  function theirs() {
    const times = [...group].filter((p) => p !== self && p.element.isConnected).map((p) => p.next()).filter((ms) => ms !== null);
    return times.length > 0 ? Math.min(...times) : null;
  }

  function stand(i) {
    for (const a of data.asks) if (a.step <= i) state.passed.add(a.step);
    const uncovered = pending();
    state.at = i;
    if (uncovered !== pending()) marks();
    show();
  }

  // go stands behind a step, and brings the others along.
  function go(i) {
    if (!data) return;
    halt();
    stand(Math.max(0, Math.min(i, data.steps.length - 1)));
    others(state.at === data.steps.length - 1 ? Infinity : state.at === 0 ? -Infinity : data.steps[state.at].at_ms);
  }

  function others(ms) {
    for (const p of group) if (p !== self && p.element.isConnected) p.seek(ms);
  }

  // step goes one step on or back, and returns whether there was one.
  function step(by) {
    const open = pending();
    if (by > 0 && open !== null && open.step === state.at + 1) return false;
    const [mine, other] = [next(), theirs()];
    if (by < 0) {
      if (state.at === 0) return false;
      go(state.at - 1);
    } else if (mine === null) {
      if (other === null) return false;
      others(other);
      show();
    } else {
      stand(state.at + 1);
      others(mine);
    }
    return true;
  }

  function answer(i) {
    const open = pending();
    answered = { ask: open, chosen: i };
    stand(open.step);
    others(data.steps[open.step].at_ms);
    line.focus({ preventScroll: true });
  }

  function halt() {
    clearTimeout(timer);
    if (timer === 0) return;
    timer = 0;
    show();
  }

  function start() {
    clearTimeout(timer);
    if (state.at === data.steps.length - 1 && theirs() === null) go(0);
    const wait = () => {
      timer = setTimeout(() => {
        if (!element.isConnected || !step(1)) halt();
        else if (pending()?.step === state.at + 1 || next() === null && theirs() === null) halt();
        else wait();
      }, pause());
    };
    wait();
    show();
  }

  // pause is how long a step stays: long enough to be read, or as long as it took, the whole in about the same time.
  function pause() {
    const s = data.steps;
    if (state.scale === 'steps' || state.at + 1 >= s.length) return (900 + 22 * s[state.at].says.length) / state.speed;
    const all = Math.max(1, s[s.length - 1].at_ms - s[0].at_ms);
    return Math.max(60, (s[state.at + 1].at_ms - s[state.at].at_ms) * s.length * 1500 / all) / state.speed;
  }

  function pick(event) {
    const { left, width } = line.getBoundingClientRect();
    const at = 100 * (event.clientX - left) / width;
    let nearest = 0;
    data.steps.forEach((_, i) => { if (Math.abs(position(i) - at) < Math.abs(position(nearest) - at)) nearest = i; });
    const open = pending();
    go(open === null ? nearest : Math.min(nearest, open.step - 1)); // not past a question
  }

  function typed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest('select, input')) return;
    const does = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => go(0), End: () => go(data.steps.length - 1) }[event.key];
    if (does) {
      halt();
      does();
    } else if (event.key === ' ' && !event.target.closest('button')) {
      if (!play.disabled) play.click();
    } else return;
    event.preventDefault();
  }

  return self;
}
