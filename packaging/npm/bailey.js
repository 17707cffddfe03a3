#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Starts the static bailey of this machine's kind, with the same words, and ends as it ends.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const program = path.join(__dirname, `linux-${process.arch}`, 'bin', 'bailey');
if (process.platform !== 'linux' || !fs.existsSync(program)) {
  console.error(`bailey-sandbox: there is no build for ${process.platform} on ${process.arch} in this package`);
  process.exit(125);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// The terminal sends its signals to both; the child decides when it ends. Others are passed on.
for (const name of ['SIGINT', 'SIGQUIT']) process.on(name, () => {});
for (const name of ['SIGTERM', 'SIGHUP']) process.on(name, () => child.kill(name));
child.on('error', (error) => {
  console.error(`bailey-sandbox: cannot start ${program}: ${error.message}`);
  process.exit(125);
});
child.on('exit', (status, signal) => {
  process.exit(signal ? 128 + os.constants.signals[signal] : status);
});
