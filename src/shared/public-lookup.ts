// A DNS lookup for requests to URLs from clients, which must reach only the public internet. No side effects other than
// DNS queries.
import type { LookupFunction } from 'node:net';
import { isPublicAddress } from './public-address.js';
import { resolveHost } from './resolve-host.js';

/**
 * Checks the resolved addresses and connects to exactly these addresses, so that a second resolution cannot yield a
 * different one. Not called for hosts that are IP addresses. Aborting `signal` cancels the queries.
 */
export const publicLookup =
  (signal: AbortSignal): LookupFunction =>
  (host, options, done) => {
    resolveHost(host, signal).then(
      (found) => {
        const allowed = found.filter(({ address }) => isPublicAddress(address));
        const [first] = allowed;
        if (first === undefined) done(new Error(`${host} has no public address`), '', 0);
        else if (options.all === true) done(null, allowed);
        else done(null, first.address, first.family);
      },
      (error: unknown) => done(error as Error, '', 0),
    );
  };
