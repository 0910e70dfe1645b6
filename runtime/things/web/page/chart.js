// Chart: the past of a number, drawn as steps: a value holds until the next one.

import { h, span, svg, told } from "./elements.js";

const WIDTH = 320,
  HEIGHT = 72,
  EDGE = 4;

/** A small chart; `update(samples)` draws it anew. */
export function chart(label, unit) {
  const area = svg("path", { class: "area" });
  const line = svg("path", { class: "line" });
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Chart of ${label}`,
    },
    area,
    line,
  );
  const top = h("span"),
    bottom = h("span"),
    time = h("span");
  const element = h(
    "figure",
    { class: "chart", hidden: true },
    picture,
    h("figcaption", {}, time, h("span", { class: "range" }, bottom, " to ", top)),
  );

  function update(samples) {
    element.hidden = samples.length < 2;
    if (element.hidden) return;
    const values = samples.map((each) => each.value);
    const low = Math.min(...values),
      high = Math.max(...values),
      now = Date.now();
    const start = samples[0].at,
      length = Math.max(now - start, 1),
      height = high - low || 1;
    const x = (at) => (((at - start) / length) * WIDTH).toFixed(1);
    const y = (value) => (HEIGHT - EDGE - ((value - low) / height) * (HEIGHT - 2 * EDGE)).toFixed(1);
    let path = `M0 ${y(values[0])}`;
    for (const each of samples.slice(1)) path += `H${x(each.at)}V${y(each.value)}`;
    path += `H${WIDTH}`;
    line.setAttribute("d", path);
    area.setAttribute("d", `${path}V${HEIGHT}H0Z`);
    top.textContent = told(high, unit);
    bottom.textContent = told(low, unit);
    time.textContent = `last ${span(length / 1000)}`;
    const from = `from ${told(low, unit)} to ${told(high, unit)}`;
    const what = `${label} in the last ${span(length / 1000)}: ${from}, now ${told(values.at(-1), unit)}`;
    picture.setAttribute("aria-label", what);
  }
  return { element, update };
}
