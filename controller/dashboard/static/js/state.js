// What the page knows, and who wants to hear when it is another. Belongs here: that. Never: asking the daemon, showing.

/** null: not asked yet, or not known. */
export const state = {
  status: null,
  knobs: null,
  alerts: null,
  cost: null,
  checks: null,
  /** Decisions of the window by uid, those that changed or tried to change something. */
  decisions: new Map(),
  /** What operators did, by request id. */
  actions: new Map(),
  /** live, connecting, lost, refused */
  connection: "connecting",
  lostAt: null,
};

const listeners = new Map();

/** Have `heard` called whenever one of the topics is told. */
export function on(topics, heard) {
  for (const topic of topics.split(" ")) {
    if (!listeners.has(topic)) listeners.set(topic, []);
    listeners.get(topic).push(heard);
  }
}

/** Something is another: tick, status, knobs, alerts, cost, checks, decisions, window, connection, words, theme, token. */
export function tell(topic, value) {
  for (const heard of listeners.get(topic) ?? []) heard(value, topic);
}
