// Lists of hosts that an operator allows: example.com; *.example.com for all its subdomains; * for any host. No side
// effects.
import { isIP } from 'node:net';

/** `host`: as returned by hostOf(). */
export function isAllowedHost(host: string, allowed: readonly string[]): boolean {
  return allowed.some((entry) => {
    const name = entry.toLowerCase();
    return name === '*' || name === host || (name.startsWith('*.') && host.endsWith(name.slice(1)) && isIP(host) === 0);
  });
}

/** Returns a URL's host without IPv6 brackets and without the trailing dot of a fully qualified name. */
export function hostOf(url: URL): string {
  return url.hostname
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
}
