// The database address of the setting `database.url`, and its displayable form. Pure.

/** `postgres://host:port/name`, without user name, password and parameters. */
export function shownAddress(url: string): string {
  const { protocol, host, pathname, searchParams } = new URL(url);
  const at = host === '' ? (searchParams.get('host') ?? '') : host;
  return `${protocol}//${at}${pathname}`;
}
