// SPDX-License-Identifier: Apache-2.0
// The bailey executable: where it is, how options become flags, and one call of it.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
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
// In the npm package that carries the programs they are beside the module.
const HOME = path.dirname(__dirname);
const CARRIED = path.join(HOME, `linux-${process.arch}/bin/bailey`);
const INSTALLED = /\/(lib\/node_modules|share\/nodejs)\/bailey$/.test(HOME) ? [path.join(HOME, '../../../bin/bailey')] : [];
const PLACES = [CARRIED, ...INSTALLED, '/usr/local/bin/bailey', '/usr/bin/bailey'];

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

// Names of options, the flags that they stand for, and the verbs that take them. Lists repeat the flag.
const EVERY = ['exec', 'run', 'check', 'gateway', 'test', 'env'];
const RUNS = ['exec', 'run'];
const NETWORK = ['exec', 'run', 'gateway', 'test'];
const FLAGS = {
  policy: ['--policy', EVERY], workspace: ['--workspace', EVERY], preset: ['--preset', EVERY], mode: ['--mode', EVERY], agent: ['--agent', EVERY],
  allow: ['--allow', NETWORK], deny: ['--deny', NETWORK], allowPrivate: ['--allow-private', NETWORK],
  ask: ['--ask', NETWORK], askTimeout: ['--ask-timeout', NETWORK],
  credential: ['--credential', ['exec', 'run', 'gateway']], audit: ['--audit', ['exec', 'run', 'gateway']], hosts: ['--hosts', ['exec', 'run', 'gateway']],
  caBundle: ['--ca-bundle', ['run', 'gateway']],
  write: ['--write', RUNS], askPath: ['--ask-path', RUNS], denyRead: ['--deny-read', RUNS], denyWrite: ['--deny-write', RUNS], envPass: ['--env-pass', RUNS],
  shell: ['--shell', ['exec']], outputLimit: ['--output-limit', ['exec']],
};
// What is for this module itself.
const OWN = ['executable', 'env', 'timeout', 'allowDegraded', 'workspacePolicy', 'onApproval', 'onRequest', 'onEvent', 'classify', 'cwd', 'signal', 'input',
  'http', 'socks'];

// What an option of a wrong type would be taken for is not what was meant: "false" is no false, and NaN milliseconds are no limit.
const KINDS = {
  a: ['a text', (value) => typeof value === 'string'],
  yes: ['true or false', (value) => typeof value === 'boolean'],
  call: ['a function', (value) => typeof value === 'function'],
  time: ['a number of milliseconds', (value) => Number.isFinite(value) && value >= 0],
  map: ['an object of texts', (value) => typeof value === 'object' && !Array.isArray(value)],
  signal: ['an AbortSignal', (value) => typeof value === 'object' && typeof value.aborted === 'boolean'
    && typeof value.addEventListener === 'function' && typeof value.removeEventListener === 'function'],
  bytes: ['a text or bytes', (value) => typeof value === 'string' || ArrayBuffer.isView(value)],
};
const TYPES = { executable: KINDS.a, cwd: KINDS.a, env: KINDS.map, timeout: KINDS.time, allowDegraded: KINDS.yes, workspacePolicy: KINDS.yes, onApproval: KINDS.call,
  onRequest: KINDS.call, onEvent: KINDS.call, classify: KINDS.call, signal: KINDS.signal, input: KINDS.bytes, http: KINDS.a, socks: KINDS.a };

/** Only these names: a misspelled one would be a rule that is not there. */
function checkNames(rules, names) {
  for (const name of Object.keys(rules)) if (!names.includes(name)) throw new BaileyError('config-invalid', `there is no option ${JSON.stringify(name)}`);
}

/** Names and types of options. What is undefined or null was not given. */
function checkOptions(options) {
  if (options === null || typeof options !== 'object') throw new BaileyError('bad-argument', 'options are an object');
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(FLAGS, name) && !OWN.includes(name)) throw new BaileyError('config-invalid', `there is no option ${JSON.stringify(name)}`);
    if (value === undefined || value === null || !Object.hasOwn(TYPES, name)) continue;
    const [what, isRight] = TYPES[name];
    if (!isRight(value)) throw new BaileyError('bad-argument', `${name} must be ${what}`);
  }
}

/** The words of a command: an array of texts or numbers. */
function checkWords(argv) {
  if (!Array.isArray(argv) || argv.length === 0) throw new BaileyError('bad-argument', 'a command is an array of words');
  return argv.map((word) => checkText(typeof word === 'number' ? String(word) : word, 'a word of a command'));
}

function checkText(text, what) {
  if (typeof text !== 'string') throw new BaileyError('bad-argument', `${what} must be a text`);
  if (text.includes('\0')) throw new BaileyError('bad-argument', `${what} holds a NUL byte`);
  return text;
}

function flagsOf(verb, options, files = new Set()) {
  const flags = [];
  checkOptions(options);
  for (const [name, [flag, verbs]] of Object.entries(FLAGS)) {
    if (!verbs.includes(verb)) continue;
    for (const value of [options[name] ?? []].flat()) {
      const text = name === 'policy' && typeof value === 'object' ? keepFile('policy.yaml', JSON.stringify(value), files) : String(value);
      if (text.includes('\0')) throw new BaileyError('config-invalid', `${name} holds a NUL byte`);
      flags.push(`${flag}=${text}`);
    }
  }
  if (options.workspacePolicy === false) flags.push('--no-workspace-policy');
  if (RUNS.includes(verb)) {
    for (const [name, value] of Object.entries(options.env || {})) {
      if (value === undefined) continue; // as child_process has it
      if (!name || name.includes('=')) throw new BaileyError('bad-argument', `${JSON.stringify(name)} is not the name of a variable`);
      flags.push(checkText(`--env=${name}=${value}`, 'a variable'));
    }
    if (options.allowDegraded) flags.push('--allow-degraded');
    if (options.timeout) flags.push(`--timeout=${Math.max(1, Math.ceil(options.timeout))}ms`);
  }
  return flags;
}

// Files that only this user reads, for what is too long for a command line. They go when their owner closes, or with the program.
const kept = new Set();
process.on('exit', () => dropFiles(kept));

// A program that is killed removes nothing: the next one does. A process is known by its id, by the namespace in which that counts, and by
// the machine since it started: others may share the directory.
const PROCESSES = (() => {
  try {
    const machine = fs.readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').replace(/[^0-9a-f]/g, '');
    return `${machine}-${fs.readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')}`;
  } catch {
    return '';
  }
})();
let swept = !PROCESSES;

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code !== 'ESRCH';
  }
}

function sweep(place) {
  if (swept) return;
  swept = true;
  let names = [];
  try {
    names = fs.readdirSync(place);
  } catch { /* where one may write and not look, nothing is removed */ }
  for (const name of names) {
    const [, processes, pid] = /^bailey-node-([0-9a-f]+-\d+)-(\d+)-/.exec(name) ?? [];
    if (processes !== PROCESSES || isAlive(Number(pid))) continue;
    try {
      if (fs.lstatSync(path.join(place, name)).uid === process.geteuid()) fs.rmSync(path.join(place, name), { recursive: true, force: true });
    } catch { /* another program was first */ }
  }
}

function keepFile(name, text, files) {
  sweep(os.tmpdir());
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), `bailey-node-${PROCESSES || 0}-${process.pid}-`));
  kept.add(directory);
  files.add(directory);
  fs.writeFileSync(path.join(directory, name), text, { mode: 0o600 });
  return path.join(directory, name);
}

function dropFiles(files) {
  for (const directory of files) {
    fs.rmSync(directory, { recursive: true, force: true });
    kept.delete(directory);
  }
  files.clear();
}

/** What a process that failed has said, as one sentence. */
function sentence(text) {
  return text.trim().split('\n').pop().replace(/^bailey: (error: )?/, '') || 'bailey said nothing';
}

/** Runs bailey to its end: { status, out, err }. `started` sees the process. After `limit` milliseconds it is ended, and that is a timeout. */
function call(executable, words, { cwd, signal, input, limit, started = () => {} } = {}) {
  return new Promise((resolve, reject) => {
    if (signal && !KINDS.signal[1](signal)) throw new BaileyError('bad-argument', 'signal must be an AbortSignal'); // spawn would look after it has begun
    if (cwd !== undefined && cwd !== null && !fs.existsSync(cwd)) throw new BaileyError('bad-argument', `there is no directory ${cwd}`);
    const given = input !== undefined && input !== null;
    const child = spawn(executable, words, { cwd: cwd ?? undefined, signal: signal ?? undefined, killSignal: 'SIGKILL', stdio: [given ? 'pipe' : 'ignore', 'pipe', 'pipe'] });
    const out = [];
    const err = [];
    started(child);
    child.stdout.on('data', (chunk) => out.push(chunk));
    child.stderr.on('data', (chunk) => err.push(chunk));
    child.on('error', (error) => reject(error.name === 'AbortError' ? new BaileyError('cancelled', 'the command was cancelled and ended')
      : new BaileyError('system', error.message)));
    const late = limit && setTimeout(() => {
      child.kill('SIGKILL');
      child.stdout.destroy(); // a child of its own may hold them
      child.stderr.destroy();
      reject(new BaileyError('timeout', `${executable} ${words[0]} did not end in time and was ended`));
    }, limit);
    child.on('close', () => clearTimeout(late));
    child.on('close', (status) => resolve({ status, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }));
    if (given) {
      child.stdin.on('error', () => {}); // the command need not read it
      child.stdin.end(input);
    }
  });
}

module.exports = { BaileyError, call, checkNames, checkOptions, checkText, checkWords, dropFiles, findExecutable, flagsOf, keepFile, sentence };
