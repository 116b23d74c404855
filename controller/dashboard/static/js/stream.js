// The event stream, read with fetch since EventSource sends no token. Belongs here: the wire format, going on after the
// last event, coming again. Never: what an event means.

import { Refused, open } from "./api.js";

const FIRST_MS = 500;
const LONGEST_MS = 8000;
/** The daemon says every 15 s that it lives; a connection that is silent for longer is dead. */
const SILENT_MS = 35_000;
/** Of no life of the daemon: everything that is kept comes. */
const FROM_THE_START = "none-0";

/** Takes text in any pieces; `push` answers the events that are complete. */
export class Frames {
  constructor() {
    this.lastId = null;
    this.rest = "";
  }

  push(text) {
    const frames = (this.rest + text).split("\n\n");
    this.rest = frames.pop();
    return frames.map((frame) => this.read(frame)).filter((event) => event !== null);
  }

  read(frame) {
    let kind = "message";
    let data = null;
    for (const line of frame.split("\n")) {
      if (line.startsWith("id: ")) this.lastId = line.slice(4);
      else if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    return data === null ? null : { kind, data: JSON.parse(data) };
  }
}

/** Follow for ever. `heard(events)` in batches; `fared(state, error)`: live, lost, refused. `again()` comes at once. */
export function follow(heard, fared) {
  const place = { lastId: FROM_THE_START };
  let abort = new AbortController();
  let wake = () => {};
  let fresh = false;

  async function run() {
    let pauseMs = FIRST_MS;
    for (;;) {
      abort = new AbortController();
      fresh = false;
      let state = "lost";
      try {
        await read(place, abort, heard, () => {
          pauseMs = FIRST_MS;
          fared("live", null);
        });
        fared(state, null);
      } catch (error) {
        state = error instanceof Refused && [401, 403].includes(error.status) ? "refused" : "lost";
        if (!fresh) fared(state, error);
      }
      if (!fresh) await new Promise((resolve) => (wake = resolve) && setTimeout(resolve, pauseMs));
      pauseMs = Math.min(pauseMs * 2, state === "refused" ? LONGEST_MS * 4 : LONGEST_MS);
    }
  }
  run();
  return {
    again() {
      fresh = true;
      abort.abort();
      wake();
    },
  };
}

async function read(place, abort, heard, live) {
  let timer = setTimeout(() => abort.abort(), SILENT_MS);
  try {
    const answer = await open("/events", { "Last-Event-ID": place.lastId }, abort.signal);
    live();
    const frames = new Frames();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), SILENT_MS);
      const events = frames.push(value);
      if (frames.lastId !== null) place.lastId = frames.lastId;
      if (events.length) heard(events);
    }
  } finally {
    clearTimeout(timer);
  }
}
