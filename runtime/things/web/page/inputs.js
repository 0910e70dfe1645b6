// Inputs: a form's fields, derived from the schema of a value (the DataSchema of a Thing Description).

import { h, prose, sign, words } from "./elements.js";

let count = 0;

/** An id for an element, so that a label can name it. */
export function newId(name) {
  count += 1;
  return `${name.replace(/\W/g, "-")}-${count}`;
}

/** A schema without its alternative null, and whether it had one. */
export function plain(schema) {
  const alternatives = schema.oneOf ?? [];
  const others = alternatives.filter((each) => each.type !== "null");
  if (others.length === alternatives.length) return { schema, isNullable: false };
  const { oneOf, ...rest } = schema;
  return { schema: others.length === 1 ? { ...rest, ...others[0] } : { ...rest, oneOf: others }, isNullable: true };
}

/** The kind of input that fits. */
export function kindOf(schema) {
  if (schema.enum || "const" in schema) return "choice";
  if (schema.type === "boolean") return "switch";
  if (schema.type === "integer" || schema.type === "number") {
    return Number.isFinite(low(schema)) && Number.isFinite(high(schema)) ? "slider" : "number";
  }
  if (schema.type === "string") return "text";
  if (schema.type === "object" && schema.properties) return "fields";
  return "json";
}

// An exclusive bound of an integer is the next one; of a number, the bound itself is refused by the gateway.
function low(schema) {
  return schema.minimum ?? (schema.type === "integer" ? schema.exclusiveMinimum + 1 : schema.exclusiveMinimum);
}

function high(schema) {
  return schema.maximum ?? (schema.type === "integer" ? schema.exclusiveMaximum - 1 : schema.exclusiveMaximum);
}

/**
 * An input. `element`; `read()`: its value, undefined if it is left empty; `write(value)`; `isBusy()`: the user is at it.
 * `label`: its accessible name, where no <label> has `id` in its `for`.
 */
export function input(schema, { id, label, isRequired = false, isSlider = true } = {}) {
  const { schema: said, isNullable } = plain(schema);
  const kind = kindOf(said);
  const make = kind === "slider" && (isNullable || !isSlider) ? number : MAKERS[kind];
  return make(said, { id, "aria-label": label ?? null }, isRequired && !isNullable);
}

const MAKERS = { choice, switch: toggle, slider, number, text, fields, json };

function choice(schema, attributes, isRequired) {
  const values = schema.enum ?? [schema.const];
  const options = values.map((each, index) =>
    h("option", { value: index }, typeof each === "string" ? each : JSON.stringify(each)),
  );
  const element = h(
    "select",
    { ...attributes, required: isRequired },
    isRequired ? [] : h("option", { value: "" }, "–"),
    options,
  );
  return {
    element,
    read: () => (element.value === "" ? undefined : values[Number(element.value)]),
    write: (value) => {
      const index = values.indexOf(value);
      element.value = index < 0 ? "" : String(index);
    },
    isBusy: () => false,
  };
}

function toggle(schema, attributes) {
  const element = h("input", { ...attributes, type: "checkbox", role: "switch" });
  return {
    element,
    read: () => element.checked,
    write: (value) => {
      element.checked = value === true;
    },
    isBusy: () => false,
  };
}

function number(schema, attributes, isRequired) {
  const step = schema.multipleOf ?? (schema.type === "integer" ? 1 : "any");
  const bounds = [low(schema), high(schema)].map((each) => (Number.isFinite(each) ? each : null));
  const element = h("input", {
    ...attributes,
    type: "number",
    step,
    min: bounds[0],
    max: bounds[1],
    required: isRequired,
    inputmode: "decimal",
  });
  return typed(
    element,
    () => (element.value === "" ? undefined : Number(element.value)),
    (value) => value ?? "",
  );
}

function slider(schema, attributes) {
  const [least, most] = [low(schema), high(schema)];
  const step =
    schema.multipleOf ??
    (schema.type === "integer" ? Math.max(1, Math.round((most - least) / 1000)) : (most - least) / 200);
  const range = h("input", { ...attributes, type: "range", min: least, max: most, step });
  const shown = h("output", { class: "value", for: attributes.id });
  const show = () => {
    shown.textContent = `${Number(range.value)}${schema.unit ? `\u202f${sign(schema.unit)}` : ""}`;
    range.style.setProperty("--part", `${((range.value - least) / (most - least || 1)) * 100}%`);
  };
  range.addEventListener("input", show);
  let isHeld = false;
  range.addEventListener("pointerdown", () => (isHeld = true));
  for (const name of ["pointerup", "pointercancel", "change"]) range.addEventListener(name, () => (isHeld = false));
  show();
  return {
    element: h("span", { class: "slider" }, range, shown),
    read: () => Number(range.value),
    write: (value) => {
      range.value = value;
      show();
    },
    isBusy: () => isHeld,
  };
}

function text(schema, attributes, isRequired) {
  const element = h("input", {
    ...attributes,
    type: "text",
    minlength: schema.minLength,
    maxlength: schema.maxLength,
    pattern: schema.pattern,
    required: isRequired && schema.minLength !== 0 && schema.minLength !== undefined,
    autocomplete: "off",
    placeholder: schema.contentEncoding === "base64" ? "base64" : null,
  });
  return typed(
    element,
    () => (element.value === "" && !isRequired ? undefined : element.value),
    (value) => value ?? "",
  );
}

function fields(schema, attributes) {
  const required = new Set(schema.required ?? []);
  const inner = Object.entries(schema.properties).map(([name, each]) => [
    name,
    field(name, each, required.has(name)),
  ]);
  return {
    element: h(
      "div",
      { class: "fields", role: "group", "aria-label": attributes["aria-label"] },
      inner.map(([, each]) => each.element),
    ),
    read: () => {
      const found = inner.map(([name, each]) => [name, each.read()]).filter(([, value]) => value !== undefined);
      return found.length || required.size ? Object.fromEntries(found) : undefined;
    },
    write: (value) => inner.forEach(([name, each]) => each.write(value?.[name])),
    isBusy: () => inner.some(([, each]) => each.isBusy()),
  };
}

function json(schema, attributes, isRequired) {
  const element = h("textarea", {
    ...attributes,
    rows: 2,
    spellcheck: "false",
    required: isRequired,
    placeholder: `JSON: ${hint(schema)}`,
  });
  element.addEventListener("input", () => element.setCustomValidity(problem(element.value)));
  return typed(
    element,
    () => (element.value.trim() === "" ? undefined : JSON.parse(element.value)),
    (value) => (value === undefined ? "" : JSON.stringify(value)),
  );
}

function hint(schema) {
  if (schema.type === "array") return `[${schema.items ? hint(schema.items) : ""}, …]`;
  if (schema.type === "object") return '{"name": …}';
  return schema.type ?? "any value";
}

function problem(value) {
  try {
    if (value.trim()) JSON.parse(value);
    return "";
  } catch (error) {
    return `This is no JSON: ${error.message}`;
  }
}

/** An input whose user types: a new value leaves it alone while they do. */
function typed(element, read, shown) {
  let isDirty = false;
  element.addEventListener("input", () => (isDirty = true));
  element.addEventListener("blur", () => (isDirty = isDirty && element.value !== ""));
  return {
    element,
    read,
    write: (value) => {
      element.value = shown(value);
      isDirty = false;
      element.setCustomValidity?.("");
    },
    isBusy: () => isDirty,
  };
}

/** A labelled input of a form. */
export function field(name, schema, isRequired) {
  const id = newId(name),
    { schema: said } = plain(schema);
  const isGroup = kindOf(said) === "fields";
  const made = input(schema, { id, isRequired, label: isGroup ? words(name) : undefined });
  if (schema.default !== undefined && schema.default !== null) made.write(schema.default);
  const unit = sign(said.unit),
    about = schema.description ?? said.description;
  const label = h(
    isGroup ? "span" : "label",
    { for: isGroup ? null : id, class: "name" },
    schema.title ?? words(name),
    unit && ` (${unit})`,
    !isRequired && h("small", {}, " optional"),
  );
  const isToggle = kindOf(said) === "switch";
  return {
    ...made,
    element: h(
      "div",
      { class: isToggle ? "field toggle" : "field" },
      label,
      made.element,
      about && h("small", { class: "about" }, prose(about)),
    ),
  };
}
