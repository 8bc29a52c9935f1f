// Reads query parameters that can have several values. No side effects.

/** Reads `name[]=a`, `name=a&name=b` and `name=a,b`. Keeps the order of the values and drops empty ones. */
export function queryList(query: URLSearchParams, name: string): string[] {
  const values: string[] = [];
  for (const [key, value] of query) {
    if (key !== name && key !== `${name}[]` && !isIndexed(key, name)) continue;
    for (const one of value.split(',')) if (one !== '') values.push(one);
  }
  return values;
}

/** Matches `name[0]`, which some query builders use for arrays. */
function isIndexed(key: string, name: string): boolean {
  return key.startsWith(`${name}[`) && /^\d{1,4}\]$/.test(key.slice(name.length + 1));
}
