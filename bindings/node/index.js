// SPDX-License-Identifier: Apache-2.0
/*
 * Bailey for Node, without a native module: every call is a `bailey` process of its own, which judges, runs in a sandbox,
 * captures, and prints one JSON object.
 *
 *     const { Manager } = require('bailey');
 *     const manager = new Manager({ workspace: '/srv/project', allow: ['api.example.com'],
 *                                   onApproval: async (question) => ask(question) ? 'approve' : 'deny' });
 *     const result = await manager.exec('make test', { timeout: 60000 });
 *     console.log(result.exitCode, result.stdout);
 *     manager.close();
 *
 * Failures reject with a BaileyError: its code is one of config-invalid, unsupported-platform, dependency-missing,
 * forbidden-command, escalated-command, manager-closed, timeout, cancelled, system. That of a timeout has the output until
 * then: error.stdout, error.stderr. Without onApproval and with { ask: 'control' } people are asked by `bailey pending`.
 */
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

class BaileyError extends Error {
  constructor(code, message, details = {}) {
    super(message);
    this.name = 'BaileyError';
    this.code = code;
    this.rule = details.rule || '';
    this.reason = details.reason || '';
    this.segment = details.segment || '';
    this.stdout = details.stdout || '';
    this.stderr = details.stderr || '';
  }
}

// Where an installation has it, or BAILEY_EXECUTABLE says. PATH is not asked: whoever sets it would choose what confines.
// An installed module is at PREFIX/lib/node_modules/bailey or PREFIX/share/nodejs/bailey: its own PREFIX/bin comes first.
const INSTALLED = /\/(lib\/node_modules|share\/nodejs)\/bailey$/.test(__dirname);
const PLACES = [...(INSTALLED ? [path.join(__dirname, '../../../bin/bailey')] : []), '/usr/local/bin/bailey', '/usr/bin/bailey'];

function findExecutable(named) {
  for (const place of named ? [named] : [process.env.BAILEY_EXECUTABLE, ...PLACES]) {
    if (!place) continue;
    try {
      fs.accessSync(place, fs.constants.X_OK);
      return path.resolve(place);
    } catch {
      continue;
    }
  }
  throw new BaileyError('dependency-missing', named ? `there is no bailey executable at ${named}`
    : 'bailey is not installed; name it with { executable }');
}

// Names of options, and the flags that they stand for; lists repeat the flag.
const FLAGS = {
  workspace: '--workspace', preset: '--preset', mode: '--mode', policy: '--policy', allow: '--allow', deny: '--deny',
  allowPrivate: '--allow-private', write: '--write', denyRead: '--deny-read', denyWrite: '--deny-write', audit: '--audit',
  agent: '--agent', shell: '--shell', hosts: '--hosts', outputLimit: '--output-limit', envPass: '--env-pass',
  ask: '--ask', askTimeout: '--ask-timeout',
};

function flagsOf(options) {
  const flags = [];
  for (const [name, flag] of Object.entries(FLAGS)) {
    for (const value of [options[name] ?? []].flat()) flags.push(`${flag}=${value}`);
  }
  for (const [name, value] of Object.entries(options.env || {})) flags.push(`--env=${name}=${value}`);
  if (options.allowDegraded) flags.push('--allow-degraded');
  if (options.timeout) flags.push(`--timeout=${Math.max(1, Math.ceil(options.timeout))}ms`);
  return flags;
}

class Manager {
  #options;
  #executable;
  #approved = new Set();
  #running = new Set();
  #closed = false;

  constructor(options = {}) {
    this.#executable = findExecutable(options.executable);
    this.#options = { ...options };
  }

  /** Runs text through the shell. */
  exec(command, options = {}) {
    return this.#exec([String(command)], false, options);
  }

  /** Runs a program without a shell. */
  execArgs(argv, options = {}) {
    return this.#exec(argv.map(String), true, options);
  }

  /** What the classifier says; runs nothing. */
  async check(command) {
    const args = Array.isArray(command);
    const said = await this.#call('check', args ? ['--args', '--', ...command.map(String)] : ['--', String(command)], {}, {});
    return { decision: said.decision, rule: said.rule || '', reason: said.reason, segment: said.segment };
  }

  /** Commands that start from now on run by these options. They are checked first; on error the old ones stay. */
  async update(options) {
    this.#mustBeOpen();
    const before = this.#options;
    this.#options = { ...options, executable: before.executable };
    try {
      await this.check('true');
    } catch (error) {
      this.#options = before;
      throw error;
    }
  }

  /** Closes: what runs is killed, and every later call is rejected. */
  close() {
    this.#mustBeOpen();
    this.#closed = true;
    for (const child of this.#running) child.kill('SIGKILL');
  }

  #mustBeOpen() {
    if (this.#closed) throw new BaileyError('manager-closed', 'the manager is closed');
  }

  async #exec(words, args, options) {
    this.#mustBeOpen();
    const flags = [];
    const key = JSON.stringify([args, words]);
    if (this.#approved.has(key)) {
      flags.push('--approved');
    } else {
      const verdict = await this.check(args ? words : words[0]);
      if (verdict.decision === 'escalated') {
        // Without a function bailey itself asks, or says that nobody is there; it keeps the record of a refusal, too.
        const ask = options.onApproval || this.#options.onApproval;
        const answer = ask ? await ask({ command: words.join(' '), ...verdict }) : null;
        if (answer === 'approve-session') this.#approved.add(key);
        if (answer === 'approve' || answer === 'approve-session') flags.push('--approved');
        else if (ask) flags.push('--ask=never');
      }
    }
    const said = await this.#call('exec', [...flags, ...(args ? ['--args'] : []), '--', ...words], options, {
      cwd: options.cwd, signal: options.signal, input: options.input,
    });
    if (said.outcome !== 'ended') throw new BaileyError(said.outcome, said.error, said);
    return {
      exitCode: said.exit_code, signal: said.signal, stdout: said.stdout, stderr: said.stderr, truncated: said.truncated,
      durationMs: said.duration_ms, sandboxed: said.sandboxed, violations: said.violations,
    };
  }

  /** One process, one JSON object. */
  #call(verb, words, options, { cwd, signal, input }) {
    this.#mustBeOpen();
    const merged = { ...this.#options, ...options, env: { ...this.#options.env, ...options.env } };
    const common = flagsOf(merged);
    // check takes fewer options than exec
    const flags = verb === 'exec' ? (merged.ask ? common : [...common, '--ask=never']) : common.filter((flag) => /^--(policy|preset|workspace|mode|agent)=/.test(flag));
    return new Promise((resolve, reject) => {
      const child = spawn(this.#executable, [verb, '--json', ...flags, ...words],
        { cwd, signal, killSignal: 'SIGKILL', stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'] });
      const out = [];
      const err = [];
      this.#running.add(child);
      child.stdout.on('data', (chunk) => out.push(chunk));
      child.stderr.on('data', (chunk) => err.push(chunk));
      child.on('error', (error) => {
        this.#running.delete(child);
        reject(error.name === 'AbortError' ? new BaileyError('cancelled', 'the command was cancelled and ended')
          : new BaileyError('system', error.message));
      });
      child.on('close', () => {
        this.#running.delete(child);
        if (this.#closed) return reject(new BaileyError('cancelled', 'the command was cancelled and ended'));
        try {
          resolve(JSON.parse(Buffer.concat(out).toString()));
        } catch {
          const text = Buffer.concat(err).toString().trim().replace(/^bailey: (error: )?/, '');
          reject(new BaileyError('config-invalid', text || 'bailey said nothing'));
        }
      });
      if (input !== undefined) {
        child.stdin.on('error', () => {}); // the command need not read it
        child.stdin.end(input);
      }
    });
  }
}

module.exports = { Manager, BaileyError };
