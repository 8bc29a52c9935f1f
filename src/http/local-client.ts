// Recognizes requests from programs on this machine, for routes that serve them without an API key.
//
// A loopback peer address alone proves little: a reverse proxy on this machine forwards requests from anywhere, and a
// web page in a browser on this machine can send requests to loopback addresses or make its own host name resolve to
// one (DNS rebinding). Therefore, the request must also show no sign of a proxy or of a foreign page.

import { BlockList, isIPv6 } from 'node:net';
import type { Exchange } from './exchange.js';
import { hostName, isLoopback } from './hosts.js';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');
loopback.addSubnet('::ffff:127.0.0.0', 104, 'ipv6');

/** Headers that proxies add. */
const FORWARDED = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'forwarded', 'via'];

/** Schemes of pages that belong to an installed program. Web pages cannot have them. */
const PROGRAM_ORIGIN = /^(?:app|file|tauri|vscode-webview|vscode-file):\/\//;

/** Returns why a request may not be from a program on this machine, for the error message, or null if it is. */
export function foreignTrait(exchange: Pick<Exchange, 'peerAddress' | 'header'>): string | null {
  const { peerAddress } = exchange;
  if (peerAddress === '' || !loopback.check(peerAddress, isIPv6(peerAddress) ? 'ipv6' : 'ipv4'))
    return 'it does not come from this machine';
  const forwarded = FORWARDED.find((name) => exchange.header(name) !== '');
  if (forwarded !== undefined) return `it was forwarded by a proxy (header ${forwarded})`;
  if (!isLoopback(hostName(exchange.header('host')))) return 'its Host header is not a loopback name';
  const origin = exchange.header('origin');
  if (origin !== '') return isLocalOrigin(origin) ? null : 'it comes from a web page (Origin header)';
  return ['', 'none', 'same-origin'].includes(exchange.header('sec-fetch-site'))
    ? null
    : 'it comes from a web page (Sec-Fetch-Site header)';
}

function isLocalOrigin(origin: string): boolean {
  if (PROGRAM_ORIGIN.test(origin)) return true;
  const host = /^https?:\/\/(.+)$/.exec(origin)?.[1];
  return host !== undefined && isLoopback(hostName(host));
}
