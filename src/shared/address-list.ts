// Lists of the IP addresses that may use an API key or an organization's dashboard: addresses and CIDR ranges, IPv4
// and IPv6. No side effects.

import { BlockList, isIP } from 'node:net';

/** Maximum number of entries in one list. */
export const MAX_ADDRESSES = 100;

/** An IPv4 address that a dual-stack socket reports as IPv6, in both notations. */
const MAPPED = /^(?:::ffff:|(?:0{1,4}:){5}ffff:)(?:(\d+\.\d+\.\d+\.\d+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i;

interface Range {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  readonly prefix: number;
}

/** Returns null if the text is neither an IP address nor a CIDR range. */
export function parseRange(text: string): Range | null {
  const [address = '', prefix, ...more] = text.split('/');
  const version = isIP(address);
  if (version === 0 || address.includes('%') || more.length > 0) return null;
  const bits = version === 4 ? 32 : 128;
  if (prefix !== undefined && (!/^\d{1,3}$/.test(prefix) || Number(prefix) > bits)) return null;
  return { address, family: version === 4 ? 'ipv4' : 'ipv6', prefix: prefix === undefined ? bits : Number(prefix) };
}

export class AddressList {
  readonly #ranges = new BlockList();

  /** `entries`: valid entries; see parseRange(). Invalid entries are ignored and do not allow any address. */
  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const range = parseRange(entry);
      if (range !== null) this.#ranges.addSubnet(range.address, range.prefix, range.family);
    }
  }

  /** Null for an empty list, which allows every address. */
  static of(entries: readonly string[] | undefined): AddressList | null {
    return entries === undefined || entries.length === 0 ? null : new AddressList(entries);
  }

  /** Returns false for text that is not an IP address. */
  allows(address: string): boolean {
    const plain = plainAddress(address);
    const version = isIP(plain);
    return version !== 0 && this.#ranges.check(plain, version === 4 ? 'ipv4' : 'ipv6');
  }
}

/**
 * Converts an IPv4 address that a dual-stack socket reports as IPv6 to its IPv4 form. Returns any other text
 * unchanged.
 */
export function plainAddress(address: string): string {
  const [, dotted, high, low] = MAPPED.exec(address) ?? [];
  if (dotted !== undefined) return dotted;
  if (high === undefined || low === undefined) return address;
  return [high, low]
    .map((group) => Number.parseInt(group, 16))
    .flatMap((group) => [group >> 8, group & 255])
    .join('.');
}
