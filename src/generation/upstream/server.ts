// One upstream server of a model: its connections, its load, and a circuit breaker driven by real requests. One
// instance per server and HTTP worker; the counters are shared by all threads. Event-loop thread only.
import { createRequire } from 'node:module';
import type { Pool } from 'undici';
import type { Config } from '../../config/settings.js';
import type { UpstreamServer } from '../../config/upstream.js';
import type { UpstreamMeter } from '../../telemetry/types.js';
import type { UpstreamApi } from './apis/api.js';
import { APIS } from './apis/all.js';
import { secretsIn } from './secrets.js';
import { sharedNow, type SharedRow } from './shared-counts.js';
import type { Socket } from 'node:net';
import { mayReadNow } from './slices.js';

const require = createRequire(import.meta.url);

export type UpstreamSettings = Config['upstream'];

/**
 * If a server is taken out of rotation repeatedly, each period is twice as long as the previous one, up to this many
 * doublings.
 */
const MAX_DOUBLINGS = 3;

export class Server {
  readonly pool: Pool;
  readonly api: UpstreamApi;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The strings that must never be shown: keys, header values, credentials within them, and all of their encodings. */
  readonly secrets: readonly string[];
  /** The server's name in logs and metrics. */
  readonly name: string;
  /** See upstreamIds(). */
  readonly id: string;
  readonly model: string;
  /**
   * False once the server has rejected a request for encrypted reasoning, which servers do for models without
   * reasoning.
   */
  encryptsReasoning = true;
  #mine = 0; // running requests of this thread
  readonly #meter: UpstreamMeter;

  constructor(
    readonly settings: UpstreamServer,
    { id, model }: { id: string; model: string },
    private readonly limits: UpstreamSettings,
    private readonly row: SharedRow,
    meter: (labels: { model: string; server: string }) => UpstreamMeter,
  ) {
    const { origin, pathname, host } = new URL(settings.url);
    this.id = id;
    this.model = model;
    this.api = APIS[settings.api];
    this.path = `${pathname.replace(/\/+$/, '')}`;
    this.name = host;
    this.#meter = meter({ model, server: host });
    this.headers = { ...(settings.key === null ? {} : this.api.headers(settings.key)), ...settings.headers };
    this.secrets = secretsIn([...(settings.key === null ? [] : [settings.key]), ...Object.values(settings.headers)]);
    // The HTTP client is loaded on demand, because most servers run only local models.
    const undici = require('undici') as typeof import('undici');
    const connect = undici.buildConnector({ timeout: limits.connect_ms });
    this.pool = new undici.Pool(origin, {
      connect: (options, done) =>
        connect(options, (...result) => {
          if (result[0] === null) gate(result[1]);
          done(...result);
        }),
      headersTimeout: 0,
      bodyTimeout: 0,
      pipelining: 1,
      keepAliveTimeout: 4_000,
    });
  }

  /** Number of running requests: `outstanding` on all threads, `mine` on this thread. */
  get outstanding(): number {
    return this.row.underWay;
  }
  get mine(): number {
    return this.#mine;
  }

  /** The context size that the server reported, in tokens; null if not reported. */
  get context(): number | null {
    return this.row.context || null;
  }
  set context(tokens: number | null) {
    this.row.context = tokens ?? 0;
  }

  /** Milliseconds until the server may be used; 0 = now. */
  get shutForMs(): number {
    const { shutUntil } = this.row;
    if (shutUntil === 0) return 0;
    const left = shutUntil - sharedNow();
    return left > 0 ? left : this.row.trying ? 1 : 0;
  }

  /**
   * Assigns a request to the server. Returns false if the server is out of rotation and another request is already
   * testing it.
   */
  take(): boolean {
    if (this.row.shutUntil !== 0 && !this.row.tryIt()) return false;
    this.#mine++;
    this.row.enter();
    this.#meter.asked();
    return true;
  }

  /**
   * Records the outcome of an assigned request. `went`: 'well' if its first token arrived, 'badly' if the server
   * failed, otherwise 'neither'. `whose`: the organization whose request failed, if the server responded. It is
   * recorded so that a single organization's requests cannot take the server out of rotation for everyone.
   */
  release(went: 'well' | 'badly' | 'neither', whose: number | null = null): 'shut' | 'open' | null {
    this.#mine--;
    this.row.leave();
    this.#meter.over(went === 'well' ? 'answered' : went === 'badly' ? 'failed' : 'other');
    const before = this.row.shutUntil;
    if (went === 'well') {
      const wasShut = this.row.answered();
      this.row.tried();
      return wasShut ? 'open' : null;
    }
    try {
      return went === 'neither' || !this.row.failedFor(whose, sharedNow()) ? null : this.#failed(before);
    } finally {
      this.row.tried();
    }
  }

  /**
   * Called when another server succeeded with a request on which this server had responded but failed. The failure then
   * counts against this server.
   */
  blame(): 'shut' | null {
    return this.#failed(this.row.shutUntil);
  }

  #failed(before: number): 'shut' | null {
    if (this.row.failed() < this.limits.breaker_failures && before === 0) return null;
    // If several requests fail concurrently, only one of them takes the server out of rotation.
    if (before > sharedNow()) return null;
    const times = this.row.shutAgain();
    return this.row.shut(before, sharedNow() + this.limits.breaker_ms * 2 ** Math.min(times, MAX_DOUBLINGS)) &&
      before === 0
      ? 'shut'
      : null;
  }

  close(): Promise<void> {
    return this.pool.destroy();
  }
}

/** Returns the available server with the least load relative to its weight, or null. Servers in `tried` come last. */
export function leastBusy(servers: readonly Server[], tried: ReadonlySet<Server>, turn: number): Server | null {
  let best: Server | null = null,
    least = Infinity;
  for (let i = 0; i < servers.length; i++) {
    const server = servers[(i + turn) % servers.length] as Server;
    if (server.shutForMs > 0) continue;
    const load = (server.outstanding + 1) / server.settings.weight + (tried.has(server) ? 1e9 : 0);
    if (load < least) [best, least] = [server, load];
  }
  return best;
}

/** Callbacks of the sockets whose reads were deferred, in order. */
let refused: (() => void)[] = [];

/**
 * Backpressure for upstream connections. When this event-loop turn has no time left for upstream responses (slices.ts),
 * `socket.read()` returns null, and 'readable' is emitted again as soon as there is time. Unread data stays in the
 * kernel, which slows down the sender. undici's own way of pausing a response is not used, because it fails an
 * assertion if the connection is reset in the meantime.
 */
function gate(socket: Socket): void {
  const read = socket.read.bind(socket);
  let isRefused = false;
  const readAgain = (): void => {
    isRefused = false;
    if (!socket.destroyed) socket.emit('readable');
  };
  socket.read = (size?: number): unknown => {
    if (size === 0 || mayReadNow()) return read(size);
    if (!isRefused) {
      isRefused = true;
      if (refused.push(readAgain) === 1) setImmediate(readRefused);
    }
    return null;
  };
}

function readRefused(): void {
  const again = refused;
  refused = [];
  // Sockets for which no time is left in this turn are deferred again.
  for (const readAgain of again) readAgain();
}
