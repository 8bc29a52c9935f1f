// One server that a model runs on: its connections, how much it has to do, and whether it is to be asked (a circuit breaker
// that goes by real requests). One per server and answering thread. Event-loop thread only.
import { Pool } from 'undici';
import type { Config } from '../../config/settings.js';
import type { UpstreamServer } from '../../config/upstream.js';
import type { UpstreamMeter } from '../../telemetry/types.js';
import type { UpstreamApi } from './apis/api.js';
import { APIS } from './apis/all.js';

export type UpstreamSettings = Config['upstream'];

/** Times in a row that it stays shut twice as long. */
const MAX_DOUBLINGS = 3;

export class Server {
  readonly pool: Pool;
  readonly api: UpstreamApi;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Never to be shown. */
  readonly secrets: readonly string[];
  /** What stands for it in logs and metrics. */
  readonly name: string;
  outstanding = 0;
  #failures = 0;                   // in a row
  #shut = 0;                       // times in a row
  #shutUntil = 0;
  #trying = false;
  readonly #meter: UpstreamMeter;

  constructor(readonly settings: UpstreamServer, model: string, private readonly limits: UpstreamSettings, meter: (labels: { model: string; server: string }) => UpstreamMeter, private readonly now: () => number = () => performance.now()) {
    const { origin, pathname, host } = new URL(settings.url);
    this.api = APIS[settings.api];
    this.path = `${pathname.replace(/\/+$/, '')}`;
    this.name = host;
    this.#meter = meter({ model, server: host });
    this.headers = { ...(settings.key === null ? {} : this.api.headers(settings.key)), ...settings.headers };
    this.secrets = [...(settings.key === null ? [] : [settings.key]), ...Object.values(settings.headers)];
    this.pool = new Pool(origin, { connect: { timeout: limits.connect_ms }, headersTimeout: 0, bodyTimeout: 0, pipelining: 1, keepAliveTimeout: 4_000 });
  }

  /** Milliseconds before it may be asked; 0: now. */
  get shutForMs(): number {
    if (this.#shutUntil === 0) return 0;
    const left = this.#shutUntil - this.now();
    return left > 0 ? left : this.#trying ? 1 : 0;
  }

  /** A request is given to it. */
  take(): void {
    this.outstanding++;
    this.#meter.asked();
    if (this.#shutUntil !== 0) this.#trying = true;
  }

  /** One that was given to it is over. `went`: well (its first token came), badly, or no matter how. */
  release(went: 'well' | 'badly' | 'neither'): 'shut' | 'open' | null {
    this.outstanding--;
    this.#meter.over(went === 'well' ? 'answered' : went === 'badly' ? 'failed' : 'other');
    const wasShut = this.#shutUntil !== 0;
    if (went === 'well') {
      this.#failures = this.#shut = this.#shutUntil = 0;
      this.#trying = false;
      return wasShut ? 'open' : null;
    }
    if (wasShut) this.#trying = false;
    if (went === 'neither') return null;
    if (++this.#failures < this.limits.breaker_failures && !wasShut) return null;
    this.#shutUntil = this.now() + this.limits.breaker_ms * 2 ** Math.min(this.#shut++, MAX_DOUBLINGS);
    return wasShut ? null : 'shut';
  }

  close(): Promise<void> {
    return this.pool.destroy();
  }
}

/** Of those that may be asked, the one with the least to do for its weight; null: none may be. `tried` come last. */
export function leastBusy(servers: readonly Server[], tried: ReadonlySet<Server>, turn: number): Server | null {
  let best: Server | null = null, least = Infinity;
  for (let i = 0; i < servers.length; i++) {
    const server = servers[(i + turn) % servers.length] as Server;
    if (server.shutForMs > 0) continue;
    const load = (server.outstanding + 1) / server.settings.weight + (tried.has(server) ? 1e9 : 0);
    if (load < least) [best, least] = [server, load];
  }
  return best;
}
