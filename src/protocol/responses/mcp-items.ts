// Reads the items of MCP servers in a conversation: the tools that were listed, and calls with their results. Items
// about servers that the request does not use are shown to the model as text instead. No side effects.
import { failureText } from '../../generation/mcp/failure-text.js';
import type { McpError, McpTool } from '../../generation/mcp/types.js';
import { apiError } from '../../shared/errors.js';
import { isRecord } from '../entry-limits.js';
import type { KeptItem } from './items.js';

/** The path of an item, and whether the request itself contains the item. */
export interface ItemPlace {
  readonly path: string;
  readonly isOwn: boolean;
}

export interface McpCallFields {
  readonly id: string;
  readonly label: string;
  readonly name: string;
  readonly arguments: string;
}

/** The decision about a call. */
export interface Decision {
  readonly approve: boolean;
  readonly reason: string | null;
  readonly place: ItemPlace;
}

/** Results of calls that were not run, as shown to the model. */
const UNFINISHED = 'The tool call did not finish.',
  NOT_APPROVED = 'The user did not approve this tool call.';

/** The MCP items in a conversation. */
export class McpItems {
  /** The latest list of each server's tools. */
  readonly #listed = new Map<string, readonly McpTool[]>();
  readonly #requests = new Set<string>();
  readonly #decisions = new Map<string, Decision>();
  /** IDs of the approval requests whose calls were run. */
  readonly #run = new Set<string>();

  /** `labels`: the servers that the request uses. */
  constructor(readonly labels: ReadonlySet<string>) {}

  /**
   * Reads an item before all other items are converted. Throws ApiError 422 for a second decision about the same
   * call.
   */
  note(kept: KeptItem | { type: 'unknown' }, place: ItemPlace): void {
    const item = kept as unknown as Readonly<Record<string, unknown>>;
    switch (kept.type) {
      case 'mcp_list_tools': {
        const { server_label: label, tools, error } = item;
        if (typeof label === 'string' && Array.isArray(tools) && error == null)
          this.#listed.set(label, (tools as unknown[]).flatMap(toolOf));
        return;
      }
      case 'mcp_call':
        if (typeof item['approval_request_id'] === 'string') this.#run.add(item['approval_request_id']);
        return;
      case 'mcp_approval_request':
        this.#requests.add(String(item['id']));
        return;
      case 'mcp_approval_response': {
        const { approval_request_id: id, approve, reason } = item;
        if (typeof id !== 'string' || typeof approve !== 'boolean') return;
        if (place.isOwn && this.#decisions.get(id)?.place.isOwn === true)
          throw apiError(
            'invalid_value',
            `${place.path}: another item already responds to this approval request.`,
            `${place.path}.approval_request_id`,
          );
        this.#decisions.set(id, { approve, reason: typeof reason === 'string' ? reason : null, place });
        return;
      }
      default:
    }
  }

  /** Returns the tools that a server has listed in this conversation, or null. */
  listed(label: string): readonly McpTool[] | null {
    return this.#listed.get(label) ?? null;
  }

  /** Whether an item is about a server that the request uses. */
  isUsed(item: Readonly<Record<string, unknown>>): boolean {
    return typeof item['server_label'] === 'string' && this.labels.has(item['server_label']);
  }

  /** The decision about a request. Null if the decision is pending or the call was already run. */
  decision(id: string): Decision | 'was run' | null {
    return this.#run.has(id) ? 'was run' : (this.#decisions.get(id) ?? null);
  }

  /** Throws ApiError 422 for a decision in the request's own input that does not belong to an approval request. */
  check(): void {
    if (this.labels.size === 0) return;
    for (const [id, { place }] of this.#decisions)
      if (place.isOwn && !this.#requests.has(id))
        throw apiError(
          'tool_call_not_found',
          `${place.path}.approval_request_id does not match a preceding mcp_approval_request.`,
          `${place.path}.approval_request_id`,
        );
  }
}

/** Returns null for an item that lacks the members of a call. */
export function callOf(item: Readonly<Record<string, unknown>>): McpCallFields | null {
  const { id, server_label: label, name, arguments: given } = item;
  return typeof id === 'string' && typeof label === 'string' && typeof name === 'string' && typeof given === 'string'
    ? { id, label, name, arguments: given }
    : null;
}

/** The result of an `mcp_call` item, as shown to the model. */
export function callResult({ output, error }: Readonly<Record<string, unknown>>): string {
  if (typeof output === 'string') return output;
  if (typeof error === 'string') return failureText({ type: 'mcp_protocol_error', code: 0, message: error });
  return isMcpError(error) ? failureText(error) : UNFINISHED;
}

/** The result of a call that the client has not approved. */
export const refusalText = ({ reason }: Decision): string =>
  reason === null || reason === '' ? NOT_APPROVED : `${NOT_APPROVED} Reason: ${reason}`;

/** Placeholder for the result of a call that has yet to run, or that was approved but never run. */
export const PENDING = UNFINISHED;

function isMcpError(error: unknown): error is McpError {
  if (!isRecord(error)) return false;
  const { type, code, message, content } = error;
  if (type === 'mcp_tool_execution_error')
    return Array.isArray(content) && content.every((part) => isRecord(part) && typeof part['text'] === 'string');
  return (
    (type === 'http_error' || type === 'mcp_protocol_error') && typeof code === 'number' && typeof message === 'string'
  );
}

function toolOf(value: unknown): McpTool[] {
  if (!isRecord(value)) return [];
  const { name, description, input_schema: schema, annotations } = value;
  if (typeof name !== 'string' || name === '' || !isRecord(schema)) return [];
  return [
    {
      name,
      description: typeof description === 'string' ? description : null,
      inputSchema: schema,
      annotations: isRecord(annotations) ? annotations : null,
    },
  ];
}
