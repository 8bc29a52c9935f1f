// POST /v1/responses/input_tokens: counts a request's prompt tokens without generating. Event-loop thread only.
import type { ServedModel } from '../../generation/served-models.js';
import type { GenerationRequest } from '../../generation/types.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { ConversationStore } from '../../storage/conversation-store.js';
import type { ResponseStore } from '../../storage/response-store.js';
import { constraintFields } from '../constraints.js';
import { countPrompt, findModel, type PromptDeps } from '../admit.js';
import { annotateModel, callerOf, type Caller } from '../caller.js';
import { nameLeftOut, type ForeignThinking } from '../foreign-thinking.js';
import { pick } from './compact.js';
import { nameIgnoredParts } from './create.js';
import { findBefore, modelOf, readContent } from './input-chain.js';
import { validateCreateInSlices, parseCreate } from './parse.js';

const PATH = '/v1/responses/input_tokens';

/**
 * Fields that affect the prompt. `max_output_tokens` affects it if it leaves no room for reasoning, and because it
 * determines how much truncation drops.
 */
const FIELDS = [
  'model',
  'input',
  'previous_response_id',
  'conversation',
  'instructions',
  'tools',
  'tool_choice',
  'text',
  'reasoning',
  'chat_template_kwargs',
  ...Object.keys(constraintFields),
  'parallel_tool_calls',
  'truncation',
  'max_output_tokens',
];

export interface InputTokensDeps extends PromptDeps {
  sealer: Sealer;
  foreignThinking?: ForeignThinking | undefined;
  responses: ResponseStore;
  conversations: ConversationStore;
}

export function inputTokensRoute(deps: InputTokensDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'tokens.count',
    checksScope: true,
    validateInSlices: validateCreateInSlices,
    handler: (exchange) => serve(deps, exchange),
  };
}

async function serve(deps: InputTokensDeps, exchange: Exchange): Promise<void> {
  const { caller, model, request } = await read(deps, exchange);
  const tokens = await countPrompt(deps, caller, model, request);
  if (tokens !== null) exchange.json(200, { object: 'response.input_tokens', input_tokens: tokens });
}

/** A separate function, so that the body can be garbage-collected while the prompt waits to be counted. */
async function read(
  deps: InputTokensDeps,
  exchange: Exchange,
): Promise<{ caller: Caller; model: ServedModel; request: GenerationRequest }> {
  const { organizationId } = exchange.identity;
  const body = exchange.body as Readonly<Record<string, unknown>>;
  annotateModel(exchange, body);
  const parsed = parseCreate(pick(body, FIELDS), { ...deps, organizationId });
  const caller = callerOf(exchange, PATH, 'chat');
  const continued = await findBefore(exchange, deps, organizationId, parsed);
  const { model, created } = await readContent(parsed, continued, {
    organizationId,
    responses: deps.responses,
    charged: (work, size) => exchange.charged(exchange.bodyBytes + size, work),
    findModel: (chain) => findModel(deps, caller, modelOf(parsed.model, chain), 'tokens.count'),
  });
  continued.release();
  const ignored = [...Object.keys(body).filter((name) => !FIELDS.includes(name)), ...created.ignored];
  nameIgnoredParts({ ...created, ignored }, exchange);
  nameLeftOut(caller, created.request.leftOut);
  return { caller, model, request: created.request };
}
