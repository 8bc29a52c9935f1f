// The output items for MCP servers: lists of their tools, and calls that this server runs. No side effects.
import type { McpListing, McpOutcome, McpTool } from '../../generation/mcp/types.js';
import { newItemId } from '../../shared/ids.js';
import { OpenItemBase } from './encode-item.js';
import type { EventWriter } from './encode-writer.js';
import type { ItemStatus, McpApprovalRequestItem, McpCallItem, McpListItem } from './resource.js';

export class OpenMcpListing extends OpenItemBase<McpListItem> {
  /** Null while the request to the server is running. */
  listing: McpListing | null = null;

  constructor(
    out: EventWriter,
    index: number,
    private readonly label: string,
  ) {
    super(out, index, newItemId('mcpl'));
    this.announce(this.item());
    this.#write('in_progress');
  }

  /** A listing that is unfinished when the response ends counts as failed. */
  item(status: ItemStatus = 'in_progress'): McpListItem {
    const { listing } = this;
    const error =
      listing === null
        ? status === 'in_progress'
          ? null
          : 'The server had not listed its tools when the response ended.'
        : 'error' in listing
          ? listing.error
          : null;
    return {
      id: this.id,
      type: 'mcp_list_tools',
      server_label: this.label,
      tools: listing !== null && 'tools' in listing ? listing.tools.map(wireTool) : [],
      ...(error === null ? {} : { error }),
    };
  }

  protected finish(): void {
    if (this.listing !== null) this.#write('tools' in this.listing ? 'completed' : 'failed');
  }

  #write(state: 'in_progress' | 'completed' | 'failed'): void {
    this.out.write(`response.mcp_list_tools.${state}`, { output_index: this.index, item_id: this.id });
  }
}

const wireTool = ({ name, description, inputSchema, annotations }: McpTool): McpListItem['tools'][number] => ({
  name,
  description,
  input_schema: inputSchema,
  annotations,
});

export interface McpCall {
  readonly label: string;
  readonly name: string;
  readonly arguments: string;
  readonly approvalId: string | null;
}

export class OpenMcpCall extends OpenItemBase<McpCallItem> {
  /** Null while the tool is running. */
  outcome: McpOutcome | null = null;

  constructor(
    out: EventWriter,
    index: number,
    private readonly call: McpCall,
  ) {
    super(out, index, newItemId('mcp'));
    this.announce({ ...this.item('in_progress'), arguments: '' });
    const place = { output_index: index, item_id: this.id };
    this.#write('in_progress');
    // The arguments are complete before the call starts.
    if (call.arguments !== '') out.write('response.mcp_call_arguments.delta', { ...place, delta: call.arguments });
    out.write('response.mcp_call_arguments.done', { ...place, arguments: call.arguments });
  }

  item(status: ItemStatus): McpCallItem {
    const { label, name, arguments: given, approvalId } = this.call;
    const error = this.outcome?.error ?? null;
    return {
      id: this.id,
      type: 'mcp_call',
      status: error !== null ? 'failed' : this.outcome === null && status === 'completed' ? 'incomplete' : status,
      server_label: label,
      name,
      arguments: given,
      approval_request_id: approvalId,
      output: this.outcome !== null && error === null ? this.outcome.text : null,
      error,
    };
  }

  protected finish(): void {
    if (this.outcome !== null) this.#write(this.outcome.error === null ? 'completed' : 'failed');
  }

  #write(state: 'in_progress' | 'completed' | 'failed'): void {
    this.out.write(`response.mcp_call.${state}`, { output_index: this.index, item_id: this.id });
  }
}

export const approvalRequest = (call: Omit<McpCall, 'approvalId'>): McpApprovalRequestItem => ({
  id: newItemId('mcpr'),
  type: 'mcp_approval_request',
  server_label: call.label,
  name: call.name,
  arguments: call.arguments,
});
