// Downloads images that clients specify by URL, only from hosts that the operator allows and never from internal
// networks. Only https on port 443 is used. Each name is resolved once, all its addresses are checked, and only those
// addresses are connected to. Every redirect target goes through the same checks. Event-loop thread only.
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import type { LookupFunction } from 'node:net';
import { isIP } from 'node:net';
import { apiError, ApiError } from '../../shared/errors.js';
import { hostOf, isAllowedHost } from '../../shared/host-list.js';
import { resolveHost, type Address } from '../../shared/resolve-host.js';
import { VERSION } from '../../shared/version.js';
import { isPublicAddress } from '../../shared/public-address.js';

export type { Address };

export interface FetchSettings {
  maxBytes: number;
  timeoutMs: number;
  /** The allowed hosts: example.com for one host, *.example.com for all of its subdomains, * for any host. */
  allowedHosts: readonly string[];
}

/** Tests replace these functions, because they cannot use public addresses. */
export interface FetchDeps {
  /** Returns no addresses if the name does not exist. */
  resolve(host: string, signal: AbortSignal): Promise<readonly Address[]>;
  /** Maps a checked address to the address to connect to. */
  dial(address: Address): Address & { port: number };
  ca: string | undefined;
}

const WORLD: FetchDeps = {
  resolve: resolveHost,
  dial: (address) => ({ ...address, port: HTTPS_PORT }),
  ca: undefined,
};

const HTTPS_PORT = 443;
const MAX_REDIRECTS = 3;
const MAX_URL = 8_192;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

export class ImageFetcher {
  readonly #deps: FetchDeps;

  constructor(
    private readonly settings: FetchSettings,
    deps: Partial<FetchDeps> = {},
  ) {
    this.#deps = { ...WORLD, ...deps };
  }

  /**
   * Returns the bytes without checking their format. Throws ApiError image_fetch_failed or image_too_large, or the
   * abort reason if `signal` is aborted.
   */
  async fetch(url: string, path: string, signal: AbortSignal): Promise<Buffer> {
    const refuse = (why: string): never => {
      throw apiError('image_fetch_failed', `${path}: ${why}.`, path);
    };
    const deadline = AbortSignal.timeout(this.settings.timeoutMs);
    const either = AbortSignal.any([signal, deadline]);
    try {
      let at = this.#checked(url, refuse);
      for (let redirects = 0; ; redirects++) {
        const addresses = await this.#addresses(at, refuse, either);
        const next = await unlessAborted(this.#get(at, addresses, path, either, refuse), either);
        if (typeof next !== 'string') return next;
        if (redirects === MAX_REDIRECTS) refuse(`the image URL redirects more than ${MAX_REDIRECTS} times`);
        at = this.#checked(next, refuse, at);
      }
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (signal.aborted) throw signal.reason;
      if (deadline.aborted) return refuse(`the image could not be downloaded within ${this.settings.timeoutMs} ms`);
      // The error must not reveal which host responded, what it responded, or its address.
      throw apiError('image_fetch_failed', `${path}: the image could not be downloaded.`, path, { cause: error });
    }
  }

  #checked(text: string, refuse: (why: string) => never, base?: URL): URL {
    if (text.length > MAX_URL) refuse(`image URLs may have at most ${MAX_URL} characters`);
    if (!URL.canParse(text, base?.href)) refuse('image URLs must be absolute https: or data: URLs');
    const url = new URL(text, base);
    if (url.protocol !== 'https:') refuse('image URLs must use https');
    if (url.username !== '' || url.password !== '') refuse('image URLs must not contain a user name or password');
    if (url.port !== '') refuse(`image URLs must use port ${HTTPS_PORT}`);
    if (!isAllowedHost(hostOf(url), this.settings.allowedHosts))
      refuse('images from this host are not allowed; send the image as a data: URL');
    return url;
  }

  async #addresses(url: URL, refuse: (why: string) => never, signal: AbortSignal): Promise<readonly Address[]> {
    const host = hostOf(url);
    const family = isIP(host);
    const addresses =
      family === 0 ? await unlessAborted(this.#deps.resolve(host, signal), signal) : [{ address: host, family }];
    // A single internal address is enough to reject the host, because legitimate names do not resolve to both kinds of
    // addresses. The error does not reveal whether an internal name exists.
    if (addresses.length === 0 || !addresses.every(({ address }) => isPublicAddress(address)))
      refuse('the image host has no public address');
    return addresses;
  }

  /** Returns the body, or the target of a redirect. */
  #get(
    url: URL,
    addresses: readonly Address[],
    path: string,
    signal: AbortSignal,
    refuse: (why: string) => never,
  ): Promise<Buffer | string> {
    const targets = addresses.map((address) => this.#deps.dial(address));
    const { port, ...first } = targets[0]!;
    const pinned: LookupFunction = (_host, options, callback) => {
      if (options.all === true)
        callback(
          null,
          targets.map(({ address, family }) => ({ address, family })),
        );
      else callback(null, first.address, first.family);
    };
    const name = hostOf(url);
    const isName = isIP(name) === 0;
    return new Promise((resolve, reject) => {
      const agent = new Agent({ keepAlive: false, maxSockets: 1 });
      const fail = (error: unknown): void => {
        reject(error as Error);
        agent.destroy();
      };
      const sent = request({
        agent,
        signal,
        port,
        method: 'GET',
        path: `${url.pathname}${url.search}`,
        // The checked address is used without resolving the name again, but the certificate must match the host name in
        // the URL.
        host: isName ? name : first.address,
        ...(isName ? { servername: name } : {}),
        lookup: pinned,
        headers: {
          host: url.host,
          accept: 'image/png, image/jpeg, image/webp, image/gif',
          'accept-encoding': 'identity',
          'user-agent': `monolith/${VERSION}`,
        },
        maxHeaderSize: 16_384,
        ...(this.#deps.ca === undefined ? {} : { ca: this.#deps.ca }),
      });
      sent.on('error', fail);
      // If the response has status 101, Node.js emits neither a response event nor an error event, and nothing else
      // closes the socket.
      sent.on('upgrade', (_response, socket) => {
        socket.destroy();
        fail(new Error('the server switched protocols'));
      });
      sent.on('response', (response) => {
        response.on('error', fail);
        try {
          const location = redirectOf(response, refuse);
          if (location === null) {
            this.#read(response, path, resolve, fail);
          } else {
            resolve(location);
            sent.destroy();
          }
        } catch (error) {
          fail(error);
          sent.destroy();
        }
      });
      sent.end();
    });
  }

  #read(
    response: IncomingMessage,
    path: string,
    resolve: (bytes: Buffer) => void,
    fail: (error: unknown) => void,
  ): void {
    const { maxBytes } = this.settings;
    const tooLarge = (): void => {
      fail(apiError('image_too_large', `${path}: the image is larger than ${maxBytes} bytes.`, path));
      response.destroy();
    };
    if (Number(response.headers['content-length'] ?? 0) > maxBytes) return tooLarge();
    const parts: Buffer[] = [];
    let size = 0;
    response.on('data', (part: Buffer) => {
      size += part.length;
      if (size > maxBytes) tooLarge();
      else parts.push(part);
    });
    response.on('end', () => resolve(Buffer.concat(parts, size)));
    // 'end' is emitted before 'close', and not at all if the connection was cut.
    response.on('close', () => fail(new Error('the connection was closed during the download')));
  }
}

/** Returns the target of a redirect, or null if the response is the image. */
function redirectOf(response: IncomingMessage, refuse: (why: string) => never): string | null {
  const { statusCode: status = 0, headers } = response;
  if (REDIRECTS.has(status)) return headers.location ?? refuse('the image host sent a redirect without a target');
  if (status !== 200) refuse(`the image host responded with status ${status}`);
  if ((headers['content-encoding'] ?? 'identity') !== 'identity')
    refuse('the image host sent an unexpected content encoding');
  return null;
}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
