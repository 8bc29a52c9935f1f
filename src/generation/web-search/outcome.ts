// The result of one web search. Contains only types, because the generation events refer to them.

export interface SearchResult {
  title: string;
  url: string;
  /** The excerpt of the page that the search service returned. */
  content: string;
  /** As reported by the search service; null if unknown. */
  publishedAt: string | null;
}

/** Why a search has no results, with the names from the Messages API. */
export type SearchError =
  | 'invalid_tool_input'
  | 'max_uses_exceeded'
  | 'query_too_long'
  | 'too_many_requests'
  | 'unavailable';

export type SearchOutcome = { readonly results: readonly SearchResult[] } | { readonly error: SearchError };
