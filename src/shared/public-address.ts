// Decides which network addresses are on the public internet. By default, URLs from clients may only resolve to such
// addresses, so clients cannot use the server to reach internal hosts. No side effects.
import { BlockList, isIPv4, isIPv6 } from 'node:net';

/**
 * From IANA's registry of special-purpose addresses: addresses that are not globally reachable, or that are forwarded
 * to other addresses.
 */
const REFUSED_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];

/** Global unicast. Excludes loopback, link-local, unique local, mapped IPv4, NAT64 and multicast. */
const GLOBAL_V6 = ['2000::/3'];
/** Teredo, ORCHID and other protocol assignments; documentation; 6to4, which maps to IPv4 addresses. */
const REFUSED_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];

function listOf(networks: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address, bits] = network.split('/') as [string, string];
    list.addSubnet(address, Number(bits), family);
  }
  return list;
}

const refusedV4 = listOf(REFUSED_V4, 'ipv4');
const globalV6 = listOf(GLOBAL_V6, 'ipv6');
const refusedV6 = listOf(REFUSED_V6, 'ipv6');

/** Also returns false for text that is not an address, and for addresses with a zone. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !refusedV4.check(address, 'ipv4');
  if (!isIPv6(address) || address.includes('%')) return false;
  return globalV6.check(address, 'ipv6') && !refusedV6.check(address, 'ipv6');
}
