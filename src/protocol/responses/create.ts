// POST /v1/responses: handles a request from the parsed body to the last byte. Event-loop thread only.
//
//   shape, seals ─► chain ─► model ─► content ─► turn (response-run.ts) ─► response
//   400             404      404/403  422        422, 429, 503     200 …
import type { ApiError } from '../../shared/errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import { LARGE_ANSWER_BYTES } from '../../http/response-memory-budget.js';
import type { EventStream, Exchange, Route, StreamEvent } from '../../http/exchange.js';
import { findModel } from '../admit.js';
import { annotateModel, annotateEndUser, callerOf, type Caller } from '../caller.js';
import { nameLeftOut } from '../foreign-thinking.js';
import { nameIgnored, type Named } from '../ignored.js';
import { answerBackground, type BackgroundResponses, type BackgroundRun } from './background.js';
import { eventDialect, type DialectSettings } from './encode-dialect.js';
import type { EventDialect } from './encode-items.js';
import { findBefore, modelOf, readContent } from './input-chain.js';
import { validateCreateInSlices, parseCreate, type CreateGeneration } from './parse.js';
import { startResponseRun, type ResponseRun, type ResponseRunDeps, type ResponseRunOptions } from './response-run.js';

const PATH = '/v1/responses';
const DONE = '[DONE]';

export interface CreateDeps extends ResponseRunDeps {
  background: Pick<BackgroundResponses, 'start'>;
  settings: DialectSettings & ResponseRunDeps['settings'];
}

export function createRoute(deps: CreateDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'inference',
    checksScope: true,
    generates: true,
    validateInSlices: validateCreateInSlices,
    async handler(exchange) {
      const started = await begin(deps, exchange);
      if (started === null) return;
      if ('run' in started) answerBackground(exchange, started.run, started.stream, started.dialect, deps.generations);
      else await (started.out === null ? whole(exchange, started.turn) : streamed(exchange, started.turn, started.out));
    },
  };
}

/** The stream that receives the events. It is opened only after the turn has started. */
interface Out {
  stream: EventStream | null;
}

type Begun = { run: BackgroundRun; stream: boolean; dialect: EventDialect } | { turn: ResponseRun; out: Out | null };

/**
 * A separate function, so that the conversation can be garbage-collected during generation. Returns null if the client
 * disconnected.
 */
async function begin(deps: CreateDeps, exchange: Exchange): Promise<Begun | null> {
  const { dialect, caller, model, created } = await read(deps, exchange);
  const { stream } = created;
  exchange.annotate({ stream, background: created.background });
  annotateEndUser(exchange, created.endUser);
  if (created.background) {
    const run = await deps.background.start(deps, caller, model, created, { dialect, kept: exchange.keeping() });
    return run === null ? null : { run, stream, dialect };
  }
  if (created.store && exchange.bodyBytes >= LARGE_ANSWER_BYTES) holdInput(exchange, created);
  const out: Out | null = stream ? { stream: null } : null;
  const turn = await startResponseRun(deps, caller, model, created, {
    dialect,
    errorEvents: true,
    hold: (bytes) => exchange.reserve(bytes),
    ...into(out),
    // The stream is opened before the response is admitted, so that keep-alives are sent while the summary is written.
    ...(out === null ? {} : { onCompacting: () => (out.stream = exchange.sse(lateFailure)) }),
  });
  return turn === null ? null : { turn, out };
}

/** Reserves memory for the input, which is kept until the response is stored. Throws ApiError 503. */
function holdInput(exchange: Exchange, { release }: Pick<CreateGeneration, 'release'>): void {
  try {
    exchange.reserve(exchange.bodyBytes);
  } catch (error) {
    release();
    throw error;
  }
}

function into(out: Out | null): Pick<ResponseRunOptions, 'take' | 'sent'> {
  return out === null
    ? { take: null }
    : { take: ({ data, type }) => out.stream?.send(data, type), sent: () => out.stream?.started === true };
}

/** A separate function, so that the body can be garbage-collected during generation. */
async function read(
  deps: CreateDeps,
  exchange: Exchange,
): Promise<{ dialect: EventDialect; caller: Caller; model: ServedModel; created: CreateGeneration }> {
  const { organizationId } = exchange.identity;
  annotateModel(exchange, exchange.body);
  const parsed = parseCreate(exchange.body, { ...deps, organizationId });
  const dialect = eventDialect(deps.settings, (name) => exchange.header(name));
  const caller = callerOf(exchange, PATH, 'chat');
  const continued = await findBefore(exchange, deps, organizationId, parsed);
  const { model, created } = await readContent(parsed, continued, {
    organizationId,
    responses: deps.responses,
    charged: (work, size) => exchange.charged(exchange.bodyBytes + size, work),
    findModel: (chain) => findModel(deps, caller, modelOf(parsed.model, chain)),
  });
  nameIgnoredParts(created, exchange);
  nameLeftOut(caller, created.request.leftOut);
  return { dialect, caller, model, created };
}

export function nameIgnoredParts(
  { ignored, ignoredTools }: Pick<CreateGeneration, 'ignored' | 'ignoredTools'>,
  named: Named,
): void {
  nameIgnored({ parameters: ignored, tools: ignoredTools }, named);
}

async function whole(exchange: Exchange, turn: ResponseRun): Promise<void> {
  exchange.onAborted(() => void turn.cancel());
  const { record, error } = await turn.done;
  if (error === null) exchange.json(200, record.resource);
  else exchange.fail(error);
}

async function streamed(exchange: Exchange, turn: ResponseRun, out: Out): Promise<void> {
  exchange.onAborted(() => void turn.cancel());
  // The stream is opened only now, so that an error from startResponseRun() can still be sent with a normal HTTP
  // status.
  const stream = (out.stream = exchange.sse(lateFailure));
  const { error, announced } = await turn.done;
  if (error !== null && !announced) {
    exchange.fail(error);
    return;
  }
  stream.send(DONE);
  stream.end(error);
}

/**
 * Returns the event for an error that occurs outside the turn while the stream is open, when no response object is
 * available.
 */
function* lateFailure({ type, code, message, param }: ApiError): Generator<StreamEvent> {
  yield {
    event: 'error',
    data: JSON.stringify({
      type: 'error',
      sequence_number: 0,
      error: { type, code, message, param },
      code,
      message,
      param,
    }),
  };
  yield { data: DONE };
}
