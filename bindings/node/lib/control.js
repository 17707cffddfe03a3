// SPDX-License-Identifier: Apache-2.0
// A client of the control protocol (docs/control.md): one connection to one sandbox or gateway that runs.
'use strict';
const { EventEmitter } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { BaileyError } = require('./program.js');

const LINE_MAX = 1 << 20;
const LOOK_MS = 30;

function isOwnDirectory(place) {
  try {
    const stat = fs.lstatSync(place);
    return stat.isDirectory() && stat.uid === process.geteuid();
  } catch {
    return false;
  }
}

/** Where the sockets are; the rules are bailey's own. */
function controlDirectory() {
  const session = process.env.XDG_RUNTIME_DIR;
  const uid = process.geteuid();
  const usable = session && session.startsWith('/') &&
    (fs.existsSync(session) ? isOwnDirectory(session) : isOwnDirectory(path.dirname(session)));
  if (usable) return path.join(session, 'bailey');
  if (isOwnDirectory(`/run/user/${uid}`)) return `/run/user/${uid}/bailey`;
  return `/tmp/bailey-${uid}`;
}

function identifiers() {
  try {
    return fs.readdirSync(controlDirectory()).filter((name) => name.endsWith('.sock')).map((name) => name.slice(0, -5));
  } catch {
    return [];
  }
}

/** Emits 'event' (an object) and 'close'. */
class Control extends EventEmitter {
  #socket;
  #waiting = [];
  #rest = '';
  #number = 0;

  static async connect(id) {
    const control = new Control();
    await control.#open(path.join(controlDirectory(), `${id}.sock`));
    control.id = id;
    await control.request('hello', { version: 1, client: 'node' });
    return control;
  }

  #open(place) {
    return new Promise((resolve, reject) => {
      this.#socket = net.createConnection(place);
      this.#socket.setEncoding('utf8');
      this.#socket.once('connect', resolve);
      this.#socket.on('error', (error) => reject(new BaileyError('system', `no sandbox answers: ${error.message}`)));
      this.#socket.on('data', (text) => this.#take(text));
      this.#socket.on('close', () => {
        for (const { reject: fail } of this.#waiting.splice(0)) fail(new BaileyError('system', 'the sandbox has ended'));
        this.emit('close');
      });
    });
  }

  #take(text) {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop();
    if (this.#rest.length > LINE_MAX) return this.#socket.destroy();
    for (const line of lines) {
      let message;
      try {
        message = JSON.parse(line);
      } catch {
        return this.#socket.destroy();
      }
      if (message?.event) this.emit('event', message);
      else this.#settle(message);
    }
  }

  #settle(reply) {
    const asked = this.#waiting.shift();
    if (!asked) return;
    if (reply?.ok) asked.resolve(reply);
    else asked.reject(new BaileyError('system', `${reply?.error?.text} (${reply?.error?.code})`));
  }

  /** Any request of the protocol; the reply, or a BaileyError. */
  request(what, fields = {}) {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new BaileyError('system', 'the sandbox has ended'));
      this.#waiting.push({ resolve, reject });
      this.#socket.write(`${JSON.stringify({ id: ++this.#number, do: what, ...fields })}\n`);
    });
  }

  status() { return this.request('status'); }
  subscribe() { return this.request('subscribe'); }
  async pending() { return (await this.request('pending')).questions; }
  async rules() { return (await this.request('rules')).rules; }
  answer(question, answer, scope = 'once') { return this.request('answer', { question, answer, scope }); }
  allow(pattern, scope = 'sandbox') { return this.request('allow', { pattern, scope }); }
  deny(pattern, scope = 'sandbox') { return this.request('deny', { pattern, scope }); }
  forget(pattern) { return this.request('forget', { pattern }); }
  reload() { return this.request('reload'); }
  pause() { return this.request('pause'); }
  resume() { return this.request('resume'); }
  kill() { return this.request('kill'); }
  close() { this.#socket.destroy(); }
}

/** Whether the process is this one, or a child of it: `bailey exec` has its supervisor beside it. */
function isOf(pid, owner) {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    return pid === owner || Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === owner;
  } catch {
    return false;
  }
}

/** The connection to the sandbox that this process makes; null when it has ended before it had one. */
async function controlOf(pid, hasEnded) {
  const strangers = new Set();
  while (!hasEnded()) {
    for (const id of identifiers()) {
      if (strangers.has(id)) continue;
      let control = null;
      try {
        control = await Control.connect(id);
        if (isOf((await control.status()).pid, pid)) return control;
      } catch { /* it has ended meanwhile, or is another's */ }
      control?.close();
      strangers.add(id);
    }
    await new Promise((resolve) => { setTimeout(resolve, LOOK_MS).unref(); });
  }
  return null;
}

/** Hands events to onEvent and questions about hosts to onRequest. A question without a clear yes is answered with no. */
async function serve(control, { onEvent, onRequest }) {
  const answered = new Set();
  const ask = async (question) => {
    if (!onRequest || question.kind !== 'host' || answered.has(question.id)) return;
    answered.add(question.id);
    let yes = false;
    try {
      yes = await onRequest({ host: question.host, port: question.port, via: question.via }) === true;
    } catch { /* whoever cannot say yes says no */ }
    await control.answer(question.id, yes ? 'allow' : 'deny').catch(() => {}); // nobody waits any more
  };
  control.on('event', (event) => {
    if (event.event === 'ask') void ask(event.question);
    try {
      onEvent?.({ sandbox: control.id, ...event });
    } catch { /* a watcher stops nothing */ }
  });
  await control.subscribe();
  for (const question of await control.pending()) void ask(question);
}

module.exports = { Control, controlOf, identifiers, serve };
