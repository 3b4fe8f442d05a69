// Which page is shown, the keyboard, and what is said about the connection.
import { h, lasting } from "/static/dom.js";
import { connect, now, on, store } from "/static/store.js";
import { overview } from "/static/overview.js";
import { closePanel } from "/static/panel.js";

const PAGES = [
  ["overview", "Overview"],
  ["brokers", "Brokers"],
  ["generations", "Generations"],
  ["decisions", "Decisions"],
  ["topics", "Topics"],
  ["groups", "Groups"],
  ["past", "Past"],
];
// The first page is there at once; the others are fetched when they are wanted, or when there is time.
const loaded = new Map([["overview", overview]]);
const main = document.getElementById("main");
const tabs = new Map(PAGES.map(([key, title], at) => [key, h("a", { href: `#/${key}`, title: `Key ${at + 1}` }, title)]));
document.getElementById("nav").replaceChildren(...tabs.values());
let leave = () => {};
let shown = "";
let routed = 0;

async function load(name) {
  if (!loaded.has(name)) loaded.set(name, (await import(`/static/${name}.js`))[name]);
  return loaded.get(name);
}

const missing = (error) => (host) => host.append(h("p", { class: "bad" }, `The page could not be fetched: ${error.message}`));

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function route() {
  const mine = ++routed;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const page = PAGES.find(([key]) => key === name) ?? PAGES[0];
  leave();
  leave = () => {};
  closePanel();
  const host = h("div", { class: `page ${page[0]}` });
  main.replaceChildren(host);
  if (shown !== page[0]) main.scrollTo?.(0, 0);
  shown = page[0];
  document.title = `${page[1]} · Epoka`;
  for (const [key, tab] of tabs) {
    if (key === shown) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  tabs.get(shown).scrollIntoView({ block: "nearest", inline: "nearest" });
  const show = loaded.get(page[0]) ?? (await load(page[0]).catch((error) => missing(error)));
  if (mine === routed) leave = show(host, rest) ?? (() => {});
}

function link() {
  const host = document.getElementById("link");
  host.textContent = store.connected ? "live" : "reconnecting";
  host.className = `link ${store.connected ? "on" : "off"}`;
  stale();
}

/** What is shown is old: say how old. */
function stale() {
  const host = document.getElementById("stale");
  const seen = store.state?.seen;
  let text = "";
  if (store.over) text = "The dashboard was started anew. Open the address that it has printed.";
  else if (store.connected === false) text = "The dashboard's server does not answer. This is the last known state.";
  else if (seen && !seen.reachable) {
    text = seen.answered_ms
      ? `The controller does not answer. This is the state of ${lasting(now() - seen.answered_ms)} ago.`
      : "The controller has not answered yet.";
  }
  if (host.textContent !== text) host.textContent = text;
  host.hidden = !text;
}

const KEYS = {
  "/": () => document.querySelector("main input[type=search]")?.focus(),
  Escape: () => (document.activeElement?.blur(), closePanel()),
  j: () => step(1),
  k: () => step(-1),
  "?": () => alertKeys(),
};

function step(by) {
  const rows = [...document.querySelectorAll("main [data-row]")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

function alertKeys() {
  import("/static/panel.js").then(({ openPanel }) =>
    openPanel("Keys", [
      h(
        "dl",
        { class: "keys" },
        [
          [`1 – ${PAGES.length}`, "a page"],
          ["/", "search"],
          ["j, k", "next row, row before"],
          ["Enter", "open the row"],
          ["+, −, ←, →", "zoom and move the time line"],
          ["[, ]", "in the past: what came before, what came next"],
          ["Esc", "close"],
        ].flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)]),
      ),
    ]),
  );
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (typing && event.key !== "Escape") return;
  if (event.key === "Enter" && document.activeElement?.dataset.row !== undefined) {
    document.activeElement.click();
  } else if (/^[1-9]$/.test(event.key) && PAGES[event.key - 1]) location.hash = `#/${PAGES[event.key - 1][0]}`;
  else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

window.addEventListener("hashchange", route);
on("link", link);
on("state", stale);
setInterval(stale, 1000);
connect();
route();
// A server that is gone could give no page any more.
const all = on("anew", () => {
  all();
  setTimeout(() => PAGES.forEach(([name]) => load(name).catch(() => {})), 500);
});
