// Looks at a report as a reader would, and tells as JSON how much there is and what is wrong with it.
(() => {
  const problems = [];
  const wrong = (text) => { if (problems.length < 40) problems.push(text); };
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const name = (e) => `${e.tagName}.${e.getAttribute("class") || ""} "${e.textContent.trim().slice(0, 40)}"`;
  const root = document.documentElement;
  // Not innerWidth: a phone widens that to what overflows.
  if (root.scrollWidth > root.clientWidth) {
    wrong(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
    all("body *").filter((e) => !e.closest(".scroll, pre") && e.getBoundingClientRect().right > root.clientWidth + 1).forEach((e) => wrong(`sticks out: ${name(e)}`));
  }

  // Pictures: there, whole, and no text upon another.
  const pictures = all("svg.picture").filter((e) => e.getClientRects().length > 0), histograms = all("svg.histogram");
  let smallest = Infinity;
  for (const svg of [...pictures, ...histograms]) {
    const box = svg.getBoundingClientRect();
    if (svg.matches(".narrow") && box.right > svg.parentElement.getBoundingClientRect().right + 1) wrong(`a picture has to be scrolled: ${name(svg)}`);
    if (box.width < 100 || box.height < 50) wrong(`a picture of ${box.width} x ${box.height}`);
    const texts = all("text", svg).map((e) => ({ e, r: e.getBoundingClientRect() }));
    for (const { e, r } of texts) {
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) wrong(`outside its picture: ${name(e)}`);
      if (svg.matches(".picture")) smallest = Math.min(smallest, parseFloat(getComputedStyle(e).fontSize) * box.width / svg.viewBox.baseVal.width);
    }
    // The height of a line of text is more than that of its letters: 2 px of it may touch.
    const meet = (a, b, slack) => a.left < b.right - 1 && b.left < a.right - 1 && a.top + slack < b.bottom - slack && b.top + slack < a.bottom - slack;
    texts.forEach(({ e, r }, i) => {
      for (const other of texts.slice(i + 1)) if (meet(r, other.r, 2)) wrong(`on each other: ${name(e)} and ${name(other.e)}`);
      if (!e.matches(".label")) return;
      for (const symbol of all(".mark > g", svg)) if (meet(r, symbol.getBoundingClientRect(), 3)) wrong(`on a mark: ${name(e)}`);
    });
    if (svg.matches(".picture") && (!svg.querySelector("title")?.textContent || svg.getAttribute("role") !== "img")) wrong("a picture without a title");
  }

  // Contrast, of what stands on one colour or on a bar's tint.
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const rgba = (css) => {
    if (!colours.has(css)) {
      paint.clearRect(0, 0, 1, 1);
      paint.fillStyle = css;
      paint.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
      colours.set(css, [r, g, b, a / 255]);
    }
    return colours.get(css);
  };
  const over = ([r, g, b, a], back) => [r, g, b].map((v, i) => v * a + back[i] * (1 - a));
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((m, n) => n - m);
    return (x + 0.05) / (y + 0.05);
  };
  const ground = (e) => {
    const stack = [];
    for (let at = e; at; at = at.parentElement) stack.unshift(rgba(getComputedStyle(at).backgroundColor));
    return stack.reduce((back, c) => over(c, back), rgba(getComputedStyle(root).getPropertyValue("--paper")).slice(0, 3));
  };
  let least = Infinity;
  const judge = (e, colour, back) => {
    const r = ratio(over(rgba(colour), back), back);
    least = Math.min(least, r);
    if (r < 4.5) wrong(`contrast ${r.toFixed(2)}: ${name(e)}`);
  };
  const told = all("body *").filter((e) => !e.closest("svg, style") && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
  for (const e of told) judge(e, getComputedStyle(e).color, ground(e));
  const shade = rgba(getComputedStyle(root).getPropertyValue("--shade")).slice(0, 3);
  for (const e of all("svg text").filter((e) => e.getClientRects().length > 0)) {
    const style = getComputedStyle(e);
    const bar = e.closest(".bar");
    for (const back of [ground(e), shade]) {
      if (e.matches(".letter")) judge(e, style.fill, over(rgba(getComputedStyle(e.parentElement.querySelector(".badge")).fill), back));
      else if (bar) {
        const tint = getComputedStyle(bar.querySelector("path"));
        const [r, g, b] = rgba(tint.fill);
        judge(e, style.fill, over([r, g, b, parseFloat(tint.fillOpacity)], back));
      } else judge(e, style.fill, back);
    }
  }

  for (const a of all("a[href^='#']")) if (!document.getElementById(a.getAttribute("href").slice(1))) wrong(`leads nowhere: ${name(a)}`);
  const ids = all("[id]").map((e) => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => wrong(`two things are called ${id}`));

  const scroll = document.querySelector(".matrix").parentElement;
  scroll.scrollLeft = 200;
  const first = document.querySelector(".matrix .row .who").getBoundingClientRect(), frame = scroll.getBoundingClientRect();
  if (Math.abs(first.left - frame.left) > 2) wrong("the first column of the matrix scrolls away");
  if (first.width > frame.width * 0.6) wrong("the first column of the matrix leaves no room for the others");
  scroll.scrollLeft = 0;
  const pair = all(".pair > article").slice(0, 2).map((e) => e.getBoundingClientRect());
  return JSON.stringify({
    problems, rows: all(".matrix .row").length, articles: all("article").length, pictures: pictures.length, histograms: histograms.length,
    width: root.scrollWidth, smallest, least, beside: Math.abs(pair[0].top - pair[1].top) < 2, ground: luminance(ground(document.body)),
  });
})();
