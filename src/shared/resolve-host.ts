// Addresses of a name that a stranger has chosen. The system's own way (getaddrinfo) takes one of the few threads of the
// process for as long as the name's servers like, cannot be stopped, and holds up every other name meanwhile: those of
// databases and of servers elsewhere. So these are asked of the name servers here, beside it; names that only this machine
// knows (/etc/hosts, mDNS) are none.
import { Resolver } from 'node:dns/promises';

export interface Address {
  address: string;
  family: number;
}

/** Of a question, and how often it is asked. */
const TIMEOUT_MS = 2_000,
  TRIES = 2;
/** Always this machine's own (RFC 6761). */
const LOCAL = /(^|\.)localhost\.?$/i;
const NONE: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA']);

export const isLocalName = (host: string): boolean => LOCAL.test(host);

/** None where there is no such name, or it has no address. Rejects where that cannot be told; when `signal` aborts, it is asked no more. `servers` is for tests. */
export async function resolveHost(host: string, signal: AbortSignal, servers?: readonly string[]): Promise<Address[]> {
  signal.throwIfAborted();
  if (isLocalName(host)) return [];
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  const stop = (): void => resolver.cancel();
  signal.addEventListener('abort', stop, { once: true });
  try {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    signal.throwIfAborted();
    const found = answers.flatMap((answer, at) =>
      answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family: at === 0 ? 4 : 6 })) : [],
    );
    const failure = answers.find(
      (answer) => answer.status === 'rejected' && !NONE.has((answer.reason as NodeJS.ErrnoException).code),
    );
    if (found.length === 0 && failure?.status === 'rejected') throw failure.reason;
    return found;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
