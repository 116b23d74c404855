// A change of one knob that another operator's word must not get lost by. Never: asking the operator.

import { get } from "./api.js";

const TRIES = 5;
const STALE = 412;

/** `send(version)` with the version that was read. A version is of all knobs: where the policies moved some meanwhile and
 * the word on this one is the same, it is sent again with the new one. Throws Refused. */
export async function atVersion(version, knob, send) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send(version);
    } catch (error) {
      if (error.status !== STALE || tries === TRIES) throw error;
      const all = await get("/knobs");
      const now = all.knobs.find((one) => one.name === knob.name);
      if (now?.override?.set_at !== knob.override?.set_at) throw error;
      version = all.version;
    }
  }
}
