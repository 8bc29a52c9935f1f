// Client for the part of the hub's API that is needed to pull models: the commit of a revision, the files of a commit,
// and the bytes of a file. The token is sent only to the hub's own origin, and never to the target of a redirect.

import { setTimeout as sleep } from 'node:timers/promises';
import { VERSION } from '../shared/version.js';
import { HostFailure } from './host-failure.js';
import { HubError, printable } from './hub-error.js';
import { isSafePath } from './hub-cache.js';
import { isServed } from './hub-files.js';
import type { HubFile } from './hub-files.js';

export interface HubClientOptions {
  /** For example https://huggingface.co. Any path in it is kept as a prefix of the API's paths. */
  readonly endpoint: string;
  readonly token: string | null;
  /** If true, no server is contacted. */
  readonly offline?: boolean;
  /** A connection that receives no data for this long is closed. */
  readonly stallMs?: number;
  /** Delay before the second attempt, doubled for each further one. */
  readonly backoffMs?: number;
  /** Called after a temporary failure, with the reason and the delay before the next attempt. */
  onRetry?(why: string, waitMs: number): void;
}

const MAX_REDIRECTS = 8;
/**
 * Maximum size of one page of a file list, which contains about 300 bytes per file. Pages must be small, because they
 * are parsed on the event loop.
 */
const MAX_JSON_BYTES = 8 * 1024 * 1024;
const MAX_PAGES = 50;
const MAX_FILES = 10_000;
/** Maximum number of concurrent HEAD requests. Each uses a connection. */
const MAX_HEADS = 8;
export const MAX_ATTEMPTS = 5;
/** Maximum wait, even if a server requests a longer one. */
const MAX_WAIT_MS = 60_000;
const STALL_MS = 30_000;
const BACKOFF_MS = 1_000;

const HASH = /^([0-9a-f]{64}|[0-9a-f]{40})$/;
const COMMIT = /^[0-9a-f]{40}$/;

/** A response whose body must be read with `stall.signal`, which also aborts when no data has arrived for a while. */
export interface HubAnswer {
  readonly response: Response;
  readonly stall: StallClock;
}

/** Aborts a request that receives no data. */
export class StallClock {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout;

  constructor(
    private readonly ms: number,
    private readonly outer: AbortSignal | undefined,
  ) {
    this.#timer = this.#start();
    outer?.addEventListener('abort', this.#abort, { once: true });
    if (outer?.aborted === true) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Must be called when data has arrived. */
  tick(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.outer?.removeEventListener('abort', this.#abort);
  }

  #start(): NodeJS.Timeout {
    return setTimeout(() => this.#controller.abort(new Error(`no data for ${Math.round(this.ms / 1000)} s`)), this.ms);
  }

  readonly #abort = (): void => this.#controller.abort(this.outer?.reason);
}

interface TreeEntry {
  type?: unknown;
  path?: unknown;
  size?: unknown;
  oid?: unknown;
  lfs?: { oid?: unknown; sha256?: unknown; size?: unknown } | null;
}
interface Sibling {
  rfilename?: unknown;
  size?: unknown;
  blobId?: unknown;
  lfs?: { sha256?: unknown; size?: unknown } | null;
}

export class HubClient {
  readonly #base: URL;
  readonly #stallMs: number;
  readonly #backoffMs: number;
  /** Origins that have responded at least once. */
  readonly #answered = new Set<string>();

  constructor(private readonly options: HubClientOptions) {
    this.#base = new URL(options.endpoint.replace(/\/*$/, '/'));
    this.#stallMs = options.stallMs ?? STALL_MS;
    this.#backoffMs = options.backoffMs ?? BACKOFF_MS;
  }

  /** Returns the same hub with a different `onRetry` callback. */
  withRetryListener(onRetry: HubClientOptions['onRetry']): HubClient {
    return onRetry === undefined ? this : new HubClient({ ...this.options, onRetry });
  }

  /** GETs JSON. `path` is relative to the endpoint; `what` names the subject in errors. Throws HubError. */
  get(path: string, what: string, signal?: AbortSignal): Promise<unknown> {
    return this.#json(path, what, signal);
  }

  /** Resolves a branch, tag or commit to a commit. Throws HubError. */
  async commit(repo: string, revision: string, signal?: AbortSignal): Promise<string> {
    const { sha } = objectIn(
      await this.#json(`api/models/${repo}/revision/${encodeURIComponent(revision)}`, `${repo}@${revision}`, signal),
    ) as { sha?: unknown };
    if (typeof sha !== 'string' || !COMMIT.test(sha))
      throw new HubError('bad_answer', `${this.#base.host} returned no commit for ${repo}@${revision}`);
    return sha;
  }

  /** Returns all files of a commit, with their sizes and hashes. Throws HubError. */
  async files(repo: string, commit: string, signal?: AbortSignal): Promise<HubFile[]> {
    try {
      return await this.#tree(repo, commit, signal);
    } catch (error) {
      // Mirrors without the tree API list the files in the model's metadata.
      if (!(error instanceof HubError) || error.failure !== 'not_found') throw error;
      return this.#siblings(repo, commit, signal);
    }
  }

  /**
   * Requests the bytes of a file starting at `from`. The status is 200 (the whole file), 206 (from `from`) or 416.
   * Throws HubError.
   */
  open(repo: string, commit: string, path: string, from: number, signal?: AbortSignal): Promise<HubAnswer> {
    const headers = { 'accept-encoding': 'identity', ...(from > 0 ? { range: `bytes=${from}-` } : {}) };
    return this.#asked(this.#resolve(repo, commit, path), `${path} of ${repo}`, { headers, signal, alsoFine: [416] });
  }

  /**
   * Waits after attempt number `attempt`, counted from 1, has failed for the reason `why`. `asked`: minimum wait in ms.
   * Throws HubError if aborted.
   */
  async pause(attempt: number, why: string, signal?: AbortSignal, asked = 0): Promise<void> {
    const waitMs = Math.min(MAX_WAIT_MS, Math.max(asked, this.#backoffMs * 2 ** (attempt - 1)));
    this.options.onRetry?.(why, waitMs);
    try {
      await sleep(waitMs, undefined, signal === undefined ? {} : { signal });
    } catch (error) {
      throw cancelled(error);
    }
  }

  #resolve(repo: string, commit: string, path: string): URL {
    return new URL(`${repo}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`, this.#base);
  }

  async #tree(repo: string, commit: string, signal: AbortSignal | undefined): Promise<HubFile[]> {
    const found: HubFile[] = [];
    let next: string | URL | null = `api/models/${repo}/tree/${commit}?recursive=true`;
    for (let page = 0; next !== null; page++) {
      if (page === MAX_PAGES) throw new HubError('bad_answer', `${repo} has too many files to list`);
      const link: { next: URL | null } = { next: null };
      const entries = await this.#json(next, repo, signal, link);
      if (!Array.isArray(entries)) throw new HubError('bad_answer', `${this.#base.host} lists no files of ${repo}`);
      for (const entry of entries as unknown[]) {
        const { type, path, size, oid, lfs } = objectIn(entry) as TreeEntry;
        if (type === 'file') found.push(this.#file(repo, path, lfs?.size ?? size, lfs?.oid ?? lfs?.sha256 ?? oid));
      }
      if (found.length > MAX_FILES) throw new HubError('bad_answer', `${repo} has too many files to list`);
      next = link.next;
    }
    return found;
  }

  async #siblings(repo: string, commit: string, signal: AbortSignal | undefined): Promise<HubFile[]> {
    const { siblings } = objectIn(
      await this.#json(`api/models/${repo}/revision/${commit}?blobs=true`, repo, signal),
    ) as { siblings?: unknown };
    if (!Array.isArray(siblings) || siblings.length > MAX_FILES)
      throw new HubError('bad_answer', `${this.#base.host} lists no files of ${repo}`);
    const found: HubFile[] = [];
    const unsized: string[] = [];
    for (const sibling of siblings as unknown[]) {
      const { rfilename, size, blobId, lfs } = objectIn(sibling) as Sibling;
      const bytes = lfs?.size ?? size;
      const hash = lfs?.sha256 ?? blobId;
      const path = this.#path(repo, rfilename);
      if (typeof bytes === 'number' && typeof hash === 'string') found.push(this.#file(repo, path, bytes, hash));
      else if (isServed(path)) unsized.push(path);
    }
    // A mirror may list only names. Each size then takes a separate request, so only the sizes of servable files are
    // requested.
    const sized = await mapLimited(unsized, MAX_HEADS, (path, stopped) =>
      this.#head(repo, commit, path, signal === undefined ? stopped : AbortSignal.any([signal, stopped])),
    );
    return [...found, ...sized];
  }

  /** A file's size and hash, from the headers of its own URL. Throws HubError. */
  async #head(repo: string, commit: string, path: string, signal: AbortSignal): Promise<HubFile> {
    const seen: { linked?: Headers } = {};
    const { response, stall } = await this.#asked(this.#resolve(repo, commit, path), `${path} of ${repo}`, {
      method: 'HEAD',
      headers: { 'accept-encoding': 'identity' },
      signal,
      seen,
    });
    stall.stop();
    const header = (name: string): string | null => seen.linked?.get(name) ?? response.headers.get(name);
    const etag = (header('x-linked-etag') ?? response.headers.get('etag') ?? '').replace(/^W\//, '').replace(/"/g, '');
    return this.#file(
      repo,
      path,
      Number(header('x-linked-size') ?? response.headers.get('content-length') ?? NaN),
      etag,
    );
  }

  /** Checks a listed file name. Throws HubError if it cannot be a path in the cache. */
  #path(repo: string, path: unknown): string {
    if (typeof path !== 'string' || !isSafePath(path))
      throw new HubError(
        'bad_answer',
        `${repo} lists a file with an invalid name: ${printable(JSON.stringify(path) ?? '')}`,
      );
    return path;
  }

  #file(repo: string, listed: unknown, bytes: unknown, hash: unknown): HubFile {
    const path = this.#path(repo, listed);
    if (typeof bytes !== 'number' || !Number.isSafeInteger(bytes) || bytes < 0)
      throw new HubError('bad_answer', `${this.#base.host} does not report the size of ${printable(path)} of ${repo}`);
    if (typeof hash !== 'string' || !HASH.test(hash))
      throw new HubError(
        'bad_answer',
        `${this.#base.host} does not report a hash of ${printable(path)} of ${repo}, so the file could not be verified`,
      );
    return { path, bytes, hash };
  }

  async #json(
    at: string | URL,
    what: string,
    signal: AbortSignal | undefined,
    link?: { next: URL | null },
  ): Promise<unknown> {
    const url = at instanceof URL ? at : new URL(at, this.#base);
    for (let attempt = 1; ; attempt++) {
      const { response, stall } = await this.#asked(url, what, { headers: { accept: 'application/json' }, signal });
      try {
        const chunks: Uint8Array[] = [];
        let size = 0;
        for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
          stall.tick();
          chunks.push(chunk);
          size += chunk.length;
          if (size > MAX_JSON_BYTES)
            throw new HubError('bad_answer', `the response of ${this.#base.host} about ${what} is too long`);
        }
        if (link !== undefined) link.next = this.#nextPage(response, url);
        return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown;
      } catch (error) {
        if (error instanceof HubError) throw error;
        if (signal?.aborted === true) throw cancelled(error);
        if (error instanceof SyntaxError)
          throw new HubError(
            'bad_answer',
            `${this.#base.host} returned invalid JSON for ${what}; check that it is a hub's address`,
            error,
          );
        const failure = this.#unreachable(error);
        if (attempt === MAX_ATTEMPTS) throw failure;
        await this.pause(attempt, failure.message, signal);
      } finally {
        stall.stop();
      }
    }
  }

  /** Only URLs with the same origin are followed, because the request contains the token. */
  #nextPage(response: Response, from: URL): URL | null {
    const [, target] = /<([^>]+)>\s*;\s*rel="?next"?/.exec(response.headers.get('link') ?? '') ?? [];
    if (target === undefined || !URL.canParse(target, from.href)) return null;
    const next = new URL(target, from);
    return next.origin === this.#base.origin ? next : null;
  }

  /** A successful response, after redirects and retries. Throws HubError. */
  async #asked(
    url: URL,
    what: string,
    options: {
      method?: string;
      headers: Record<string, string>;
      signal?: AbortSignal | undefined;
      alsoFine?: readonly number[];
      seen?: { linked?: Headers };
    },
  ): Promise<HubAnswer> {
    if (this.options.offline === true)
      throw new HubError('offline', `${what} is not in the cache and cannot be downloaded, because hub.offline is set`);
    for (let attempt = 1; ; attempt++) {
      const stall = new StallClock(this.#stallMs, options.signal);
      let response: Response;
      try {
        response = await this.#followed(url, options, stall.signal);
      } catch (error) {
        stall.stop();
        if (options.signal?.aborted === true) throw cancelled(error);
        if (error instanceof HubError) throw error;
        const failure = this.#unreachable(error);
        if (attempt >= this.#attemptsAfter(error)) throw failure;
        await this.pause(attempt, failure.message, options.signal);
        continue;
      }
      if (response.ok || options.alsoFine?.includes(response.status) === true) {
        stall.tick();
        return { response, stall };
      }
      stall.stop();
      await response.body?.cancel().catch(() => undefined);
      const again = response.status === 429 || response.status >= 500;
      if (!again || attempt === MAX_ATTEMPTS) throw this.#refused(response, what);
      await this.pause(
        attempt,
        `${url.host} returned status ${response.status}`,
        options.signal,
        retryAfterMs(response),
      );
    }
  }

  async #followed(
    first: URL,
    {
      method = 'GET',
      headers,
      seen,
    }: { method?: string; headers: Record<string, string>; seen?: { linked?: Headers } },
    signal: AbortSignal,
  ): Promise<Response> {
    let url = first;
    for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
      const own = url.origin === this.#base.origin;
      let response: Response;
      try {
        response = await fetch(url, {
          method,
          signal,
          redirect: 'manual',
          headers: {
            ...headers,
            'user-agent': `monolith/${VERSION}`,
            ...(own && this.options.token !== null ? { authorization: `Bearer ${this.options.token}` } : {}),
          },
        });
      } catch (error) {
        throw new HostFailure(url.origin, signal.aborted ? signal.reason : error);
      }
      this.#answered.add(url.origin);
      if (![301, 302, 303, 307, 308].includes(response.status)) return response;
      await response.body?.cancel().catch(() => undefined);
      if (seen !== undefined && response.headers.has('x-linked-etag')) seen.linked = response.headers;
      const location = response.headers.get('location') ?? '';
      if (!URL.canParse(location, url.href))
        throw new HubError('bad_answer', `${url.host} redirects without a valid address`);
      const next = new URL(location, url);
      if (next.protocol !== 'https:' && (next.protocol !== 'http:' || url.protocol === 'https:'))
        throw new HubError('bad_answer', `${url.host} redirects to ${next.protocol}//, which is not followed`);
      url = next;
    }
    throw new HubError('bad_answer', `${first.host} redirects too often`);
  }

  #unreachable(error: unknown): HubError {
    const { origin, message } = error instanceof HostFailure ? error : new HostFailure(this.#base.origin, error);
    return new HubError('unreachable', `${origin} cannot be reached: ${message}`, error);
  }

  /** The number of attempts for a request that has failed with `error`. */
  #attemptsAfter(error: unknown): number {
    return error instanceof HostFailure && !this.#answered.has(error.origin)
      ? error.attempts(MAX_ATTEMPTS)
      : MAX_ATTEMPTS;
  }

  #refused(response: Response, what: string): HubError {
    const { status } = response;
    const code = response.headers.get('x-error-code') ?? '';
    const said = printable(response.headers.get('x-error-message') ?? '');
    const token =
      this.options.token === null ? 'a token is required (hub.token, or HF_TOKEN)' : 'the token does not grant access';
    if (code === 'GatedRepo' || (status === 403 && code === ''))
      return new HubError('not_allowed', `${what} is gated: accept its terms on ${this.#base.host} first; ${token}`);
    if (status === 401)
      return new HubError(
        code === 'RepoNotFound' ? 'not_found' : 'not_allowed',
        `${what}: no such repository on ${this.#base.host}, or it is private: ${token}`,
      );
    if (status === 403)
      return new HubError(
        'not_allowed',
        `${what}: access denied by ${this.#base.host} (${said === '' ? status : said}); ${token}`,
      );
    if (status === 404) {
      const thing =
        code === 'RevisionNotFound'
          ? 'no such revision'
          : code === 'EntryNotFound'
            ? 'no such file'
            : 'no such repository';
      return new HubError('not_found', `${what}: ${this.#base.host} has ${thing}`);
    }
    if (status === 429)
      return new HubError(
        'too_many_requests',
        `${this.#base.host} limits the request rate; try again later${this.options.token === null ? ', or set a token (hub.token, or HF_TOKEN)' : ''}`,
      );
    return new HubError(
      'bad_answer',
      `${what}: ${this.#base.host} returned status ${status}${said === '' ? '' : ` (${said})`}`,
    );
  }
}

/** A hub may return any JSON value. */
const objectIn = (value: unknown): object => (typeof value === 'object' && value !== null ? value : {});

export function cancelled(cause?: unknown): HubError {
  return new HubError('cancelled', 'the download was stopped; the next one resumes it', cause);
}

/** The delay in the Retry-After header, which is in seconds or a date; 0 if it is absent or invalid. */
function retryAfterMs(response: Response): number {
  const text = response.headers.get('retry-after') ?? '';
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now());
}

/**
 * Returns the results of `map` in the order of `items`, with at most `limit` calls running. After the first failure, no
 * further calls start, `signal` is aborted for the running ones, and the returned promise rejects with that failure
 * once they have settled.
 */
async function mapLimited<T, R>(
  items: readonly T[],
  limit: number,
  map: (item: T, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array<R>(items.length);
  const controller = new AbortController();
  let next = 0;
  let failure: { error: unknown } | undefined;
  const run = async (): Promise<void> => {
    while (failure === undefined && next < items.length) {
      const index = next++;
      try {
        results[index] = await map(items[index] as T, controller.signal);
      } catch (error) {
        failure ??= { error };
        controller.abort(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, run));
  if (failure !== undefined) throw failure.error;
  return results;
}
