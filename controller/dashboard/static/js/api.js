// Calls of the daemon. Belongs here: the token, problem documents as errors. Never: what a call means.

import { token } from "./token.js";

const LIMIT_MS = 20_000;

/** The daemon refused, or did not answer (`status` 0). `message` is the whole sentence. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `cannot reach the daemon: ${problem.reason}; see that it runs`);
    this.status = status;
    this.reason = problem.reason ?? null;
    this.remedy = problem.remedy ?? null;
  }
}

/** The JSON of a route below /api/v1. Lists in `asked` are repeated; null is left out. Throws Refused. */
export async function get(path, asked = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) query.append(name, one);
    }
  }
  const text = query.toString();
  const answer = await call("GET", path + (text ? `?${text}` : ""), {});
  return answer.json();
}

/** A change. `version`: only while the knobs are at it. Throws Refused. */
export async function change(method, path, body = null, version = null) {
  const headers = { "Idempotency-Key": someId() };
  if (body !== null) headers["Content-Type"] = "application/json";
  if (version !== null) headers["If-Match"] = `"${version}"`;
  const answer = await call(method, path, headers, body === null ? undefined : JSON.stringify(body));
  return answer.json();
}

/** An answer that may go on for ever; `signal` ends it. Throws Refused. */
export async function open(path, headers, signal) {
  return checked(await reached(path, { headers: { ...authorized(), ...headers }, signal, cache: "no-store" }));
}

async function call(method, path, headers, body) {
  const signal = AbortSignal.timeout(LIMIT_MS);
  return checked(await reached(path, { method, headers: { ...authorized(), ...headers }, body, signal }));
}

async function reached(path, request) {
  try {
    return await fetch(`/api/v1${path}`, request);
  } catch (error) {
    if (request.signal?.aborted && error.name === "AbortError") throw error;
    throw new Refused(0, { reason: error.name === "TimeoutError" ? "no answer in time" : "it does not answer" });
  }
}

async function checked(answer) {
  if (answer.ok) return answer;
  let problem = { detail: `cannot take this call: ${answer.status} ${answer.statusText}` };
  try {
    problem = await answer.json();
  } catch {
    // not the daemon's own answer, a proxy's maybe
  }
  throw new Refused(answer.status, problem);
}

function authorized() {
  const held = token();
  return held ? { Authorization: `Bearer ${held}` } : {};
}

function someId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
