// Resolves host names supplied by clients. getaddrinfo would occupy one of the process's few worker threads until the
// name's DNS servers respond. It cannot be cancelled, and would delay all other lookups, including lookups of databases
// and upstream servers. Therefore, this module queries DNS servers directly. Names known only to this machine
// (/etc/hosts, mDNS) are not resolved.
import { Resolver } from 'node:dns/promises';

export interface Address {
  address: string;
  family: number;
}

/** Timeout per query, and number of attempts. */
const TIMEOUT_MS = 2_000,
  TRIES = 2;
/** Always refers to this machine (RFC 6761). */
const LOCAL = /(^|\.)localhost\.?$/i;
const NONE: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA']);

export const isLocalName = (host: string): boolean => LOCAL.test(host);

/**
 * Returns an empty list if the name does not exist or has no address. Rejects if the lookup fails for any other reason.
 * Aborting `signal` cancels the queries. `servers` is for tests.
 */
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
