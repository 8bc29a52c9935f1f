// Lists the ignored parts of a request in response headers of bounded length and in the request log.

/** Maximum number of paths in a header. */
const MAX_PLACES = 16;

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

/** Returns the paths to list in a header. If there are too many, the last entry is `and more`. */
export function shownPlaces(paths: readonly string[]): string[] {
  const shown = paths.slice(0, MAX_PLACES).map(printable);
  return paths.length > MAX_PLACES ? [...shown, 'and more'] : shown;
}

/** Formats paths for a header. Paths may contain client-supplied names. */
export const headerPaths = (paths: readonly string[]): string => shownPlaces(paths).join(', ');

/** Makes a path safe for headers and the log. The path may contain an ID that the client chose. */
export const printable = (path: string): string => path.slice(0, 300).replace(/[^\w.:$[\]-]/g, '_');

/** The names of ignored parts of a request, without duplicates. */
export interface IgnoredParts {
  /** Parameters without effect. */
  readonly parameters?: readonly string[];
  /** Types of tools that are not offered to the model. */
  readonly tools?: readonly string[];
}

/** An Exchange or a Caller. */
export interface Named {
  setHeader(name: string, value: string): void;
  annotate(fields: Record<string, string>): void;
}

export function nameIgnored({ parameters = [], tools = [] }: IgnoredParts, named: Named): void {
  if (parameters.length > 0) {
    named.setHeader('x-ignored-parameters', headerList(parameters));
    named.annotate({ ignored_parameters: logList(parameters) });
  }
  if (tools.length > 0) {
    named.setHeader('x-ignored-tools', headerList(tools).replaceAll(', ', ','));
    named.annotate({ ignored_tools: logList(tools) });
  }
}

/** Maximum number of names in a log field. */
const MAX_LOGGED = 1_000;

/** Formats names or paths for the request log. Both may contain names supplied by the client. */
export const logList = (names: readonly string[]): string =>
  logged(names, (name) => name.slice(0, 160).replace(/[^\w.$[\]-]/g, '_'));

/** Joins at most 1,000 names for the log. Longer lists end with the number of omitted names. */
export function logged(names: readonly string[], printable: (name: string) => string): string {
  const shown = names.slice(0, MAX_LOGGED).map(printable).join(', ');
  return names.length > MAX_LOGGED ? `${shown}, and ${names.length - MAX_LOGGED} more` : shown;
}
