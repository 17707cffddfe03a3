// SPDX-License-Identifier: Apache-2.0
// A gateway for programs that no manager runs: an HTTP and a SOCKS5 proxy on loopback, in a process of its own.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const { BaileyError, call, checkNames, checkOptions, dropFiles, findExecutable, flagsOf, keepFile, sentence } = require('./program.js');
const { Control, serve } = require('./control.js');

const STOP_MS = 5000;

/** Patterns as the lines of a file. Files name hosts only, so groups are spelled out, those within groups too. */
async function lines(executable, patterns) {
  const list = [patterns ?? []].flat();
  if (!list.every((pattern) => typeof pattern === 'string')) throw new BaileyError('config-invalid', 'patterns are texts');
  const hasGroups = list.some((pattern) => pattern.startsWith('@'));
  const groups = hasGroups ? JSON.parse((await call(executable, ['policy', 'groups', '--json'])).out).groups : {};
  const spell = (pattern, depth = 0) => {
    if (/[\s\0#]|^$/.test(pattern)) throw new BaileyError('config-invalid', `${JSON.stringify(pattern)} is no pattern`);
    if (!pattern.startsWith('@')) return [`${pattern}\n`];
    const group = Object.hasOwn(groups, pattern.slice(1)) && depth < 8 ? groups[pattern.slice(1)] : null;
    if (!group) throw new BaileyError('config-invalid', `there is no group ${pattern}`);
    return group.patterns.flatMap((member) => spell(member, depth + 1));
  };
  return list.flatMap((pattern) => spell(pattern)).join('');
}

/** What a program's environment must hold so that it uses these proxies. */
async function proxyEnvironment({ http, socks, executable } = {}) {
  const words = [...(http ? [`--http=${http}`] : []), ...(socks ? [`--socks=${socks}`] : [])];
  const files = new Set(); // no policy has a say in this
  const said = await call(findExecutable(executable), ['env', '--json', ...flagsOf('env', { policy: {}, workspacePolicy: false }, files), ...words]);
  dropFiles(files);
  if (said.status !== 0) throw new BaileyError('config-invalid', sentence(said.err));
  return Object.fromEntries(JSON.parse(said.out).filter((row) => row.action === 'set').map((row) => [row.name, row.value]));
}

class Gateway {
  #child;
  #executable;
  #control = null;
  #ended;
  #files = new Set();
  #allow;
  #deny;
  #heard = '';
  #onReloaded = null;
  #updating = Promise.resolve();

  static async start(options = {}) {
    const gateway = new Gateway();
    try {
      await gateway.#start(options);
    } catch (error) {
      await gateway.stop();
      throw error;
    }
    return gateway;
  }

  async #start(options) {
    checkOptions(options);
    const { allow, deny, ...others } = options;
    const executable = this.#executable = findExecutable(options.executable);
    this.#allow = keepFile('allow', await lines(executable, allow), this.#files);
    this.#deny = keepFile('deny', await lines(executable, deny), this.#files);
    if (options.onRequest && !others.ask) others.ask = 'control';
    const at = { http: options.http ?? '127.0.0.1:0', socks: options.socks ?? '127.0.0.1:0' };
    const listeners = Object.entries(at).filter(([, place]) => place).map(([kind, place]) => `--${kind}=${place}`);
    const words = ['gateway', '--json', '--die-with-parent', ...listeners, ...flagsOf('gateway', others, this.#files),
      `--allow-file=${this.#allow}`, `--deny-file=${this.#deny}`];
    this.#child = spawn(executable, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    const ready = await this.#ready();
    const port = (list) => Number(list[0]?.split(':').pop() ?? 0);
    this.pid = this.#child.pid;
    this.id = ready.run_id;
    this.audit = ready.audit;
    this.httpPort = this.port = port(ready.http);
    this.socksPort = port(ready.socks);
    this.url = this.port ? `http://${ready.http[0]}` : '';
    this.env = { ...await proxyEnvironment({ http: ready.http[0], socks: ready.socks[0], executable }), ...ready.env };
    this.#control = await Control.connect(this.id);
    if (options.onRequest || options.onEvent) await serve(this.#control, options);
  }

  /** Its first line, or why there is none. */
  #ready() {
    return new Promise((resolve, reject) => {
      let out = '';
      const settle = (text) => {
        try {
          resolve(JSON.parse(text));
        } catch {
          reject(new BaileyError('proxy-start-failed', `this is no bailey: it said ${JSON.stringify(text.slice(0, 100))}`));
        }
      };
      this.#ended = new Promise((done) => { this.#child.on('close', done); });
      this.#child.on('error', (error) => reject(new BaileyError('system', error.message)));
      this.#child.stderr.on('data', (chunk) => this.#hear(chunk));
      this.#child.stdout.on('data', (chunk) => {
        out += chunk;
        if (out.includes('\n')) settle(out);
      });
      this.#child.on('close', (status) => reject(new BaileyError([2, 3].includes(status) ? 'config-invalid' : 'proxy-start-failed', sentence(this.#heard))));
    });
  }

  /** It says when new rules judge: the reply to a reload comes before that. */
  #hear(chunk) {
    this.#heard = (this.#heard + chunk).slice(-4096);
    if (!/gateway: reloaded: /.test(this.#heard)) return;
    this.#heard = '';
    this.#onReloaded?.();
  }

  get running() {
    return Boolean(this.#child?.pid) && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Other rules, at once: what is left out of { allow, deny } is empty from then on. Tunnels that they refuse are closed. On error the old ones stay. Of several updates, each waits for the one before. */
  update(rules = {}) {
    const mine = this.#updating.then(() => this.#update(rules));
    this.#updating = mine.catch(() => {});
    return mine;
  }

  async #update(rules) {
    if (rules === null || typeof rules !== 'object' || Array.isArray(rules)) throw new BaileyError('bad-argument', 'rules are { allow, deny }');
    checkNames(rules, ['allow', 'deny']);
    if (!this.running) throw new BaileyError('manager-closed', 'the gateway has ended');
    const { allow, deny } = rules;
    const before = [this.#allow, this.#deny].map((file) => fs.readFileSync(file));
    const after = [await lines(this.#executable, allow), await lines(this.#executable, deny)];
    [this.#allow, this.#deny].forEach((file, i) => fs.writeFileSync(file, after[i]));
    try {
      const judges = new Promise((resolve) => { this.#onReloaded = resolve; });
      await this.#control.reload();
      await Promise.race([judges, this.#ended]);
    } catch (error) {
      [this.#allow, this.#deny].forEach((file, i) => fs.writeFileSync(file, before[i]));
      throw new BaileyError('config-invalid', error.message);
    }
  }

  /** The connection to it, for what the control protocol offers. */
  get control() {
    return this.#control;
  }

  /** Ends it, open connections included, within 5 seconds. */
  async stop() {
    if (this.running) {
      this.#child.kill('SIGTERM');
      const late = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS);
      await this.#ended;
      clearTimeout(late);
    }
    this.#control?.close();
    dropFiles(this.#files);
  }
}

/** A proxy that lets through these hosts and nothing else: neither policies of the user nor of the workspace count. */
async function startNetworkProxy(whitelist, options = {}) {
  if (!Array.isArray(whitelist)) throw new BaileyError('bad-argument', 'the whitelist is an array of patterns');
  return Gateway.start({ policy: {}, workspacePolicy: false, ...options, allow: whitelist });
}

module.exports = { Gateway, lines, proxyEnvironment, startNetworkProxy };
