// SPDX-License-Identifier: Apache-2.0
// The screens. Each has draw(main); live() is called when the state is new, events() when events came, key(event) for its own keys.
import { act, age, argument, bytes, call, clock, closeDrawer, current, day, h, notPaired, openDrawer, questions, redraw, refresh, show, store, toast, visible } from "/app.js";

const $ = (id) => document.getElementById(id);
const verdictPill = (allowed) => h("span", { class: "pill " + (allowed ? "yes" : "no") }, allowed ? "allowed" : "refused");
const empty = (title, text, command) => h("div", { class: "card empty" }, h("p", {}, h("strong", {}, title)), h("p", {}, text), command ? h("pre", {}, command) : null);
const readOnly = () => store.state.read_only;
const commandOf = (s) => (s.status?.command || []).map((w) => /^[\w@%+=:,./-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'").join(" ");

function table(headings, rows, stack = true) {
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": headings.map(([title]) => title).filter(Boolean).join(", ") },
    h("table", { class: stack ? "stack" : "" },
      h("thead", {}, h("tr", {}, headings.map(([title, kind]) => h("th", { class: kind === "n" ? "n" : "", scope: "col" }, title || h("span", { class: "dim" }, "\u00a0"))))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, i) => h("td", { class: headings[i][1] || "", "data-label": headings[i][0] || null }, cell)))))));
}

async function fill(node, path, make) {
  node.replaceChildren(h("p", { class: "dim" }, "Loading."));
  try {
    node.replaceChildren(...[make(await call(path))].flat(9));
  } catch (e) {
    node.replaceChildren(h("p", { class: "no" }, visible(e.message)));
  }
}

function spark(rate) {
  const most = Math.max(4, ...rate.map(([a, r]) => a + r));
  return h("svg:svg", { class: "spark", viewBox: "0 0 120 26", role: "img", "aria-label": "attempts in the last minute" }, rate.flatMap(([a, r], i) => [
    h("svg:rect", { class: "in", x: i * 2, y: 26 - a / most * 26, width: 1.6, height: a / most * 26 }),
    h("svg:rect", { class: "out", x: i * 2, y: 26 - (a + r) / most * 26, width: 1.6, height: r / most * 26 })]));
}

// Banners: silent mode, and a paired device.
const countdown = (until) => {
  const left = Math.max(0, Math.round((new Date(until) - Date.now()) / 1000));
  return left >= 6000 ? Math.round(left / 60) + " min" : Math.floor(left / 60) + ":" + String(left % 60).padStart(2, "0");
};
let dismissed = null;

function silentParts() {
  const { until, hosts } = store.state.silent, list = hosts.slice(0, 8).map((x, i) => [i ? ", " : "", h("code", {}, visible(x.host)), ` (${x.count})`]);
  const more = hosts.length > 8 ? ` and ${hosts.length - 8} more` : "";
  if (until) return { key: "silent", text: `Silent mode: every unknown host is allowed for ${countdown(until)} more. Denied, private and metadata addresses stay refused. Allowed so far: ${hosts.length}.`, button: ["End it now", () => setSilent(0)] };
  if (!hosts.length || dismissed === JSON.stringify(hosts)) return null;
  return { key: "over", text: [`Silent mode is over. ${hosts.length} host${hosts.length === 1 ? " was" : "s were"} allowed: `, list, more], button: ["I have seen it", () => { dismissed = JSON.stringify(hosts); banners($("banner")); }] };
}

function pairingParts() {
  const { pairing, device } = store.state;
  if (!pairing?.open) return null;
  const left = countdown(pairing.until);
  const text = device ? `This device is paired for ${left} more. It can read and answer questions.` : pairing.device ? `A phone is paired for ${left} more: ${pairing.device}. It can read and answer questions.` : "A pairing waits for a phone: scan the code in the terminal.";
  return { key: "pairing", text, button: ["End the pairing", endPairing] };
}

// What a person must know of a run before anything else about it. Said on every screen, until it ends or was seen.
const seen = new Set();
function warnings() {
  const shown = (s) => `${s.id} (${visible(commandOf(s)).slice(0, 60)})`;
  return store.state.sandboxes.flatMap((s) => {
    const t = s.status || {}, lost = () => openDrawer("What is lost in " + s.id, h("ul", {}, t.lost.map((line) => h("li", {}, visible(line)))));
    const see = (key) => () => { seen.add(key); banners($("banner")); };
    return [
      t.degraded && { key: "degraded" + s.id, text: `${shown(s)} runs degraded: this machine cannot give it ${t.lost?.length === 1 ? "one protection" : (t.lost?.length || "all") + " protections"} that a sandbox has.`, button: ["What is lost", lost] },
      t.learns && { key: "learns" + s.id, text: `${shown(s)} runs observed (bailey learn): every host that is not private is let through, and noted.` },
      t.audit_failed && { key: "audit" + s.id, text: `${shown(s)}: its audit log cannot be written. Nothing new is let through until it can.` },
      t.disk && { key: "disk" + s.id, text: `${shown(s)} is frozen: ${visible(t.disk)}. It goes on when files are removed, or with a higher limit (bailey guest set --disk).` },
      t.alarms > 0 && { key: `alarm${s.id}.${t.alarms}`, text: `The monitor raised ${t.alarms === 1 ? "an alarm" : t.alarms + " alarms"} in ${shown(s)}: ${visible(t.alarm)}.`, button: ["I have seen it", see(`alarm${s.id}.${t.alarms}`)] },
    ].filter((part) => part && !seen.has(part.key));
  });
}

export function banners(place) {
  const parts = [silentParts(), pairingParts(), ...warnings()].filter(Boolean), keys = parts.map((p) => p.key + (typeof p.text === "string" ? "" : JSON.stringify(store.state.silent))).join();
  if (place.dataset.keys !== keys || place.childElementCount !== parts.length) {
    place.dataset.keys = keys;
    place.replaceChildren(...parts.map(({ text, button }) => h("div", { class: "banner" }, h("span", {}, text), !button || (readOnly() && button[0] === "End it now") ? null : h("button", { class: "small", onclick: button[1] }, button[0]))));
  }
  parts.forEach((p, i) => { const span = place.children[i].firstChild; if (typeof p.text === "string" && span.textContent !== p.text) span.textContent = p.text; });
}

async function endPairing() {
  try { await call("/api/pairing/end", {}); } catch (e) { toast(visible(e.message)); }
  if (store.state.device) notPaired("The pairing has ended."); else await refresh();
}

async function setSilent(minutes) {
  try { await call("/api/silent", { minutes }); } catch (e) { toast(e.message); }
  await refresh();
}

// Processor and memory of a sandbox: between its last two answers.
const samples = new Map();
function used(s) {
  const u = s.status?.usage;
  if (!u) return null;
  const last = samples.get(s.id) || { u, cpu: null };
  if (u.at_us > last.u.at_us) { last.cpu = Math.max(0, (u.cpu_us - last.u.cpu_us) / (u.at_us - last.u.at_us) * 100); last.u = u; }
  samples.set(s.id, last);
  return (last.cpu === null ? "" : (last.cpu < 10 ? last.cpu.toFixed(1) : Math.round(last.cpu)) + " %, ") + bytes(u.memory);
}

// Long work of other commands: packing a guest, provisioning, pulling an image, verifying a log.
function workCard(w) {
  const share = w.total ? Math.min(100, Math.floor(w.done / w.total * 100)) : null;
  const far = w.unit === "steps" ? `${w.done} of ${w.total} steps` : share !== null ? `${share} % of ${bytes(w.total)}` : w.done ? bytes(w.done) + " so far" : "";
  return h("div", { class: "card" }, h("div", { class: "row spread" }, h("span", {}, visible(w.what)), h("span", { class: "dim" }, [far, "for " + age(w.since_us / 1000)].filter(Boolean).join(", "))),
    share === null ? null : h("div", { class: "progress", role: "progressbar", "aria-label": visible(w.what), "aria-valuenow": share, "aria-valuemin": 0, "aria-valuemax": 100 }, bar(share)));
}

// Now.
const now = {
  name: "now", title: "Now", device: true,
  draw(main) { main.append(h("div", { id: "now" })); this.live(); },
  events() { this.live(); },
  live() {
    const place = $("now");
    if (!place) return;
    const { index, sandboxes } = store.state, focused = document.activeElement?.dataset?.key;
    const parts = [];
    if (index.all > index.read && index.all - index.read > 100000) {
      const share = Math.floor(index.read / index.all * 100);
      parts.push(h("div", { class: "card" }, `Reading the audit logs: ${share} %`, h("div", { class: "progress", role: "progressbar", "aria-valuenow": share, "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "audit logs read" }, bar(share))));
    }
    parts.push(...(store.state.work || []).map(workCard));
    if (!sandboxes.length) parts.push(empty("Nothing runs", "Sandboxes of bailey run, exec, gateway and egress appear here by themselves. " + (store.state.device ? "" : "Earlier runs are under History."), "bailey run --ask control -- COMMAND"));
    else parts.push(table([["sandbox", "w"], ["command"], ["state"], ["age", "w"], ["waiting", "n"], ["allowed", "n"], ["refused", "n"], ["cpu, memory", "n"], ["last minute"], [""]], sandboxes.map(row)));
    if (sandboxes.length && !readOnly() && !store.state.device && !store.state.silent.until)
      parts.push(h("p", { class: "row" }, h("span", { class: "dim" }, "Do not ask for a while:"), [5, 15].map((m) => h("button", { class: "small", "data-key": "silent" + m, onclick: () => setSilent(m) }, `allow unknown hosts for ${m} min`))));
    place.replaceChildren(...parts);
    if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  },
};

function bar(share) {
  const span = h("span", {});
  span.style.width = share + "%";
  return span;
}

function row(s) {
  const status = s.status || {}, old = s.status_age_ms > 5000;
  const order = (what, text, extra) => h("button", { class: "small " + (extra || ""), "data-key": what + s.id, disabled: readOnly(), onclick: () => what !== "kill" || confirmTwice(s.id) ? act({ sandbox: s.id, do: what }) : null }, text);
  return [store.state.device ? h("code", {}, s.id) : h("a", { href: "#/run/" + s.id }, h("code", {}, s.id)), h("span", { class: "mono" }, visible(commandOf(s)), h("br"), h("span", { class: "dim" }, status.container ? "container " + visible(status.container) : visible(status.workspace || ""), status.degraded ? [" ", h("span", { class: "pill warn" }, "degraded")] : "", status.learns ? [" ", h("span", { class: "pill warn" }, "observed")] : "", status.agent ? " · " + visible(status.agent) : "")),
    h("span", { class: "pill " + (old ? "no" : status.state === "paused" ? "warn" : status.state === "asking" ? "mid" : "yes") }, old ? "silent" : status.state || "?"), status.started ? age(status.started) : "",
    (s.questions || []).length ? h("a", { href: "#/questions" }, String(s.questions.length)) : "0", String(status.allowed ?? 0), h("span", { class: status.refused ? "no" : "" }, String(status.refused ?? 0)), used(s) || h("span", { class: "dim" }, "not known"), spark(store.rates.get(s.id) || []),
    store.state.device ? "" : h("div", { class: "row" }, status.state === "paused" ? order("resume", "Resume") : order("pause", "Pause"), order("kill", "Kill", "danger"))];
}

let killing = null;
function confirmTwice(id) {
  if (killing === id) { killing = null; return true; }
  killing = id;
  toast("Press Kill again to end the sandbox " + id + " with everything in it.");
  setTimeout(() => { killing = null; }, 6000);
  return false;
}

// Questions.
const SCOPES = [["once", "only what waits now"], ["sandbox", "until this sandbox ends"], ["workspace", "in this workspace, also later"], ["always", "everywhere, also later"]];
const lineOf = (deny, target, scope, workspace) => scope === "once" ? "no rule is written" : scope === "sandbox" ? `network.${deny ? "deny" : "allow"}: ["${target}"], in this sandbox only`
  : `remembered rule: ${deny ? "deny" : "allow"} ${target}${scope === "workspace" ? " in " + workspace : " everywhere"}`;

function answers(q, first) {
  const send = (answer, scope) => act({ sandbox: q.sandbox.id, do: "answer", question: q.id, answer, scope });
  const choices = [["allow", "once", "Allow once", "allow"], ["allow", "sandbox", q.container ? "Allow until it ends" : "Allow for this sandbox", "allow"], ["allow", "workspace", q.container ? "Allow for this container" : "Allow in this workspace", "allow"], ["deny", "once", "Deny once", "deny"], ["deny", "sandbox", "Deny for this sandbox", "deny"]];
  return h("div", { class: "row answers" }, choices.filter(([, scope]) => q.kind === "host" || (q.kind === "call" && scope === "sandbox") || (scope !== "sandbox" && (q.kind === "command" || scope === "once"))).map(([answer, scope, text, kind], i) =>
    h("button", { class: kind, disabled: readOnly(), "data-key": `${q.sandbox.id}.${q.id}.${answer}.${scope}`, "data-answer": first ? i + 1 : null, title: q.kind === "host" ? visible(lineOf(answer === "deny", q.host + ":" + q.port, scope, q.container ? "container " + q.container : q.sandbox.status?.workspace)) : "", onclick: () => send(answer, scope) }, text, first ? h("kbd", {}, String(i + 1)) : null)));
}

function marked(command, segment) {
  const at = segment ? command.indexOf(segment) : -1;
  return at < 0 ? visible(command) : [visible(command.slice(0, at)), h("mark", {}, visible(segment)), visible(command.slice(at + segment.length))];
}

// What was decided about the same host in earlier runs; asked for once.
const decided = new Map();
function earlier(q) {
  if (q.kind !== "host" || store.state.device) return null;
  if (!decided.has(q.host)) {
    decided.set(q.host, []);
    call("/api/history?limit=200&text=" + encodeURIComponent(q.host)).then((r) => {
      decided.set(q.host, r.records.map(({ run, record }) => ({ run, at: record.ts, text: record.detail ?? "" })).filter((x) => x.text.startsWith("answered: " + q.host + ":")).slice(0, 3));
      if (decided.get(q.host).length && current() === questionScreen) redraw("live");
    }).catch(() => {});
  }
  const list = decided.get(q.host);
  return list.length ? h("p", { class: "dim" }, "answered before: ", list.map((x, i) => [i ? "; " : "", day(x.at) + " " + visible(x.text.replace(/^answered: [^,]*, /, "")), " (", h("a", { href: "#/run/" + encodeURIComponent(x.run) }, x.run), ")"])) : null;
}

function card(q, first) {
  const left = Math.max(0, Math.round((new Date(q.expires) - Date.now()) / 1000));
  const same = store.events.filter((e) => e.event === "network" && e.domain === q.host && e.sandbox === q.sandbox.id).slice(-3);
  return h("article", { class: "card question", "aria-label": "question " + q.id },
    h("div", { class: "row spread" }, h("span", { class: "target" }, q.kind === "command" ? marked(q.command, q.segment) : visible(q.access || q.push || q.page || q.call || q.host + ":" + q.port)), h("span", { class: "pill warn" }, left < 120 ? `${left} s left` : `${Math.floor(left / 60)} min left`)),
    q.kind !== "command" && q.reason ? h("p", {}, "its reason: \u201c", visible(q.reason), "\u201d") : null,
    h("p", {}, q.held ? "a program waits in the call that opens it" : q.kind === "access" ? "asked by the agent" : q.kind === "call" ? ["a tool to be run on this host, in ", h("code", {}, visible(q.directory))] : q.kind === "page" ? "a page to be opened in your browser" : q.kind === "push" ? "a push that waits" : q.kind === "command" ? [visible(q.reason), " ", h("span", { class: "dim" }, "rule ", visible(q.rule))] : ["by ", h("code", {}, visible(q.via)), `, ${q.waiting} waiting`], h("br"),
      h("span", { class: "dim" }, "sandbox "), h("code", {}, q.sandbox.id), " ", h("code", {}, visible(commandOf(q.sandbox))), h("span", { class: "dim" }, q.container ? " container " + visible(q.container) : " in " + visible(q.sandbox.status?.workspace || ""))),
    earlier(q),
    same.length ? h("p", { class: "dim" }, "a moment ago: ", same.map((e) => `${clock(e.ts)} ${e.allowed ? "allowed" : "refused"} (${e.reason})`).join(", ")) : null,
    answers(q, first));
}

// The same host, asked for in several sandboxes, is answered at once.
function bulk(list) {
  const hosts = Map.groupBy ? Map.groupBy(list.filter((q) => q.kind === "host"), (q) => q.host + ":" + q.port) : new Map();
  return [...hosts].filter(([, same]) => same.length > 1).map(([name, same]) => h("div", { class: "card row spread" }, h("span", {}, h("code", {}, visible(name)), ` waits in ${same.length} sandboxes`),
    h("div", { class: "row" }, [["allow", "Allow all once"], ["deny", "Deny all once"]].map(([answer, text]) => h("button", { class: answer, disabled: readOnly(), "data-key": "all." + answer + name,
      onclick: () => Promise.all(same.map((q) => act({ sandbox: q.sandbox.id, do: "answer", question: q.id, answer, scope: "once" }))) }, text)))));
}

const SETTLE_MS = 600;
const questionScreen = {
  name: "questions", title: "Questions", device: true,
  draw(main) {
    main.append(h("div", { id: "questions", "aria-live": "polite" }), h("details", { class: "card" }, h("summary", {}, "What the answers mean"), h("dl", { class: "facts" }, SCOPES.flatMap(([s, t]) => [h("dt", {}, s), h("dd", {}, t)]))));
    if ("Notification" in window && Notification.permission === "default") main.append(h("button", { class: "small", onclick: () => Notification.requestPermission() }, "Tell me also when this page is in the background"));
    this.live();
  },
  live() {
    const place = $("questions");
    if (!place) return;
    const list = questions(), focused = document.activeElement?.dataset?.key;
    place.replaceChildren(...bulk(list), ...(list.length ? list.map((q, i) => card(q, i === 0)) : [empty("Nobody waits for an answer", "A sandbox asks when its policy says so.", "bailey run --ask control -- COMMAND")]));
    this.settle(place);
    this.refocus(place, focused || this.wanted);
  },
  // One that is closed for a moment gets the focus back when it opens.
  refocus(place, key) {
    const button = key && place.querySelector(`[data-key="${CSS.escape(key)}"]`);
    this.wanted = button?.disabled ? key : null;
    if (button && !button.disabled) button.focus();
  },
  // A button that has just come, or moved, is closed for a moment: nobody is to answer one question with a hand that was on its way to another.
  settle(place) {
    const now = performance.now(), seen = this.seen || new Map();
    let left = 0;
    this.seen = new Map();
    for (const button of place.querySelectorAll("button[data-key]")) {
      const { key, answer } = button.dataset, box = button.getBoundingClientRect(), before = seen.get(key);
      const at = { answer, x: box.left + scrollX, y: box.top + scrollY, since: now };
      if (before && before.answer === answer && Math.abs(before.x - at.x) < 5 && Math.abs(before.y - at.y) < 5) at.since = before.since;
      this.seen.set(key, at);
      const waits = SETTLE_MS - (now - at.since);
      if (waits > 0) { button.disabled = true; left = Math.max(left, waits); }
    }
    clearTimeout(this.timer);
    if (left) this.timer = setTimeout(() => { if (current() === this) redraw("live"); }, left + 1);
  },
  key(event) {
    if (!/^[1-5]$/.test(event.key)) return false;
    document.querySelector(`[data-answer="${event.key}"]:enabled`)?.click();
    return true;
  },
};

// Traffic: a window over the list, so that 100,000 events cost as much as 30.
const ROW = 33;
const eventText = (e) => e.event === "network" ? `${e.method ? e.method + " " : ""}${e.domain ?? ""}${e.port ? ":" + e.port : ""}${e.path ?? ""}` : e.event === "file" ? e.path
  : e.event === "answered" ? `answered: ${e.answer}, scope ${e.scope}, by ${e.by}` : e.event === "ask" ? `asked: ${e.question.host ? e.question.host + ":" + e.question.port : e.question.command ?? e.question.call ?? e.question.push ?? e.question.page ?? e.question.access}` : e.event === "rules" ? `rule: ${e.list} ${e.pattern}, scope ${e.scope}`
  : e.event === "ratchet" ? `ratchet closed by ${e.trigger} ${e.what}: ${e.say}` : e.event === "end" ? `ended with status ${e.status}` : e.text || e.event;

function allowForm(host, port) {
  const target = host + (port ? ":" + port : "");
  const sandbox = h("select", { "aria-label": "sandbox" }, store.state.sandboxes.map((s) => h("option", { value: s.id }, s.id + " " + visible(commandOf(s)).slice(0, 40))));
  const scope = h("select", { "aria-label": "scope" }, SCOPES.slice(1).map(([s, t]) => h("option", { value: s }, s + ": " + t)));
  const line = h("pre", {});
  const update = () => {
    const s = store.state.sandboxes.find((x) => x.id === sandbox.value);
    line.textContent = visible(lineOf(false, target, scope.value, s?.status?.workspace || "")) + "\n" + visible(lineOf(true, target, scope.value, s?.status?.workspace || ""));
  };
  sandbox.addEventListener("change", update);
  scope.addEventListener("change", update);
  update();
  const send = (what) => act({ sandbox: sandbox.value, do: what, pattern: target, scope: scope.value }).then(closeDrawer);
  return store.state.sandboxes.length && !readOnly() ? h("div", { class: "card" }, h("h3", {}, "Decide about ", h("code", {}, visible(target))), h("div", { class: "row" }, sandbox, scope), h("p", { class: "dim" }, "What would be written:"), line,
    h("div", { class: "row" }, h("button", { class: "allow", onclick: () => send("allow") }, "Allow"), h("button", { class: "deny", onclick: () => send("deny") }, "Deny")))
    : h("p", { class: "dim" }, "No sandbox runs that a rule could be given to.");
}

function facts(object) {
  return h("dl", { class: "facts" }, Object.entries(object).filter(([, v]) => v !== null && v !== undefined && v !== "" && !(Array.isArray(v) && !v.length))
    .flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, h("code", {}, visible(typeof v === "object" ? JSON.stringify(v) : v)))]));
}

function detail(e) {
  const host = e.domain ?? e.question?.host, why = h("div", {});
  openDrawer(visible(eventText(e)).slice(0, 80), facts(e), host && !store.state.device ? h("button", { class: "small", onclick: () => fill(why, "/api/why?target=" + encodeURIComponent(host + (e.port ? ":" + e.port : "")), (r) => facts(r)) }, "Why?") : null, why, host && !store.state.device ? allowForm(host, e.port) : null);
}

const traffic = {
  name: "traffic", title: "Traffic", device: true,
  draw(main) {
    this.filter = this.filter || { text: "", verdict: "", sandbox: "", kind: "" };
    const select = (name, label, choices) => { const box = h("select", { "aria-label": label, onchange: () => { this.filter[name] = box.value; this.events(true); } }, choices.map(([v, t]) => h("option", { value: v, selected: v === this.filter[name] }, t))); return box; };
    const text = h("input", { type: "search", placeholder: "host, path, rule, reason", title: "host, path, rule, reason, credential, way, status", "aria-label": "filter", value: this.filter.text, oninput: () => { this.filter.text = text.value; this.events(true); } });
    const verdict = select("verdict", "verdict", [["", "all verdicts"], ["no", "refused"], ["yes", "allowed"]]);
    const sandbox = select("sandbox", "sandbox", [["", "all sandboxes"], ...store.state.sandboxes.map((s) => [s.id, s.id + " " + visible(commandOf(s)).slice(0, 24)])]);
    const kind = select("kind", "kind", [["", "all kinds"], ["network", "network"], ["file", "files"], ["ask", "questions"], ["answered", "answers"], ["rules", "rules"], ["note", "notes"]]);
    this.list = h("div", { class: "list", tabindex: "0", role: "region", "aria-label": "events", onscroll: () => this.window() }, h("div", { class: "space" }));
    const hosts = h("div", {});
    main.append(h("div", { class: "filters" }, text, verdict, sandbox, kind, h("span", { class: "dim", id: "shown", role: "status" })), h("div", { class: "row groups", id: "refused" }), this.list);
    this.events(true);
    if (store.state.device) return;
    main.append(h("h3", {}, "Hosts of all runs"), hosts);
    fill(hosts, "/api/hosts?limit=200", (list) => list.length ? table([["host", "t"], ["allowed", "n"], ["refused", "n"], ["in", "n"], ["out", "n"], ["rule", "t"], ["reason"], ["first", "w"], ["last", "w"]],
      list.map((x) => [h("button", { class: "link", onclick: () => openDrawer(visible(x.name), facts(x), allowForm(x.name, x.port)) }, visible(x.name) + (x.port ? ":" + x.port : "")), String(x.allowed), h("span", { class: x.refused ? "no" : "" }, String(x.refused)), bytes(x.bytes_in), bytes(x.bytes_out), visible(x.rule), x.reason || "", day(x.first), day(x.last)]))
      : empty("No host is on record", "What sandboxes reach and are refused is listed here, over all runs."));
  },
  events(anew) {
    if (!this.list?.isConnected) return;
    const { text, verdict, sandbox, kind } = this.filter, words = text.toLowerCase(), atTop = this.list.scrollTop < ROW;
    const fits = (e) => (!verdict || (e.allowed !== undefined && (e.allowed ? "yes" : "no") === verdict)) && (!sandbox || e.sandbox === sandbox) && (!kind || e.event === kind)
      && (!words || [eventText(e), e.rule, e.reason, e.sandbox, e.via, e.status, ...(e.credentials_swapped ?? [])].join(" ").toLowerCase().includes(words));
    // Only what is new is looked at, unless the filter has changed.
    const begin = anew || !this.found || this.first !== store.first ? 0 : this.upTo - store.first;
    if (begin <= 0) this.found = [];
    for (let i = Math.max(0, begin); i < store.events.length; i++) if (fits(store.events[i])) this.found.push(store.events[i]);
    this.first = store.first;
    this.upTo = store.first + store.events.length;
    this.list.classList.toggle("none", !this.found.length);
    this.list.firstChild.style.height = this.found.length ? this.found.length * ROW + "px" : "";
    if (!atTop && !anew && this.seen !== undefined) this.list.scrollTop += (this.found.length - this.seen) * ROW;
    this.seen = this.found.length;
    $("shown").textContent = `${this.found.length} of ${store.events.length} since this page was opened`;
    this.refused(anew);
    this.window();
  },
  // Refusals that repeat are one line with a count.
  refused(anew) {
    const now = Date.now();
    if (!anew && now - (this.counted ?? 0) < 1000) return;
    this.counted = now;
    const groups = new Map();
    for (const e of this.found) {
      if (e.event !== "network" || e.allowed) continue;
      const name = (e.domain ?? "?") + (e.port ? ":" + e.port : ""), group = groups.get(name) || { event: e, count: 0 };
      group.count++;
      group.event = e;
      groups.set(name, group);
    }
    const most = [...groups].sort((a, b) => b[1].count - a[1].count).slice(0, 8);
    $("refused").replaceChildren(...(most.length ? [h("span", { class: "dim" }, "Refused: "), ...most.map(([name, { event, count }]) => h("button", { class: "small", onclick: () => detail(event) }, visible(name), h("span", { class: "no" }, ` ×${count}`)))] : []));
  },
  window() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 5), n = Math.ceil(this.list.clientHeight / ROW) + 10, all = this.found;
    const rows = [];
    for (let i = first; i < Math.min(first + n, all.length); i++) {
      const e = all[all.length - 1 - i];
      const line = h("button", { class: "event", onclick: () => detail(e) }, h("span", { class: "when" }, clock(e.ts)), e.allowed === undefined ? h("span", { class: "pill" }, e.event) : verdictPill(e.allowed), h("span", { class: "what" }, visible(eventText(e))), h("span", { class: "why" }, visible(e.rule || e.reason || "")));
      line.style.top = i * ROW + "px";
      rows.push(line);
    }
    this.list.firstChild.replaceChildren(...(rows.length ? rows : [h("p", { class: "empty" }, "Nothing yet. What sandboxes try appears here as it happens.")]));
  },
};

// Rules. One is shadowed when another of the same sandbox has all that it says: a refusal, or a wider one of the same list.
function covers(wide, narrow) {
  const [wideHost, widePort] = wide.split(/:(?=[\d-]+$)/), [host, port] = narrow.split(/:(?=[\d-]+$)/);
  return (!widePort || widePort === port) && (wideHost === host || wideHost === "*" || (wideHost.startsWith("*.") && host.endsWith(wideHost.slice(1))));
}
function shadow(rule, list) {
  const other = list.find((o) => o !== rule && o.sandbox.id === rule.sandbox.id && (o.list === "deny" || o.list === rule.list) && !(o.list === rule.list && o.pattern === rule.pattern) && rule.list !== "allow_private" && covers(o.pattern, rule.pattern));
  return other ? h("div", { class: "dim" }, "shadowed by ", other.list, " ", visible(other.pattern)) : null;
}

// Given by a person while something ran, not written in a file: now, or remembered from before.
const added = (rule) => rule.live || /^(approved|denied) \d{4}-\d\d-\d\d$/.test(rule.origin);

const rules = {
  name: "rules", title: "Rules",
  draw(main) {
    const live = h("div", { id: "rules" }), used = h("div", {});
    const pattern = h("input", { type: "text", placeholder: "host, *.host, host:port or @group", "aria-label": "pattern" });
    const sandbox = h("select", { "aria-label": "sandbox", id: "rules-sandbox" }), scope = h("select", { "aria-label": "scope" }, SCOPES.slice(1).map(([s, t]) => h("option", { value: s }, s + ": " + t)));
    const note = h("p", { class: "row", role: "status" });
    const editing = (rule) => {
      this.editing = rule;
      note.replaceChildren(...(rule ? [h("span", {}, "You edit ", rule.list, " ", h("code", {}, visible(rule.pattern)), " of ", h("code", {}, rule.sandbox.id), ". Allow or Deny puts what stands above in its place."), h("button", { class: "small", type: "button", onclick: () => { pattern.value = ""; editing(null); } }, "Keep it as it is")] : []));
    };
    const add = async (what) => {
      const old = this.editing, order = { sandbox: sandbox.value, do: what, pattern: pattern.value, scope: scope.value };
      if (!pattern.value) return;
      const same = old && old.pattern === order.pattern && old.sandbox.id === order.sandbox, forget = () => call("/api/act", { sandbox: old.sandbox.id, do: "forget", pattern: old.pattern });
      // The new one comes first, so that nothing is decided meanwhile that neither says. An allow cannot: a denial stands above it, and one of the same
      // text would be forgotten with the old. Meanwhile the host is refused or asked about. A denial is not taken away to be written again.
      const first = old && (old.list === "deny" ? what === "allow" : same), last = old && !first && !same;
      try {
        if (first) { await forget(); this.editing = null; }
        await call("/api/act", order);
        if (last) await forget();
        pattern.value = "";
        editing(null);
      } catch (e) { toast(visible(e.message)); }
      await refresh();
    };
    this.edit = (rule) => {
      pattern.value = rule.pattern;
      sandbox.value = rule.sandbox.id;
      editing(rule);
      pattern.focus();
    };
    editing(null); // what was begun before another screen was looked at
    if (!readOnly()) main.append(h("form", { class: "filters", onsubmit: (e) => { e.preventDefault(); add("allow"); } }, pattern, sandbox, scope, h("button", { class: "allow", type: "submit" }, "Allow"), h("button", { class: "deny", type: "button", onclick: () => add("deny") }, "Deny")), note);
    main.append(h("h3", {}, "What decides now, by sandbox"), live, h("h3", {}, "Rules that decided, over all runs"), used);
    this.live();
    fill(used, "/api/rules?limit=500", (list) => this.take(list) && list.length ? table([["rule", "t"], ["allowed", "n"], ["refused", "n"], ["first", "w"], ["last", "w"], ["unused for"]], list.map((x) => [visible(x.name), String(x.allowed), String(x.refused), day(x.first), day(x.last), age(x.last)]))
      : empty("No rule has decided yet", "Every rule that decided something is counted here."));
  },
  take(list) {
    this.used = new Map(list.map((x) => [x.name, x]));
    this.drawn = null;
    this.live();
    return true;
  },
  // Over all runs: a rule is known by its text.
  use(rule) {
    const sum = this.used?.get(rule.pattern);
    return sum ? [String(sum.allowed + sum.refused), day(sum.last)] : ["0", h("span", { class: "dim" }, "never")];
  },
  live() {
    const place = $("rules"), choice = $("rules-sandbox");
    if (!place) return;
    const list = store.state.sandboxes.flatMap((s) => (s.rules || []).map((r) => ({ ...r, sandbox: s })));
    if (choice && [...choice.children].map((o) => o.value).join() !== store.state.sandboxes.map((s) => s.id).join())
      choice.replaceChildren(...store.state.sandboxes.map((s) => h("option", { value: s.id, selected: s.id === choice.value }, s.id + " " + visible(commandOf(s)).slice(0, 40))));
    const text = JSON.stringify(list.map((r) => [r.sandbox.id, r.list, r.pattern, r.live]));
    if (this.drawn === text && place.children.length) return;
    this.drawn = text;
    place.replaceChildren(list.length ? table([["list"], ["pattern", "t"], ["from", "t"], ["hits", "n"], ["last use", "w"], ["sandbox"], [""]], list.map((r) => [h("span", { class: "pill " + (r.list === "deny" ? "no" : "yes") }, r.list), [visible(r.pattern), shadow(r, list)], visible(r.origin), ...this.use(r), h("code", {}, r.sandbox.id),
      added(r) && !readOnly() ? h("div", { class: "row" }, h("button", { class: "small", onclick: () => this.edit(r) }, "Edit"), h("button", { class: "small", onclick: () => act({ sandbox: r.sandbox.id, do: "forget", pattern: r.pattern }) }, "Forget")) : ""]))
      : empty("No rule decides now", "Rules of running sandboxes are listed here; those of a policy file are edited in the file."));
  },
};

// Files and commands.
function lineDiff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  if (a.length * b.length > 4e6) return [h("p", { class: "dim" }, "Too long for a comparison by line."), h("pre", {}, visible(after.slice(0, 20000)))];
  const size = b.length + 1, best = new Uint32Array((a.length + 1) * size);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) best[i * size + j] = a[i] === b[j] ? best[(i + 1) * size + j + 1] + 1 : Math.max(best[(i + 1) * size + j], best[i * size + j + 1]);
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { lines.push(["", "  " + a[i]]); i++; j++; }
    else if (j < b.length && (i >= a.length || best[i * size + j + 1] >= best[(i + 1) * size + j])) lines.push(["add", "+ " + b[j++]]);
    else lines.push(["del", "- " + a[i++]]);
  }
  return h("div", { class: "diff", tabindex: "0", role: "region", "aria-label": "changes line by line" }, lines.map(([kind, text]) => h("div", { class: kind }, text.slice(0, 2) + visible(text.slice(2)))));
}

function overlayCard(o) {
  const changes = h("div", {});
  const button = (what, text, kind) => h("button", { class: "small " + kind, disabled: readOnly(), onclick: async () => {
    try { toast((await call("/api/overlay", { id: o.id, do: what })).text || text + ": done"); } catch (e) { toast(visible(e.message)); }
    show();
  } }, text);
  fill(changes, "/api/changes?id=" + encodeURIComponent(o.id), (r) => table([["change"], ["path", "t"], ["bytes", "n"], ["look twice"]], r.changes.map((c) => [c.kind,
    h("button", { class: "link", onclick: () => { const place = h("div", {}); openDrawer(visible(c.path), place); fill(place, `/api/overlay/file?id=${encodeURIComponent(o.id)}&path=${encodeURIComponent(c.path)}`, (f) => f.before === null && f.after === null ? h("p", { class: "dim" }, "Not a text that can be shown.") : lineDiff(f.before ?? "", f.after ?? "")); } }, visible(c.path)),
    String(c.size), c.marks.length ? h("span", { class: "pill warn" }, c.marks.join(", ")) : ""])));
  return h("div", { class: "card" }, h("div", { class: "row spread" }, h("span", {}, h("code", {}, o.id), " ", h("span", { class: "dim" }, day(o.began), " in "), h("code", {}, visible(o.workspace))), h("div", { class: "row" }, button("apply", "Apply", "allow"), button("discard", "Discard", "danger"))), h("br"), changes);
}

const recordRows = (list, cells) => list.records.map(({ run, record }) => cells(record, run));
const files = {
  name: "files", title: "Files and commands",
  draw(main) {
    const overlays = h("div", {}), commands = h("div", {}), denied = h("div", {});
    main.append(h("h3", {}, "Changes that wait in overlays"), overlays, h("h3", {}, "Commands that were judged"), commands, h("h3", {}, "Paths that were refused"), denied);
    fill(overlays, "/api/overlays", (list) => list.length ? list.slice(0, 20).map(overlayCard) : empty("No overlay waits", "With --overlay a run writes beside the workspace, and you decide what is carried over.", "bailey run --overlay -- COMMAND"));
    fill(commands, "/api/history?kind=command&limit=100", (r) => r.records.length ? table([["time", "w"], ["verdict"], ["command", "t"], ["rule"], ["why"]], recordRows(r, (x) => [day(x.ts), verdictPill(x.allowed), visible(x.path), visible(x.rule), visible(x.detail)])) : empty("No command was judged", "bailey exec and hooks of agents have commands judged one by one.", "bailey exec 'git push'"));
    fill(denied, "/api/history?kind=file&limit=100", (r) => r.records.length ? table([["time", "w"], ["verdict"], ["path", "t"], ["run"]], recordRows(r, (x, run) => [day(x.ts), verdictPill(x.allowed), visible(x.path), h("a", { href: "#/run/" + encodeURIComponent(run) }, run)])) : empty("No refused path is on record", "With --trace-denials every refused path is recorded.", "bailey run --trace-denials -- COMMAND"));
  },
};

// Credentials.
const credentials = {
  name: "credentials", title: "Credentials",
  draw(main) {
    const own = h("div", {}), used = h("div", {});
    main.append(h("h3", {}, "Of your policy"), own, h("h3", {}, "Used, over all runs"), used);
    fill(own, "/api/secrets", (r) => {
      const list = Array.isArray(r) ? r : r.credentials || [];
      return list.length ? table([["name"], ["hosts", "t"], ["from", "t"], ["set by", "t"], [""]], list.map((c) => [h("code", {}, visible(c.name)), visible((c.hosts || []).join(", ")), visible(c.source || ""), visible(c.origin || ""), testButton(c.name)]))
        : empty("Your policy has no credentials", "Programs inside see stand-ins; the gateway puts the value in on its way out. Values are never shown here.", "bailey secrets list");
    });
    fill(used, "/api/credentials", (list) => list.length ? table([["name"], ["uses", "n"], ["refused", "n"], ["first", "w"], ["last", "w"], ["unused for"]], list.map((x) => [h("code", {}, visible(x.name)), String(x.allowed + x.refused), h("span", { class: x.refused ? "no" : "" }, String(x.refused)), day(x.first), day(x.last), age(x.last)])) : empty("No credential was used yet", "Each use is on record, by name."));
  },
};
function testButton(name) {
  const out = h("span", { class: "dim", role: "status" });
  return h("span", { class: "row" }, h("button", { class: "small", disabled: readOnly(), onclick: async () => {
    out.textContent = "testing";
    try { const r = await call("/api/secrets/test", { name }); out.textContent = r.ok === false ? "failed" : "works"; } catch (e) { out.textContent = visible(e.message); }
  } }, "Test"), out);
}

// Guests: the services that stand in front of containers and other machines.
const guests = {
  name: "guests", title: "Guests",
  draw(main) {
    const list = h("div", {}), egress = h("div", {}), containers = h("div", {});
    main.append(h("h3", {}, "Named sandboxes that last"), list, h("h3", {}, "Egress service"), h("p", { class: "dim" }, "Containers reach the network by the egress service, or by bailey gateway. Both appear under Now while they run."), egress, h("h3", {}, "Containers behind it"), containers);
    fill(list, "/api/guests", (r) => r.length ? table([["name"], ["state"], ["kind"], ["uid", "n"], ["home", "t"], ["sandbox"]], r.map((g) => [h("code", {}, visible(g.name)), [h("span", { class: "pill " + (g.state === "running" ? "yes" : "") }, g.state), g.reason ? h("div", { class: "dim" }, visible(g.reason)) : null, g.disk && g.disk.state !== "well" && g.state === "running" ? h("div", { class: "pill no" }, "disk: " + g.disk.state) : null], g.kind, String(g.uid), visible(g.home), g.sandbox ? h("a", { href: "#/run/" + encodeURIComponent(g.sandbox) }, h("code", {}, g.sandbox)) : ""]))
      : empty("There are no guests", "A guest is a sandbox with a name, an account and a home of its own that stay.", "bailey guest create NAME"));
    fill(egress, "/api/egress", (r) => h("div", { class: "card" }, facts(r)));
    fill(containers, "/api/containers", (list) => list.length ? table([["container", "t"], ["sandbox"], ["its list", "t"]], list.map((c) => [visible(c.container), c.sandbox ? h("a", { href: "#/run/" + c.sandbox }, h("code", {}, c.sandbox)) : h("span", { class: "dim" }, "not connected"), c.rules.map((r) => h("div", {}, r.list, " ", visible(r.pattern), h("span", { class: "dim" }, " (", visible(r.origin), ")")))]))
      : h("p", { class: "dim" }, "Containers of the network bailey-egress appear here with their lists. bailey allow --container NAME HOST gives one a rule."));
  },
};

// History, and one run.
function timeline(r) {
  const lanes = ["run", "command", "host", "credential", "question", "file"], from = new Date(r.from), span = Math.max(1, new Date(r.to) - from);
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "timeline" }, h("svg:svg", { class: "lanes", viewBox: `0 0 1000 ${lanes.length * 28}`, role: "img", "aria-label": "timeline of the run; the moments are listed below" },
    lanes.map((l, i) => [h("svg:text", { x: 10, y: i * 28 + 18 }, l), h("svg:line", { x1: 90, x2: 990, y1: i * 28 + 14, y2: i * 28 + 14 })]),
    r.timeline.slice(0, 2000).map((m) => h("svg:circle", { class: m.verdict === "allowed" ? "yes" : m.verdict === "refused" ? "no" : "", r: 5, cx: 95 + (new Date(m.at) - from) / span * 885, cy: lanes.indexOf(m.lane) * 28 + 14 }, h("svg:title", {}, visible(m.text))))));
}

const history_ = {
  name: "history", title: "History",
  draw(main) {
    this.filter = this.filter || "";
    const found = h("div", { id: "found" }), runs = h("div", {});
    const text = h("input", { type: "search", value: this.filter, placeholder: "host, path, rule, credential, command", "aria-label": "search all runs" });
    const verdict = h("select", { "aria-label": "verdict" }, [["", "all"], ["refused", "refused"], ["allowed", "allowed"]].map(([v, t]) => h("option", { value: v }, t)));
    const days = h("select", { "aria-label": "time" }, [["", "any time"], ["1", "last day"], ["7", "last 7 days"], ["30", "last 30 days"]].map(([v, t]) => h("option", { value: v }, t)));
    const search = () => this.search(found, `/api/history?text=${encodeURIComponent(text.value)}&verdict=${verdict.value}` + (days.value ? "&since_us=" + (Date.now() - days.value * 86400000) * 1000 : ""));
    main.append(h("form", { class: "filters", onsubmit: (e) => { e.preventDefault(); this.filter = text.value; search(); } }, text, verdict, days, h("button", { type: "submit", class: "main" }, "Search")), found, h("h3", {}, "Runs"), runs);
    fill(runs, "/api/runs?limit=200", (list) => list.length ? table([["run", "w"], ["command", "t"], ["workspace", "t"], ["began", "w"], ["records", "n"], ["allowed", "n"], ["refused", "n"], ["ended", "w"]], list.map((x) => [h("a", { href: "#/run/" + encodeURIComponent(x.name) }, h("code", {}, visible(x.name))), visible(x.command), visible(x.workspace), day(x.first), String(x.records), String(x.allowed), h("span", { class: x.refused ? "no" : "" }, String(x.refused)),
      x.broken ? h("span", { class: "pill no" }, "unreadable") : x.closed ? (x.status === "" ? "yes" : "status " + visible(x.status)) : h("span", { class: "pill mid" }, "open")])) : empty("Nothing was run yet", "Every run leaves an audit log.", "bailey run -- COMMAND"));
  },
  // All that was found, page by page, at most 100,000 records.
  async export(path) {
    const lines = [];
    try {
      for (let cursor = ""; cursor !== null && lines.length < 100000;) {
        const r = await call(path + "&limit=1000" + (cursor ? "&cursor=" + cursor : ""));
        for (const { record } of r.records) lines.push(JSON.stringify(record));
        cursor = r.cursor;
      }
      save(lines.join("\n") + "\n", "bailey-records.jsonl");
    } catch (e) { toast(visible(e.message)); }
  },
  async search(found, query, cursor) {
    const path = query + "&limit=200" + (cursor ? "&cursor=" + cursor : "");
    const rows = (r) => recordRows(r, (x, run) => [day(x.ts), x.allowed === undefined ? h("span", { class: "pill" }, x.kind) : verdictPill(x.allowed), h("button", { class: "link", onclick: () => openDrawer("Record " + x.seq, facts(x), x.domain ? allowForm(x.domain, x.port) : null) }, visible(x.domain ? `${x.method ?? ""} ${x.domain}:${x.port}${x.path ?? ""}`.trim() : x.path || x.detail)), visible(x.rule), x.reason || "", h("a", { href: "#/run/" + encodeURIComponent(run) }, run)]);
    await fill(found, path, (r) => r.records.length ? [table([["time", "w"], ["verdict"], ["what", "t"], ["rule", "t"], ["reason"], ["run"]], rows(r)), h("p", { class: "row" }, r.cursor ? h("button", { onclick: () => this.search(found, query, r.cursor) }, "Older") : null, h("button", { onclick: () => this.export(query) }, "Save what was found (JSONL)"))] : empty("Nothing found", "The search looks into hosts, paths, rules, credentials and commands of all runs."));
  },
};

const run = {
  name: "run", title: "One run", hidden: true,
  draw(main) {
    const id = argument(), place = h("div", {}), proof = h("div", { role: "status" });
    if (!id) { main.append(empty("Which run?", "Choose one under History.")); return; }
    main.append(place);
    fill(place, "/api/report?run=" + encodeURIComponent(id), (r) => [
      h("div", { class: "card" }, facts({ run: r.run, command: r.command, workspace: r.workspace, mode: r.mode, status: r.status, from: day(r.from), to: day(r.to), allowed: r.allowed, refused: r.refused }),
        (r.lost || []).map((line) => h("p", {}, h("span", { class: "pill warn" }, line.split(":")[0] === "lost" ? "degraded" : line.split(":")[0]), " ", visible(line))),
        h("p", {}, r.audit.whole ? [h("span", { class: "pill yes" }, r.audit.running ? "whole so far" : "log is whole"), " ", h("span", { class: "dim" }, "SHA-256 of the last record "), h("code", {}, r.audit.last_sha256)] : [h("span", { class: "pill no" }, "log is not whole"), " ", visible(r.audit.problem)]),
        h("div", { class: "row" }, h("button", { class: "small", onclick: () => download("/api/report.html?run=" + encodeURIComponent(id), "bailey-report-" + id + ".html") }, "Save the report"), h("button", { class: "small", onclick: () => download("/api/log.jsonl?run=" + encodeURIComponent(id), "bailey-log-" + id + ".jsonl") }, "Save the records (JSONL)"), h("button", { class: "small", onclick: () => fill(proof, "/api/verify?run=" + encodeURIComponent(id), (v) => facts(v)) }, "Verify the log")), proof),
      h("h3", {}, "Timeline"), timeline(r),
      r.questions.length ? [h("h3", {}, "Questions and answers"), table([["asked", "w"], ["about", "t"], ["answer"], ["scope"], ["by", "t"]], r.questions.map((q) => [day(q.asked), visible(q.about), q.answer ? h("span", { class: "pill " + (q.answer === "allow" ? "yes" : "no") }, q.answer) : "none", q.scope || "", visible(q.by)]))] : "",
      h("h3", {}, "Hosts"), r.hosts.length ? table([["host", "t"], ["allowed", "n"], ["refused", "n"], ["in", "n"], ["out", "n"], ["rule", "t"], ["reason"]], r.hosts.slice(0, 500).map((x) => [visible(x.name) + (x.port ? ":" + x.port : ""), String(x.allowed), h("span", { class: x.refused ? "no" : "" }, String(x.refused)), bytes(x.bytes_in), bytes(x.bytes_out), visible(x.rule), x.reason || ""])) : h("p", { class: "dim" }, "The run asked for no host."),
      h("h3", {}, "Moments"), table([["time", "w"], ["what"], ["text", "t"]], r.timeline.slice(0, 1000).map((m) => [day(m.at), h("span", { class: "pill " + (m.verdict === "allowed" ? "yes" : m.verdict === "refused" ? "no" : "") }, m.lane), visible(m.text)]))]);
  },
};

async function download(path, name) {
  try { save(await call(path, undefined, true), name); } catch (e) { toast(visible(e.message)); }
}
function save(text, name) {
  const link = h("a", { download: name.replace(/[^\w.-]/g, ""), href: URL.createObjectURL(new Blob([text], { type: "application/octet-stream" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Machine.
const machine = {
  name: "machine", title: "Machine",
  draw(main) {
    const doctor = h("div", {}), ca = h("div", {});
    main.append(h("h3", {}, "The gateway's CA"), ca, h("p", { class: "dim" }, "Bailey ", store.state.version, ". What this machine can do:"), doctor);
    fill(ca, "/api/egress", (r) => r.ca ? h("div", { class: "card" }, facts({ "SHA-256": r.ca.sha256, "until": day(r.ca.expires), "of": "bailey egress, for containers" }), h("p", { class: "dim" }, "Runs have a CA of their own, which ends with them.")) : h("p", { class: "dim" }, "No CA is kept: bailey egress is not set up. Each run makes its own, which ends with it."));
    fill(doctor, "/api/doctor", (r) => {
      const items = r.items || r.checks || r.results;
      return Array.isArray(items) ? table([["what"], ["state"], ["", "t"]], items.map((x) => [visible(x.name || x.id || x.item), h("span", { class: "pill " + (x.ok ?? x.works ?? x.state === "works" ? "yes" : "warn") }, visible(String(x.state ?? x.ok ?? x.works))), visible(x.detail || (x.cause === "none" ? "" : x.cause) || "")])) : h("div", { class: "card" }, facts(r));
    });
  },
};

export const allScreens = [now, questionScreen, traffic, rules, files, credentials, guests, history_, machine, run];
