// The course: how far one is, what comes next, and hints. What is run on this page counts, and so does what the command
// line does: both share a file.

import { call } from './api.js';
import { h, text } from './dom.js';
import { own, t } from './i18n.js';

let course = null;
let opened = null; // the lesson whose tasks are shown

// where is the place on this page for a task. What is done on the bench or as the scheduler is checked by the command line,
// as all other tasks are.
function where(task) {
  switch (task.kind) {
    case 'predict': case 'hold': return h('a', { class: 'button go', href: `#/${task.experiment}` }, t('lab.course.do'));
    case 'by hand': return h('a', { class: 'button', href: '#/bench' }, t('lab.bench'));
    case 'schedule': return h('a', { class: 'button', href: '#/scheduler' }, t('lab.scheduler'));
    default: return false;
  }
}

export function courseView(lab) {
  const lessons = h('ol', { class: 'lessons' });
  const lead = h('p', { role: 'status' });
  const element = h('div', { class: 'course' },
    h('p', { class: 'crumbs' }, h('a', { href: '#/' }, t('lab.back'))),
    h('h1', { tabindex: '-1' }, t('lab.course')), lead, lessons);
  let seen = -1;

  async function load(request) {
    try {
      course = await request;
    } catch {
      text(lead, t('lab.trouble'));
      return;
    }
    draw();
  }

  function draw() {
    const done = course.lessons.filter((l) => l.tasks.every((task) => task.done)).length;
    text(lead, course.next === '' ? t('lab.course.all', { folder: course.folder }) : t('lab.course.lead', { done, of: course.lessons.length, folder: course.folder }));
    const current = opened ?? course.next;
    const focused = lessons.contains(document.activeElement) ? document.activeElement.id : '';
    lessons.replaceChildren(...course.lessons.map((l) => lesson(l, l.id === current)));
    document.getElementById(focused)?.focus({ preventScroll: true });
  }

  function lesson(l, open) {
    const done = l.tasks.filter((task) => task.done).length;
    const id = `lesson-${l.number}`;
    return h('li', { class: l.id === course.next ? 'next' : false },
      h('h2', {}, h('button', {
        type: 'button', class: 'quiet', id, 'aria-expanded': String(open),
        onclick: () => { opened = open ? '' : l.id; draw(); },
      }, `${l.number}. ${own(l.title)}`)),
      h('p', { class: 'of' }, t('lab.course.minutes', { n: l.minutes }), ' · ', own(l.level), ' ',
        h('span', { class: `chip ${done === l.tasks.length ? 'good' : 'plain'}` }, t('lab.course.tasks', { done, of: l.tasks.length }))),
      open && h('div', { class: 'tasks' }, h('p', {}, own(l.goal)),
        h('ol', {}, ...l.tasks.map((task, n) => h('li', { class: task.done ? 'done' : false },
          own(task.ask), ' ', task.done && h('span', { class: `chip ${task.right ? 'good' : 'plain'}` }, t(task.right ? 'lab.right' : 'lab.course.done')),
          n === done && h('p', { class: 'do' }, where(task), h('code', {}, task.command))))),
        h('div', { role: 'status' }, l.hints.length > 0 && h('ul', { class: 'hints' }, ...l.hints.map((one) => h('li', {}, own(one))))),
        l.more && h('button', {
          type: 'button', class: 'button', id: `${id}-hint`, onclick: () => load(call('POST', '/api/course/hint', { body: { lesson: l.id } })),
        }, t('lab.course.hint', { n: l.hints.length + 1 }))));
  }

  if (course) draw(); // another language: what was loaded is there at once
  return {
    element,
    shows: () => false,
    update() { // a run may have counted
      if (seen === lab.state.runs.length) return;
      seen = lab.state.runs.length;
      load(call('GET', '/api/course'));
    },
  };
}
