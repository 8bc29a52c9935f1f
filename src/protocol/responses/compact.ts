// POST /v1/responses/compact: reduces a conversation to its user messages and one encrypted summary. The result is not
// stored. Event-loop thread only.
import { apiError } from '../../shared/errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { newItemId, newResponseId } from '../../shared/ids.js';
import type { ChainedResponse, ResponseStore, StoredItem } from '../../storage/response-store.js';
import type { Config } from '../../config/settings.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import { findModel, type GenerationDeps } from '../admit.js';
import { annotateModel, callerOf, type Caller } from '../caller.js';
import { nameLeftOut, type ForeignThinking } from '../foreign-thinking.js';
import { nameIgnored } from '../ignored.js';
import { Summarizer, transcript } from '../context/summarizer.js';
import { NOTHING_BEFORE, findChainEnqueued, readContent } from './input-chain.js';
import { validateCreateInSlices, parseCreate, type CreateGeneration } from './parse.js';
import { wireUsage } from './resource.js';

const PATH = '/v1/responses/compact';

const FIELDS = [
  'model',
  'input',
  'previous_response_id',
  'instructions',
  'prompt_cache_key',
  'prompt_cache_retention',
  'prompt_cache_options',
  'service_tier',
];

export interface CompactDeps extends GenerationDeps {
  sealer: Sealer;
  foreignThinking?: ForeignThinking | undefined;
  responses: ResponseStore;
  settings: Pick<Config['responses'], 'compact_max_tokens'>;
}

export function compactRoute(deps: CompactDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'inference',
    checksScope: true,
    generates: true,
    validateInSlices: validateCreateInSlices,
    handler: (exchange) => serve(deps, exchange),
  };
}

async function serve(deps: CompactDeps, exchange: Exchange): Promise<void> {
  const { caller, model, instructions, text, kept } = await read(deps, exchange);
  const { organizationId } = exchange.identity;
  const summarizer = new Summarizer(deps, caller, model, { instructions, maxTokens: deps.settings.compact_max_tokens });
  exchange.onAborted(() => summarizer.cancel());
  const summary = await summarizer.run(text);
  if (summary === null) return;
  const compaction = {
    id: newItemId('cmp'),
    type: 'compaction',
    encrypted_content: deps.sealer.seal('compaction', summary.text, { organizationId, model: model.name }),
  };
  exchange.json(200, {
    id: newResponseId(),
    object: 'response.compaction',
    created_at: Math.floor(Date.now() / 1000),
    output: [...kept, compaction],
    usage: wireUsage(summary.usage),
  });
}

interface Conversation {
  caller: Caller;
  model: ServedModel;
  instructions: string | null;
  text: string;
  kept: object[];
}

/** A separate function, so that the body can be garbage-collected while the summary is being generated. */
async function read(deps: CompactDeps, exchange: Exchange): Promise<Conversation> {
  const { organizationId } = exchange.identity;
  const body = exchange.body as Readonly<Record<string, unknown>>;
  annotateModel(exchange, body);
  const parsed = parseCreate(pick(body, FIELDS), { ...deps, organizationId }, { prewarm: false, looksAtModel: true });
  const { model: asked, previousId } = parsed;
  if (asked === null) throw apiError('missing_required_parameter', 'model is required.', 'model');
  const caller = callerOf(exchange, PATH, 'chat');
  const continued =
    previousId === null
      ? NOTHING_BEFORE
      : await findChainEnqueued(exchange, deps.responses, organizationId, previousId);
  const { model, created } = await readContent(parsed, continued, {
    organizationId,
    responses: deps.responses,
    charged: (work, size) => exchange.charged(exchange.bodyBytes + size, work),
    findModel: () => findModel(deps, caller, asked),
  });
  continued.release();
  const compared = created.comparedId === null ? [] : ['prompt_cache_options.comparison_response_id'];
  const unread = Object.keys(body).filter((name) => !FIELDS.includes(name));
  const tools = created.request.tools.length > 0 || created.ignoredTools.length > 0 ? ['input.tools'] : [];
  nameIgnored({ parameters: [...unread, ...created.ignored, ...tools, ...compared] }, exchange);
  nameLeftOut(caller, created.request.leftOut);
  return {
    caller,
    model,
    instructions: created.echo.instructions,
    text: transcript(created.conversation),
    kept: userMessages(continued.chain, created),
  };
}

/** Returns the body with only the fields in `names`. */
export function pick(body: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.filter((name) => Object.hasOwn(body, name)).map((name) => [name, body[name]]));
}

/**
 * Returns the user messages since the last automatic compaction as they were sent, including their IDs and statuses.
 */
function userMessages(
  chain: readonly ChainedResponse[],
  { input, windowStart }: Pick<CreateGeneration, 'input' | 'windowStart'>,
): object[] {
  const all: readonly StoredItem[] = [...chain.flatMap((record) => [...record.input, ...record.output]), ...input];
  const start = windowStart === null ? 0 : all.findLastIndex(({ id }) => id === windowStart);
  return all.slice(start).flatMap(({ id, item, images }) => {
    if (item['role'] !== 'user') return [];
    const { content } = item;
    const parts =
      typeof content === 'string'
        ? [{ type: 'input_text', text: content }]
        : withData(content as readonly Readonly<Record<string, unknown>>[], images);
    return [{ id, type: 'message', status: item['status'] ?? 'completed', role: 'user', content: parts }];
  });
}

/** A data URL's data is stored separately from the item, so it is added back here. */
function withData(
  parts: readonly Readonly<Record<string, unknown>>[],
  images: readonly Uint8Array[] | undefined,
): object[] {
  let image = 0;
  return parts.map((part) => {
    if (part['type'] !== 'input_image') return part;
    const bytes = images?.[image++];
    const url = part['image_url'];
    if (bytes === undefined || bytes.length === 0 || typeof url !== 'string' || !/^data:[^,]*;base64,$/.test(url))
      return part;
    return {
      ...part,
      image_url: url + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64'),
    };
  });
}
