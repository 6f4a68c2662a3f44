// Pictures that the server draws. They come as XML documents, so that their texts can be read and their parts have
// tooltips; no script in one would run.

import { h } from './dom.js';
import { call } from './api.js';
import { inLanguage } from './i18n.js';
import { player } from './player.js';

function load(url) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('GET', url);
    request.responseType = 'document';
    request.onload = () => {
      if (request.status === 200 && request.responseXML) resolve(document.importNode(request.responseXML.documentElement, true));
      else reject(new Error(`${url}: ${request.status}`));
    };
    request.onerror = () => reject(new Error(`${url}: no answer`));
    request.send();
  });
}

// The shortest time between two pictures of one frame, in ms.
const calm = () => (matchMedia('(prefers-reduced-motion: reduce)').matches ? 1000 : 0);

// narrow says whether there is room only for a picture that is drawn for a phone. The style sheet has the same bound.
const narrow = matchMedia('(max-width: 700px)');

// frame is a place for a picture. Its show(url) replaces the picture when the next one is there; of several that are
// asked for meanwhile it loads the newest only.
function frame(label, drawn) {
  const element = h('div', { class: 'scroll wide', tabindex: '0', role: 'region', 'aria-label': label });
  let next = null;
  let busy = false;
  let shown = '';
  let wanted = '';
  async function work() {
    busy = true;
    while (next) {
      const url = next;
      next = null;
      try {
        const picture = await load(url);
        element.replaceChildren(picture);
        shown = url;
        drawn();
      } catch { // the run is over, or the server is gone: the page says so elsewhere
        if (!next) break;
      }
      if (next && calm()) await new Promise((resolve) => { setTimeout(resolve, calm()); });
    }
    busy = false;
  }
  function show(url) {
    wanted = url;
    const sized = narrow.matches ? `${url}${url.includes('?') ? '&' : '?'}size=narrow` : url;
    if (sized === shown || sized === next) return;
    next = sized;
    if (!busy) work();
  }
  narrow.addEventListener('change', function turned() { // a phone was turned
    if (!element.isConnected) narrow.removeEventListener('change', turned);
    else if (wanted) show(wanted);
  });
  return { element, show };
}

// played is a place for a picture that is played. Its show(address, query) replaces the picture and its steps; the address
// has no suffix.
export function played(label, options) {
  const place = frame(label, () => self.drawn());
  const self = player(place.element, { ...options, scaled: picture });
  let address = '';
  let query = '';

  function picture() {
    if (address) place.show(inLanguage(`${address}.svg?${query}${self.state.scale === 'steps' ? '&scale=steps' : ''}`));
  }

  async function show(of, more = '') {
    if (address === of && query === more) return;
    [address, query] = [of, more];
    try {
      const steps = await call('GET', inLanguage(`${of}.steps?${more}`));
      if (steps.steps && address === of && query === more) self.tell(steps); // there may be a newer one, or none any more
    } catch { // the page says so elsewhere
    }
    picture();
  }
  return { ...self, show, clear: () => { address = ''; place.element.replaceChildren(); } };
}
