// SPDX-License-Identifier: Apache-2.0
/*
 * Bailey for Node, without a native module: every call is a `bailey` process of its own, which judges, runs in a sandbox,
 * captures, and prints one JSON object. docs/library.md has the overview, index.d.ts every name.
 *
 *     const { Manager } = require('bailey');
 *     const manager = new Manager({ workspace: '/srv/project', allow: ['api.example.com'],
 *                                   onApproval: async (question) => ask(question) ? 'approve' : 'deny' });
 *     const result = await manager.exec('make test', { timeout: 60000 });
 *     console.log(result.exitCode, result.stdout);
 *     manager.close();
 *
 *     const { startNetworkProxy } = require('bailey');
 *     const proxy = await startNetworkProxy(['api.example.com', '@github']);
 *     spawn(command, args, { env: { ...process.env, ...proxy.env } });   // proxy.port is the HTTP proxy's
 *     proxy.stop();
 *
 * Failures reject with a BaileyError: its code is one of config-invalid, bad-argument, unsupported-platform, dependency-missing,
 * forbidden-command, escalated-command, manager-closed, proxy-start-failed, timeout, cancelled, system. That of a timeout has
 * the output until then: error.stdout, error.stderr.
 */
'use strict';
const { BaileyError } = require('./lib/program.js');
const { Control, identifiers } = require('./lib/control.js');
const { Filter } = require('./lib/filter.js');
const { Gateway, proxyEnvironment, startNetworkProxy } = require('./lib/gateway.js');
const { Guests } = require('./lib/guests.js');
const { Manager } = require('./lib/manager.js');

module.exports = { BaileyError, Control, Filter, Gateway, Guests, Manager, proxyEnvironment, sandboxes: identifiers, startNetworkProxy };
