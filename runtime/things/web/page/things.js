// Things: what the page knows: the descriptions, the last values, their past, and the events. Views watch it.

import { ask, pathOf } from "./gateway.js";
import { words } from "./elements.js";

// Samples of a chart, and how far it goes back.
const SAMPLES_MAX = 400,
  SAMPLES_MS = 15 * 60_000;
// Events shown, of all things together.
const EVENTS_MAX = 200;
// Things that the page loads; the gateway answers a thousand at a time.
const THINGS_MAX = 5_000;
// Requests at a time: a browser opens six connections to one host, and one is the stream.
const READS_MAX = 4;

const SYSTEM = "urn:appbackplane:system:";

export class Things {
  constructor() {
    this.all = new Map();
    this.events = [];
    this._values = new Map();
    this._heard = new Map(); // how many values of each property the stream has told
    this._samples = new Map();
    this._watching = new Map();
    this._reads = { running: 0, waiting: new Map() };
  }

  /** List the things anew; whether anything is different, but for values. */
  async list() {
    const found = new Map();
    let path = "things?limit=1000";
    while (path && found.size < THINGS_MAX) {
      const answer = await ask("GET", path);
      for (const each of answer.body) found.set(each.id, each);
      path = /<\/?([^>]+)>;\s*rel="?next/.exec(answer.headers.get("Link") ?? "")?.[1];
    }
    const before = this.all;
    this.all = found;
    return found.size !== before.size || [...found].some(([id, td]) => shape(td) !== shape(before.get(id)));
  }

  /** A message of the stream. */
  take({ thing, kind, name, data }) {
    if (kind === "property") {
      this._heard.set(key(thing, name), this._heardOf(thing, name) + 1);
      this.put(thing, name, data);
    } else {
      this.events.unshift({ at: Date.now(), thing, name, data });
      this.events.length = Math.min(this.events.length, EVENTS_MAX);
      this._tell(key(thing, "*events"), this.events[0]);
    }
  }

  put(id, name, value) {
    const at = Date.now();
    this._values.set(key(id, name), value);
    if (typeof value === "number") {
      const samples = this._samples.get(key(id, name)) ?? [];
      if (samples.at(-1)?.value !== value) samples.push({ at, value });
      while (samples.length > SAMPLES_MAX || (samples.length > 2 && samples[1].at < at - SAMPLES_MS))
        samples.shift();
      this._samples.set(key(id, name), samples);
    }
    this._tell(key(id, name), value);
  }

  _heardOf(id, name) {
    return this._heard.get(key(id, name)) ?? 0;
  }

  value(id, name) {
    return this._values.get(key(id, name));
  }

  samples(id, name) {
    return this._samples.get(key(id, name)) ?? [];
  }

  /** Call `changed` with each new value until `signal` is aborted, and with the present one, if it is known. */
  watch(id, name, changed, signal) {
    const watching = this._watching.get(key(id, name)) ?? new Set();
    watching.add(changed);
    this._watching.set(key(id, name), watching);
    signal.addEventListener("abort", () => watching.delete(changed));
    if (this._values.has(key(id, name))) changed(this.value(id, name));
  }

  /** Call `happened` with each event of a thing. */
  watchEvents(id, happened, signal) {
    this.watch(id, "*events", happened, signal);
  }

  /** Read a value, in its turn; a second wish for the same one counts as one. `failed` gets the error. */
  read(id, name, failed = () => {}) {
    this._reads.waiting.set(key(id, name), { id, name, failed });
    this._readNext();
  }

  /** Read all watched values anew: some changes were not heard. */
  readWatched() {
    for (const [place, watching] of this._watching) {
      const [id, name] = place.split("\n");
      if (watching.size && name !== "*events" && has(this.all.get(id)?.properties?.[name], "readproperty"))
        this.read(id, name);
    }
  }

  _readNext() {
    const { waiting } = this._reads;
    while (this._reads.running < READS_MAX && waiting.size) {
      const [place, { id, name, failed }] = waiting.entries().next().value;
      waiting.delete(place);
      this._reads.running += 1;
      const heard = this._heardOf(id, name);
      ask("GET", pathOf(id, "properties", name))
        .then(({ body }) => heard === this._heardOf(id, name) && this.put(id, name, body)) // else the stream is newer
        .catch(failed)
        .finally(() => {
          this._reads.running -= 1;
          this._readNext();
        });
    }
  }

  _tell(place, value) {
    for (const changed of this._watching.get(place) ?? []) changed(value);
  }
}

function key(id, name) {
  return `${id}\n${name}`;
}

/** All of a description but its addresses, in which each retrieval differs. */
function shape(td) {
  return JSON.stringify(td, (name, value) => (name === "href" ? undefined : value));
}

/** Whether an affordance has a form for an operation. */
export function has(affordance, operation) {
  return (affordance?.forms ?? []).some((form) => [form.op].flat().includes(operation));
}

/** Whether this gateway serves a thing; it may describe others, too. */
export function isServed(td) {
  const forms = ["properties", "actions", "events"].flatMap((group) =>
    Object.values(td[group] ?? {}).flatMap((each) => each.forms),
  );
  return forms.every((form) => decoded(form.href).replace(/^\//, "").startsWith(`things/${td.id}/`));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The semantic types of a thing, without their prefixes. */
export function typesOf(td) {
  return [td["@type"] ?? []].flat().map((each) => words(each.replace(/^.*[:/#]/, "")));
}

/** What tells a thing from others of its title: the last part of its id. */
export function nameOf(td) {
  if (/^urn:uuid:/.test(td.id)) return td.title;
  const last = decoded(td.id.replace(/^.*:/, ""));
  return last || td.title;
}

/** The heading under which a thing stands. */
export function groupOf(td) {
  const types = typesOf(td);
  const isMashup = td.actions?.dry_run && td.events?.ran;
  if (isMashup || types.some((each) => /^mashup/i.test(each))) return "Mashups";
  if (td.id.startsWith(SYSTEM)) return "This system";
  return types[0] ?? words(td.title);
}

/** Whether a thing matches all words of a search. */
export function matches(td, search) {
  const names = ["properties", "actions", "events"].flatMap((group) => Object.keys(td[group] ?? {}));
  const text = [td.id, decoded(td.id), td.title, td.description ?? "", groupOf(td), ...typesOf(td), ...names]
    .join(" ")
    .toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((each) => text.includes(each));
}

/** Whether a thing tells since when something waits, and why, as those of the system do. */
export function tellsWaits(td) {
  return has(td.properties?.waiting_since, "readproperty") && has(td.properties?.waiting_for, "readproperty");
}
