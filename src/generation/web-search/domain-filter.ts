// Selects search results by domain. An entry is a domain, which includes its subdomains, optionally followed by a path
// prefix in which `*` matches any characters: example.com, example.com/docs, example.com/*/news. No side effects.
import type { DomainFilter } from './search-options.js';

export function isWanted(address: string, { allowedDomains, blockedDomains }: DomainFilter): boolean {
  if (allowedDomains === null && blockedDomains.length === 0) return true;
  const url = new URL(address);
  if (blockedDomains.some((entry) => matches(url, entry))) return false;
  return allowedDomains === null || allowedDomains.some((entry) => matches(url, entry));
}

function matches({ hostname, pathname }: URL, entry: string): boolean {
  const bare = entry
    .trim()
    .toLowerCase()
    .replace(/^https?:\/\//, '');
  const slash = bare.indexOf('/');
  const domain = (slash < 0 ? bare : bare.slice(0, slash)).replace(/^\*?\./, '').replace(/\.$/, '');
  const host = hostname.toLowerCase().replace(/\.$/, '');
  if (domain === '' || (host !== domain && !host.endsWith(`.${domain}`))) return false;
  return slash < 0 || startsLike(pathname.toLowerCase(), bare.slice(slash));
}

/** Whether the text starts with the pattern, in which `*` matches any characters. */
function startsLike(text: string, pattern: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return true;
}
