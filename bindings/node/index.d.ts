// SPDX-License-Identifier: Apache-2.0
// Types of the module bailey. docs/library.md has the overview. They need no other types, not even those of Node.

export type Decision = 'allow' | 'sandboxed' | 'escalated' | 'forbidden';
export type Approval = 'deny' | 'approve' | 'approve-session';
export type Mode = 'read-only' | 'workspace-write' | 'workspace-write-whitelist' | 'full-network';
export type Preset = 'default' | 'development' | 'ci';
export type Scope = 'once' | 'sandbox' | 'workspace' | 'always';
export type ErrorCode =
  | 'config-invalid' | 'bad-argument' | 'unsupported-platform' | 'dependency-missing' | 'forbidden-command'
  | 'escalated-command' | 'manager-closed' | 'proxy-start-failed' | 'timeout' | 'cancelled' | 'system';

/** A policy as bailey-policy(5) describes it. */
export type Policy = { [key: string]: unknown };

export class BaileyError extends Error {
  readonly name: 'BaileyError';
  readonly code: ErrorCode;
  /** Of commands that are not run: the rule, its reason, and the part of the command that decided; else "". */
  readonly rule: string;
  readonly reason: string;
  readonly segment: string;
  /** Of a timeout: the output until then; else "". */
  readonly stdout: string;
  readonly stderr: string;
}

export interface Verdict {
  decision: Decision;
  rule: string;
  reason: string;
  segment: string;
}

/** An escalated command that somebody decides about. */
export interface Question extends Verdict {
  command: string;
}

/** A host that no rule names; the connection waits. */
export interface HostRequest {
  host: string;
  port: number;
  via?: string;
}

/** As docs/control.md lists them; `sandbox` is its id. */
export interface SandboxEvent {
  sandbox: string;
  event: string;
  [field: string]: unknown;
}

/** Who is asked, and who watches. What throws or rejects says no. */
export interface Callbacks {
  onApproval?: (question: Question) => Approval | Promise<Approval>;
  onRequest?: (request: HostRequest) => boolean | Promise<boolean>;
  onEvent?: (event: SandboxEvent) => void;
  /** The last word about commands: a decision, or what it changes; what it leaves out stays as it was. Nothing lifts "forbidden". */
  classify?: (question: Question) => Decision | Partial<Verdict> | undefined | void | Promise<Decision | Partial<Verdict> | undefined | void>;
}

/** The options of the command line, by their names there. */
export interface Config extends Callbacks {
  /** The bailey executable; else BAILEY_EXECUTABLE, that of the installation, /usr/local/bin, /usr/bin. Never PATH. */
  executable?: string;
  /** A file, or the policy itself. */
  policy?: string | Policy;
  /** false: the workspace's .bailey.yaml is not read. */
  workspacePolicy?: boolean;
  workspace?: string;
  preset?: Preset;
  mode?: Mode;
  agent?: string;
  allow?: string | string[];
  deny?: string | string[];
  allowPrivate?: string | string[];
  credential?: string | string[];
  ask?: 'never' | 'control';
  askTimeout?: string;
  hosts?: string;
  caBundle?: string;
  audit?: string;
  write?: string | string[];
  askPath?: string | string[];
  denyRead?: string | string[];
  denyWrite?: string | string[];
  env?: { [name: string]: string };
  envPass?: string | string[];
  shell?: string;
  /** Bytes of each output that are kept. */
  outputLimit?: number;
  /** Milliseconds; 0 for no limit. */
  timeout?: number;
  allowDegraded?: boolean;
}

/** What this module uses of an AbortSignal. */
export interface Signal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** Options of one call, laid over the manager's. */
export interface CallOptions extends Omit<Config, 'executable'> {
  cwd?: string;
  /** An AbortSignal. */
  signal?: Signal;
  input?: string | Uint8Array;
}

export interface Violation {
  operation: 'network' | 'read' | 'write' | 'socket' | 'system-call' | 'protected' | string;
  target: string;
  rule: string | null;
  process: string | null;
  detail: string;
  count: number;
}

export interface Result {
  /** null when a signal ended the command. */
  exitCode: number | null;
  signal: number | null;
  stdout: string;
  stderr: string;
  truncated: boolean;
  durationMs: number;
  sandboxed: boolean;
  violations: Violation[];
}

export interface WrappedCommand {
  command: string;
  args: string[];
  env: { [name: string]: string | undefined };
}

export interface Dependency {
  name: string;
  found: boolean;
  detail: string;
}

export interface Capabilities {
  version: string;
  mode: 'full' | 'degraded' | 'none' | string;
  kernel: string;
  machine: string;
  items: { name: string; state: string; needed: boolean; detail: string; lost: string | null; why: string | null; fix: string | null }[];
  [field: string]: unknown;
}

export class Manager {
  constructor(options?: Config);
  exec(command: string, options?: CallOptions): Promise<Result>;
  execArgs(argv: readonly string[], options?: CallOptions): Promise<Result>;
  wrap(argv: readonly string[], options?: CallOptions): Promise<WrappedCommand>;
  check(command: string | readonly string[], options?: Pick<CallOptions, 'cwd' | 'workspace' | 'classify'>): Promise<Verdict>;
  update(options: Config): Promise<void>;
  gateway(options?: GatewayOptions): Promise<Gateway>;
  capabilities(): Promise<Capabilities>;
  checkDependencies(): Promise<Dependency[]>;
  close(): Promise<void>;
}

export interface GatewayOptions extends Config {
  /** "ADDRESS:PORT"; "127.0.0.1:0" if not set, "" for no such listener. */
  http?: string;
  socks?: string;
}

/** What startNetworkProxy gives back, at the least. */
export interface ProxyHandle {
  /** The HTTP proxy's. */
  readonly port: number;
  readonly httpPort: number;
  readonly socksPort: number;
  readonly url: string;
  /** Variables that make a program use it. */
  readonly env: { [name: string]: string };
  readonly running: boolean;
  update(rules: Rules): Promise<void>;
  stop(): Promise<void>;
}

export class Gateway implements ProxyHandle {
  private constructor();
  static start(options?: GatewayOptions): Promise<Gateway>;
  readonly id: string;
  readonly pid: number;
  readonly audit: string;
  readonly port: number;
  readonly httpPort: number;
  readonly socksPort: number;
  readonly url: string;
  readonly env: { [name: string]: string };
  readonly running: boolean;
  readonly control: Control;
  update(rules: Rules): Promise<void>;
  stop(): Promise<void>;
}

/** A proxy that lets through these hosts and nothing else. */
export function startNetworkProxy(whitelist: readonly string[], options?: Omit<GatewayOptions, 'allow'>): Promise<Gateway>;
export function proxyEnvironment(at?: { http?: string; socks?: string; executable?: string }): Promise<{ [name: string]: string }>;

/** All of them: what is left out is empty from then on. */
export interface Rules {
  allow?: string | readonly string[];
  deny?: string | readonly string[];
}

export interface FilterVerdict {
  allowed: boolean;
  reason: string;
  rule: string;
  detail: string;
}

export class Filter {
  private constructor();
  static create(options?: Rules & { allowPrivate?: string | string[]; executable?: string; onRequest?: Callbacks['onRequest'] }): Promise<Filter>;
  update(rules?: Rules & { allowPrivate?: string | string[] }): Promise<void>;
  test(host: string, port?: number): Promise<FilterVerdict>;
  close(): void;
}

export interface GuestRow {
  name: string;
  id: string;
  kind: 'rootless' | 'account' | 'own' | string;
  state: 'creating' | 'ready' | 'running' | 'stopped' | 'archived' | 'broken' | string;
  reason: string | null;
  uid: number;
  gid: number;
  home: string;
  sandbox: string | null;
  /** Bytes; a limit of 0 is none. What is used is there once it was measured. `set(name, ['--disk=10G'])` changes the limit. */
  disk: { limit: number; used?: number; files?: number; state: 'well' | 'over' | 'low' | 'unknown' | string; cleaning: boolean };
  [field: string]: unknown;
}

export interface GuestJob {
  number: number;
  state: 'running' | 'ended' | 'lost' | string;
  status: number | null;
  command: string;
  [field: string]: unknown;
}

export interface GuestStep {
  at: string;
  step: string;
  state: string | null;
  note: string | null;
}

/** Named sandboxes that last: docs/guests.md. They belong to the user, not to this program. */
export class Guests {
  constructor(options?: { executable?: string });
  create(name: string, options?: readonly string[]): Promise<void>;
  set(name: string, options: readonly string[]): Promise<void>;
  rename(name: string, newName: string): Promise<void>;
  fix(name: string): Promise<void>;
  start(name: string): Promise<void>;
  stop(name: string): Promise<void>;
  delete(name: string): Promise<void>;
  list(): Promise<GuestRow[]>;
  exec(name: string, argv: readonly string[], options?: {
    cwd?: string; env?: { [name: string]: string }; input?: string | Uint8Array; timeout?: number; signal?: Signal;
  }): Promise<{ exitCode: number; stdout: string; stderr: string }>;
  job(name: string, argv: readonly string[], options?: { cwd?: string; env?: { [name: string]: string } }): Promise<number>;
  jobs(name: string): Promise<GuestJob[]>;
  log(name: string, job: number): Promise<string>;
  show(name: string): Promise<GuestRow & { options: { option: string; value: string }[]; rules: { rule: string; pattern: string; approved: string }[]; steps: GuestStep[] }>;
  publish(name: string, outside: number, inside: number): Promise<void>;
  unpublish(name: string, outside: number): Promise<void>;
  ports(name: string): Promise<{ publish: string; outside?: number; inside?: number; state: 'open' | 'closed' | string }[]>;
  grant(name: string, path: string, options?: { writable?: boolean }): Promise<void>;
  revoke(name: string, path: string): Promise<void>;
  grants(name: string): Promise<{ path: string; access: 'ro' | 'rw' | string }[]>;
  copyIn(name: string, from: string, to: string): Promise<void>;
  copyOut(name: string, from: string, to: string): Promise<void>;
  snapshot(name: string, label?: string): Promise<void>;
  snapshots(name: string): Promise<{ label: string; at: string; bytes: number }[]>;
  restore(name: string, label: string): Promise<void>;
  snapshotRemove(name: string, label: string): Promise<void>;
  archive(name: string): Promise<void>;
  unarchive(name: string): Promise<void>;
  provision(name: string, recipes?: readonly string[]): Promise<void>;
  recipes(): Promise<{ name: string; title: string }[]>;
}

/** The ids of the sandboxes and gateways of this user that run. */
export function sandboxes(): string[];

export interface PendingQuestion {
  id: number;
  kind: 'host' | 'command' | string;
  [field: string]: unknown;
}

/** One connection to one sandbox: docs/control.md. An EventEmitter: 'event' after subscribe(), and 'close'. */
export class Control {
  private constructor();
  static connect(id: string): Promise<Control>;
  on(name: 'event', listener: (event: { event: string; [field: string]: unknown }) => void): this;
  on(name: 'close', listener: () => void): this;
  readonly id: string;
  request(what: string, fields?: object): Promise<{ [field: string]: unknown }>;
  status(): Promise<{ [field: string]: unknown }>;
  subscribe(): Promise<unknown>;
  pending(): Promise<PendingQuestion[]>;
  rules(): Promise<{ list: string; pattern: string; origin: string; live: boolean }[]>;
  answer(question: number, answer: 'allow' | 'deny', scope?: Scope): Promise<unknown>;
  allow(pattern: string, scope?: Scope): Promise<unknown>;
  deny(pattern: string, scope?: Scope): Promise<unknown>;
  forget(pattern: string): Promise<unknown>;
  reload(): Promise<unknown>;
  pause(): Promise<unknown>;
  resume(): Promise<unknown>;
  kill(): Promise<unknown>;
  close(): void;
}
