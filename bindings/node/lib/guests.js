// SPDX-License-Identifier: Apache-2.0
// Named sandboxes that last. Each call is one `bailey guest`.
'use strict';
const { BaileyError, call, findExecutable } = require('./program.js');

const CODES = { 1: 'bad-argument', 2: 'bad-argument', 3: 'config-invalid', 4: 'unsupported-platform' };
// Added to Bailey's own codes where the status is a command's.
const PASSING = 118;

/** What a failed call means: the code by the status, the message as Bailey said it. */
function failure(status, text) {
  const said = (text.trim().split('\n').pop() || 'bailey guest said nothing').replace(/^bailey: error: (guest \w+: )?/, '');
  return new BaileyError(said.includes('there is no guest') ? 'bad-argument' : CODES[status] || 'system', said);
}

function checkWords(words) {
  for (const word of words) if (word.includes('\0')) throw new BaileyError('bad-argument', 'a text with a NUL byte in it');
  return words;
}

function checkName(name) {
  if (typeof name !== 'string' || !name || name.startsWith('-')) throw new BaileyError('bad-argument', 'this is no name of a guest');
  return name;
}

class Guests {
  #executable;

  constructor({ executable } = {}) {
    this.#executable = findExecutable(executable);
  }

  /** Options are words of `bailey guest create`. */
  async create(name, options = []) {
    await this.#verb('create', [...options.map(String), '--', checkName(name)]);
  }

  /** exec() and job() do so by themselves. */
  async start(name) {
    await this.#verb('start', [checkName(name)]);
  }

  async stop(name) {
    await this.#verb('stop', [checkName(name)]);
  }

  /** Ends it if it runs; its home, jobs and snapshots go with it. */
  async delete(name) {
    await this.#verb('delete', ['--force', checkName(name)]);
  }

  async list() {
    return JSON.parse(await this.#verb('ls', ['--json']));
  }

  /** Runs a program in the guest to its end, without a shell. */
  async exec(name, argv, { cwd, env = {}, input, timeout, signal } = {}) {
    const limit = timeout ? AbortSignal.timeout(timeout) : undefined;
    const signals = [limit, signal].filter(Boolean);
    const ended = new AbortController();
    const end = () => ended.abort();
    for (const one of signals) if (one.aborted) end(); else one.addEventListener('abort', end, { once: true });
    try {
      const words = [...directory(cwd), ...Object.entries(env).map(([key, value]) => `--set=${key}=${value}`), checkName(name), '--', ...command(argv)];
      const said = await call(this.#executable, checkWords(['guest', 'exec', ...words]), { input, signal: ended.signal });
      const own = said.status >= 120 && said.status <= 125 && (said.err.trim().split('\n').pop() || '').startsWith('bailey: error: ');
      if (own) throw failure(said.status - PASSING, said.err);
      return { exitCode: said.status, stdout: said.out, stderr: said.err };
    } catch (error) {
      if (error.code === 'cancelled' && limit?.aborted) throw new BaileyError('timeout', 'the command ran longer than its time limit and was ended');
      throw error;
    } finally {
      for (const one of signals) one.removeEventListener('abort', end);
    }
  }

  /** Starts a job, which goes on when this program ends: its number. */
  async job(name, argv, { cwd } = {}) {
    const said = await call(this.#executable, checkWords(['guest', 'exec', '--detach', ...directory(cwd), checkName(name), '--', ...command(argv)]));
    if (said.status !== 0) throw failure(said.status >= 120 && said.status <= 125 ? said.status - PASSING : 1, said.err);
    return Number(said.out);
  }

  async jobs(name) {
    return JSON.parse(await this.#verb('jobs', ['--json', checkName(name)]));
  }

  /** What a job wrote so far. */
  log(name, job) {
    return this.#verb('logs', ['--raw', checkName(name), String(job)]);
  }

  async #verb(verb, words) {
    const said = await call(this.#executable, checkWords(['guest', verb, ...words]));
    if (said.status !== 0) throw failure(said.status, said.err);
    return said.out;
  }
}

function directory(cwd) {
  return cwd === undefined ? [] : [`--directory=${cwd}`];
}

function command(argv) {
  if (!Array.isArray(argv) || !argv.length) throw new BaileyError('bad-argument', 'an empty command');
  return argv.map(String);
}

module.exports = { Guests };
