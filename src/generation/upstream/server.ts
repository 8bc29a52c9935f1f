// One server that a model runs on: its connections, how much it has to do, and whether it is to be asked (a circuit breaker
// that goes by real requests). One per server and answering thread; what is counted is all threads' together. Event-loop
// thread only.
import { buildConnector, Pool } from 'undici';
import type { Config } from '../../config/settings.js';
import type { UpstreamServer } from '../../config/upstream.js';
import type { UpstreamMeter } from '../../telemetry/types.js';
import type { UpstreamApi } from './apis/api.js';
import { APIS } from './apis/all.js';
import { gate } from './gated-socket.js';
import { secretsIn } from './secrets.js';
import { sharedNow, type SharedRow } from './shared-counts.js';

export type UpstreamSettings = Config['upstream'];

/** Times in a row that it stays shut twice as long. */
const MAX_DOUBLINGS = 3;

export class Server {
  readonly pool: Pool;
  readonly api: UpstreamApi;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Never to be shown: keys and headers, what in them is a credential, and how that may be written. */
  readonly secrets: readonly string[];
  /** What stands for it in logs and metrics. */
  readonly name: string;
  #mine = 0; // under way, of this thread
  readonly #meter: UpstreamMeter;

  constructor(
    readonly settings: UpstreamServer,
    readonly model: string,
    private readonly limits: UpstreamSettings,
    private readonly row: SharedRow,
    meter: (labels: { model: string; server: string }) => UpstreamMeter,
  ) {
    const { origin, pathname, host } = new URL(settings.url);
    this.api = APIS[settings.api];
    this.path = `${pathname.replace(/\/+$/, '')}`;
    this.name = host;
    this.#meter = meter({ model, server: host });
    this.headers = { ...(settings.key === null ? {} : this.api.headers(settings.key)), ...settings.headers };
    this.secrets = secretsIn([...(settings.key === null ? [] : [settings.key]), ...Object.values(settings.headers)]);
    const connect = buildConnector({ timeout: limits.connect_ms });
    this.pool = new Pool(origin, {
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

  /** Under way, of all threads; and of this one. */
  get outstanding(): number {
    return this.row.underWay;
  }
  get mine(): number {
    return this.#mine;
  }

  /** Tokens of its context, as it has said; null: it has not. */
  get context(): number | null {
    return this.row.context || null;
  }
  set context(tokens: number | null) {
    this.row.context = tokens ?? 0;
  }

  /** Milliseconds before it may be asked; 0: now. */
  get shutForMs(): number {
    const { shutUntil } = this.row;
    if (shutUntil === 0) return 0;
    const left = shutUntil - sharedNow();
    return left > 0 ? left : this.row.trying ? 1 : 0;
  }

  /** A request is given to it; false: it is shut, and another tries already. */
  take(): boolean {
    if (this.row.shutUntil !== 0 && !this.row.tryIt()) return false;
    this.#mine++;
    this.row.enter();
    this.#meter.asked();
    return true;
  }

  /**
   * One that was given to it is over. `went`: well (its first token came), badly, or no matter how. `whose`: the organization whose
   * request it was that went badly, where the server did answer: so nobody's own requests alone shut it for all others.
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

  /** What it failed on, though it answered, another server has answered well: so it was not the request's doing, whosever it was. */
  blame(): 'shut' | null {
    return this.#failed(this.row.shutUntil);
  }

  #failed(before: number): 'shut' | null {
    if (this.row.failed() < this.limits.breaker_failures && before === 0) return null;
    // Of several that fail at once one shuts it.
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

/** Of those that may be asked, the one with the least to do for its weight; null: none may be. `tried` come last. */
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
