// The MCP servers of one running request: lists their tools and runs the model's calls. Event-loop thread only.
import { apiError } from '../../shared/errors.js';
import type { GenerationRequest, JsonSchema, ToolDefinition } from '../types.js';
import { failureText } from './failure-text.js';
import { McpSession, type McpSettings } from './session.js';
import { McpToolSet, type OfferedTool } from './tool-set.js';
import type { McpListing, McpOptions, McpOutcome, McpServer, McpTool } from './types.js';

/** `outcome`: for the metrics. */
export type ObserveMcp = (outcome: 'completed' | 'tool_error' | 'http_error' | 'protocol_error', ms: number) => void;

export interface McpDeps {
  readonly settings: McpSettings;
  readonly observe: ObserveMcp;
}

const NAMES = {
  mcp_tool_execution_error: 'tool_error',
  http_error: 'http_error',
  mcp_protocol_error: 'protocol_error',
} as const;

export class McpTools {
  readonly #sessions = new Map<string, McpSession>();
  readonly #listed = new Map<string, readonly McpTool[]>();
  #set: McpToolSet;

  /**
   * `own`: the request's other tools. Throws ApiError 422 if the MCP tools that the request already lists cannot be
   * offered.
   */
  constructor(
    private readonly deps: McpDeps,
    readonly options: McpOptions,
    private readonly own: readonly ToolDefinition[],
  ) {
    this.#set = this.#newSet();
    for (const { label, listed } of options.servers) if (listed !== null) this.#listed.set(label, listed);
    this.#rebuild();
  }

  /** The servers whose tools are listed. */
  get unlisted(): McpServer[] {
    return this.options.servers.filter(({ label }) => !this.#listed.has(label));
  }

  find(name: string): OfferedTool | null {
    return this.#set.find(name);
  }

  findOn(label: string, name: string): OfferedTool | null {
    return this.#set.findOn(label, name);
  }

  /** Requests a server's tools. */
  fetch(server: McpServer, signal: AbortSignal): Promise<McpListing> {
    return this.#session(server).list(signal);
  }

  /** Offers the tools that fetch() has returned. Returns the offered tools. */
  offer(server: McpServer, listing: McpListing): McpListing {
    const shown = 'error' in listing ? listing : this.#set.add(server, listing.tools);
    this.#listed.set(server.label, 'tools' in shown ? shown.tools : []);
    return shown;
  }

  /**
   * Returns the request with the currently offered tools, in the order of the servers. Throws ApiError tool_not_found
   * or conflicting_parameters if `isFinal` is set and the request's tool choice cannot be satisfied.
   */
  into(request: GenerationRequest, isFinal: boolean): GenerationRequest {
    this.#rebuild();
    const tools = [...this.own, ...this.#set.definitions];
    const names = this.own.map(({ name }) => name);
    if (isFinal) return { ...request, tools, toolChoice: this.#set.choice(this.options.choice, names) };
    const mode = tools.length === 0 || this.options.choice.mode === 'none' ? 'none' : 'auto';
    return { ...request, tools, toolChoice: { mode, allowed: null } };
  }

  async call({ server, tool }: OfferedTool, text: string, signal: AbortSignal): Promise<McpOutcome> {
    const given = argumentsIn(text);
    if (given === null) return failed('The arguments are not a JSON object.', INVALID_PARAMS);
    const startedAt = performance.now();
    const outcome = await this.#session(server).call(tool.name, given, signal);
    const name = outcome.error === null ? 'completed' : NAMES[outcome.error.type];
    if (!signal.aborted) this.deps.observe(name, performance.now() - startedAt);
    return outcome;
  }

  close(): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }

  #session(server: McpServer): McpSession {
    let session = this.#sessions.get(server.label);
    if (session === undefined) this.#sessions.set(server.label, (session = new McpSession(server, this.deps.settings)));
    return session;
  }

  #newSet(): McpToolSet {
    return new McpToolSet(new Set(this.own.map(({ name }) => name)));
  }

  #rebuild(): void {
    this.#set = this.#newSet();
    for (const server of this.options.servers) {
      const added = this.#set.add(server, this.#listed.get(server.label) ?? []);
      if ('error' in added) throw apiError('invalid_value', `${server.path}: ${added.error}`, server.path);
    }
  }
}

/** JSON-RPC error code: invalid method parameters. */
const INVALID_PARAMS = -32602;
/** JSON-RPC error code: invalid request. */
const INVALID_REQUEST = -32600;

function failed(message: string, code: number): McpOutcome {
  const error = { type: 'mcp_protocol_error', code, message } as const;
  return { text: failureText(error), error };
}

export const tooManyCalls = (most: number): McpOutcome =>
  failed(`The maximum of ${most} tool calls per response is reached. Answer without calling tools.`, INVALID_REQUEST);

export const notOffered = (label: string): McpOutcome =>
  failed(`The MCP server ${label} does not offer this tool.`, INVALID_PARAMS);

/** The arguments of a call may be an empty string. */
function argumentsIn(text: string): JsonSchema | null {
  if (text.trim() === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonSchema) : null;
}
