// The MCP servers of one request, and the outcomes of their calls. Contains only types, because the generation events
// refer to them.

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A tool as listed by its server. */
export interface McpTool {
  readonly name: string;
  readonly description: string | null;
  readonly inputSchema: JsonObject;
  readonly annotations: JsonObject | null;
}

/** Selects tools of one server. A tool must match all conditions that are not null. */
export interface McpToolFilter {
  readonly names: readonly string[] | null;
  /** Whether the server marks the tool as read-only (`readOnlyHint`). */
  readonly readOnly: boolean | null;
}

/** Which calls run only after the client has approved them. */
export type McpApproval =
  | 'always'
  | 'never'
  /** A tool that matches neither filter needs approval. */
  | { readonly always: McpToolFilter | null; readonly never: McpToolFilter | null };

export interface McpServer {
  /** The client's name for the server; unique within the request. */
  readonly label: string;
  readonly url: string;
  /** Secret: never stored, logged or returned. */
  readonly headers: Readonly<Record<string, string>>;
  readonly description: string | null;
  /** A tool is offered only if it matches this filter. */
  readonly allowed: McpToolFilter;
  /** Tools that match this filter are not offered. */
  readonly disabled: readonly string[];
  readonly approval: McpApproval;
  /** The server's tools, if the request contains them; null if they must be requested from the server. */
  readonly listed: readonly McpTool[] | null;
  /** Path of the server's entry in the client's request. */
  readonly path: string;
}

/** A call that the client has approved and that runs before the model continues. */
export interface ApprovedCall {
  /** The ID of the approval request. The tool message with this call ID receives the result. */
  readonly id: string;
  readonly label: string;
  readonly name: string;
  readonly arguments: string;
}

/** The tools that the model may call. */
export interface McpChoice {
  readonly mode: 'none' | 'auto' | 'required';
  /**
   * Null allows all tools. `names`: names of the tools that the client runs. `tools`: tools on MCP servers; a null
   * `name` allows all of the server's tools.
   */
  readonly allowed: {
    readonly names: readonly string[];
    readonly tools: readonly { readonly label: string; readonly name: string | null }[];
  } | null;
}

/** A request's MCP servers and the limits on their use. */
export interface McpOptions {
  readonly servers: readonly McpServer[];
  readonly approved: readonly ApprovedCall[];
  readonly choice: McpChoice;
  /** Maximum number of calls to all tools that this server runs, in total. If null, only MAX_MCP_CALLS applies. */
  readonly maxCalls: number | null;
}

export type McpListing = { readonly tools: readonly McpTool[] } | { readonly error: string };

/** Why a call failed, in the form of the Responses API. */
export type McpError =
  | { readonly type: 'mcp_protocol_error' | 'http_error'; readonly code: number; readonly message: string }
  | { readonly type: 'mcp_tool_execution_error'; readonly content: readonly McpText[] };

export interface McpText {
  readonly type: 'text';
  readonly text: string;
}

/** `text`: the result or failure as shown to the model. */
export type McpOutcome = { readonly text: string; readonly error: McpError | null };
