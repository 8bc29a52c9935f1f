// Queries the operator's search service (`tools.web_search.url`), which returns JSON in SearXNG's format. The URL is
// trusted and may be internal. Redirects are not followed, and no result's page is fetched. Failed searches are
// returned as outcomes, never thrown. Event-loop thread only.
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { VERSION } from '../../shared/version.js';
import { isWanted } from './domain-filter.js';
import type { SearchOutcome, SearchResult } from './outcome.js';
import { MAX_QUERY, type DomainFilter } from './search-options.js';

export interface SearchSettings {
  /** The search URL, in which `{query}` is replaced by the query. */
  readonly url: string;
  /** Maximum number of results of one search. */
  readonly results: number;
  readonly timeout_ms: number;
}

/** Maximum size of the search service's response. */
const MAX_BYTES = 1024 * 1024;
/** Maximum characters of each result's members. */
const MAX_TITLE = 500,
  MAX_URL = 2_048,
  MAX_CONTENT = 2_000,
  MAX_DATE = 64;

/** `outcome`: for the metrics. */
export type Observe = (
  outcome: 'completed' | 'query_too_long' | 'too_many_requests' | 'unavailable',
  ms: number,
) => void;

export class SearchService {
  constructor(
    private readonly settings: SearchSettings,
    private readonly observe: Observe,
    private readonly onFailure: (error: unknown) => void,
  ) {}

  /** The outcome is meaningless if `signal` is aborted. */
  async search(query: string, filter: DomainFilter, signal: AbortSignal): Promise<SearchOutcome> {
    const startedAt = performance.now();
    const outcome = await this.#search(query, filter, signal);
    if (!signal.aborted) this.observe('error' in outcome ? outcome.error : 'completed', performance.now() - startedAt);
    return outcome;
  }

  async #search(
    query: string,
    filter: DomainFilter,
    signal: AbortSignal,
  ): Promise<{ results: SearchResult[] } | { error: 'query_too_long' | 'too_many_requests' | 'unavailable' }> {
    if (query.length > MAX_QUERY) return { error: 'query_too_long' };
    try {
      const text = await this.#get(query, signal);
      if (text === null) return { error: 'too_many_requests' };
      return { results: resultsIn(parsed(text), this.settings.results, filter) };
    } catch (error) {
      if (!signal.aborted) this.onFailure(error);
      return { error: 'unavailable' };
    }
  }

  /** Returns the response's body, or null if the service reports too many requests. */
  #get(query: string, signal: AbortSignal): Promise<string | null> {
    const { url, timeout_ms: timeoutMs } = this.settings;
    const target = new URL(url.replaceAll('{query}', encodeURIComponent(wellFormed(query))));
    const either = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    return new Promise((resolve, reject) => {
      const send = target.protocol === 'https:' ? httpsRequest : httpRequest;
      const sent = send(
        target,
        {
          signal: either,
          agent: false,
          headers: {
            accept: 'application/json',
            'accept-encoding': 'identity',
            'user-agent': `monolith/${VERSION}`,
          },
          maxHeaderSize: 16_384,
        },
        (response) => {
          const { statusCode: status } = response;
          if (status === 200) return read(response, resolve, reject);
          response.destroy();
          if (status === 429) resolve(null);
          else reject(new Error(`the search service responded with status ${status}`));
        },
      );
      sent.on('error', (error) => reject(withoutDetails(error)));
      // A response with status 101 is not followed by another one, so the search has failed.
      sent.on('upgrade', (_response, socket) => {
        socket.destroy();
        reject(new Error('the search service responded with status 101'));
      });
      sent.end();
    });
  }
}

/** Node's HTTP parser attaches the received bytes to its errors. They must not reach the log. */
function withoutDetails(error: NodeJS.ErrnoException): Error {
  return Object.assign(new Error(error.message), error.code === undefined ? {} : { code: error.code });
}

function read(response: IncomingMessage, resolve: (text: string) => void, reject: (error: Error) => void): void {
  const parts: Buffer[] = [];
  let size = 0;
  response.on('data', (part: Buffer) => {
    size += part.length;
    if (size <= MAX_BYTES) return parts.push(part);
    reject(new Error(`the search service's response is larger than ${MAX_BYTES} bytes`));
    return response.destroy();
  });
  response.on('error', (error) => reject(withoutDetails(error)));
  response.on('end', () => resolve(Buffer.concat(parts, size).toString()));
  // 'end' is emitted before 'close', and not at all if the connection was cut.
  response.on('close', () => reject(new Error('the search service closed the connection during its response')));
}

/** The parser's own message is omitted, because it quotes the text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new Error("the search service's response is not JSON");
  }
}

/** Throws if the response is not in SearXNG's format. Skips entries without an HTTP URL. */
function resultsIn(body: unknown, most: number, filter: DomainFilter): SearchResult[] {
  const entries = recordOf(body)['results'];
  if (!Array.isArray(entries)) throw new Error("the search service's response has no list `results`");
  const found = new Map<string, SearchResult>();
  for (const entry of entries as unknown[]) {
    if (found.size === most) break;
    const { url, title, content, publishedDate } = recordOf(entry);
    if (typeof url !== 'string' || !isAddress(url) || found.has(url) || !isWanted(url, filter)) continue;
    found.set(url, {
      title: textOf(title, MAX_TITLE) || url,
      url,
      content: textOf(content, MAX_CONTENT),
      publishedAt: textOf(publishedDate, MAX_DATE) || null,
    });
  }
  return [...found.values()];
}

const recordOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

const isAddress = (url: string): boolean => url.length <= MAX_URL && /^https?:\/\//i.test(url) && URL.canParse(url);

/** Returns at most `most` characters. */
function textOf(value: unknown, most: number): string {
  if (typeof value !== 'string') return '';
  const text = value.trim();
  return wellFormed(text.length > most ? `${text.slice(0, most)}…` : text);
}

/** Replaces lone surrogates, which occur where a text was cut within a pair. */
const wellFormed = (text: string): string => Buffer.from(text).toString();
