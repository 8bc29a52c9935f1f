// The address of the database as `state.url` gives it, and as it may be shown. Pure.

/** `postgres://host:port/name`: without the user's name, the password and what else stands in it. */
export function shownAddress(url: string): string {
  const { protocol, host, pathname, searchParams } = new URL(url);
  const at = host === '' ? (searchParams.get('host') ?? '') : host;
  return `${protocol}//${at}${pathname}`;
}
