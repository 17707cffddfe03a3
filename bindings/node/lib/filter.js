// SPDX-License-Identifier: Apache-2.0
// The judgement about hosts by itself. Tests that are asked for together are one call of `bailey policy test`.
'use strict';
const { BaileyError, call, checkNames, dropFiles, findExecutable, flagsOf, keepFile, sentence } = require('./program.js');
const { lines } = require('./gateway.js');

const TOGETHER = 256;

class Filter {
  #executable;
  #onRequest;
  #files = new Set();
  #flags = [];
  #waiting = [];
  #closed = false;

  /** { allow, deny, allowPrivate, onRequest, executable }; a pattern that is wrong rejects, and the message names it. */
  static async create({ executable, onRequest, ...rules } = {}) {
    const filter = new Filter();
    filter.#executable = findExecutable(executable);
    filter.#onRequest = onRequest;
    await filter.update(rules);
    return filter;
  }

  /** Replaces all rules: what is left out of { allow, deny, allowPrivate } is empty from then on. On error the old ones stay. */
  async update(rules = {}) {
    const { allow, deny, allowPrivate } = rules;
    checkNames(rules, ['allow', 'deny', 'allowPrivate']);
    const files = new Set();
    const flags = [`--allow-file=${keepFile('allow', await lines(this.#executable, allow), files)}`, `--deny-file=${keepFile('deny', await lines(this.#executable, deny), files)}`,
      ...flagsOf('test', { policy: {}, workspacePolicy: false, allowPrivate }, files)];
    const said = await this.#run(flags, ['bailey.invalid:1']);
    if (said.status > 1) {
      dropFiles(files);
      throw new BaileyError('config-invalid', sentence(said.err));
    }
    dropFiles(this.#files);
    this.#files = files;
    this.#flags = flags;
  }

  #run(flags, targets) {
    return call(this.#executable, ['policy', 'test', '--json', ...flags, '--', ...targets]);
  }

  /** { allowed, reason, rule, detail }. A name that is no name is refused, as it is by the gateway. */
  async test(host, port = 443) {
    if (this.#closed) throw new BaileyError('manager-closed', 'the filter is closed');
    const name = String(host);
    if (!Number.isInteger(port) || port < 1 || port > 65535) throw new BaileyError('bad-argument', 'a port is a number from 1 to 65535');
    if (!/^[\x21-\x7e\u0080-\uffff]{1,1024}$/u.test(name) || name.startsWith('-')) return { allowed: false, reason: 'bad-name', rule: '', detail: '' };
    const target = name.includes(':') && !name.startsWith('[') ? `[${name}]:${port}` : `${name}:${port}`;
    const verdict = await new Promise((resolve, reject) => {
      this.#waiting.push({ target, resolve, reject });
      if (this.#waiting.length === 1) setImmediate(() => this.#flush());
    });
    if (verdict.reason !== 'not-allowed' || !this.#onRequest) return verdict;
    const yes = await Promise.resolve().then(() => this.#onRequest({ host: name, port })).then((answer) => answer === true, () => false);
    return { ...verdict, allowed: yes, reason: 'asked' };
  }

  async #flush() {
    const asked = this.#waiting.splice(0);
    while (asked.length) {
      const some = asked.splice(0, TOGETHER);
      await this.#judge(some);
    }
  }

  async #judge(some) {
    try {
      const said = await this.#run(this.#flags, some.map((one) => one.target));
      const rows = said.status > 1 ? [] : said.out.trim().split('\n').map((line) => JSON.parse(line));
      if (rows.length !== some.length) return await this.#judgeAlone(some, said);
      some.forEach((one, i) => one.resolve({ allowed: rows[i].allowed, reason: rows[i].reason, rule: rows[i].rule ?? '', detail: rows[i].detail ?? '' }));
    } catch (error) {
      for (const one of some) one.reject(error);
    }
  }

  /** One of them is no name, and bailey says so for all: each by itself. */
  async #judgeAlone(some, said) {
    if (some.length === 1) return some[0].resolve({ allowed: false, reason: 'bad-name', rule: '', detail: sentence(said.err) });
    for (const one of some) await this.#judge([one]);
  }

  close() {
    this.#closed = true;
    dropFiles(this.#files);
  }
}

module.exports = { Filter };
