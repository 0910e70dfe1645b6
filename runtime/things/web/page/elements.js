// Elements: makes elements of the page, and the words for values. Texts are set as texts: nothing here is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Attributes: a function is a listener, true an attribute without a value; null and false are left out. */
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** "colour_temperature" or "colourTemperature" as words: "Colour temperature". */
export function words(name) {
  const text = name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/[_.-]+/g, " ")
    .trim()
    .toLowerCase();
  return text ? text[0].toUpperCase() + text.slice(1) : name;
}

const UNITS = {
  percent: "%",
  celsius: "°C",
  degreecelsius: "°C",
  degc: "°C",
  fahrenheit: "°F",
  kelvin: "K",
  second: "s",
  seconds: "s",
  millisecond: "ms",
  minute: "min",
  hour: "h",
  watt: "W",
  kilowatt: "kW",
  watthour: "Wh",
  kilowatthour: "kWh",
  volt: "V",
  ampere: "A",
  lux: "lx",
  hertz: "Hz",
  metre: "m",
  meter: "m",
  pascal: "Pa",
  hectopascal: "hPa",
  decibel: "dB",
  degree: "°",
  partspermillion: "ppm",
};

/** The sign of a unit. */
export function sign(unit) {
  if (!unit) return "";
  const plain = unit
    .replace(/^\w+:/, "")
    .replace(/[\s_-]/g, "")
    .toLowerCase();
  return UNITS[plain] ?? unit;
}

const PLAIN = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2, useGrouping: false });
const NUMBER = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const PREFIXES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A value for people. */
export function told(value, unit) {
  if (value === undefined) return "…";
  if (value === null) return "–";
  if (value === true) return "on";
  if (value === false) return "off";
  if (typeof value === "number") {
    if (/^bytes?$/i.test(unit ?? "")) return bytes(value);
    const of = sign(unit),
      text = (of ? NUMBER : PLAIN).format(value); // without a unit it may be a number that names, such as that of a process
    return of ? `${text}${/^[%°]$/.test(of) ? "" : "\u202f"}${of}` : text;
  }
  if (typeof value === "string") return value === "" ? "–" : value;
  return JSON.stringify(value);
}

function bytes(value) {
  let power = 0;
  while (Math.abs(value) >= 1024 && power < PREFIXES.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${NUMBER.format(Math.round(value * 10) / 10)}\u202f${PREFIXES[power]}`;
}

/** A description, in which `words` between backquotes are code. */
export function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

// Rows of a table that are shown.
const ROWS_MAX = 100;

/** A list or an object for people: a table where each item has fields. */
export function structured(value) {
  const isRow = (each) => each !== null && typeof each === "object" && !Array.isArray(each);
  if (!Array.isArray(value) || !value.length || !value.every(isRow))
    return h("pre", {}, JSON.stringify(value, null, 1));
  const names = [...new Set(value.flatMap(Object.keys))];
  const row = (each) =>
    h(
      "tr",
      {},
      names.map((name) => h("td", {}, name in each ? told(each[name]) : "")),
    );
  const head = h(
    "tr",
    {},
    names.map((name) => h("th", { scope: "col" }, words(name))),
  );
  return h(
    "div",
    { class: "table", tabindex: 0, role: "region", "aria-label": "Table" },
    h("table", {}, h("thead", {}, head), h("tbody", {}, value.slice(0, ROWS_MAX).map(row))),
    value.length > ROWS_MAX ? h("p", { class: "none" }, `and ${value.length - ROWS_MAX} more`) : null,
  );
}

/** A span of time, roughly: "3 min". */
export function span(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** The time of day. */
export function clock(at) {
  return new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}
