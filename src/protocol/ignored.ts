// The response headers that list ignored parts of a request.

/** Maximum number of places in x-ignored-content. */
export const MAX_PLACES = 16;

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

/** The places in `x-ignored-content`. The last entry is `and more` if there are too many. */
export function shownPlaces(paths: readonly string[]): string[] {
  const shown = paths.slice(0, MAX_PLACES).map(printable);
  return paths.length > MAX_PLACES ? [...shown, 'and more'] : shown;
}

/** Makes a place safe for headers and the log. It may contain an ID that the client has chosen. */
export const printable = (path: string): string => path.slice(0, 300).replace(/[^\w.:$[\]-]/g, '_');

/** Sets `x-ignored-parameters` if the list is not empty. */
export function nameIgnored(names: readonly string[], setHeader: (name: string, value: string) => void): void {
  if (names.length > 0) setHeader('x-ignored-parameters', headerList(names));
}
