// SPDX-License-Identifier: Apache-2.0
// Never run: tsc reads it. What a program may write compiles, and what it may not does not.
import { BaileyError, Control, Filter, Gateway, Guests, Manager, ProxyHandle, Verdict, proxyEnvironment, sandboxes, startNetworkProxy } from 'bailey';

async function proxy(whitelist: string[]): Promise<ProxyHandle> {
  const handle = await startNetworkProxy(whitelist, { onRequest: async ({ host, port }) => host.length + port > 0 });
  const port: number = handle.port;
  const env: { [name: string]: string } = { ...handle.env, PORT: String(port) };
  await handle.update({ allow: whitelist, deny: env.PORT });
  return handle;
}

async function main(): Promise<void> {
  const manager = new Manager({
    policy: { network: { allow: ['@github'] } }, mode: 'read-only', env: { A: '1' }, timeout: 1000,
    onApproval: (question) => (question.rule === 'elevate' ? 'deny' : 'approve-session'),
    onEvent: (event) => { event.sandbox.trim(); },
    classify: ({ command }) => (command ? { decision: 'forbidden', reason: 'no' } : {}),
  });
  const result = await manager.exec('make', { cwd: '/', input: new Uint8Array(3) });
  // @ts-expect-error: what no abort can reach is no signal
  await manager.exec('make', { signal: { aborted: false } });
  await manager.exec('make', { signal: { aborted: false, addEventListener() {}, removeEventListener() {} } });
  const code: number | null = result.exitCode;
  const targets: string[] = result.violations.map((violation) => violation.target);
  const verdict: Verdict = await manager.check(['rm', '-rf', '/']);
  const { command, args, env } = await manager.wrap(['make']);
  const gateway: Gateway = await manager.gateway({ socks: '' });
  const filter = await Filter.create({ allow: ['a.test'] });
  const allowed: boolean = (await filter.test('a.test', 443)).allowed;
  const guests = new Guests({ executable: '/usr/bin/bailey' });
  await guests.create('one', ['--idle=1h']);
  await guests.set('one', ['--disk=1G']);
  // @ts-expect-error: options are a list of words
  await guests.set('one', '--disk=1G');
  await guests.grant('one', '/srv', { writable: true });
  const kept: string[] = (await guests.show('one')).options.map((row) => row.option + row.value);
  const bytes: number[] = (await guests.snapshots('one')).map((row) => row.bytes + kept.length);
  await guests.publish('one', 8080, bytes.length);
  const job: number = await guests.job('one', ['make'], { cwd: '/' });
  const said: string = (await guests.exec('one', ['make'], { timeout: 1000 })).stdout + await guests.log('one', job);
  const states: string[] = (await guests.list()).map((guest) => guest.state + said);
  // @ts-expect-error: a command is a list of words
  await guests.exec('one', 'make');
  states.push(String((await guests.jobs('one'))[0].status));
  const control = await Control.connect(sandboxes()[0]);
  control.on('event', (event) => event.event);
  await control.answer(1, 'allow', 'workspace');
  await manager.update({ allow: [command, ...args, String(env.PATH), ...targets, String(code), String(allowed), verdict.rule] });
  await gateway.stop();
  await (await proxy(['a.test'])).stop();
  await proxyEnvironment({ http: '127.0.0.1:1' });
  await manager.close();
}

main().catch((error: unknown) => { if (error instanceof BaileyError && error.code === 'timeout') error.stdout.trim(); });

// @ts-expect-error: no such mode
new Manager({ mode: 'writable' });
// @ts-expect-error: no such option
new Manager({ alow: ['a.test'] });
// @ts-expect-error: an answer that is none
new Manager({ onApproval: () => 'yes' });
// @ts-expect-error: a list of patterns, not one
startNetworkProxy('a.test');
// @ts-expect-error: gateways are started
new Gateway();
