// What the server has told: everything once, with the page, then only what changes. Reconnects by itself, for ever.
export const store = {
  state: null,
  timeline: null,
  rates: [],
  heard: {},
  session: { faults: false },
  connected: null, // not yet; false when it was lost
  over: false,
  skew_ms: 0,
};

// The address that begins a session has the key to changes behind it. It is kept here, where other servers of this
// machine cannot read it: they see cookies, but this is another origin than theirs.
const KEY = "epoka-key";
const brought = /^#key=([\w-]+)$/.exec(location.hash);
if (brought) {
  localStorage.setItem(KEY, brought[1]);
  history.replaceState(null, "", location.pathname);
}

const listeners = new Map();

/** Call `what` with the content of every message of a kind; returns how to stop. */
export function on(kind, what) {
  const known = listeners.get(kind) ?? listeners.set(kind, new Set()).get(kind);
  known.add(what);
  return () => known.delete(what);
}

function tell(kind, content) {
  for (const each of [...(listeners.get(kind) ?? [])]) each(content);
}

export const now = () => Date.now() + store.skew_ms;

export async function get(path, query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== null));
  return answer(await fetch(`${path}?${search}`));
}

export async function post(path, content) {
  const headers = { "content-type": "application/json", [store.session.header]: localStorage.getItem(KEY) ?? "" };
  return answer(await fetch(path, { method: "POST", headers, body: JSON.stringify(content) }));
}

async function answer(response) {
  const content = response.headers.get("content-type")?.startsWith("application/json")
    ? await response.json()
    : { error: (await response.text()).trim() };
  if (!response.ok) throw new Error(content.error || response.statusText);
  return content;
}

const PATIENCE_MS = 12_000;
const MOST_POINTS = 150;
let source = null;
let heard = 0;
let retry = null;

export function connect() {
  begin(JSON.parse(document.getElementById("told").textContent));
  open();
  get("/api/session").then(
    (session) => {
      store.session = session;
      tell("state");
    },
    () => {},
  );
  setInterval(() => {
    if (store.connected && !document.hidden && Date.now() - heard > PATIENCE_MS) lost();
  }, 1000);
  // A browser has few connections for one server; a page that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else open();
  });
}

function begin(state) {
  store.skew_ms = state.now_ms - Date.now();
  const { rates = [], heard = {}, ...rest } = state;
  store.state = rest;
  store.heard = heard;
  store.rates = rates;
  store.timeline = null;
}

function open() {
  retry = null;
  heard = Date.now();
  source?.close();
  source = new EventSource("/api/feed");
  source.onerror = lost;
  const hear = (kind, take) =>
    source.addEventListener(kind, (event) => {
      heard = Date.now();
      take(JSON.parse(event.data));
    });
  hear("state", (state) => {
    begin(state);
    store.connected = true;
    store.over = false;
    tell("state");
    tell("link");
    tell("anew");
  });
  hear("delta", (delta) => {
    const { brokers = {}, gone = [], ...parts } = delta;
    Object.assign(store.state, parts);
    Object.assign(store.state.brokers, brokers);
    for (const each of gone) delete store.state.brokers[each];
    tell("state");
    if ("offset" in delta) tell("metadata");
  });
  hear("timeline", (delta) => {
    if (!store.timeline) return;
    const { lanes = {}, ...parts } = delta;
    Object.assign(store.timeline, parts);
    Object.assign(store.timeline.lanes, lanes);
    tell("timeline");
  });
  hear("rates", (point) => {
    store.rates.push(point);
    while (store.rates.length > MOST_POINTS) store.rates.shift();
    tell("rates");
  });
  hear("heard", (heard) => {
    store.heard = heard;
    tell("heard");
  });
  hear("ledger", (news) => tell("ledger", news));
  hear("ping", () => {});
}

function lost() {
  store.connected = false;
  source?.close();
  tell("link");
  retry ??= setTimeout(open, 1000);
  // A server that was started anew has other secrets: then this session is over, and only its address helps.
  fetch("/api/session").then(
    (response) => {
      store.over = response.status === 401;
      tell("link");
    },
    () => {},
  );
}

/** The time line, whole the first time and kept up to date by deltas from then on. */
export async function timeline() {
  store.timeline ??= await get("/api/timeline");
  return store.timeline;
}
