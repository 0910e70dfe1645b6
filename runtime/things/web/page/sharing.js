// Sharing: who has access to a thing, for those who may share it.

import { h, span, words } from "./elements.js";
import { ask, token } from "./gateway.js";
import { newId } from "./inputs.js";

const HOUR = 3600,
  DAY = 24 * HOUR;
const TIMES = [
  ["1 hour", HOUR],
  ["8 hours", 8 * HOUR],
  ["1 day", DAY],
  ["1 week", 7 * DAY],
  ["until I revoke it", null],
];
const KINDS = [
  ["read", "See values"],
  ["observe", "See changes and events"],
  ["write", "Change properties"],
  ["invoke", "Use actions"],
  ["share", "Share it with others"],
];
const GIVEN = ["read", "observe"];

/** The panel; it stays hidden where the system has no permissions. */
export function sharing(td, signal) {
  const list = h("ul", { class: "shared" }),
    status = h("div", { class: "status", role: "status" });
  const panel = h(
    "section",
    { class: "panel access", hidden: true },
    h("h2", {}, "Who has access"),
    list,
    form(td, status, refresh),
    status,
  );

  async function refresh() {
    try {
      const { body } = await ask("GET", "permissions", undefined, { signal });
      const now = Date.now() / 1000;
      const found = body.filter((each) => isAbout(each, td) && (each.until ?? Infinity) > now);
      list.replaceChildren(
        ...(found.length
          ? found.map((each) => line(each, td, refresh, status))
          : [h("li", { class: "none" }, "Nobody else has been given access.")]),
      );
      panel.hidden = token.isLink() && !found.length; // most guests may share nothing
    } catch {
      panel.hidden = true;
    }
  }
  refresh();
  return panel;
}

function isAbout({ things = [], types = [] }, td) {
  const kinds = [td["@type"] ?? []].flat();
  return types.some((each) => kinds.includes(each)) || things.some((each) => pattern(each).test(td.id));
}

function pattern(text) {
  return new RegExp(
    `^${text
      .split("*")
      .map((part) => part.replace(/[.+?^${}()|[\]\\/]/g, "\\$&"))
      .join(".*")}$`,
    "s",
  );
}

function who(text) {
  if (text.startsWith("link:")) return "Guest link";
  return text.startsWith("group:") ? `Group ${text.slice(6)}` : text;
}

function line(permission, td, refresh, status) {
  const left = permission.until ? `for another ${span(permission.until - Date.now() / 1000)}` : "until revoked";
  const isWide = !(permission.things ?? []).includes(td.id) || permission.things.length > 1;
  const button = h(
    "button",
    {
      type: "button",
      class: "danger",
      "aria-label": `Revoke: ${who(permission.who)}`,
      click: async () => {
        if (isWide && !confirm("This permission is for other things, too. Revoke it for all of them?")) return;
        button.disabled = true;
        status.replaceChildren();
        try {
          await ask("DELETE", `permissions/${encodeURIComponent(permission.id)}`);
        } catch (error) {
          status.replaceChildren(error.message);
          status.dataset.mood = "bad";
        }
        refresh();
      },
    },
    "Revoke",
  );
  return h(
    "li",
    { "data-id": permission.id },
    h(
      "div",
      {},
      h("b", {}, who(permission.who)),
      h("small", {}, ` ${left}${permission.by ? `, by ${permission.by}` : ""}${isWide ? ", several things" : ""}`),
    ),
    h(
      "div",
      { class: "chips" },
      permission.access.map((each) => h("span", { class: "chip" }, each)),
    ),
    button,
  );
}

function form(td, status, refresh) {
  const name = newId("who"),
    until = newId("until");
  const person = h("input", {
    id: name,
    name: "person",
    required: true,
    autocomplete: "off",
    placeholder: "ben, or group:family",
  });
  const personField = h(
    "div",
    { class: "field", hidden: true },
    h("label", { for: name, class: "name" }, "Name"),
    person,
  );
  person.disabled = true;
  const choose = (isPerson) => {
    personField.hidden = !isPerson;
    person.disabled = !isPerson;
  };
  const way = (value, text, isChosen) =>
    h(
      "label",
      { class: "tick" },
      h("input", {
        type: "radio",
        name: "way",
        value,
        checked: isChosen,
        change: () => choose(value === "person"),
      }),
      text,
    );
  const tick = (value, text, isChosen) =>
    h("label", { class: "tick" }, h("input", { type: "checkbox", name: "access", value, checked: isChosen }), text);
  const single = [
    ...Object.keys(td.properties ?? {}).map((each) => [`read:${each}`, `See ${words(each).toLowerCase()}`]),
    ...Object.keys(td.properties ?? {})
      .filter((each) => !td.properties[each].readOnly)
      .map((each) => [`write:${each}`, `Set ${words(each).toLowerCase()}`]),
    ...Object.keys(td.actions ?? {}).map((each) => [`invoke:${each}`, `Use ${words(each).toLowerCase()}`]),
    ...Object.keys(td.events ?? {}).map((each) => [`observe:${each}`, `Be told of ${words(each).toLowerCase()}`]),
  ];
  const time = h(
    "select",
    { id: until, name: "until" },
    TIMES.map(([text], index) => h("option", { value: index, selected: index === 2 }, text)),
  );
  const button = h("button", { type: "submit", class: "primary" }, "Share");

  async function submit(event) {
    event.preventDefault();
    const data = new FormData(event.target),
      isLink = data.get("way") === "link";
    const access = data.getAll("access"),
      seconds = TIMES[Number(data.get("until"))][1];
    status.dataset.mood = "bad";
    if (!access.length) return status.replaceChildren("Choose what they may do.");
    button.disabled = true;
    try {
      const body = {
        who: isLink ? "link" : person.value.trim(),
        things: [td.id],
        access,
        ...(seconds ? { seconds } : {}),
      };
      const answer = await ask("POST", "permissions", body);
      status.dataset.mood = "good";
      status.replaceChildren(
        ...(answer.body.token ? link(answer.body.token) : [`Shared with ${who(answer.body.who)}.`]),
      );
      event.target.reset();
      choose(false);
      refresh();
    } catch (error) {
      status.replaceChildren(error.message);
    } finally {
      button.disabled = false;
    }
    return undefined;
  }
  return h(
    "details",
    { class: "share" },
    h("summary", {}, "Share this thing"),
    h(
      "form",
      { submit },
      h(
        "fieldset",
        {},
        h("legend", {}, "With"),
        way("link", "Anybody who has a link", true),
        way("person", "A person or a group", false),
      ),
      personField,
      h(
        "fieldset",
        {},
        h("legend", {}, "They may"),
        KINDS.map(([value, text]) => tick(value, text, GIVEN.includes(value))),
      ),
      single.length
        ? h(
            "details",
            {},
            h("summary", {}, "Only some of it"),
            h(
              "div",
              { class: "ticks" },
              single.map(([value, text]) => tick(value, text, false)),
            ),
          )
        : null,
      h("div", { class: "field" }, h("label", { for: until, class: "name" }, "For how long"), time),
      button,
    ),
  );
}

/** A new guest link, which nobody can show again. */
function link(token) {
  const address = `${location.origin}${location.pathname}#token=${encodeURIComponent(token)}`;
  const shown = h("input", { class: "link", readonly: true, value: address, "aria-label": "Guest link" });
  const copy = h(
    "button",
    {
      type: "button",
      click: async () => {
        shown.select();
        await navigator.clipboard?.writeText(address).catch(() => {});
        copy.textContent = "Copied";
      },
    },
    "Copy",
  );
  return [
    h("p", {}, "Give this link to your guest. It is shown only now."),
    h("div", { class: "set" }, shown, copy),
  ];
}
