// POST /infill: fills a gap in code, in llama-server's format, for editor plugins that use this format. The prompt is
// built as for a completions request with `suffix`. Event-loop thread only.
//
//   parse ─► model ─► admit (admit.ts) ─► events ─► encoder ─► response
//   400      404/403  422, 429, 503
import type { GenerationRequest } from '../../generation/types.js';
import { isHostedEvent } from '../../generation/hosted-tools/hosted-events.js';
import type { Exchange, EventStream, Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import { GrowingText } from '../../shared/growing-text.js';
import { admit, findModel, withAdmitted, type AdmittedGeneration, type GenerationDeps } from '../admit.js';
import { AnswerMemory } from '../answer-memory.js';
import { annotateModel, callerOf } from '../caller.js';
import { toSampling } from '../fields.js';
import { GenerationRun, type RunSink } from '../generation-run.js';
import { nameIgnored } from '../ignored.js';
import { ineffectiveInInfill } from '../ineffective.js';
import { refuseSamplers } from '../samplers.js';
import type { Usage } from '../usage.js';
import { validated } from '../validation.js';
import { InfillEncoder } from './encode.js';
import { infillSchema, type InfillFields } from './schema.js';

const PATH = '/infill';

export interface InfillDeps extends GenerationDeps {
  /** Names of all served models, including upstream models, without LoRA adapters. */
  names(): readonly string[];
}

export function infillRoute(deps: InfillDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'inference',
    checksScope: true,
    generates: true,
    async handler(exchange) {
      annotateModel(exchange, exchange.body);
      const fields = validated(infillSchema, exchange.body);
      const body = exchange.body as Readonly<Record<string, unknown>>;
      refuseSamplers(body);
      const caller = callerOf(exchange, PATH, 'chat');
      const name = fields.model ?? onlyModel(deps.names());
      annotateModel(exchange, { model: name });
      const model = findModel(deps, caller, name);
      nameIgnored({ parameters: ineffectiveInInfill(body) }, exchange);
      const admitted = await admit(deps, caller, model, toRequest(name, fields));
      if (admitted !== null) withAdmitted(admitted, () => answer(exchange, fields, admitted));
    },
  };
}

/**
 * llama-server serves one model, so its clients do not send `model`. Throws ApiError unless exactly one model is
 * served.
 */
function onlyModel(names: readonly string[]): string {
  const [name] = names;
  if (name === undefined || names.length > 1)
    throw apiError(
      'missing_required_parameter',
      `model is required, because this server serves ${names.length === 0 ? 'no model' : `${names.length} models`}.`,
      'model',
    );
  return name;
}

function toRequest(model: string, fields: InfillFields): GenerationRequest {
  const { n_predict: limit, stop, input_extra: extra } = fields;
  return {
    model,
    messages: [],
    raw: {
      kind: 'text',
      text: fields.input_prefix + (fields.prompt ?? ''),
      suffix: fields.input_suffix,
      suffixPath: 'input_suffix',
      addSpecial: true,
      path: 'input_prefix',
      files: (extra ?? []).map(({ filename, text }) => ({ name: filename ?? 'file', text })),
    },
    continueFinal: false,
    sampling: toSampling({ ...fields, repetition_penalty: fields.repeat_penalty }),
    n: 1,
    maxTokens: limit == null || limit < 0 ? null : limit,
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    topLogprobs: null,
    effort: 'none',
    reasoningBudget: null,
    tools: [],
    toolChoice: { mode: 'none', allowed: null },
    parallelToolCalls: true,
    format: { type: 'text' },
    truncation: 'disabled',
    promptParam: 'input_prefix',
    ignoreEos: fields.ignore_eos === true,
    ...(fields.return_tokens === true ? { returnTokens: true } : {}),
  };
}

function answer(exchange: Exchange, fields: InfillFields, admitted: AdmittedGeneration): void {
  const streams = fields.stream === true;
  exchange.annotate({ stream: streams });
  const sink = new InfillAnswer(exchange, new InfillEncoder(admitted.asked, fields.return_tokens === true), streams);
  const run = new GenerationRun(admitted, sink, streams);
  exchange.onAborted(() => run.cancel());
  run.start();
  // The stream is opened after start(), so that an error from start() can still be sent with its HTTP status.
  if (streams && !run.ended) sink.open();
}

class InfillAnswer implements RunSink {
  readonly #memory: AnswerMemory;
  readonly #text = new GrowingText();
  #stream: EventStream | null = null;

  constructor(
    private readonly exchange: Exchange,
    private readonly encoder: InfillEncoder,
    private readonly streams: boolean,
  ) {
    this.#memory = new AnswerMemory((bytes) => exchange.reserve(bytes));
  }

  open(): void {
    this.#stream = this.exchange.sse();
  }

  event(event: Parameters<RunSink['event']>[0]): void {
    if (isHostedEvent(event)) return;
    if (event.type === 'tokens') this.encoder.tokens(event.ids);
    else if (event.type === 'finished') this.encoder.finished(event);
    else if (event.type === 'text') {
      this.encoder.text(event.text);
      if (!this.streams) {
        this.#memory.take(event);
        this.#text.add(event.text);
      } else if (event.text !== '') this.#stream?.send(JSON.stringify(this.encoder.delta(event.text)));
    }
  }

  complete(usage: Usage): void {
    const end = this.encoder.end(this.#text.toString(), usage);
    if (!this.streams) return this.exchange.json(200, end);
    this.#stream?.send(JSON.stringify(end));
    this.#stream?.end();
  }

  failed(error: unknown): void {
    this.exchange.fail(error);
  }
}
