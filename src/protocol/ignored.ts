// The response header that lists ignored request fields.

/** Maximum number of names in a header. */
export const MAX_NAMED = 20;

/** Makes client-supplied names safe for a header: printable and bounded. */
export function headerList(names: readonly string[]): string {
  const shown = names
    .slice(0, MAX_NAMED)
    .map((name) => name.slice(0, 64).replace(/[^\w.-]/g, '_'))
    .join(', ');
  return names.length > MAX_NAMED ? `${shown}, and more` : shown;
}

/** Formats field paths for a header. Paths may contain client-supplied names. */
export function headerPaths(paths: readonly string[]): string {
  const shown = paths
    .slice(0, 16)
    .map((path) => path.slice(0, 160).replace(/[^\w.$[\]-]/g, '_'))
    .join(', ');
  return paths.length > 16 ? `${shown}, and more` : shown;
}

/** Sets `x-ignored-tools` if the list is not empty. */
export function nameIgnoredTools(types: readonly string[], setHeader: (name: string, value: string) => void): void {
  if (types.length > 0) setHeader('x-ignored-tools', headerList(types).replaceAll(', ', ','));
}

/** Sets `x-ignored-parameters` if the list is not empty. */
export function nameIgnored(names: readonly string[], setHeader: (name: string, value: string) => void): void {
  if (names.length > 0) setHeader('x-ignored-parameters', headerList(names));
}
