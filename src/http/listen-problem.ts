// Determines why the server cannot listen on an address. The HTTP library reports only that listening failed, and only
// after the models have been loaded.

import { createServer } from 'node:net';
import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'permission denied; ports below 1024 require root',
  EADDRNOTAVAIL: 'the address does not belong to this machine',
  ENOTFOUND: 'unknown host name',
};

/**
 * Checks that the addresses can be bound, before anything is downloaded or loaded. Another process can still bind them
 * in the meantime. Throws StartError.
 */
export async function checkAddresses(config: Pick<Config, 'host' | 'port' | 'admin'>): Promise<void> {
  const [problem] = await addressProblems(config);
  if (problem !== undefined) throw new StartError(problem);
}

/** Returns, for every address that cannot be bound, the reason and what to do about it. */
export async function addressProblems({
  host,
  port,
  admin,
}: Pick<Config, 'host' | 'port' | 'admin'>): Promise<string[]> {
  const asked = [
    { host, port, flag: '--port' },
    ...(admin.token === null ? [] : [{ host: admin.host, port: admin.port, flag: '--admin-port' }]),
  ];
  const problems: string[] = [];
  for (const one of asked) {
    const code = await failure(one.host, one.port);
    if (code !== null) problems.push(describe(one.host, one.port, one.flag, code));
  }
  return problems;
}

/**
 * Returns why the address cannot be bound and what to do about it. `flag`: the command-line flag that sets the port.
 */
export async function listenProblem(host: string, port: number, flag: string): Promise<string> {
  // The port is free now, so it must have been in use when listening failed.
  return describe(host, port, flag, (await failure(host, port)) ?? 'EADDRINUSE');
}

function describe(host: string, port: number, flag: string, code: string): string {
  const other = code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' ? flag.replace('port', 'host') : flag;
  return `Cannot listen on ${host} port ${port}: ${REASONS[code] ?? code}. Choose another one with ${other}${other === flag ? ' (0 = any free port)' : ''}.`;
}

/** Tries to listen. Returns the error code, or null if it succeeds. */
function failure(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(null)));
  });
}
