// Thing: one thing with all its properties, actions and events, and with those who have access to it.

import { chart } from "./chart.js";
import { clock, h, prose, sign, structured, told, words } from "./elements.js";
import { ask, pathOf } from "./gateway.js";
import { flip, waits } from "./home.js";
import { field, input, kindOf, newId, plain } from "./inputs.js";
import { sharing } from "./sharing.js";
import { groupOf, has, isServed, nameOf, tellsWaits } from "./things.js";

// Milliseconds between two looks at a long action, at first and at most; between two drawings of the charts; events shown.
const LOOK_MS = 400,
  LOOK_MS_MAX = 3_000,
  DRAW_MS = 5_000,
  EVENTS_SHOWN = 50;

/** Show a thing. */
export function thing(app, td, signal) {
  const head = [
    h("p", { class: "back" }, h("a", { href: "#/" }, "All things")),
    h("h1", { tabindex: "-1" }, nameOf(td)),
    h(
      "p",
      { class: "lead" },
      td.title === nameOf(td) ? groupOf(td) : td.title,
      td.description ? `: ${td.description}` : "",
    ),
    h("p", { class: "id" }, h("code", {}, td.id)),
  ];
  if (!isServed(td)) {
    const where = "This thing lives elsewhere, and is only described here.";
    return [head, h("p", { class: "empty" }, where, " ", td.base ? h("code", {}, td.base) : "")];
  }
  const properties = Object.entries(td.properties ?? {}).filter(
    ([name]) => !(tellsWaits(td) && name.startsWith("waiting_")),
  );
  const actions = Object.entries(td.actions ?? {}),
    events = Object.entries(td.events ?? {});
  const block = (title, ...inner) => h("section", { class: "panel" }, h("h2", {}, title), ...inner);
  return [
    head,
    tellsWaits(td) ? waits(app, td, signal) : null,
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        {},
        properties.length
          ? block(
              "Properties",
              properties.map(([name, said]) => property(app, td, name, said, signal)),
            )
          : null,
        actions.length
          ? block(
              "Actions",
              actions.map(([name, said]) => action(app, td, name, said, signal)),
            )
          : null,
      ),
      h("div", {}, events.length ? block("Events", eventList(app, td, events, signal)) : null, sharing(td, signal)),
    ),
  ];
}

function about(said) {
  return said.description ? h("small", { class: "about" }, prose(said.description)) : null;
}

function property(app, td, name, said, signal) {
  const { things } = app,
    { schema } = plain(said),
    kind = kindOf(schema);
  const isReadable = has(said, "readproperty"),
    isObserved = has(said, "observeproperty");
  const id = newId(name),
    status = h("p", { class: "status", role: "status" });
  const failed = (error) => tell(status, error?.message ?? "", "bad");
  const read = () => isReadable && things.read(td.id, name, failed);

  let control;
  if (!has(said, "writeproperty")) control = readout(things, td, name, said, signal);
  else if (kind === "switch" && isReadable) control = flip(app, td, name, signal, failed, id);
  else control = writable(things, td, name, said, { id, signal, status, read });

  const again =
    isReadable && !isObserved
      ? h(
          "button",
          {
            type: "button",
            class: "quiet",
            title: "Read it again",
            "aria-label": `Read ${words(name)} again`,
            click: read,
          },
          "↻",
        )
      : null;
  if (things.value(td.id, name) === undefined || !isObserved) read();
  const label = h(
    has(said, "writeproperty") ? "label" : "span",
    { for: has(said, "writeproperty") ? id : null, class: "name" },
    said.title ?? words(name),
  );
  return h(
    "div",
    { class: `property ${kind}`, "data-name": name },
    h("div", { class: "about-it" }, label, about(said)),
    h("div", { class: "control" }, control, again),
    isObserved && ["integer", "number"].includes(schema.type) ? past(things, td, name, said, signal) : null,
    status,
  );
}

function past(things, td, name, said, signal) {
  const drawn = chart(said.title ?? words(name), said.unit);
  const draw = () => drawn.update(things.samples(td.id, name));
  things.watch(td.id, name, draw, signal);
  const timer = setInterval(() => document.hidden || draw(), DRAW_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return drawn.element;
}

function readout(things, td, name, said, signal) {
  const element = h("output", { class: "value", "aria-label": words(name) }, "…");
  things.watch(td.id, name, (value) => show(element, value, said), signal);
  return element;
}

function show(element, value, said) {
  if (value !== null && typeof value === "object") element.replaceChildren(structured(value));
  else element.textContent = told(value, said.unit);
  element.dataset.value = JSON.stringify(value) ?? "";
}

function writable(things, td, name, said, { id, signal, status, read }) {
  const made = input(said, { id, isRequired: true }),
    { schema } = plain(said),
    kind = kindOf(schema);
  const isAtOnce = made.element.matches("select, .slider");
  const write = async () => {
    const value = made.read();
    tell(status, "");
    try {
      await ask("PUT", pathOf(td.id, "properties", name), value === undefined ? null : value);
      made.write(value);
      if (!has(said, "observeproperty")) read(); // else the stream has told it
      if (!isAtOnce) tell(status, "Saved.", "good");
    } catch (error) {
      tell(status, error.message, "bad");
      if (isAtOnce && things.value(td.id, name) !== undefined) made.write(things.value(td.id, name));
    }
  };
  things.watch(td.id, name, (value) => made.isBusy() || made.write(value), signal);
  if (isAtOnce) {
    made.element.addEventListener("change", write);
    return made.element;
  }
  const unit = sign(said.unit);
  return h(
    "form",
    {
      class: `set ${kind}`,
      submit: (event) => {
        event.preventDefault();
        write();
      },
    },
    made.element,
    unit ? h("span", { class: "unit" }, unit) : null,
    h("button", { type: "submit" }, "Set"),
  );
}

function tell(status, text, mood = "") {
  status.textContent = text;
  status.dataset.mood = mood;
}

function action(app, td, name, said, signal) {
  const status = h("div", { class: "status", role: "status" }),
    schema = said.input;
  const required = new Set(schema?.required ?? []);
  const named = schema?.type === "object" ? Object.entries(schema.properties ?? {}) : [];
  const inner = named.map(([each, its]) => [each, field(each, its, required.has(each))]);
  const button = h("button", { type: "submit", class: "primary" }, said.title ?? words(name));
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(status, "…");
    try {
      const body = Object.fromEntries(
        inner.map(([each, its]) => [each, its.read()]).filter(([, value]) => value !== undefined),
      );
      const answer = await ask("POST", pathOf(td.id, "actions", name), body);
      if (answer.status === 201) await followed(answer.body, status, signal);
      else result(status, answer.body, said.output);
    } catch (error) {
      tell(status, error.message, "bad");
    } finally {
      button.disabled = false;
      for (const [each, its] of Object.entries(td.properties ?? {})) {
        if (has(its, "readproperty") && !has(its, "observeproperty")) app.things.read(td.id, each);
      }
    }
  };
  return h(
    "form",
    { class: "action", "data-name": name, submit },
    h("h3", {}, said.title ?? words(name)),
    about(said),
    inner.map(([, each]) => each.element),
    h("div", { class: "run" }, button, status),
  );
}

function result(status, value, schema) {
  if (value === null || value === undefined) tell(status, "Done.", "good");
  else if (typeof value === "object") {
    tell(status, "", "good");
    status.append(structured(value));
  } else tell(status, told(value, schema?.unit), "good");
}

/** Wait for the end of a long action, which may be cancelled meanwhile. */
async function followed(begun, status, signal) {
  const path = begun.href.replace(/^\//, "");
  const cancel = h(
    "button",
    { type: "button", class: "quiet", click: () => ask("DELETE", path).catch(() => {}) },
    "Cancel",
  );
  tell(status, "Running … ");
  status.append(cancel);
  let now = begun;
  for (
    let ms = LOOK_MS;
    now.status === "running" || now.status === "pending";
    ms = Math.min(ms * 1.5, LOOK_MS_MAX)
  ) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    if (signal.aborted) return;
    now = (await ask("GET", path)).body;
  }
  if (now.status === "completed") result(status, now.output);
  else tell(status, now.error?.detail ?? now.error?.title ?? "It has failed.", "bad");
}

function eventList(app, td, events, signal) {
  const list = h("ol", { class: "events", "aria-live": "polite", "aria-relevant": "additions" });
  const none = h("li", { class: "none" }, "None since this page was opened.");
  const names = events.map(([name, said]) => h("li", {}, h("b", {}, said.title ?? words(name)), " ", about(said)));
  const line = ({ at, name, data }) => {
    const said = td.events[name] ?? {};
    const value =
      data !== null && typeof data === "object"
        ? h("code", {}, JSON.stringify(data))
        : data === null
          ? ""
          : told(data, said.data?.unit);
    return h(
      "li",
      {},
      h("time", { datetime: new Date(at).toISOString() }, clock(at)),
      h("b", {}, said.title ?? words(name)),
      h("span", {}, value),
    );
  };
  const before = app.things.events.filter((each) => each.thing === td.id).slice(0, EVENTS_SHOWN);
  list.append(...(before.length ? before.map(line) : [none]));
  app.things.watchEvents(
    td.id,
    (each) => {
      none.remove();
      list.prepend(line(each));
      while (list.children.length > EVENTS_SHOWN) list.lastChild.remove();
    },
    signal,
  );
  return [
    h(
      "details",
      { class: "kinds" },
      h("summary", {}, `${events.length} ${events.length === 1 ? "kind" : "kinds"} of events`),
      h("ul", {}, names),
    ),
    list,
  ];
}
