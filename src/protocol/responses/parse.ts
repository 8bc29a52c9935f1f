// Converts a create request to a CreateGeneration, or throws the appropriate ApiError. No side effects. The stages are:
// checking the JSON structure and encrypted values (400), then looking up the chain and the model, which the caller
// does, then checking the content (422).
import type { ErrorCode } from '../../shared/error-codes.js';
import { apiError } from '../../shared/errors.js';
import { checkOutputFormat } from '../../generation/output-format.js';
import type { McpSettings } from '../../generation/mcp/session.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { GenerationRequest, Message, OutputFormat } from '../../generation/types.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import { checkConversationSize, type ConversationHead } from '../../storage/conversation-store.js';
import type { ChainedResponse, StoredItem } from '../../storage/response-store.js';
import { checkMetadata, toSampling } from '../fields.js';
import type { Compaction } from '../context/edits.js';
import { constrainedFormat } from '../constraints.js';
import type { ForeignThinking } from '../foreign-thinking.js';
import { ineffectiveInResponses } from '../ineffective.js';
import { templateKnows } from '../admit.js';
import { templateSettings } from '../template-variables.js';
import { refuseSamplers } from '../samplers.js';
import { namesOne } from '../tools.js';
import { validateInSlices } from '../validate-in-slices.js';
import { isRecord } from '../entry-limits.js';
import { validate, validateList } from '../validation.js';
import { overlong, withType } from './bounds.js';
import { readCompaction } from './context-management.js';
import { openSeals, readInput, references, type OpenedSeals } from './input.js';
import type { InputItem } from './input-images.js';
import { wireFormat, type ResourceEcho } from './resource.js';
import { createEnvelopeSchema, type CreateEnvelope } from './schema.js';
import { itemSchema, type WireItem } from './schema-items.js';
import type { SearchForm } from './encode-search.js';
import { mcpLabels, readToolChoice, readTools, type ToolName } from './tools.js';

/**
 * The request's organization. Encrypted values can be decrypted only by the organization for which they were created.
 */
export interface ParseContext {
  organizationId: string;
  sealer: Sealer;
  foreignThinking?: ForeignThinking | undefined; // absent: drop
  /** Absent if this server runs no web searches. */
  webSearch?: object | undefined;
  /** Absent if this server uses no MCP servers. */
  mcp?: { readonly settings: McpSettings } | undefined;
}

export interface ParseOptions {
  /** If true, no output is generated, even if the body requests a generation. */
  prewarm?: boolean;
  /**
   * If true, the caller reports a missing model itself, because it does not take the model from a continued
   * response.
   */
  looksAtModel?: boolean;
}

/** The stored objects that the request refers to. The caller looks them up. */
export interface ContentContext {
  model: ServedModel;
  /** The chain named by `previousId`, root first; [] if there is none. See findChain(). */
  chain: readonly ChainedResponse[];
  /**
   * Number of responses at the end of the chain that are not stored, but kept in a WebSocket connection's memory.
   * Absent means 0.
   */
  unsaved?: number;
  /** The conversation to which the chain's items belong. Absent if the chain consists of earlier responses. */
  head?: ConversationHead | undefined;
  /** The stored items found for `references`. */
  items?: ReadonlyMap<string, StoredItem> | undefined;
  /** Releases the chain. */
  release?: (() => void) | undefined;
}

export interface ParsedCreate {
  /** Null to use the previous response's model. */
  model: string | null;
  previousId: string | null;
  /**
   * ID of the conversation that the request continues. The request's input and output are added to it. Null if
   * none.
   */
  conversationId: string | null;
  /** IDs of stored items that the input refers to. May include items of the chain. */
  references: readonly string[];
  /** Runs the checks that follow the model lookup. Throws ApiError 422 or 404 item_not_found. */
  content(context: ContentContext): CreateGeneration;
}

export interface CreateGeneration {
  /** `promptParam` is 'input'. The messages are the instructions, then the chain, then the input. */
  request: GenerationRequest;
  /** The messages of the chain and of the input, without the instructions. */
  conversation: Message[];
  /** The request's own input items with references resolved. withImages() adds the bytes of images. */
  input: InputItem[];
  previousId: string | null;
  /**
   * The conversation to which the input and the output are added. `count`: the number of its items that this response
   * has read as input. Null if none.
   */
  storedConversation: { readonly id: string; readonly count: number } | null;
  /** `base`: the last stored response of the chain. `tail`: the responses after it, which are not stored. */
  base: string | null;
  tail: readonly ChainedResponse[];
  /** Releases the chain, which is protected from erasure until then. May be called more than once. */
  release(): void;
  store: boolean;
  background: boolean;
  stream: boolean;
  /**
   * Whether the conversation is compacted instead of continued, in which case the summary is the response's only
   * output item.
   */
  compactsOnly: boolean;
  /** When to compact the conversation; null = never. */
  compaction: Compaction | null;
  /** ID of the latest compaction item that replaces all earlier items, or null. */
  windowStart: string | null;
  /** Number of summaries in the prompt. */
  compactions: number;
  /** If true, no output is generated: the prompt is only validated and its prefix cached. */
  prewarm: boolean;
  /** The ID of the response whose prompt is compared with this request's prompt; null if none. */
  comparedId: string | null;
  /** Whether reasoning text is returned in `summary` instead of `content`. */
  summarize: boolean;
  /** Reasoning items have `encrypted_content`. */
  sealReasoning: boolean;
  /** Fields that web search items contain besides the query. */
  searchForm: SearchForm;
  /** Maps the model's tool names to the client's, for custom tools and tools in namespaces. */
  toolNames: ReadonlyMap<string, ToolName>;
  echo: ResourceEcho;
  /** `safety_identifier` or, if absent, `user`. Logged as a hash. */
  endUser: string | null;
  ignored: string[]; // fields without effect
  ignoredTools: string[]; // types of tools that were omitted
}

/** Validates the entries of a large request in slices, ahead of parseCreate(), which reports any errors. */
export function validateCreateInSlices(body: unknown): Iterator<unknown> | null {
  if (!isRecord(body) || !Array.isArray(body['input']) || overlong(body) !== null) return null;
  return validateInSlices(itemSchema, body['input'], withType);
}

/**
 * `body` is a create, input_tokens or compact request; all three share the same fields. Throws ApiError 400 for a body
 * that is not a valid request or contains an encrypted value that cannot be decrypted.
 */
export function parseCreate(body: unknown, context: ParseContext, options: ParseOptions = {}): ParsedCreate {
  const tooLong = overlong(body);
  if (tooLong !== null) throw tooLong;
  const envelope = validate(createEnvelopeSchema, body);
  if (!envelope.ok && envelope.isShape) throw envelope.error;
  // At this point, the body's fields have the right types, because structural errors have been thrown above.
  const {
    model = null,
    previous_response_id: previousId = null,
    conversation = null,
    input = null,
  } = body as {
    model?: string | null;
    previous_response_id?: string | null;
    conversation?: string | { id: string } | null;
    input?: string | unknown[] | null;
  };
  const conversationId = typeof conversation === 'object' ? (conversation?.id ?? null) : conversation;
  const continues = previousId !== null || conversationId !== null;
  const items = Array.isArray(input) ? validateList(itemSchema, input, 'input', withType) : null;
  if (items !== null && !items.ok && items.isShape) throw items.error;
  const seals: OpenedSeals = items?.ok
    ? openSeals(items.value, { ...context, rejects: context.foreignThinking === 'reject' })
    : new Map();

  const prewarm =
    options.prewarm ??
    (envelope.ok && (envelope.value.generate === false || envelope.value.prompt_cache_options?.prewarm === true));
  const isEmpty = input === null || (Array.isArray(input) && input.length === 0);
  if (isEmpty && !continues && !prewarm) {
    throw apiError(
      'missing_required_parameter',
      `input ${input === null ? 'is required unless previous_response_id or conversation is given' : 'must not be empty'}.`,
      'input',
    );
  }
  if (model === null && previousId === null && options.looksAtModel !== true)
    throw apiError('missing_required_parameter', 'model is required unless previous_response_id is given.', 'model');
  return {
    model,
    previousId,
    conversationId,
    references: items?.ok ? references(items.value) : [],
    content(found) {
      if (!envelope.ok) throw envelope.error;
      if (items !== null && !items.ok) throw items.error;
      refuseSamplers(body as Record<string, unknown>);
      const wire = items?.ok ? items.value : ((input as string | null) ?? []);
      return toGeneration(envelope.value, {
        wire,
        seals,
        context: { ...context, ...found },
        prewarm,
        ignored: ineffectiveInResponses(body as Record<string, unknown>),
      });
    },
  };
}

function refuse(code: ErrorCode, param: string, message: string): never {
  throw apiError(code, message, param);
}

function toGeneration(
  create: CreateEnvelope,
  {
    wire,
    seals,
    context,
    prewarm,
    ignored,
  }: {
    wire: string | readonly WireItem[];
    seals: OpenedSeals;
    context: ParseContext & ContentContext;
    prewarm: boolean;
    ignored: string[];
  },
): CreateGeneration {
  refuseUnserved(create);
  const store = create.store !== false;
  const background = create.background === true;
  if (background && !store) refuse('conflicting_parameters', 'background', 'background: true requires store: true.');
  const conversationId =
    typeof create.conversation === 'object' ? (create.conversation?.id ?? null) : (create.conversation ?? null);
  if (conversationId !== null && !store)
    refuse(
      'conflicting_parameters',
      'conversation',
      'conversation requires store: true, because the response is added to the stored conversation.',
    );

  const { model, chain, unsaved = 0, items = new Map<string, StoredItem>(), release = () => undefined } = context;
  const input = readInput(wire, seals, {
    ...context,
    chainParam: context.head === undefined ? undefined : 'conversation',
    items,
    models: [model.asked, model.name],
    rejects: context.foreignThinking === 'reject',
    mcpLabels: context.mcp === undefined ? undefined : mcpLabels(create.tools ?? []),
  });
  if (context.head !== undefined) checkConversationSize(context.head, input.own);
  const tools = readTools([{ path: 'tools', tools: create.tools ?? [] }, ...input.tools], {
    searches: context.webSearch !== undefined,
    maxCalls: create.max_tool_calls ?? null,
    mcp: context.mcp?.settings,
    listed: input.listed,
  });
  const toolChoice = readToolChoice(create.tool_choice, tools);
  const textFormat = toFormat(create.text?.format);
  const format = constrainedFormat(create, textFormat, 'text.format');
  checkOutputFormat(format);
  const sampling = toSampling(create);
  const include = new Set(create.include ?? []);
  const summary = create.reasoning?.summary ?? create.reasoning?.generate_summary ?? null;
  const effort = create.reasoning?.effort ?? null;
  const verbosity = create.text?.verbosity ?? null;
  const shown = templateKnows(model)('verbosity') ? verbosity : null;
  const named = [...ignored, ...(verbosity === shown ? [] : ['text.verbosity']), ...new Set(tools.ignoredFields)];
  const template = templateSettings(create.chat_template_kwargs, {
    parameters: { verbosity: shown },
    effort: effort === null ? null : { value: effort, param: 'reasoning.effort' },
  });
  const topLogprobs = create.top_logprobs ?? 0;
  const parallelToolCalls = create.parallel_tool_calls !== false;
  const truncation = create.truncation ?? 'disabled';
  const instructions = create.instructions ?? null;
  const messages: Message[] =
    instructions === null
      ? input.messages
      : [{ role: 'system', content: instructions, path: 'instructions' }, ...input.messages];
  if (input.isTrigger && prewarm)
    refuse(
      'conflicting_parameters',
      'input',
      'A compaction_trigger cannot be combined with a prewarm request, which generates nothing.',
    );
  if (input.isTrigger && input.messages.length === 0)
    refuse('missing_required_parameter', 'input', 'input contains nothing to compact before the compaction_trigger.');
  if (messages.length === 0) {
    if (!prewarm) refuse('missing_required_parameter', 'input', 'input contains nothing to respond to.');
    messages.push({ role: 'system', content: '', path: 'input' }); // chat templates require at least one message
  }

  return {
    request: {
      model: model.name,
      messages,
      continueFinal: false,
      sampling,
      n: 1,
      maxTokens: prewarm ? 0 : (create.max_output_tokens ?? null),
      ...(create.prompt_cache_retention === '24h' ? { keepsPages: true } : {}),
      ...(store ? {} : { storesNothing: true }),
      stop: typeof create.stop === 'string' ? [create.stop] : (create.stop ?? []),
      topLogprobs: topLogprobs > 0 || include.has('message.output_text.logprobs') ? topLogprobs : null,
      effort: template.effort,
      reasoningBudget: null,
      templateVariables: template.variables,
      tools: tools.definitions,
      toolChoice: toolChoice.internal,
      parallelToolCalls: parallelToolCalls && !namesOne(create.tool_choice),
      ...(tools.search === null ? {} : { webSearch: tools.search.options }),
      ...(tools.mcp.length === 0
        ? {}
        : {
            mcp: {
              servers: tools.mcp,
              approved: input.approved,
              choice: toolChoice.mcp,
              maxCalls: create.max_tool_calls ?? null,
            },
          }),
      format,
      truncation,
      promptParam: 'input',
      ignoreEos: create.ignore_eos === true,
      ...(input.leftOut.length === 0 ? {} : { leftOut: input.leftOut }),
      ...(named.length === 0 ? {} : { ignored: named }),
    },
    conversation: input.messages,
    input: input.own,
    compactsOnly: input.isTrigger,
    // The result of an approved call must be in the prompt, so such a request is not compacted.
    compaction: input.isTrigger || input.approved.length > 0 ? null : readCompaction(create.context_management),
    windowStart: input.windowStart,
    compactions: input.compactions,
    previousId: create.previous_response_id ?? null,
    storedConversation: context.head === undefined ? null : { id: context.head.id, count: context.head.count },
    base: context.head === undefined ? (chain[chain.length - 1 - unsaved]?.id ?? null) : null,
    tail: unsaved === 0 ? [] : chain.slice(-unsaved),
    release,
    store,
    background,
    stream: create.stream === true,
    prewarm,
    comparedId: create.prompt_cache_options?.comparison_response_id ?? null,
    summarize: summary !== null,
    sealReasoning: include.has('reasoning.encrypted_content'),
    searchForm: {
      sources: include.has('web_search_call.action.sources'),
      results: include.has('web_search_call.results'),
    },
    toolNames: tools.names,
    echo: {
      background,
      instructions,
      model: model.asked,
      previous_response_id: create.previous_response_id ?? null,
      conversation: conversationId === null ? null : { id: conversationId },
      tools: tools.wire,
      tool_choice: toolChoice.wire,
      parallel_tool_calls: parallelToolCalls,
      max_tool_calls: create.max_tool_calls ?? null,
      max_output_tokens: create.max_output_tokens ?? null,
      temperature: create.temperature ?? model.sampling.temperature,
      top_p: create.top_p ?? model.sampling.top_p,
      presence_penalty: create.presence_penalty ?? 0,
      frequency_penalty: create.frequency_penalty ?? 0,
      top_logprobs: topLogprobs,
      truncation,
      text: {
        format: wireFormat(
          textFormat,
          create.text?.format?.type === 'json_schema' ? (create.text.format.description ?? null) : null,
        ),
        ...(shown === null ? {} : { verbosity: shown }),
      },
      reasoning: { effort, summary },
      store,
      metadata: checkMetadata(create.metadata) ?? {},
      safety_identifier: create.safety_identifier ?? null,
      prompt_cache_key: create.prompt_cache_key ?? null,
      user: create.user ?? null,
    },
    endUser: create.safety_identifier ?? create.user ?? null,
    ignored: named,
    ignoredTools: tools.ignored,
  };
}

/** Rejects known fields that this server does not support. */
function refuseUnserved(create: CreateEnvelope): void {
  for (const name of ['prompt', 'moderation'] as const) {
    if (create[name] != null) refuse('unsupported_parameter', name, `${name} is not supported.`);
  }
}

function toFormat(format: NonNullable<CreateEnvelope['text']>['format']): OutputFormat {
  if (format == null) return { type: 'text' };
  if (format.type !== 'json_schema') return { type: format.type };
  return {
    type: 'json_schema',
    name: format.name,
    schema: format.schema,
    strict: format.strict === true,
    path: 'text.format.schema',
  };
}
