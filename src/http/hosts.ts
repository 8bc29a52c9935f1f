// Validates the Host header as a defense against DNS rebinding. A web page can make its own host name resolve to
// 127.0.0.1, but it cannot make the browser send a different Host header. Therefore, IP addresses and loopback names
// are safe.

import { isIP } from 'node:net';

export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  return name === 'localhost' || name.endsWith('.localhost') || name === '::1' || /^127\.\d+\.\d+\.\d+$/.test(name);
}

/** Converts `host:port`, `[::1]:port` or a bare name to the name in lower case. */
export function hostName(header: string): string {
  const bracketed = /^\[([^\]]*)\]/.exec(header)?.[1];
  const name = bracketed ?? (header.split(':')[0] as string);
  return name.toLowerCase().replace(/\.$/, '');
}

/**
 * Returns a function that decides whether a Host header is accepted. A server that listens on more than loopback is
 * exposed on purpose and may be reached under any host name, so its Host header is checked only if names are
 * configured.
 */
export function hostGuard(listenHost: string, allowedHosts: readonly string[]): (header: string) => boolean {
  if (allowedHosts.includes('*') || (allowedHosts.length === 0 && !isLoopback(listenHost))) return () => true;
  const names = new Set([listenHost, ...allowedHosts].map((name) => name.toLowerCase()));
  return (header) => {
    if (header === '') return true; // browsers always send a Host header
    const name = hostName(header);
    return isIP(name) !== 0 || isLoopback(name) || names.has(name);
  };
}
