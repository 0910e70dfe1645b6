// Home: all things as cards, under the headings of their kinds.

import { chart } from "./chart.js";
import { h, span, told, words } from "./elements.js";
import { ask, pathOf } from "./gateway.js";
import { kindOf, plain } from "./inputs.js";
import { groupOf, has, isServed, matches, nameOf, tellsWaits } from "./things.js";

// Values on a card, cards under a heading until somebody wants all, and milliseconds between two looks at waits.
const VALUES_MAX = 3,
  CARDS_MAX = 24,
  WAITS_MS = 3_000;
const LAST = ["Mashups", "This system"];

/** Show the things that match `search`. */
export function home(app, search, signal) {
  const groups = new Map();
  for (const td of app.things.all.values()) {
    if (search && !matches(td, search)) continue;
    const group = groupOf(td);
    groups.set(group, [...(groups.get(group) ?? []), td]);
  }
  const names = [...groups.keys()].sort((a, b) => LAST.indexOf(a) - LAST.indexOf(b) || a.localeCompare(b));
  const count = [...groups.values()].reduce((sum, each) => sum + each.length, 0);
  const title = h(
    "h1",
    { class: search ? "" : "sr-only" },
    search ? `${count} of ${app.things.all.size} things` : "Things",
  );
  return [
    title,
    names.map((name) => section(app, name, groups.get(name), signal)),
    count ? null : nothing(app, search),
  ];
}

function nothing(app, search) {
  if (search) return h("p", { class: "empty" }, `No thing matches “${search}”.`);
  return h(
    "div",
    { class: "empty" },
    h("h2", {}, "No things yet"),
    h(
      "p",
      {},
      "Nothing is shared with you here, or the system has no things. This page shows them as soon as there are any.",
    ),
  );
}

function section(app, name, tds, signal) {
  const sorted = tds.sort((a, b) => nameOf(a).localeCompare(nameOf(b), undefined, { numeric: true }));
  const grid = h(
    "div",
    { class: "grid" },
    sorted.slice(0, CARDS_MAX).map((td) => card(app, td, signal)),
  );
  const more = h(
    "button",
    {
      type: "button",
      hidden: sorted.length <= CARDS_MAX,
      click: () => {
        more.remove();
        grid.append(...sorted.slice(CARDS_MAX).map((td) => card(app, td, signal)));
      },
    },
    `Show all ${sorted.length}`,
  );
  return h("section", {}, h("h2", {}, name, h("span", { class: "count" }, ` ${tds.length}`)), grid, more);
}

function card(app, td, signal) {
  const { things } = app,
    isHere = isServed(td),
    address = `#/thing/${encodeURIComponent(td.id)}`;
  const shown = isHere ? telling(td).slice(0, VALUES_MAX) : [];
  const values = shown.map(([name, said]) => {
    const value = h("dd", {}, "…");
    things.watch(td.id, name, (now) => (value.textContent = told(now, said.unit)), signal);
    if (things.value(td.id, name) === undefined) things.read(td.id, name, () => (value.textContent = "–"));
    const isSwitch = plain(said).schema.type === "boolean" && has(said, "writeproperty");
    return h(
      "div",
      {},
      h("dt", {}, said.title ?? words(name)),
      isSwitch ? h("dd", {}, flip(app, td, name, signal)) : value,
    );
  });
  const number = shown.find(
    ([, said]) => ["integer", "number"].includes(said.type) && has(said, "observeproperty"),
  );
  const name = nameOf(td);
  return h(
    "article",
    { class: "card" },
    h("h3", {}, h("a", { href: address }, name)),
    h(
      "p",
      { class: "kind" },
      isHere ? (td.title === name ? (td.description ?? "") : td.title) : `${td.title}, elsewhere`,
    ),
    h("dl", {}, values),
    number ? spark(app, td, number, signal) : null,
    isHere && tellsWaits(td) ? waits(app, td, signal) : null,
  );
}

/** The properties that fit on a card, the most telling first: what is on or off or in some state, then what is measured. */
function telling(td) {
  const rank = ([, said]) => {
    const kind = kindOf(plain(said).schema);
    return kind === "switch" || kind === "choice" ? 0 : said.unit ? 1 : kind === "text" ? 3 : 2;
  };
  const shown = Object.entries(td.properties ?? {}).filter(([name, said]) => isShown(td, name, said));
  return shown.sort((a, b) => rank(a) - rank(b));
}

function isShown(td, name, said) {
  if (tellsWaits(td) && name.startsWith("waiting_")) return false;
  return (
    has(said, "readproperty") &&
    has(said, "observeproperty") &&
    !["fields", "json"].includes(kindOf(plain(said).schema))
  );
}

function spark(app, td, [name, said], signal) {
  const drawn = chart(said.title ?? words(name), said.unit);
  drawn.element.classList.add("spark");
  app.things.watch(td.id, name, () => drawn.update(app.things.samples(td.id, name)), signal);
  return drawn.element;
}

/** A switch for a property that is true or false. */
export function flip(app, td, name, signal, failed = () => {}, labelled = null) {
  const { things } = app;
  const box = h("input", {
    type: "checkbox",
    role: "switch",
    id: labelled,
    "aria-label": labelled ? null : `${words(name)} of ${nameOf(td)}`,
    change: async () => {
      failed(null);
      try {
        await ask("PUT", pathOf(td.id, "properties", name), box.checked);
        if (!has(td.properties[name], "observeproperty")) things.read(td.id, name); // else the stream has told it
      } catch (error) {
        box.checked = things.value(td.id, name) === true;
        box.title = error.message;
        failed(error);
      }
    },
  });
  things.watch(td.id, name, (value) => (box.checked = value === true), signal);
  return box;
}

/** Since when something of a backplane waits, and why. */
export function waits(app, td, signal) {
  const { things } = app,
    reason = h("span"),
    time = h("b");
  const element = h("p", { class: "waits", hidden: true }, "Waiting for ", time, reason);
  const show = () => {
    const seconds = things.value(td.id, "waiting_since") ?? 0,
      why = things.value(td.id, "waiting_for");
    element.hidden = seconds <= 0;
    time.textContent = span(seconds);
    reason.textContent = why ? `: ${why}` : "";
  };
  for (const name of ["waiting_since", "waiting_for"]) things.watch(td.id, name, show, signal);
  const look = () => {
    if (document.hidden) return;
    things.read(td.id, "waiting_since");
    things.read(td.id, "waiting_for");
  };
  look();
  const timer = setInterval(look, WAITS_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return element;
}
