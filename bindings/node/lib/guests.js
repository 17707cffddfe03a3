// SPDX-License-Identifier: Apache-2.0
// Named sandboxes that last. Each call is one `bailey guest`.
'use strict';
const { BaileyError, call, checkOptions, checkText, findExecutable } = require('./program.js');

const CODES = { 1: 'bad-argument', 2: 'bad-argument', 3: 'config-invalid', 4: 'unsupported-platform' };
// Something was named that is not there.
const NOTHING = /there is no guest|there is no snapshot|has no such job|was not granted to|does not offer port|there is no recipe/;
// Added to Bailey's own codes where the status is a command's.
const PASSING = 118;

/** What a failed call means: the code by the status, the message as Bailey said it. */
function failure(status, text) {
  const said = (text.trim().split('\n').pop() || 'bailey guest said nothing').replace(/^bailey: error: (guest \w+: )?/, '');
  return new BaileyError(NOTHING.test(said) ? 'bad-argument' : CODES[status] || 'system', said);
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
    await this.#verb('create', [...list(options), '--', checkName(name)]);
  }

  /** Changes what it was made with. Options are words of `bailey guest set`. */
  async set(name, options = []) {
    await this.#verb('set', [...list(options), '--', checkName(name)]);
  }

  async rename(name, newName) {
    await this.#verb('rename', ['--', checkName(name), checkName(newName)]);
  }

  /** Opens to the user what the guest closed, and mends what is broken. */
  async fix(name) {
    await this.#verb('fix', [checkName(name)]);
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
    checkOptions({ cwd, env, input, timeout, signal });
    const limit = timeout ? AbortSignal.timeout(timeout) : undefined;
    const signals = [limit, signal].filter(Boolean);
    const ended = new AbortController();
    const end = () => ended.abort();
    for (const one of signals) if (one.aborted) end(); else one.addEventListener('abort', end, { once: true });
    try {
      const words = [...directory(cwd), ...variables(env), checkName(name), '--', ...command(argv)];
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
  async job(name, argv, { cwd, env = {} } = {}) {
    checkOptions({ cwd, env });
    const words = ['--detach', ...directory(cwd), ...variables(env), checkName(name), '--', ...command(argv)];
    const said = await call(this.#executable, checkWords(['guest', 'exec', ...words]));
    if (said.status !== 0) throw failure(said.status >= 120 && said.status <= 125 ? said.status - PASSING : 1, said.err);
    return Number(said.out);
  }

  async jobs(name) {
    return JSON.parse(await this.#verb('jobs', ['--json', checkName(name)]));
  }

  /** What a job wrote so far. */
  async log(name, job) {
    if (!Number.isInteger(job)) throw new BaileyError('bad-argument', `${job} is not the number of a job`);
    return this.#verb('logs', ['--raw', checkName(name), String(job)]);
  }

  /** The guest as list() has it, with `options` that are kept with it and its last `steps`. */
  async show(name) {
    return JSON.parse(await this.#verb('show', ['--json', checkName(name)]));
  }

  /** Offers a port of the guest on 127.0.0.1: at once if it runs, and at every start. */
  async publish(name, outside, inside) {
    await this.#verb('ports', [`--publish=${port(outside)}:${port(inside)}`, checkName(name)]);
  }

  async unpublish(name, outside) {
    await this.#verb('ports', [`--close=${port(outside)}`, checkName(name)]);
  }

  async ports(name) {
    return JSON.parse(await this.#verb('ports', ['--json', checkName(name)]));
  }

  /** Gives it a directory of this machine, from its next start on. */
  async grant(name, path, { writable = false } = {}) {
    if (typeof writable !== 'boolean') throw new BaileyError('bad-argument', 'writable must be true or false');
    await this.#verb('grant', ['--', checkName(name), `${checkText(path, 'a path')}:${writable ? 'rw' : 'ro'}`]);
  }

  async revoke(name, path) {
    await this.#verb('revoke', ['--', checkName(name), checkText(path, 'a path')]);
  }

  async grants(name) {
    return JSON.parse(await this.#verb('grants', ['--json', checkName(name)]));
  }

  /** Copies a file or directory of this machine to a path in its home. No link is followed, and nothing is replaced. */
  async copyIn(name, from, to) {
    await this.#verb('cp', ['--', outsidePath(from), `${checkPlain(name)}:${checkText(to, 'a path')}`]);
  }

  /** Copies a path in its home to this machine. */
  async copyOut(name, from, to) {
    await this.#verb('cp', ['--', `${checkPlain(name)}:${checkText(from, 'a path')}`, outsidePath(to)]);
  }

  /** Keeps a copy of its home; without a label that is the time. */
  async snapshot(name, label) {
    await this.#verb('snapshot', ['--', checkName(name), ...(label === undefined ? [] : [checkText(label, 'a label')])]);
  }

  async snapshots(name) {
    return JSON.parse(await this.#verb('snapshots', ['--json', checkName(name)]));
  }

  /** Puts its home back to what the copy has; it must not run. */
  async restore(name, label) {
    await this.#verb('restore', ['--', checkName(name), checkText(label, 'a label')]);
  }

  async snapshotRemove(name, label) {
    await this.#verb('snapshot', ['--remove', '--', checkName(name), checkText(label, 'a label')]);
  }

  /** Packs its home away, until unarchive(). */
  async archive(name) {
    await this.#verb('archive', [checkName(name)]);
  }

  async unarchive(name) {
    await this.#verb('unarchive', [checkName(name)]);
  }

  /** Does what recipes say (names or paths); without one, those that it has had. */
  async provision(name, recipes = []) {
    await this.#verb('provision', ['--', checkName(name), ...list(recipes)]);
  }

  async recipes() {
    return JSON.parse(await this.#verb('recipes', ['--json']));
  }

  async #verb(verb, words) {
    const said = await call(this.#executable, checkWords(['guest', verb, ...words]));
    if (said.status !== 0) throw failure(said.status, said.err);
    return said.out;
  }
}

function directory(cwd) {
  return cwd === undefined || cwd === null ? [] : [`--directory=${cwd}`];
}

function variables(env) {
  const given = Object.entries(env ?? {}).filter(([, value]) => value !== undefined);
  for (const [key] of given) if (!key || key.includes('=')) throw new BaileyError('bad-argument', `${JSON.stringify(key)} is not the name of a variable`);
  return given.map(([key, value]) => `--set=${key}=${value}`);
}

/** Words of a command line. */
function list(words) {
  if (!Array.isArray(words)) throw new BaileyError('bad-argument', 'a list of texts is wanted here');
  return words.map((word) => checkText(word, 'an option'));
}

function port(number) {
  if (!Number.isInteger(number) || number < 1 || number > 65535) throw new BaileyError('bad-argument', `${number} is not a port`);
  return number;
}

/** A path with a slash in front of its first colon is the host's. */
function outsidePath(path) {
  if (typeof path !== 'string' || !path) throw new BaileyError('bad-argument', 'a copy needs a path outside');
  return path.startsWith('/') ? path : `./${path}`;
}

function checkPlain(name) {
  if (/[:/]/.test(checkName(name))) throw new BaileyError('bad-argument', `there is no guest ${name}`);
  return name;
}

function command(argv) {
  if (!Array.isArray(argv) || !argv.length) throw new BaileyError('bad-argument', 'an empty command');
  return argv.map((word) => checkText(typeof word === 'number' ? String(word) : word, 'a word of a command'));
}

module.exports = { Guests };
