// Texts, numbers and times in the visitor's language.

import { $, h, text } from './dom.js';
import { browser } from './store.js';
import { setup as setupTaps } from './tap.js';

const names = { en: 'English', zh: '中文' };
const stored = 'seckill.language';

// load gets the messages of this page.
const load = async (code) => (await import(`./messages-${document.documentElement.dataset.page}-${code}.js`)).default;

let language = chosen();
let messages = await load(language);
let listeners = [];

function chosen() {
  const wanted = [browser.get(stored), ...navigator.languages];
  for (const tag of wanted) {
    const known = tag.toLowerCase().split('-')[0];
    if (names[known]) return known;
  }
  return 'en';
}

// t returns the message of a key. What stands in braces is taken from the values.
export function t(key, values = {}) {
  const message = messages[key];
  if (message === undefined) {
    console.error(`the message ${key} is missing in ${language}`);
    return key;
  }
  return message.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// has says whether there is a message: a state or a refusal may be newer than this page.
export const has = (key) => messages[key] !== undefined;

// own returns the one in the visitor's language, of texts that the server has in each.
export const own = (texts) => texts[language];

// inLanguage is the address of a picture with texts in the visitor's language.
export const inLanguage = (url) => `${url}${url.includes('?') ? '&' : '?'}lang=${language}`;

// The formats of a language are made once: making one takes longer than all that it is used for.
const formats = new Map();

function format(kind, name, options) {
  const key = language + name;
  if (!formats.has(key)) formats.set(key, new kind(language, options));
  return formats.get(key);
}

export const number = (n) => format(Intl.NumberFormat, 'number').format(n);

// money shows cents, in the currency of the shop.
export function money(cents) {
  const digits = cents % 100 === 0 ? 0 : 2;
  const { currency } = document.documentElement.dataset;
  return format(Intl.NumberFormat, `money${digits}`, {
    style: 'currency', currency, minimumFractionDigits: digits, maximumFractionDigits: digits,
  }).format(cents / 100);
}

export const moment = (ms) => format(Intl.DateTimeFormat, 'moment', { dateStyle: 'medium', timeStyle: 'medium' }).format(ms);

// when shows a time that is about now without its date.
export function when(ms, now) {
  const near = Math.abs(ms - now) < 12 * 3600000;
  return near ? format(Intl.DateTimeFormat, 'time', { timeStyle: 'medium' }).format(ms) : moment(ms);
}

// duration shows a time in ms, rounded up to its second.
export function duration(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const [days, hours, minutes, seconds] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60, s % 60];
  if (days > 0) return t('duration.days', { days, hours });
  const two = (n) => String(n).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds)}` : `${two(minutes)}:${two(seconds)}`;
}

// onLanguage calls f now and whenever the language changes.
export function onLanguage(f) {
  listeners.push(f);
  f();
}

const told = new Map();

// tell writes what has become of something, now and again in each language that is chosen. The tone is a class.
export function tell(id, words, tone) {
  told.set(id, words);
  text($(id), words());
  $(id).className = `outcome ${tone}`;
}

// setup translates what the page itself says, and makes the buttons that change the language.
export function setup(titleKey) {
  if (!('showModal' in HTMLDialogElement.prototype)) throw new Error('this browser is too old'); // the page says so
  $('old').remove();
  setupTaps();
  const buttons = Object.keys(names).map((code) => h('button', {
    type: 'button', lang: code, onclick: async () => {
      [messages, language] = [await load(code), code];
      browser.set(stored, code);
      for (const f of listeners) f();
    },
  }, names[code]));
  $('languages').append(...buttons);
  onLanguage(() => {
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : language;
    document.title = t(titleKey);
    for (const e of document.querySelectorAll('[data-t]')) e.textContent = t(e.dataset.t);
    for (const e of document.querySelectorAll('[data-t-label]')) e.setAttribute('aria-label', t(e.dataset.tLabel));
    $('languages').setAttribute('aria-label', t('language'));
    for (const [id, words] of told) text($(id), words());
    for (const b of buttons) b.setAttribute('aria-pressed', String(b.lang === language));
  });
}
