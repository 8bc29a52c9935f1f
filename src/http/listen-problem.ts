// Why an address cannot be listened on: the HTTP library says only that it cannot, and that after models have been loaded.

import { createServer } from 'node:net';
import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'this user has no permission to; ports below 1024 are for root',
  EADDRNOTAVAIL: 'the address is not of this machine',
  ENOTFOUND: 'there is no host of that name',
};

/** Before anything is fetched or loaded: whether the addresses can be had. Somebody may still take them meanwhile. Throws StartError. */
export async function checkAddresses({ host, port, admin }: Pick<Config, 'host' | 'port' | 'admin'>): Promise<void> {
  const asked = [
    { host, port, flag: '--port' },
    ...(admin.token === null ? [] : [{ host: admin.host, port: admin.port, flag: '--admin-port' }]),
  ];
  for (const one of asked) {
    const code = await failure(one.host, one.port);
    if (code !== null) throw new StartError(told(one.host, one.port, one.flag, code));
  }
}

/** As a sentence that ends with what to do. `flag`: names the port. */
export async function listenProblem(host: string, port: number, flag: string): Promise<string> {
  return told(host, port, flag, (await failure(host, port)) ?? 'EADDRINUSE'); // what is free by now was in use a moment ago
}

function told(host: string, port: number, flag: string, code: string): string {
  const other = code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' ? flag.replace('port', 'host') : flag;
  return `Cannot listen on ${host} port ${port}: ${REASONS[code] ?? code}. Take another one with ${other}${other === flag ? ', 0 for any that is free' : ''}.`;
}

/** The code of what keeps one from listening there; null: nothing does. */
function failure(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(null)));
  });
}
