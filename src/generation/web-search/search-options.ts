// The web search tool of one request: the definition shown to the model, and the text of its results. No side effects.
import { parseExact } from '../../shared/exact-json.js';
import type { SearchError, SearchOutcome } from './outcome.js';

/** Selects the results to use. */
export interface DomainFilter {
  /** Only results from these domains are used; null = any domain. */
  readonly allowedDomains: readonly string[] | null;
  readonly blockedDomains: readonly string[];
}

/** Options for a request's web searches. */
export interface WebSearchOptions extends DomainFilter {
  /** The tool's name among the request's tools. */
  readonly name: string;
  /** Maximum number of searches. */
  readonly maxUses: number;
}

export const DEFAULT_MAX_USES = 5;
/** Upper bound of a request's maximum. Each search causes another generation. */
export const MOST_USES = 100;
/** Maximum number of characters in a query. */
export const MAX_QUERY = 1_000;

export const SEARCH_TOOL: {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
} = {
  name: 'web_search',
  description:
    'Searches the web. Returns titles, addresses and excerpts of pages. Use it for recent or unknown facts, and name the sources in the answer.',
  parameters: {
    type: 'object',
    properties: { query: { type: 'string', description: 'What to search for.' } },
    required: ['query'],
    additionalProperties: false,
  },
};

/** Parses a call's arguments. Returns null if they contain no query. */
export function queryIn(text: string): string | null {
  let value: unknown;
  try {
    value = parseExact(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null || !('query' in value)) return null;
  const { query } = value;
  // If the query were inserted into the URL's path, a query of only dots would change the path.
  return typeof query === 'string' && !/^\.{0,2}$/.test(query.trim()) ? query : null;
}

const FAILURES: Readonly<Record<SearchError, string>> = {
  invalid_tool_input: 'The search was not run: the call has no query.',
  max_uses_exceeded: 'The search was not run: the maximum number of searches is reached. Answer without searching.',
  query_too_long: `The search was not run: a query may have at most ${MAX_QUERY} characters.`,
  too_many_requests: 'The search failed: the search service receives too many requests.',
  unavailable: 'The search failed: the search service is unavailable.',
};

/** The result of a call, as shown to the model. */
export function outcomeText(outcome: SearchOutcome): string {
  if ('error' in outcome) return FAILURES[outcome.error];
  if (outcome.results.length === 0) return 'The search found nothing.';
  return outcome.results
    .map(({ title, url, content, publishedAt }, at) =>
      [`${at + 1}. ${title}`, url, ...(publishedAt === null ? [] : [`Published: ${publishedAt}`]), content].join('\n'),
    )
    .join('\n\n');
}
