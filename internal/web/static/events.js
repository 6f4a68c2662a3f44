// A stream of server-sent events over fetch. EventSource cannot send the administrator's token.

import { Refusal } from './api.js';

// follow calls handle(event, data) for every event until the signal is aborted, and state(connected) when that
// changes. After a break it goes on behind the last event that was seen, which seen keeps, so nothing is missed; if the
// server does not have that any more, it says so with the event "gap".
export async function follow(path, headers, handle, state, signal, seen = { last: '' }) {
  while (!signal.aborted) {
    try {
      const response = await fetch(path, { headers: { ...headers(), ...(seen.last && { 'Last-Event-ID': seen.last }) }, signal, cache: 'no-store' });
      if (!response.ok) throw new Refusal(response, await response.json().catch(() => ({})));
      state(true);
      await read(response.body.getReader(), (event) => {
        if (event.id) seen.last = event.id;
        try {
          handle(event.name, JSON.parse(event.data || '{}'));
        } catch (error) {
          reportError(error); // a fault of the page is no reason to connect again
        }
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && [401, 403, 404].includes(error.status)) throw error;
    }
    state(false);
    await new Promise((resolve) => { setTimeout(resolve, 1000 + Math.random() * 1000); });
  }
}

// followWhileSeen does so without end, and not while the page is hidden: a browser has six connections for all its tabs.
export async function followWhileSeen(path, headers, handle, state) {
  const seen = { last: '' };
  for (;;) {
    const end = new AbortController();
    const changed = new Promise((resolve) => { document.addEventListener('visibilitychange', resolve, { once: true }); });
    changed.then(() => end.abort());
    if (!document.hidden) await follow(path, headers, handle, state, end.signal, seen);
    await changed;
  }
}

async function read(reader, deliver) {
  const decoder = new TextDecoder(); // TextDecoderStream is newer than the oldest browser
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + decoder.decode(value, { stream: true })).split('\n\n');
    rest = events.pop();
    for (const lines of events) {
      const event = { name: 'message', data: '', id: '' };
      for (const line of lines.split('\n')) {
        const [, field, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (field === 'data') event.data += text;
        if (field === 'id') event.id = text;
        if (field === 'event') event.name = text;
      }
      if (event.data) deliver(event); // a comment keeps the connection open, and is no event
    }
  }
}
