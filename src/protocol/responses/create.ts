// POST /v1/responses: one request from parsed body to last byte. Event-loop thread only.
//
//   shape, seals ─► chain ─► model ─► content ─► turn (turn.ts) ─► answer
//   400             404      404/403  422        422, 429, 503     200 …
import type { ApiError } from '../../errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { EventStream, Exchange, Route, StreamEvent } from '../../http/exchange.js';
import { findModel } from '../admit.js';
import { annotateEndUser, callerOf, type Caller } from '../caller.js';
import { headerList, nameIgnored } from '../ignored.js';
import { answerBackground } from './background.js';
import { eventDialect } from './encode-dialect.js';
import type { EventDialect } from './encode-items.js';
import { NOTHING_BEFORE, findChain, modelOf, readContent } from './input-chain.js';
import { createAhead, parseCreate, type CreateGeneration } from './parse.js';
import type { ResponsesDeps } from './deps.js';
import { startTurn, type TurnOptions } from './turn.js';

const PATH = '/v1/responses';
const DONE = '[DONE]';

export function createRoute(deps: ResponsesDeps): Route {
  return {
    method: 'POST', path: PATH, scope: 'inference', checksScope: true, generates: true, ahead: createAhead,
    async serve(exchange) {
      const { dialect, caller, model, created } = await read(deps, exchange);
      exchange.annotate({ stream: created.stream, background: created.background });
      annotateEndUser(exchange, created.endUser);
      if (created.background) {
        const run = await deps.background.start(deps, caller, model, created, dialect);
        if (run !== null) answerBackground(exchange, run, created.stream, dialect);
        return;
      }
      const start = (options: Omit<TurnOptions, 'dialect' | 'errorEvents'>) => startTurn(deps, caller, model, created, { ...options, dialect, errorEvents: true, hold: (bytes) => exchange.hold(bytes) });
      await (created.stream ? streamed(exchange, start) : whole(exchange, start));
    },
  };
}

/** Its own function, so that nothing of the body lives on while the answer is generated. */
async function read(deps: ResponsesDeps, exchange: Exchange): Promise<{ dialect: EventDialect; caller: Caller; model: ServedModel; created: CreateGeneration }> {
  const { organizationId } = exchange.identity;
  const parsed = parseCreate(exchange.body, { organizationId, sealer: deps.sealer });
  const dialect = eventDialect(deps.settings, (name) => exchange.header(name));
  const caller = callerOf(exchange, PATH, 'chat');
  const continued = parsed.previousId === null ? NOTHING_BEFORE : await findChain(deps.responses, organizationId, parsed.previousId);
  const { model, created } = await readContent(parsed, continued, {
    organizationId, responses: deps.responses, charged: (work) => exchange.charged(exchange.bodyBytes, work),
    findModel: (chain) => findModel(deps, caller, modelOf(parsed.model, chain)),
  });
  nameLeftOut(created, (name, value) => exchange.setHeader(name, value));
  return { dialect, caller, model, created };
}

type Start = (options: Omit<TurnOptions, 'dialect' | 'errorEvents'>) => ReturnType<typeof startTurn>;

/** Headers that name what the request has and this format leaves out. */
export function nameLeftOut(created: Pick<CreateGeneration, 'ignored' | 'ignoredTools'>, setHeader: (name: string, value: string) => void): void {
  nameIgnored(created.ignored, setHeader);
  if (created.ignoredTools.length > 0) setHeader('x-ignored-tools', headerList(created.ignoredTools).replaceAll(', ', ','));
}

async function whole(exchange: Exchange, start: Start): Promise<void> {
  const turn = await start({ take: null });
  if (turn === null) return;
  exchange.onAborted(() => void turn.cancel());
  const { record, error } = await turn.done;
  if (error === null) exchange.json(200, record.resource);
  else exchange.fail(error);
}

async function streamed(exchange: Exchange, start: Start): Promise<void> {
  let stream: EventStream | null = null;
  const turn = await start({
    take: ({ data, type }) => stream?.send(data, type),
    sent: () => stream?.started === true,
  });
  if (turn === null) return;
  exchange.onAborted(() => void turn.cancel());
  // The stream opens only now: a refusal by startTurn() must still be a plain error status.
  stream = exchange.sse(lateFailure);
  const { error, announced } = await turn.done;
  if (error !== null && !announced) {
    exchange.fail(error);
    return;
  }
  stream.send(DONE);
  stream.end(error);
}

/** A failure outside the turn while the stream is open: all that can be told without it. */
function* lateFailure({ type, code, message, param }: ApiError): Generator<StreamEvent> {
  yield { event: 'error', data: JSON.stringify({ type: 'error', sequence_number: 0, error: { type, code, message, param }, code, message, param }) };
  yield { data: DONE };
}
