// Why an address cannot be listened on: the HTTP library says only that it cannot.

import { createServer } from 'node:net';

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'this user has no permission to; ports below 1024 are for root',
  EADDRNOTAVAIL: 'the address is not of this machine',
  ENOTFOUND: 'there is no host of that name',
};

/** As a sentence that ends with what to do. `flag`: names the port. */
export async function listenProblem(host: string, port: number, flag: string): Promise<string> {
  const code = await new Promise<string>((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve('')));
  });
  // What is free by now was in use a moment ago.
  const reason = code === '' ? REASONS['EADDRINUSE'] : REASONS[code] ?? code;
  const other = code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' ? flag.replace('port', 'host') : flag;
  return `Cannot listen on ${host} port ${port}: ${reason as string}. Take another one with ${other}${other === flag ? ', 0 for any that is free' : ''}.`;
}
