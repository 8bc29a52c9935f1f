#!/usr/bin/env node
// The entry point of the command line (cli/command-line.ts).

import { runCommandLine } from './cli/command-line.js';

// If the reader of standard output closes the pipe, the remaining output is discarded.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

process.exitCode = await runCommandLine(process.argv.slice(2));
