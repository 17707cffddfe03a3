// SPDX-License-Identifier: Apache-2.0
// Runs commands in sandboxes by one set of options.
'use strict';
const fs = require('node:fs');
const { BaileyError, call, checkOptions, checkText, checkWords, dropFiles, findExecutable, flagsOf, keepFile, sentence } = require('./program.js');
const { controlOf, serve } = require('./control.js');
const { Gateway } = require('./gateway.js');

const DOCTOR_MS = 60000; // as libbailey has it
const STRICTNESS = ['allow', 'sandboxed', 'escalated', 'forbidden'];

class Manager {
  #options;
  #executable;
  #files = new Set();
  #approved = new Set();
  #running = new Set();
  #gateways = new Set();
  #closed = false;

  constructor(options = {}) {
    checkOptions(options);
    this.#executable = findExecutable(options.executable);
    this.#options = this.#settle(options);
  }

  /** Runs text through the shell. */
  async exec(command, options = {}) {
    return this.#exec([checkText(command, 'a command')], false, options);
  }

  /** Runs a program without a shell. */
  async execArgs(argv, options = {}) {
    return this.#exec(checkWords(argv), true, options);
  }

  /** The same command in a sandbox, for child_process.spawn(command, args, { env, cwd }). Judged as by execArgs. */
  async wrap(argv, options = {}) {
    this.#mustBeOpen();
    const words = checkWords(argv);
    checkOptions(options);
    const said = await this.#approve(words, true, options);
    if (!said.approved) this.#refuse(said);
    const merged = this.#merge(options);
    return { command: this.#executable, args: ['run', ...flagsOf('run', { ...merged, ask: merged.ask ?? 'never' }, this.#files), '--', ...words], env: process.env };
  }

  /** What the classifier says, and options.classify after it; runs nothing. */
  async check(command, options = {}) {
    this.#mustBeOpen();
    checkOptions(options);
    return (await this.#judge(command, options)).verdict;
  }

  /** Commands that start from now on run by these options. They are checked first; on error the old ones stay. Gateways get
   *  the new lists of hosts at once. */
  async update(options) {
    this.#mustBeOpen();
    checkOptions(options);
    const { allow, deny } = options;
    const before = this.#options;
    this.#options = this.#settle({ ...options, executable: before.executable });
    try {
      const said = await call(this.#executable, ['policy', 'test', '--json', ...flagsOf('test', this.#options, this.#files), '--', 'bailey.invalid:1']);
      if (said.status > 1) throw new BaileyError('config-invalid', sentence(said.err));
      await this.#call('check', ['--', 'true'], {}, {});
      for (const gateway of this.#gateways) if (gateway.running) await gateway.update({ allow, deny });
    } catch (error) {
      this.#options = before;
      throw error;
    }
  }

  /** Starts an HTTP and a SOCKS5 proxy that judge by this manager's options. */
  async gateway(options = {}) {
    this.#mustBeOpen();
    const gateway = await Gateway.start({ ...this.#options, ...options, executable: this.#executable });
    if (this.#closed) await gateway.stop();
    this.#mustBeOpen();
    this.#gateways.add(gateway);
    return gateway;
  }

  /** What this machine can do: the object of `bailey doctor --json`, within a minute. */
  async capabilities() {
    this.#mustBeOpen();
    const said = await call(this.#executable, ['doctor', '--json'], { limit: DOCTOR_MS });
    try {
      return JSON.parse(said.out);
    } catch {
      throw new BaileyError('system', `${this.#executable} doctor --json ended with ${said.status} and said: ${sentence(said.err || said.out)}`);
    }
  }

  /** What must be there, each with what was found. */
  async checkDependencies() {
    const version = await call(this.#executable, ['--version']).catch((error) => ({ status: 1, err: error.message }));
    const shell = this.#options.shell ?? '/bin/sh';
    const isShell = fs.existsSync(shell);
    return [{ name: 'bailey', found: version.status === 0, detail: version.status === 0 ? this.#executable : sentence(version.err) },
      { name: 'shell', found: isShell, detail: isShell ? shell : `${shell} does not exist` }];
  }

  /** Closes: what runs is killed, gateways end, and every later call is rejected. */
  close() {
    this.#mustBeOpen();
    this.#closed = true;
    for (const child of this.#running) child.kill('SIGKILL');
    dropFiles(this.#files);
    return Promise.all([...this.#gateways].map((gateway) => gateway.stop())).then(() => {});
  }

  /** A policy that is given as an object becomes a file, once. */
  #settle(options) {
    const isObject = options.policy !== null && typeof options.policy === 'object';
    return isObject ? { ...options, policy: keepFile('policy.yaml', JSON.stringify(options.policy), this.#files) } : { ...options };
  }

  #mustBeOpen() {
    if (this.#closed) throw new BaileyError('manager-closed', 'the manager is closed');
  }

  #merge(options) {
    return { ...this.#options, ...options, env: { ...this.#options.env, ...options.env } };
  }

  /** Bailey's own verdict and the one that counts: options.classify has the last word, and cannot lift "forbidden". It gives a decision, or an object
   *  with what it changes; nothing for no change. */
  async #judge(command, options) {
    const args = Array.isArray(command);
    const words = args ? ['--args', '--', ...checkWords(command)] : ['--', checkText(command, 'a command')];
    const said = await this.#call('check', words, options.workspace ? { workspace: options.workspace } : {}, { cwd: options.cwd });
    const built = { decision: said.decision, rule: said.rule || '', reason: said.reason, segment: said.segment };
    const classify = options.classify || this.#options.classify;
    if (!classify || built.decision === 'forbidden') return { built, verdict: built };
    const answer = await classify({ command: args ? command.join(' ') : String(command), ...built });
    if (answer !== null && answer !== undefined && typeof answer !== 'object' && typeof answer !== 'string') {
      return { built, verdict: { ...built, decision: 'forbidden', reason: 'the program\'s classifier gave no verdict' } };
    }
    const verdict = { ...built, ...(typeof answer === 'string' ? { decision: answer, reason: 'the program decided' } : answer) };
    if (!STRICTNESS.includes(verdict.decision)) verdict.decision = 'forbidden';
    return { built, verdict };
  }

  /** Whether somebody has said yes: { approved, asked, built, verdict }. */
  async #approve(words, args, options) {
    const key = JSON.stringify([args, words]);
    const { built, verdict } = await this.#judge(args ? words : words[0], options);
    const said = { approved: true, asked: false, built, verdict };
    if (verdict.decision === 'forbidden') return { ...said, approved: false };
    if (verdict.decision !== 'escalated' || this.#approved.has(key)) return said;
    const ask = options.onApproval || this.#options.onApproval;
    const answer = ask ? await Promise.resolve().then(() => ask({ command: words.join(' '), ...verdict })).catch(() => 'deny') : null;
    if (answer === 'approve-session') this.#approved.add(key);
    return { ...said, approved: answer === 'approve' || answer === 'approve-session', asked: Boolean(ask) };
  }

  #refuse({ verdict, asked }) {
    const forbidden = verdict.decision === 'forbidden';
    const what = forbidden ? 'is forbidden' : asked ? 'was not approved' : 'needs an approval, and nobody is there to be asked';
    throw new BaileyError(forbidden ? 'forbidden-command' : 'escalated-command', `the command ${what}: ${verdict.reason}`, verdict);
  }

  /** What bailey is told of it. It judges again, asks where no function here does, and records what does not run. */
  #flagsFor(said) {
    if (said.approved) return said.built.decision === 'escalated' ? ['--approved'] : [];
    if (said.built.decision !== said.verdict.decision) this.#refuse(said); // bailey does not know what a classifier here thinks
    return said.asked ? ['--ask=never'] : [];
  }

  async #exec(words, args, options) {
    this.#mustBeOpen();
    checkOptions(options);
    const answer = await this.#approve(words, args, options);
    const flags = this.#flagsFor(answer);
    this.#mustBeOpen();
    const said = await this.#call('exec', [...flags, ...(args ? ['--args'] : []), '--', ...words], options, {
      cwd: options.cwd, signal: options.signal, input: options.input,
    });
    if (said.outcome === 'escalated-command' && answer.asked) this.#refuse(answer); // bailey asked nobody, and says so
    if (said.outcome !== 'ended') throw new BaileyError(said.outcome, said.error, said);
    return {
      exitCode: said.exit_code, signal: said.signal, stdout: said.stdout, stderr: said.stderr, truncated: said.truncated,
      durationMs: said.duration_ms, sandboxed: said.sandboxed, violations: said.violations,
    };
  }

  /** One process, one JSON object. */
  async #call(verb, words, options, how) {
    const merged = this.#merge(options);
    const isExec = verb === 'exec';
    if (isExec) merged.ask ??= merged.onRequest ? 'control' : 'never';
    const own = isExec ? ['--die-with-parent'] : [];
    let running;
    const said = await call(this.#executable, [verb, '--json', ...own, ...flagsOf(verb, merged, this.#files), ...words], {
      ...how,
      started: (child) => {
        running = child;
        this.#running.add(child);
        if (isExec && (merged.onRequest || merged.onEvent)) void this.#watch(child, merged);
      },
    }).finally(() => this.#running.delete(running));
    if (this.#closed) throw new BaileyError('cancelled', 'the command was cancelled and ended');
    try {
      return JSON.parse(said.out);
    } catch {
      throw new BaileyError('config-invalid', sentence(said.err));
    }
  }

  async #watch(child, callbacks) {
    const hasEnded = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
    const control = await controlOf(child.pid, hasEnded);
    if (control) await serve(control, callbacks).catch(() => control.close()); // it has ended
  }
}

module.exports = { Manager };
