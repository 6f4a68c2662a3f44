// The orders of a sale in its last minute, beside the stock that was there to sell, and what was done to the sale.

import { number, t } from './i18n.js';

const minute = 60000;
const [left, right, top, bottom] = [48, 12, 34, 26]; // the margins, in px

const svg = (name, attributes, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
};

// lastMinute returns the looks of the last minute, the newest last.
export function lastMinute(seen) {
  const now = Date.parse(seen.at(-1)?.at);
  return seen.filter((s) => now - Date.parse(s.at) <= minute);
}

// marks returns what was done to the sale between two looks.
function marks(seen) {
  const found = [];
  for (const [i, now] of seen.entries()) {
    const before = seen[i - 1];
    if (!before) continue;
    const add = (says) => found.push({ at: Date.parse(now.at), says });
    if (now.rushes > before.rushes) add(t('chart.rush'));
    if (now.paused !== before.paused) add(t(now.paused ? 'chart.pause' : 'chart.resume'));
    const more = now.audit && before.audit ? now.audit.initial_stock - before.audit.initial_stock : 0;
    if (more !== 0) add(t(more > 0 ? 'chart.refill' : 'chart.less', { n: number(Math.abs(more)) }));
  }
  return found;
}

// steps returns about four round numbers up to the highest.
function steps(highest) {
  const rough = highest / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, unit * [1, 2, 5, 10].find((n) => n * unit >= rough));
  return Array.from({ length: Math.floor(highest / step) + 1 }, (_, i) => i * step);
}

// draw draws the looks into an element, and returns in words what they show.
export function draw(into, seen) {
  const shown = lastMinute(seen);
  const points = shown.filter((s) => s.audit);
  if (points.length === 0) {
    into.replaceChildren();
    return '';
  }
  const { clientWidth: width, clientHeight: height } = into;
  const now = Date.parse(shown.at(-1).at);
  const last = points.at(-1).audit;
  const highest = 1.1 * Math.max(1, ...points.map((p) => Math.max(p.audit.orders, p.audit.initial_stock)));
  const x = (at) => Math.round(left + (width - left - right) * (1 - (now - at) / minute));
  const y = (n) => Math.round(height - bottom - (height - top - bottom) * n / highest);
  const line = (of) => points.map((p) => `${x(Date.parse(p.at))},${y(of(p.audit))}`);
  const area = (corners) => [`${x(Date.parse(points[0].at))},${y(0)}`, ...corners, `${x(Date.parse(points.at(-1).at))},${y(0)}`].join(' ');
  const label = (at, says, attributes) => svg('text', { x: at[0], y: at[1], ...attributes }, says);
  const orders = line((a) => a.orders);
  const stock = line((a) => a.initial_stock);

  const parts = steps(highest).flatMap((n) => [
    svg('line', { x1: left, x2: width - right, y1: y(n), y2: y(n), class: 'grid' }),
    label([left - 6, y(n) + 4], number(n), { 'text-anchor': 'end' }),
  ]);
  for (const ago of width < 420 ? [60, 30, 0] : [60, 45, 30, 15, 0]) {
    const at = [x(now - 1000 * ago), height - 8];
    parts.push(label(at, ago ? t('chart.ago', { n: number(ago) }) : t('chart.now'), { 'text-anchor': ago === 60 ? 'start' : ago ? 'middle' : 'end' }));
  }
  parts.push(label([left, 12], t('watch.orders'), { class: 'axis', 'text-anchor': 'end' }));
  // All orders are red, and green as far as the stock goes.
  parts.push(svg('clipPath', { id: 'stock-area' }, svg('polygon', { points: area(stock) })));
  parts.push(svg('polygon', { points: area(orders), class: 'over' }));
  parts.push(svg('polygon', { points: area(orders), class: 'sold', 'clip-path': 'url(#stock-area)' }));
  parts.push(svg('polyline', { points: orders.join(' '), class: 'orders' }));
  parts.push(svg('polyline', { points: stock.join(' '), class: 'limit' }));
  const [begins, level] = [x(Date.parse(points[0].at)), y(points[0].audit.initial_stock)]; // the orders are steepest at the other end
  const room = begins > left + 100;
  parts.push(label([room ? begins - 6 : begins + 4, level + (room ? 4 : -6)], t('chart.stock', { n: number(last.initial_stock) }), { 'text-anchor': room ? 'end' : 'start', class: 'limit-name' }));
  const done = marks(shown);
  for (const [i, mark] of done.entries()) {
    const [at, row] = [x(mark.at), 12 + 14 * (i % 2)];
    const late = at > width - 120;
    parts.push(svg('line', { x1: at, x2: at, y1: row - 10, y2: height - bottom, class: 'mark' }));
    parts.push(label([at + (late ? -4 : 4), row], mark.says, { 'text-anchor': late ? 'end' : 'start', class: 'mark-name' }));
  }
  into.replaceChildren(...parts);
  const seconds = Math.round((now - Date.parse(shown[0].at)) / 1000);
  const says = t('chart.text', { seconds: number(seconds), orders: number(last.orders), stock: number(last.initial_stock) });
  return [says, ...done.map((m) => t('chart.done', { what: m.says, n: number(Math.round((now - m.at) / 1000)) }))].join(' ');
}
