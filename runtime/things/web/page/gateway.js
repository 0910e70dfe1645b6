// Gateway: requests, the token, and the one stream of messages. All paths are relative to the page.

const TOKEN = "appbackplane.token",
  IS_LINK = "appbackplane.is_link";
// A connection without even a comment for this long is taken for dead: the gateway sends one every 30 s.
const SILENCE_MS = 75_000;
// The longest time between two attempts to connect.
const RETRY_MS_MAX = 10_000;

/** The gateway's refusal of a request, in its own words. */
export class Refused extends Error {
  constructor(status, detail, retryAfter) {
    super(retryAfter ? `${detail} Try again in ${retryAfter} s.` : detail);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  isLink: () => sessionStorage.getItem(IS_LINK) !== null,
  set(value, { isLink = false } = {}) {
    sessionStorage.setItem(TOKEN, value);
    if (isLink) sessionStorage.setItem(IS_LINK, "");
    else sessionStorage.removeItem(IS_LINK);
  },
  forget() {
    sessionStorage.removeItem(TOKEN);
    sessionStorage.removeItem(IS_LINK);
  },
};

/** Take the token of a guest link out of the address, so that it is in no history and no screenshot. */
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return false;
  token.set(decodeURIComponent(found[1]), { isLink: true });
  history.replaceState(null, "", location.pathname);
  return true;
}

function headers(more = {}) {
  const known = token.get();
  return known ? { Authorization: `Bearer ${known}`, ...more } : more;
}

/** Ask the gateway; its answer with `body`, from JSON. Raises Refused, and TypeError if it cannot be reached. */
export async function ask(method, path, body, { signal } = {}) {
  const options = { method, headers: headers(), cache: "no-store", signal };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const response = await fetch(path, options);
  const text = await response.text();
  const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
  const found = text && isJson ? JSON.parse(text) : null;
  if (!response.ok) {
    if (response.status === 401) document.dispatchEvent(new CustomEvent("unknown-user"));
    throw new Refused(
      response.status,
      sentence(found?.detail ?? response.statusText),
      response.headers.get("Retry-After"),
    );
  }
  return { status: response.status, headers: response.headers, body: found };
}

function sentence(text) {
  return `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** The path of a thing, or of a part of it. */
export function pathOf(id, ...parts) {
  return ["things", id, ...parts].map(encodeURIComponent).join("/");
}

/** The name of the user; "" where the gateway does not tell. Raises Refused. */
export async function whoAmI() {
  try {
    return (await ask("GET", "whoami")).body?.principal ?? "";
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return "";
    throw error;
  }
}

/** Whether users can sign in by a provider: then there is such a path, though not for this method. */
export async function hasSignIn() {
  const answer = await fetch("sign-in", { method: "HEAD", cache: "no-store" }).catch(() => null);
  return answer?.status === 405;
}

/**
 * Hear the messages of all things, until `signal` is aborted; connects again by itself.
 * heard.state("live" | "lost" | "nothing"), heard.message(object), heard.things(): list them anew, heard.gap(): read anew.
 */
export async function listen(heard, signal) {
  let lastId = null,
    failures = 0,
    isFirst = true;
  while (!signal.aborted) {
    let isOpen = false;
    const silence = new AbortController();
    try {
      const response = await fetch("live", {
        headers: headers(lastId ? { "Last-Event-ID": lastId } : {}),
        cache: "no-store",
        signal: AbortSignal.any([signal, silence.signal]),
      });
      if (response.status === 401) document.dispatchEvent(new CustomEvent("unknown-user"));
      heard.state(response.ok ? "live" : response.status === 403 ? "nothing" : "lost");
      if (response.ok) {
        isOpen = true;
        if (isFirst) heard.gap();
        else heard.things(); // they may have changed meanwhile
        for await (const event of events(response.body, silence)) {
          failures = 0;
          if (event.id) lastId = event.id;
          if (event.name === "message") heard.message(JSON.parse(event.data));
          else if (event.name === "things") heard.things();
          else if (event.name === "lost") heard.gap();
        }
      } else {
        await response.body?.cancel();
      }
    } catch {
      if (!signal.aborted) heard.state("lost");
    }
    if (signal.aborted) return;
    if (isOpen) heard.things(); // it has ended: the user may have lost what they saw
    isFirst = false;
    failures += 1;
    await delay(
      failures === 1 ? 0 : Math.min(RETRY_MS_MAX, 125 * 2 ** failures) * (0.75 + Math.random() / 2),
      signal,
    );
  }
}

/** The events of a stream. */
async function* events(body, silence) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "",
    timer = 0;
  try {
    for (;;) {
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const { done, value } = await reader.read();
      clearTimeout(timer);
      if (done) return;
      rest += value;
      const blocks = rest.split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = { name: "message", id: "", data: null };
        for (const line of block.split("\n")) {
          const colon = line.indexOf(": ");
          const field = line.slice(0, colon),
            said = line.slice(colon + 2);
          if (field === "event") event.name = said;
          else if (field === "id") event.id = said;
          else if (field === "data") event.data = said;
        }
        if (event.data !== null) yield event;
      }
    }
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
}

/** Some time; less if the page is shown again, or the network is back. */
function delay(ms, signal) {
  return new Promise((resolve) => {
    const done = new AbortController();
    const end = () => {
      clearTimeout(timer);
      done.abort();
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { signal: done.signal });
    addEventListener("online", end, { signal: done.signal });
    document.addEventListener("visibilitychange", () => document.hidden || end(), { signal: done.signal });
  });
}
