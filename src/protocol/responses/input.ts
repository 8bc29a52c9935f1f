// Reads a request's input together with the chain that it continues. Returns the items in their stored form and the
// messages built from them. No side effects.
import { apiError, type ApiError } from '../../shared/errors.js';
import { inOrder, seenBy } from '../../generation/thoughts.js';
import type { Content, ContentPart, LeftOut, Message } from '../../generation/types.js';
import { customArguments } from '../../generation/custom-tools.js';
import { mcpToolName } from '../../generation/mcp/tool-set.js';
import type { ApprovedCall, McpTool } from '../../generation/mcp/types.js';
import type { Sealer, Unsealed } from '../../accounts/sealing/sealer.js';
import { MAX_CHAIN_SIZE, chainTooLong, itemSize } from '../../storage/response-size.js';
import type { ChainedResponse, StoredItem } from '../../storage/response-store.js';
import { summaryText } from '../context/summary-text.js';
import { hostedText } from '../hosted-text.js';
import { Conversation, type OwnThought } from './conversation.js';
import type { InputItem } from './input-images.js';
import { readHelperItem } from './helper-items.js';
import { callOf, callResult, McpItems, PENDING, refusalText, type McpCallFields } from './mcp-items.js';
import {
  keptItem,
  ORIGIN,
  RESULTS,
  textItem,
  toKept,
  type HostedItem,
  type KeptItem,
  type KeptPart,
  type WireOutput,
} from './items.js';
import type { WireItem } from './schema-items.js';
import { mcpLabels, modelName, type ToolList } from './tools.js';

/** Reported as the path in errors about items of the chain, because these items have no path in the request. */
const CHAIN = 'previous_response_id';
const CHAINS = [CHAIN, 'conversation'];

export interface InputContext {
  organizationId: string;
  sealer: Sealer;
  /** The requested model's name and aliases. */
  models: readonly string[];
  /** Whether a reference to unknown reasoning is an error. */
  rejects: boolean;
  chain: readonly ChainedResponse[];
  /** The request parameter that named the chain, for error messages. Defaults to previous_response_id. */
  chainParam?: 'conversation' | undefined;
  /** Stored items that the request refers to; see references(). */
  items: ReadonlyMap<string, StoredItem>;
  /** Labels of the MCP servers in the request's `tools`. Absent if this server uses no MCP servers. */
  mcpLabels?: readonly string[] | undefined;
}

export interface ReadInput {
  /** The request's own items, with references resolved. */
  own: InputItem[];
  /** The messages of the chain and the input. */
  messages: Message[];
  /** The reasoning and other items that are not passed to the model. */
  leftOut: LeftOut[];
  /** Tool lists from items that add tools. */
  tools: ToolList[];
  /** ID of the prompt's first item after the system messages; null if the prompt starts with the very first item. */
  windowStart: string | null;
  /** Number of summaries in the prompt. */
  compactions: number;
  /** Calls that the client has approved in this request. */
  approved: ApprovedCall[];
  /** Returns the tools listed by an MCP server in the conversation, or null. */
  listed(label: string): readonly McpTool[] | null;
  /**
   * Whether the input ends with a compaction_trigger item, so that the conversation is compacted instead of continued.
   */
  isTrigger: boolean;
}

/** A decrypted value. `replaces`: whether it is a summary that replaces all items before it. */
type Opened = Unsealed & { replaces?: boolean };

/** The decrypted values of the input's items, by item index. Null stands for reasoning that could not be decrypted. */
export type OpenedSeals = ReadonlyMap<number, Opened | null>;

/**
 * IDs of the stored items that the input needs, in this order: referenced items, then reasoning items without text and
 * web searches without results.
 */
export function references(input: readonly WireItem[]): string[] {
  const ids: string[] = [];
  const others: string[] = [];
  for (const item of input) {
    if (item.type === 'item_reference') ids.push(item.id);
    else if (needsResults(item)) others.push(item.id);
    else if (
      item.type === 'reasoning' &&
      item.id &&
      item.encrypted_content == null &&
      reasoningText(item.content ?? undefined) === ''
    )
      others.push(item.id);
  }
  return [...ids, ...others];
}

/**
 * Decrypts the encrypted content of summaries and reasoning. Throws ApiError 400 invalid_encrypted_content for a
 * summary that this service did not create for this organization. If `rejects` is set, also throws for reasoning that
 * was not created here. `param`: the request parameter that contains the items.
 */
export function openSeals(
  input: readonly WireItem[],
  { sealer, organizationId, rejects }: Pick<InputContext, 'sealer' | 'organizationId' | 'rejects'>,
  param = 'input',
): OpenedSeals {
  const opened = new Map<number, Opened | null>();
  for (const [index, item] of input.entries()) {
    if ((item.type !== 'reasoning' && item.type !== 'compaction') || item.encrypted_content == null) continue;
    const value =
      item.type === 'compaction'
        ? openSummary(sealer, item.encrypted_content, organizationId)
        : sealer.unseal('reasoning', item.encrypted_content, organizationId);
    const path = `${param}[${index}]`;
    if (value === null && item.type === 'compaction') throw foreignSummary(`${path}.encrypted_content`, path);
    if (value === null && rejects)
      throw apiError('invalid_encrypted_content', `${path}.encrypted_content could not be verified.`, path);
    opened.set(index, value);
  }
  return opened;
}

function openSummary(sealer: Sealer, sealed: string, organizationId: string): Opened | null {
  const whole = sealer.unseal('contextSummary', sealed, organizationId);
  return whole === null ? sealer.unseal('compaction', sealed, organizationId) : { ...whole, replaces: true };
}

const foreignSummary = (what: string, path: string): ApiError =>
  apiError(
    'invalid_encrypted_content',
    `${what} could not be verified: another service created it, or its key was removed. Send the messages it replaced.`,
    path,
  );

/**
 * Throws ApiError item_not_found (404), or unsupported_content, tool_call_not_found, missing_tool_output, invalid_value
 * or response_not_usable (422).
 */
export function readInput(input: string | readonly WireItem[], seals: OpenedSeals, context: InputContext): ReadInput {
  const read = new Reader(context);
  if (typeof input === 'string') read.add(textItem(input), 'input', undefined);
  else input.forEach((item, index) => read.wire(item, index, { opened: seals.get(index), last: input.length - 1 }));
  return read.finish();
}

interface Placed {
  /** An item. `unknown`: a reasoning item that is known only by its ID. */
  kept: KeptItem | { type: 'unknown' };
  images: readonly Uint8Array[] | undefined;
  path: string;
  opened: Opened | null | undefined;
  /**
   * Whether the item is the output of an earlier response in the chain. If such an item is a summary, it replaces all
   * items before it.
   */
  isOutput?: boolean;
}

class Reader {
  readonly #leftOut: LeftOut[] = [];
  readonly #own: InputItem[] = [];
  readonly #tools: ToolList[] = [];
  readonly #placed: Placed[] = [];
  /** Tool calls that have no result yet, by call ID. */
  readonly #open = new Map<string, Extract<KeptItem, { type: 'function_call' }>>();

  /**
   * Items of the chain by ID, regardless of the status of their response. If an ID occurs several times, the first item
   * is used.
   */
  readonly #chain = new Map<string, StoredItem>();
  readonly #ownIds = new Set<string>();
  #isTrigger = false;
  readonly #mcpLabels: Set<string> | null;
  readonly #approved: ApprovedCall[] = [];

  /** Size of the items that were read from storage or from a connection's memory; see itemSize(). */
  #size = 0;

  readonly #chainPath: string;

  constructor(private readonly context: InputContext) {
    this.#chainPath = context.chainParam ?? CHAIN;
    this.#mcpLabels = context.mcpLabels === undefined ? null : new Set(context.mcpLabels);
    for (const { input, output } of context.chain) {
      for (const [index, item] of [...input, ...output].entries()) {
        this.#size += itemSize(item.item);
        if (!this.#chain.has(item.id)) this.#chain.set(item.id, item);
        this.#place(item, this.#chainPath, { opened: undefined, isOutput: index >= input.length });
      }
      if (this.#size > MAX_CHAIN_SIZE) throw chainTooLong();
    }
  }

  wire(item: WireItem, index: number, { opened, last }: { opened: Opened | null | undefined; last: number }): void {
    const path = `input[${index}]`;
    switch (item.type) {
      case 'message':
      case 'function_call':
      case 'custom_tool_call':
      case 'custom_tool_call_output':
      case 'reasoning':
      case 'compaction':
        this.add(toKept(item, path), path, opened);
        return;
      case 'function_call_output':
        this.add(toKept({ ...item, call_id: item.call_id ?? this.#openCall(item, path) }, path), path, opened);
        return;
      case 'item_reference': {
        const found = this.#stored(item.id);
        if (found === null) {
          if (!item.id.startsWith('rs_') || this.context.rejects)
            throw apiError('item_not_found', `${path}: no stored item has this ID.`, path);
          this.#placed.push({ kept: { type: 'unknown' }, images: undefined, path, opened: null });
          return;
        }
        this.#count(found, path);
        this.add(found, path, undefined);
        return;
      }
      case 'additional_tools':
        this.#tools.push({ path: `${path}.tools`, tools: item.tools });
        for (const label of mcpLabels(item.tools)) this.#mcpLabels?.add(label);
        return;
      case 'agent_message':
      case 'agent_reasoning':
      case 'compaction_summary':
      case 'context_compaction':
      case 'ghost_snapshot':
      case 'other': {
        const helper = readHelperItem(item, path, (sealed) => this.#openSummary(sealed) !== null);
        for (const left of helper.leftOut) this.#leftOut.push({ path: left, reason: 'unread' });
        if (helper.item !== null) this.add(toKept(helper.item, path), path, undefined);
        return;
      }
      case 'compaction_trigger':
        if (index !== last)
          throw apiError('invalid_value', `${path}: a compaction_trigger must be the last input item.`, path);
        this.#isTrigger = true;
        return;
      case 'configuration_update':
      case 'program':
      case 'program_output':
        throw apiError('unsupported_content', `${path}: items of type ${item.type} are not supported.`, path);
      default:
        this.add(this.#withResults(toKept(item, path), needsResults(item), path), path, opened);
    }
  }

  /** Adds the stored results to a web search that the client sends back, because its item shows only the query. */
  #withResults(own: InputItem, isNeeded: boolean, path: string): InputItem {
    const stored = isNeeded ? this.#stored(own.id) : null;
    const results = stored?.item[RESULTS];
    if (stored === null || results === undefined) return own;
    this.#count(stored, path);
    return { ...own, item: { ...own.item, [RESULTS]: results } };
  }

  add(item: InputItem, path: string, opened: Opened | null | undefined): void {
    const repeats = this.#chain.has(item.id) || this.#ownIds.has(item.id);
    this.#ownIds.add(item.id);
    this.#own.push(repeats ? { ...item, repeats } : item);
    this.#place(item, path, { opened });
  }

  /**
   * Returns the ID of the oldest open call to the tool that the output names, or to any tool if it names none. Throws
   * ApiError tool_call_not_found.
   */
  #openCall({ name, namespace }: WireOutput, path: string): string {
    for (const [id, call] of this.#open)
      if ((name == null || name === call.name) && (namespace == null || namespace === (call.namespace ?? '')))
        return id;
    throw apiError(
      'tool_call_not_found',
      `${path} has no call_id, and no preceding tool call without a result matches it.`,
      `${path}.call_id`,
    );
  }

  #stored(id: string): StoredItem | null {
    return this.#chain.get(id) ?? this.context.items.get(id) ?? null;
  }

  #count({ item }: StoredItem, path: string): void {
    this.#size += itemSize(item);
    if (this.#size > MAX_CHAIN_SIZE)
      throw apiError(
        'response_not_usable',
        `${path}: the stored items that this request refers to are too large in total.`,
        path,
      );
  }

  #place(item: StoredItem, path: string, found: Pick<Placed, 'opened' | 'isOutput'>): void {
    const kept = keptItem(item);
    this.#placed.push({ kept, images: item.images, path, ...found });
    if (kept.type === 'function_call' && kept.status !== 'incomplete') this.#open.set(kept.call_id, kept);
    else if (kept.type === 'function_call_output') this.#open.delete(kept.call_id);
  }

  finish(): ReadInput {
    const answered = new Set(
      this.#placed.flatMap(({ kept }) =>
        kept.type === 'function_call_output' || kept.type === 'custom_tool_call_output' ? [kept.call_id] : [],
      ),
    );
    const mcp = new McpItems(this.#mcpLabels ?? new Set());
    for (const { kept, path } of this.#placed) mcp.note(kept, { path, isOwn: path !== this.#chainPath });
    mcp.check();
    const conversation = new Conversation();
    const start = this.#windowStart();
    for (const [index, placed] of this.#placed.entries())
      if (index >= start || isSystem(placed)) this.#append(conversation, placed, answered, mcp);
    conversation.end();
    const { messages, leftOut } = seenBy(conversation.messages, this.context.models);
    const first = this.#placed[start]?.kept;
    return {
      own: this.#own,
      messages,
      tools: this.#tools,
      leftOut: inOrder(this.#leftOut, leftOut),
      windowStart: first?.type === 'compaction' ? first.id : null,
      compactions: this.#placed.slice(start).filter(({ kept }) => kept.type === 'compaction').length,
      approved: this.#approved,
      listed: (label) => mcp.listed(label),
      isTrigger: this.#isTrigger,
    };
  }

  /** Index of the latest item that replaces all items before it, or 0. */
  #windowStart(): number {
    for (let index = this.#placed.length - 1; index > 0; index--) {
      const placed = this.#placed[index] as Placed;
      if (placed.kept.type !== 'compaction') continue;
      placed.opened ??= this.#openSummary(placed.kept.encrypted_content);
      if (placed.isOutput === true && placed.opened !== null) placed.opened = { ...placed.opened, replaces: true };
      if (placed.opened?.replaces === true) return index;
    }
    return 0;
  }

  #append(
    conversation: Conversation,
    { kept, images, path, opened }: Placed,
    answered: ReadonlySet<string>,
    mcp: McpItems,
  ): void {
    switch (kept.type) {
      case 'message':
        if (kept.role === 'user')
          conversation.add({ role: 'user', content: toContent(kept.content, images, `${path}.content`), path });
        else if (kept.role === 'assistant') conversation.answer(textOf(kept.content), path);
        else conversation.add({ role: 'system', content: textOf(kept.content), path });
        return;
      case 'function_call':
      case 'custom_tool_call':
        // A call that was cut off by a limit and has no result is incomplete, so it is omitted.
        if (kept.status === 'incomplete' && !answered.has(kept.call_id)) return;
        conversation.call(
          {
            id: kept.call_id,
            name: modelName(kept.name, kept.namespace),
            arguments: kept.type === 'function_call' ? kept.arguments : customArguments(kept.input),
          },
          path,
        );
        return;
      case 'function_call_output':
      case 'custom_tool_call_output':
        conversation.result(
          kept.call_id,
          typeof kept.output === 'string' ? kept.output : toContent(kept.output, images, `${path}.output`),
          path,
        );
        return;
      case 'reasoning': {
        const thought = this.#reasoning(kept, opened, path === this.#chainPath ? `${path}:${kept.id}` : path);
        if (thought === null) conversation.lacksReasoning();
        else if (thought.text !== '' || thought.origin?.block != null) conversation.reason(thought);
        return;
      }
      case 'unknown':
        this.#leftOut.push({ path, reason: 'foreign' });
        conversation.lacksReasoning();
        return;
      case 'compaction': {
        const summary = opened ?? this.#openSummary(kept.encrypted_content);
        if (summary === null) throw foreignSummary(`${path}: a stored summary`, path);
        // Many templates require the conversation to start with a user message.
        const role = summary.replaces === true ? 'user' : 'system';
        conversation.add({ role, content: summaryText(summary.text), path });
        return;
      }
      case 'mcp_list_tools':
        if (mcp.isUsed({ ...kept })) return; // the prompt lists the tools
        conversation.note(hostedText(kept), path);
        return;
      case 'mcp_call': {
        const call = mcp.isUsed({ ...kept }) ? callOf({ ...kept }) : null;
        if (call === null) conversation.note(hostedText(kept), path);
        else this.#mcpCall(conversation, call, callResult({ ...kept }), path);
        return;
      }
      case 'mcp_approval_request':
        this.#approvalRequest(conversation, kept, path, mcp);
        return;
      case 'mcp_approval_response':
        // The result of the call, which follows its request, shows the decision.
        if (mcp.labels.size === 0) conversation.note(hostedText(kept), path);
        return;
      default: {
        const { [RESULTS]: results, ...item } = kept;
        conversation.note(hostedText(results === undefined ? item : Object.assign({ results }, item)), path);
      }
    }
  }

  #mcpCall(conversation: Conversation, call: McpCallFields, result: string, path: string): void {
    conversation.call({ id: call.id, name: mcpToolName(call.label, call.name), arguments: call.arguments }, path);
    conversation.result(call.id, result, path);
  }

  /** A call without a decision is omitted, like a function call without a result. */
  #approvalRequest(conversation: Conversation, kept: HostedItem, path: string, mcp: McpItems): void {
    const call = callOf({ ...kept });
    const decision = mcp.decision(kept.id);
    if (call === null || !mcp.labels.has(call.label)) {
      if (mcp.labels.size > 0 && decision !== null && decision !== 'was run' && decision.place.isOwn)
        throw apiError(
          'tool_call_not_found',
          `${decision.place.path}: tools must contain the MCP server of the approved call.`,
          `${decision.place.path}.approval_request_id`,
        );
      conversation.note(hostedText(kept), path);
      return;
    }
    if (decision === null || decision === 'was run') return;
    this.#mcpCall(conversation, call, decision.approve ? PENDING : refusalText(decision), path);
    if (decision.approve && decision.place.isOwn) this.#approved.push(call);
  }

  /** Returns null if the reasoning is omitted. */
  #reasoning(
    kept: Extract<KeptItem, { type: 'reasoning' }>,
    opened: Opened | null | undefined,
    path: string,
  ): OwnThought | null {
    const left = (): null => {
      this.#leftOut.push({ path, reason: 'foreign' });
      return null;
    };
    if (kept.encrypted_content !== undefined) {
      const unsealed = opened === undefined ? this.#openReasoning(kept.encrypted_content) : opened;
      return unsealed === null ? left() : { path, ...unsealed };
    }
    const unsealed = { path, model: null, origin: kept[ORIGIN] ?? null };
    const text = reasoningText(kept.content);
    if (text !== '') return { ...unsealed, text };
    const stored = this.#stored(kept.id);
    if (stored !== null) this.#count(stored, path);
    const known = stored === null ? null : keptItem(stored);
    const found = known?.type === 'reasoning' ? reasoningText(known.content) || reasoningText(known.summary) : '';
    const origin = (known?.type === 'reasoning' ? known[ORIGIN] : null) ?? unsealed.origin;
    const summary = found || reasoningText(kept.summary);
    if (summary === '' && stored === null && kept.id.startsWith('rs_') && path !== CHAIN) return left();
    return { ...unsealed, origin, text: summary };
  }

  #openReasoning(sealed: string): Unsealed | null {
    return this.context.sealer.unseal('reasoning', sealed, this.context.organizationId);
  }

  #openSummary(sealed: string): Opened | null {
    return openSummary(this.context.sealer, sealed, this.context.organizationId);
  }
}

const isSystem = ({ kept }: Placed): boolean =>
  kept.type === 'message' && (kept.role === 'system' || kept.role === 'developer');

/** Whether an item is a web search by this server whose results the client did not send back. */
const needsResults = (item: WireItem): item is WireItem & { id: string } =>
  item.type === 'web_search_call' && item.id?.startsWith('ws_') === true && !('results' in item);

const reasoningText = (parts: readonly { text: string }[] | undefined): string =>
  (parts ?? []).map(({ text }) => text).join('\n');

function textOf(parts: readonly KeptPart[]): string {
  return parts
    .map((part) => (part.type === 'refusal' ? part.refusal : part.type === 'input_image' ? '' : part.text))
    .join('');
}

/** Converts parts to content, which is a string unless there are images. */
function toContent(parts: readonly KeptPart[], images: readonly Uint8Array[] | undefined, path: string): Content {
  if (!parts.some(({ type }) => type === 'input_image')) return textOf(parts);
  let image = 0;
  return parts.map((part, index): ContentPart => {
    if (part.type !== 'input_image') return { type: 'text', text: textOf([part]) };
    const bytes = images?.[image++];
    return {
      type: 'image',
      detail: part.detail,
      path: CHAINS.find((name) => path.startsWith(name)) ?? `${path}[${index}]`,
      source: bytes === undefined ? { kind: 'url', url: part.image_url } : { kind: 'bytes', bytes },
    };
  });
}
