// Main: starts the page, knows who its user is, and shows what the address names. Read this file first.

import { h } from "./elements.js";
import { Refused, ask, hasSignIn, listen, takeToken, token, whoAmI } from "./gateway.js";
import { home } from "./home.js";
import { thing } from "./thing.js";
import { Things } from "./things.js";

const at = (id) => document.getElementById(id);
const main = at("main"),
  search = at("search"),
  connection = at("connection");
const STATES = { live: "Live", lost: "Connection lost, trying again", nothing: "Nothing is shared with you" };
// Milliseconds after which the things are listed again where that has failed.
const AGAIN_MS = 5_000;

/** Of the present user, and of the present view; both end with an abort. */
let session = new AbortController(),
  view = new AbortController();
let app = { things: new Things() };

async function start() {
  session.abort();
  session = new AbortController();
  const { signal } = session;
  app = { things: new Things() };
  try {
    app.user = await whoAmI();
    await app.things.list();
  } catch (error) {
    if (signal.aborted) return;
    const isFinal = error instanceof Refused && error.status < 500;
    const reason = error instanceof Refused ? error.message : "The gateway cannot be reached.";
    main.replaceChildren(
      h("p", { class: "empty", role: "alert" }, reason, isFinal ? "" : " This page tries again by itself."),
    );
    if (!isFinal) setTimeout(() => signal.aborted || start(), AGAIN_MS);
    return;
  }
  if (signal.aborted) return;
  account();
  at("search-form").hidden = false;
  show();
  let isListing = false,
    isDue = false;
  const list = async () => {
    isDue = true;
    if (isListing) return;
    isListing = true;
    while (isDue && !signal.aborted) {
      isDue = false;
      try {
        const isOther = await app.things.list();
        if (signal.aborted) return;
        if (isOther) show({ isNew: false });
        app.things.readWatched(); // a new process of the same thing may have other values
      } catch {
        // unknown-user has been told, or the stream tells that the gateway is away
      }
    }
    isListing = false;
  };
  await listen(
    {
      state,
      message: (message) => app.things.take(message),
      things: list,
      gap: () => app.things.readWatched(),
    },
    signal,
  );
}

/** Show what the address names. `isNew`: the user has gone there; else it is the same with other things. */
function show({ isNew = true } = {}) {
  const found = /^#\/thing\/(.+)$/.exec(location.hash),
    id = found && decoded(found[1]);
  const td = id && app.things.all.get(id);
  const focused = main.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  view.abort();
  view = new AbortController();
  let shown;
  if (td) shown = thing(app, td, view.signal);
  else if (id)
    shown = [
      h("h1", { tabindex: "-1" }, "Not here"),
      h(
        "p",
        { class: "empty" },
        "This thing is gone, or is not shared with you. ",
        h("a", { href: "#/" }, "All things"),
      ),
    ];
  else shown = home(app, search.value.trim(), view.signal);
  main.replaceChildren(...shown.flat().filter(Boolean));
  document.title = td ? `${main.querySelector("h1").textContent} – Things` : "Things";
  if (!isNew) {
    if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  } else if (id) {
    scrollTo(0, 0);
    main.querySelector("h1").focus();
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function state(name) {
  connection.hidden = false;
  connection.dataset.state = name;
  connection.textContent = STATES[name];
  document.body.dataset.connection = name;
}

function account() {
  const signOut = async () => {
    if (token.get()) token.forget();
    else await ask("POST", "sign-out").catch(() => {});
    dark("");
  };
  const name = token.isLink() ? "Guest" : app.user;
  const isKnown = token.get() || (app.user && app.user !== "anonymous");
  at("account").replaceChildren(
    ...(isKnown
      ? [h("span", {}, name), h("button", { type: "button", class: "quiet", click: signOut }, "Sign out")]
      : []),
  );
}

/** Show nothing of the system any more, and ask for a token. */
function dark(reason) {
  session.abort();
  session = new AbortController();
  view.abort();
  app = { things: new Things(), isDark: true };
  at("search-form").hidden = true;
  search.value = "";
  connection.hidden = true;
  at("account").replaceChildren();
  document.title = "Things";
  const entered = h("input", {
    id: "token",
    type: "password",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "why",
  });
  const enter = async (event) => {
    event.preventDefault();
    token.set(entered.value.trim());
    await start();
  };
  const signIn = h("p", { hidden: true }, h("a", { class: "button primary", href: "sign-in?next=/" }, "Sign in"));
  hasSignIn().then((isSo) => (signIn.hidden = !isSo));
  main.replaceChildren(
    h(
      "section",
      { class: "panel entry" },
      h("h1", { tabindex: "-1" }, "Things"),
      h("p", { id: "why", role: "alert" }, reason),
      signIn,
      h(
        "form",
        { submit: enter },
        h("label", { for: "token", class: "name" }, "Your token"),
        h("div", { class: "set" }, entered, h("button", { type: "submit" }, "Enter")),
      ),
      h(
        "p",
        {},
        h(
          "small",
          { class: "about" },
          "The token is kept in this tab alone, and is gone with it. A guest link needs none.",
        ),
      ),
    ),
  );
  entered.focus();
}

document.addEventListener("unknown-user", () => {
  if (app.isDark) return;
  const isLink = token.isLink(),
    isToken = token.get() && !isLink,
    wasIn = Boolean(app.user);
  token.forget();
  if (isLink) dark("This link has ended, or was never valid. Ask whoever gave it to you for another one.");
  else if (isToken) dark("This token is not known here.");
  else dark(wasIn ? "You have been signed out." : "");
});

addEventListener("hashchange", () => {
  if (takeToken()) start();
  else if (!at("search-form").hidden) show();
});

at("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names what is shown
  main.focus();
});

search.addEventListener("input", () => {
  if (location.hash.length > 2) history.replaceState(null, "", "#/");
  show({ isNew: false });
});

at("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  main.querySelector(".card a")?.focus();
});

addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key === "/" && !isTyping && !at("search-form").hidden) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape" && event.target === search) {
    search.value = "";
    show({ isNew: false });
  } else if (event.key === "Escape" && !isTyping && location.hash.startsWith("#/thing/")) {
    location.hash = "#/";
  }
});

takeToken();
start();
