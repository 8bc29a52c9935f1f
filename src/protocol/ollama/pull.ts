// POST /api/pull: lets operators download a model and serve it under the requested name. All other callers get an error
// that says who may do this.
import type { EventStream, Exchange, Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import { nameIgnored } from '../ignored.js';
import { ineffectiveInOllama } from '../ineffective.js';
import { validated } from '../validation.js';
import { modelField } from './model-routes.js';
import { pullRequestSchema } from './schema.js';

/** State of one download. Every `state` except `running` is final. */
export interface PullProgress {
  readonly id: string;
  readonly state: 'running' | 'done' | 'failed' | 'stopped';
  readonly file: string | null;
  readonly bytes: number;
  readonly total_bytes: number | null;
  readonly error: string | null;
}

export interface OllamaPulls {
  /** Rejects with ApiError 403 unless the caller's key belongs to an operator. */
  check(exchange: Exchange): Promise<void>;
  /** Whether a model is already served under this name. */
  isServed(name: string): boolean;
  /** Starts a download of OWNER/REPO[:QUANTIZATION]. Throws ApiError 422 or 503. */
  start(model: string): PullProgress;
  /** Returns the download's current state, or null if the download is unknown. */
  progress(id: string): PullProgress | null;
  stop(id: string): void;
  /** Serves a downloaded model. Rejects with ApiError 422. */
  serve(name: string, model: string, address: string): Promise<void>;
}

/** Interval of progress lines. */
const PROGRESS_MS = 250;

/** Host names that Ollama's clients put before OWNER/REPO. */
const HUB_HOST = /^(?:hf\.co|huggingface\.co)\//;
const SCHEME = /^https?:\/\//;
const LATEST = /:latest$/;

export function pullRoute(pulls: OllamaPulls): Route {
  return {
    method: 'POST',
    path: '/api/pull',
    scope: null,
    async handler(exchange) {
      const { body } = exchange;
      await pulls.check(exchange);
      const fields = validated(pullRequestSchema, body);
      nameIgnored({ parameters: ineffectiveInOllama(pullRequestSchema, body as Record<string, unknown>) }, exchange);
      const asked = modelField(fields);
      const name = asked.replace(SCHEME, '').replace(LATEST, '');
      const model = name.replace(HUB_HOST, '');
      if (pulls.isServed(name)) return succeed(exchange, fields.stream !== false);
      if (!model.includes('/'))
        throw apiError(
          'model_not_found',
          `There is no model "${asked.slice(0, 128)}" on this server, and it does not download from Ollama's library. Name a model as OWNER/REPO or OWNER/REPO:QUANTIZATION.`,
          'model',
        );
      await new Pull(exchange, pulls, { name, model }).run(fields.stream !== false);
    },
  };
}

function succeed(exchange: Exchange, stream: boolean): void {
  if (!stream) return exchange.json(200, { status: 'success' });
  const lines = exchange.lines();
  lines.send(JSON.stringify({ status: 'success' }));
  lines.end();
}

class Pull {
  #lines: EventStream | null = null;

  constructor(
    private readonly exchange: Exchange,
    private readonly pulls: OllamaPulls,
    private readonly wanted: { readonly name: string; readonly model: string },
  ) {}

  /** Stops the download if the client disconnects; its files stay on disk, so the next pull resumes it. */
  async run(stream: boolean): Promise<void> {
    const { remoteAddress } = this.exchange;
    const { id } = this.pulls.start(this.wanted.model);
    this.exchange.onAborted(() => this.pulls.stop(id));
    if (stream) this.#lines = this.exchange.lines();
    this.#send({ status: 'pulling manifest' });
    const end = await this.#ended(id);
    if (this.exchange.aborted) return;
    if (end?.state !== 'done') throw apiError('hub_unavailable', end?.error ?? 'The download was stopped.', 'model');
    await this.pulls.serve(this.wanted.name, this.wanted.model, remoteAddress);
    this.#send({ status: 'success' });
    if (this.#lines === null) this.exchange.json(200, { status: 'success' });
    else this.#lines.end();
  }

  async #ended(id: string): Promise<PullProgress | null> {
    for (;;) {
      const at = this.pulls.progress(id);
      if (at === null || at.state !== 'running' || this.exchange.aborted) return at;
      if (at.total_bytes !== null) {
        const status = `pulling ${at.file ?? this.wanted.model}`;
        this.#send({ status, digest: '', total: at.total_bytes, completed: at.bytes });
      }
      await new Promise((resolve) => setTimeout(resolve, PROGRESS_MS));
    }
  }

  #send(line: object): void {
    this.#lines?.send(JSON.stringify(line));
  }
}
