// The stored form of items: the wire form with ID, status and parts filled in, regardless of how the client wrote them.
// Items are listed, stored and converted to messages in this form. Pure except for generating IDs.
import { apiError } from '../../shared/errors.js';
import { newItemId, type ItemPrefix } from '../../shared/ids.js';
import type { StoredItem } from '../../storage/response-store.js';
import type { ThoughtOrigin } from '../../generation/types.js';
import type { SearchResult } from '../../generation/web-search/outcome.js';
import type { InputItem } from './input-images.js';
import type { ItemStatus } from './resource.js';
import type { HostedItemType, InputPart, WireItem } from './schema-items.js';

export type Detail = 'low' | 'high' | 'auto' | 'original';
export type KeptPart =
  | { type: 'input_text'; text: string }
  | { type: 'input_image'; image_url: string; detail: Detail }
  | { type: 'output_text'; text: string; annotations: never[]; logprobs: unknown[] }
  | { type: 'refusal'; refusal: string };

export type Role = 'user' | 'system' | 'developer' | 'assistant';

/**
 * The member of a stored reasoning item that contains the upstream's own block. Clients can neither read nor set it.
 */
export const ORIGIN = 'monolith_origin';

export const withOrigin = (
  item: Readonly<Record<string, unknown>>,
  origin: ThoughtOrigin,
): Record<string, unknown> => ({
  ...item,
  [ORIGIN]: origin,
});

/** The member of a stored web search item that contains the results. Sent to clients only on request. */
export const RESULTS = 'monolith_results';

/** Members that clients can neither read nor set. */
export const HIDDEN: ReadonlySet<string> = new Set([ORIGIN, RESULTS]);

export const withResults = (
  item: Readonly<Record<string, unknown>>,
  results: readonly SearchResult[],
): Record<string, unknown> => ({
  ...item,
  [RESULTS]: results.map(({ title, url, content }) => ({ title, url, text: content })),
});

export type KeptItem =
  | {
      id: string;
      type: 'message';
      status: ItemStatus;
      role: Role;
      content: KeptPart[];
      phase?: 'commentary' | 'final_answer';
    }
  | {
      id: string;
      type: 'function_call';
      status: ItemStatus;
      call_id: string;
      name: string;
      namespace?: string;
      arguments: string;
    }
  | {
      id: string;
      type: 'custom_tool_call';
      status: ItemStatus;
      call_id: string;
      name: string;
      namespace?: string;
      input: string;
    }
  | {
      id: string;
      type: 'function_call_output' | 'custom_tool_call_output';
      status: ItemStatus;
      call_id: string;
      output: string | KeptPart[];
    }
  | {
      id: string;
      type: 'reasoning';
      summary: { type: 'summary_text'; text: string }[];
      content?: { type: 'reasoning_text'; text: string }[];
      encrypted_content?: string;
      [ORIGIN]?: ThoughtOrigin;
    }
  | { id: string; type: 'compaction'; encrypted_content: string }
  | HostedItem;

/** A call or result of a tool that another service ran, as the client sent it. */
export interface HostedItem {
  id: string;
  type: HostedItemType;
  /** The search results. Present in stored web searches that this server ran. */
  [RESULTS]?: unknown;
}

/**
 * This cast is safe because stored items were either created by this file or are output items, which have the same
 * form.
 */
export const keptItem = ({ item }: StoredItem): KeptItem => item as unknown as KeptItem;

/** Items that are complete in the input. References and additional tools are handled by the input reader. */
export type OwnItem =
  | Extract<
      WireItem,
      {
        type:
          | 'message'
          | 'function_call'
          | 'custom_tool_call'
          | 'custom_tool_call_output'
          | 'reasoning'
          | 'compaction'
          | HostedItemType;
      }
    >
  | (WireOutput & { call_id: string });

export type WireOutput = Extract<WireItem, { type: 'function_call_output' }>;

/** Converts string input to a single user message. */
export function textItem(text: string): InputItem {
  return keep({
    id: newItemId('msg'),
    type: 'message',
    status: 'completed',
    role: 'user',
    content: [{ type: 'input_text', text }],
  });
}

/**
 * Throws ApiError 422 unsupported_content for parts that the role does not support. `path` is, for example, input[3].
 */
export function toKept(item: OwnItem, path: string): InputItem {
  switch (item.type) {
    case 'message': {
      const content =
        typeof item.content === 'string'
          ? [item.role === 'assistant' ? outputText(item.content) : { type: 'input_text' as const, text: item.content }]
          : item.content.map((part, index) => toPart(part, item.role, `${path}.content[${index}]`));
      const phase = 'phase' in item ? (item.phase ?? null) : null;
      return keep(
        {
          id: idOf(item, 'msg'),
          type: 'message',
          status: statusOf(item),
          role: item.role,
          content,
          ...(phase === null ? {} : { phase }),
        },
        imagePaths(content, `${path}.content`),
      );
    }
    case 'function_call':
      return keep({
        id: idOf(item, 'fc'),
        type: 'function_call',
        status: statusOf(item),
        call_id: item.call_id,
        name: item.name,
        ...namespaceOf(item),
        arguments: item.arguments,
      });
    case 'custom_tool_call':
      return keep({
        id: idOf(item, 'ctc'),
        type: 'custom_tool_call',
        status: statusOf(item),
        call_id: item.call_id,
        name: item.name,
        ...namespaceOf(item),
        input: item.input,
      });
    case 'function_call_output':
    case 'custom_tool_call_output': {
      const output =
        typeof item.output === 'string'
          ? item.output
          : item.output.map((part, index) => toPart(part, 'tool', `${path}.output[${index}]`));
      return keep(
        {
          id: idOf(item, item.type === 'function_call_output' ? 'fco' : 'ctco'),
          type: item.type,
          status: statusOf(item),
          call_id: item.call_id,
          output,
        },
        typeof output === 'string' ? [] : imagePaths(output, `${path}.output`),
      );
    }
    case 'reasoning':
      return keep({
        id: idOf(item, 'rs'),
        type: 'reasoning',
        summary: item.summary,
        ...(item.content == null
          ? {}
          : { content: item.content.map(({ text }) => ({ type: 'reasoning_text' as const, text })) }),
        ...(item.encrypted_content == null ? {} : { encrypted_content: item.encrypted_content }),
      });
    case 'compaction':
      return keep({ id: idOf(item, 'cmp'), type: 'compaction', encrypted_content: item.encrypted_content });
    default: {
      const { [RESULTS]: _results, ...own } = item as typeof item & { [RESULTS]?: unknown };
      return keep({ ...own, id: idOf(item, item.type === 'mcp_approval_response' ? 'mcpa' : 'item') });
    }
  }
}

function keep(item: KeptItem, paths: readonly string[] = []): InputItem {
  return {
    id: item.id,
    item: item as unknown as Record<string, unknown>,
    ...(paths.length === 0 ? {} : { imagePaths: paths }),
  };
}

function idOf(item: { id?: string | null | undefined }, prefix: ItemPrefix): string {
  return item.id || newItemId(prefix);
}

const STATUSES: ReadonlySet<string> = new Set<ItemStatus>(['in_progress', 'completed', 'incomplete']);

function statusOf({ status }: { status?: string | null | undefined }): ItemStatus {
  return status != null && STATUSES.has(status) ? (status as ItemStatus) : 'completed';
}

function namespaceOf({ namespace }: { namespace?: string | null | undefined }): { namespace?: string } {
  return namespace ? { namespace } : {};
}

const outputText = (text: string): KeptPart => ({ type: 'output_text', text, annotations: [], logprobs: [] });

function toPart(part: InputPart, role: Role | 'tool', path: string): KeptPart {
  const refuse = (): never => {
    throw apiError(
      'unsupported_content',
      `${path}: ${part.type} is not supported in ${role === 'tool' ? 'tool outputs' : `${role} messages`}.`,
      path,
    );
  };
  switch (part.type) {
    case 'input_text':
      return role === 'assistant' ? outputText(part.text) : { type: 'input_text', text: part.text };
    case 'output_text':
      return role === 'assistant' ? outputText(part.text) : refuse();
    case 'refusal':
      return role === 'assistant' ? { type: 'refusal', refusal: part.refusal } : refuse();
    case 'input_image':
      if (role !== 'user' && role !== 'tool') return refuse();
      if (part.image_url == null || part.file_id)
        throw apiError(
          'unsupported_content',
          `${path}: images by file_id are not supported here; use image_url.`,
          path,
        );
      return { type: 'input_image', image_url: part.image_url, detail: part.detail ?? 'auto' };
    default:
      return refuse();
  }
}

function imagePaths(parts: readonly KeptPart[], path: string): string[] {
  return parts.flatMap(({ type }, index) => (type === 'input_image' ? [`${path}[${index}]`] : []));
}
