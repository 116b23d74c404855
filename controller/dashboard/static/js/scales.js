// The vertical axes: where one ends, where its lines are. Round ends, so that a chart does not breathe with each tick.

const DECADES = [1, 2, 5];

/** {range, ticks} in the units of the axis; `log` ranges are exponents of ten, as plotly wants them. */
export function scale(kind, values) {
  if (kind === "share") return { range: [0, 1.02], ticks: [0, 0.5, 1] };
  const known = values.filter((value) => typeof value === "number" && Number.isFinite(value));
  return kind === "log" ? logarithmic(known.filter((value) => value > 0)) : count(known);
}

/** The least of 1, 2, 5, 10, ... that is not under a value. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const decade = 10 ** Math.floor(Math.log10(value));
  return (DECADES.find((one) => one * decade >= value * (1 - 1e-9)) ?? 10) * decade;
}

function count(values) {
  const most = roundUp(Math.max(1, ...highest(values)) * 1.02);
  return { range: [0, most * 1.02], ticks: [0, most / 2, most] };
}

function logarithmic(values) {
  if (!values.length) return { range: [-3, 1], ticks: [0.001, 0.01, 0.1, 1, 10] };
  const low = Math.floor(Math.log10(lowest(values)) * 2 - 0.1) / 2;
  const high = Math.max(low + 1, Math.ceil(Math.log10(highest(values)[0]) * 2 + 0.1) / 2);
  const ticks = [];
  for (let decade = Math.floor(low); decade <= high; decade += 1) {
    for (const one of high - low > 2.6 ? [1] : [1, 3]) {
      const at = Math.log10(one * 10 ** decade);
      if (at >= low - 1e-9 && at <= high + 1e-9) ticks.push(one * 10 ** decade);
    }
  }
  return { range: [low, high], ticks };
}

// Spread arguments end at some ten thousands of values.
const highest = (values) => [values.reduce((a, b) => Math.max(a, b), -Infinity)];
const lowest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
