// The header that names what a format does not know and therefore ignored.

/** Client-chosen names in a header: printable, bounded. */
export function headerList(names: readonly string[]): string {
  return names
    .slice(0, 20)
    .map((name) => name.slice(0, 64).replace(/[^\w.-]/g, '_'))
    .join(', ');
}

/** Places in a request, which may hold names of the client's, in a header. */
export function headerPaths(paths: readonly string[]): string {
  const shown = paths
    .slice(0, 16)
    .map((path) => path.slice(0, 160).replace(/[^\w.$[\]-]/g, '_'))
    .join(', ');
  return paths.length > 16 ? `${shown}, and more` : shown;
}

/** Sets `x-ignored-parameters` if there is something to name. */
export function nameIgnored(names: readonly string[], setHeader: (name: string, value: string) => void): void {
  if (names.length > 0) setHeader('x-ignored-parameters', headerList(names));
}
