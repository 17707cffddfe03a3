// SPDX-License-Identifier: Apache-2.0
// The dashboard's frame: session, state, events, navigation. Text from outside becomes text nodes and nothing else: there is no innerHTML
// in these files, and the page's own policy (trusted types) forbids it.
import { allScreens, banners } from "/views.js";

const PAGE_KEY = "bailey-page", EVENTS_KEPT = 100000, RATE_SECONDS = 60;

export const store = {
  state: { sandboxes: [], silent: { until: null, hosts: [] }, index: { read: 0, all: 0 }, read_only: false },
  events: [], // of this page's life, oldest first
  first: 0, // the number of the oldest that is kept
  counted: 0, // events that came since the page was opened
  rates: new Map(), // sandbox: [[allowed, refused], ...] for each second
  online: false,
};
// A paired device sees what it may do, and nothing of the rest.
const screens = () => store.state.device ? allScreens.filter((s) => s.device) : allScreens;

export function h(tag, properties, ...children) {
  const node = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => child instanceof Node ? child : document.createTextNode(String(child))));
  return node;
}

// What would not be seen, or would turn the rest of a line around, is shown as what it is.
export function visible(text) {
  return String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

export const clock = (ts) => ts ? new Date(ts).toLocaleTimeString([], { hour12: false }) : "";
export const day = (ts) => ts ? new Date(ts).toLocaleString([], { hour12: false, dateStyle: "short", timeStyle: "medium" }) : "";
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; n >= 1024 && unit < 4; unit++) n /= 1024;
  return (unit ? n.toFixed(1) : n) + " " + units[unit];
}
export function age(ts) {
  const s = Math.max(0, Math.round((Date.now() - new Date(ts)) / 1000));
  return s < 120 ? s + " s" : s < 7200 ? Math.floor(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " d";
}

let toastTimer;
export function toast(text) {
  document.getElementById("toast").textContent = text;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { document.getElementById("toast").textContent = ""; }, 6000);
}

export async function call(path, body, raw) {
  const headers = { "X-Bailey-Page": sessionStorage.getItem(PAGE_KEY) || "" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const reply = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin", cache: "no-store", redirect: "error" });
  if (reply.status === 401 || (reply.status === 403 && path === "/api/state")) {
    noSession();
    throw new Error("no session");
  }
  const text = await reply.text();
  if (!reply.ok) {
    let why = text;
    try { why = JSON.parse(text).error; } catch { /* not JSON: as it is */ }
    throw new Error(why || "refused");
  }
  if (raw) return text;
  try { return JSON.parse(text); } catch { return { text }; }
}

export async function act(order) {
  try {
    await call("/api/act", order);
  } catch (e) {
    toast(e.message);
  }
  await refresh();
}

let over = false;
function noSession() {
  if (over) return;
  over = true;
  if (location.protocol === "https:") { notPaired(); return; }
  document.getElementById("main").replaceChildren(h("div", { class: "card empty" }, h("h2", {}, "No session"),
    h("p", {}, "This page needs a link that is used once. Run this in a terminal and open what it prints:"), h("pre", {}, "bailey ui")));
  setLive("off", "no session");
}

export function notPaired(text) {
  over = true;
  document.getElementById("nav").replaceChildren();
  document.getElementById("banner").replaceChildren();
  document.getElementById("main").replaceChildren(h("div", { class: "card empty" }, h("h2", {}, "Not paired"),
    h("p", {}, text || "This device is not paired (any more). Run this on the computer and scan the code:"), h("pre", {}, "bailey ui --pair")));
  setLive("off", "not paired");
}

function setLive(kind, text) {
  const live = document.getElementById("live");
  live.className = "live " + kind;
  if (live.textContent !== text) live.textContent = text;
}

// The link's key stands in the fragment: it is taken out of the address before anything else happens. A device sends the digest of
// the certificate back as well; which certificate its connection has, no browser tells a page.
async function begin() {
  const link = /^#key=([0-9a-f]{64})$/.exec(location.hash), pair = /^#pair=([\w-]{43})\.([\w-]{43})$/.exec(location.hash);
  if (link || pair) {
    history.replaceState(null, "", location.pathname + (pair ? "#/questions" : "#/now"));
    try {
      sessionStorage.setItem(PAGE_KEY, (await call("/api/session", pair ? { key: pair[1], certificate: pair[2] } : { key: link[1] })).page);
    } catch (e) {
      noSession();
      toast(e.message);
      return;
    }
  }
  window.addEventListener("hashchange", show);
  document.addEventListener("keydown", onKey);
  await refresh().catch(() => {});
  if (over) return;
  show();
  follow();
  setInterval(tick, 1000);
}

let refreshing = null, again = false;
export function refresh() {
  if (refreshing) { again = true; return refreshing; }
  refreshing = call("/api/state").then((state) => {
    store.state = state;
    redraw("live");
  }).finally(() => {
    refreshing = null;
    if (again) { again = false; refresh().catch(() => {}); }
  });
  return refreshing;
}

function tick() {
  for (const sandbox of store.state.sandboxes) {
    const rate = store.rates.get(sandbox.id) || [];
    rate.push([0, 0]);
    store.rates.set(sandbox.id, rate.slice(-RATE_SECONDS));
  }
  refresh().catch(() => setLive("off", "the dashboard's server is gone"));
}

// Server-sent events, read by fetch: EventSource could not send the header that proves where the request comes from.
let lastEvent = null;
async function follow() {
  for (let pause = 250; !over; pause = Math.min(pause * 2, 8000)) {
    try {
      const from = lastEvent || store.state.event;
      const reply = await fetch("/api/events" + (from ? "?after=" + encodeURIComponent(from) : ""), {
        headers: { "X-Bailey-Page": sessionStorage.getItem(PAGE_KEY) || "" }, credentials: "same-origin", cache: "no-store" });
      if (!reply.ok) throw new Error(reply.status);
      store.online = true;
      setLive("on", store.state.read_only ? "live, read-only" : "live");
      pause = 250;
      await readStream(reply.body.getReader());
    } catch { /* tried again below */ }
    store.online = false;
    setLive("off", "reconnecting");
    await new Promise((done) => setTimeout(done, pause));
  }
}

async function readStream(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    let came = false;
    while ((end = text.indexOf("\n\n")) >= 0) {
      takeEvent(text.slice(0, end));
      text = text.slice(end + 2);
      came = true;
    }
    if (came) eventsCame();
  }
}

function takeEvent(block) {
  let id = null, data = null, name = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data = line.slice(6);
    else if (line.startsWith("event: ")) name = line.slice(7);
  }
  if (name === "reset") { lastEvent = null; refresh().catch(() => {}); return; }
  if (id) lastEvent = id;
  if (!data) return;
  const event = JSON.parse(data);
  store.counted++;
  if (["network", "file", "ratchet", "note", "monitor", "answered", "ask", "rules", "end", "reload", "paused", "resumed"].includes(event.event)) {
    event.ts ||= new Date().toISOString();
    store.events.push(event);
    if (store.events.length > EVENTS_KEPT + 5000) store.first += store.events.splice(0, 5000).length;
  }
  if (event.event === "network" || event.event === "file") {
    const rate = store.rates.get(event.sandbox);
    if (rate && rate.length) rate[rate.length - 1][event.allowed ? 0 : 1]++;
  }
  if (event.event === "ask") notify(event);
  if (["ask", "answered", "gone", "pending", "rules", "paused", "resumed", "end", "left", "silent", "dropped", "pairing"].includes(event.event)) refresh().catch(() => {});
}

let drawing = false;
function eventsCame() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    document.documentElement.dataset.events = store.counted;
    redraw("events");
  });
}

// While a button is held down nothing is drawn again: a press that ends on another node than it began on is no click.
let held = false;
const due = new Set();
export function redraw(what) {
  if (held) { due.add(what); return; }
  const screen = current();
  if (what === "live") drawFrame();
  if (screen[what]) screen[what]();
}
function hold() { held = true; }
function release() {
  if (held) setTimeout(() => { held = false; for (const what of due) redraw(what); due.clear(); });
}

function notify(event) {
  if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  const q = event.question;
  new Notification("Bailey asks", { body: visible(q.command || q.access || q.push || q.page || q.call || q.host + ":" + q.port), tag: event.sandbox + q.id });
}

export const questions = () => store.state.sandboxes.flatMap((s) => (s.questions || []).map((q) => ({ ...q, sandbox: s })))
  .sort((a, b) => a.asked < b.asked ? -1 : 1);

function drawFrame() {
  const waiting = questions().length;
  const nav = document.getElementById("nav");
  const screen = current();
  const named = screens().filter((s) => !s.hidden);
  if (nav.children.length !== named.length) {
    nav.replaceChildren(...named.map((s) => h("a", { href: "#/" + s.name }, h("span", {}, s.title), h("span", { class: "count" }))));
  }
  named.forEach((s, i) => {
    const link = nav.children[i];
    if (s === screen && !link.hasAttribute("aria-current")) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "center" }); }
    else if (s !== screen) link.removeAttribute("aria-current");
    if (s.name === "questions") {
      link.lastChild.className = waiting ? "badge" : "count";
      link.lastChild.textContent = waiting || "";
    }
  });
  document.title = (waiting ? `(${waiting}) ` : "") + "Bailey: " + screen.title;
  banners(document.getElementById("banner"));
}

export const current = () => screens().find((s) => s.name === location.hash.replace(/^#\//, "").split("/")[0]) || screens()[0];
export const argument = () => decodeURIComponent(location.hash.replace(/^#\//, "").split("/").slice(1).join("/"));

export function show() {
  closeDrawer();
  const screen = current(), main = document.getElementById("main");
  drawFrame();
  main.replaceChildren(h("h2", { tabindex: "-1" }, screen.title));
  screen.draw(main);
}

let before = null;
export function openDrawer(title, ...content) {
  const drawer = document.getElementById("drawer");
  before = document.activeElement;
  drawer.setAttribute("role", "dialog");
  drawer.setAttribute("aria-label", title);
  drawer.replaceChildren(h("div", { class: "row spread" }, h("h2", {}, title), h("button", { onclick: closeDrawer, class: "small" }, "Close", h("kbd", {}, "Esc"))), ...content);
  drawer.hidden = false;
  drawer.querySelector("button").focus();
}
export function closeDrawer() {
  const drawer = document.getElementById("drawer");
  if (drawer.hidden) return;
  drawer.hidden = true;
  drawer.replaceChildren();
  if (before && before.isConnected) before.focus();
}

function onKey(event) {
  if (event.key === "Escape") { closeDrawer(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const screen = current();
  if (screen.key && screen.key(event)) { event.preventDefault(); return; }
  if (event.key === "g") {
    const named = screens().filter((s) => !s.hidden);
    location.hash = "#/" + named[(named.indexOf(screen) + 1) % named.length].name;
  } else if (event.key === "q") location.hash = "#/questions";
  else if (event.key === "/") {
    const box = document.querySelector("main input");
    if (box) { box.focus(); event.preventDefault(); }
  } else if (event.key === "?") {
    openDrawer("Keys", h("dl", { class: "facts" }, ...[["q", "questions"], ["g", "next screen"], ["/", "filter"], ["1 to 5", "answer the first question"], ["Esc", "close"], ["?", "this list"]]
      .flatMap(([k, t]) => [h("dt", {}, h("kbd", {}, k)), h("dd", {}, t)])));
  }
}

addEventListener("pointerdown", hold, true);
for (const end of ["pointerup", "pointercancel", "dragend", "blur"]) addEventListener(end, release, true);
addEventListener("pointermove", (event) => { if (!event.buttons) release(); }, true); // it was let go of outside
begin();
