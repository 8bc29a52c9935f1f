// The MCP tools offered to the model in one request: their definitions under names that are unique within the request,
// and which calls need approval. No side effects.
import { apiError } from '../../shared/errors.js';
import { checkToolSchemas } from '../output-format.js';
import type { ToolChoice, ToolDefinition } from '../types.js';
import { MAX_MCP_TOOLS } from './limits.js';
import type { McpChoice, McpListing, McpServer, McpTool, McpToolFilter } from './types.js';

/** Maximum length of a tool's name; see the formats' tool definitions. */
const MAX_NAME = 128;

export interface OfferedTool {
  readonly server: McpServer;
  readonly tool: McpTool;
  readonly needsApproval: boolean;
}

/**
 * Returns the name under which a tool is shown to the model. MCP servers may use characters in names that chat
 * templates and other services do not allow.
 */
export const mcpToolName = (label: string, name: string): string =>
  `${label}__${name}`.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_NAME);

export class McpToolSet {
  readonly definitions: ToolDefinition[] = [];
  /** The tools by the name shown to the model. */
  readonly #tools = new Map<string, OfferedTool>();

  /** `taken`: names of the request's other tools. */
  constructor(private readonly taken: ReadonlySet<string>) {}

  get size(): number {
    return this.#tools.size;
  }

  find(name: string): OfferedTool | null {
    return this.#tools.get(name) ?? null;
  }

  findOn(label: string, name: string): OfferedTool | null {
    for (const offered of this.#tools.values())
      if (offered.server.label === label && offered.tool.name === name) return offered;
    return null;
  }

  /** Adds a server's tools. Returns the offered tools or, if none of them can be offered, the reason. */
  add(server: McpServer, all: readonly McpTool[]): McpListing {
    const tools = all.filter((tool) => isOffered(server, tool));
    const room = MAX_MCP_TOOLS - this.#tools.size;
    if (tools.length > room)
      return {
        error: `The server offers ${tools.length} tools, but only ${room} of the maximum of ${MAX_MCP_TOOLS} tools per response are left. Select fewer tools with allowed_tools.`,
      };
    const added: [string, OfferedTool, ToolDefinition][] = [];
    const names = new Set<string>();
    for (const [at, tool] of tools.entries()) {
      const name = this.#freeName(mcpToolName(server.label, tool.name), names);
      names.add(name);
      const about = at === 0 && server.description !== null ? `${server.label}: ${server.description}` : null;
      const description = [about, tool.description].filter((text) => text !== null && text !== '').join('\n\n');
      added.push([
        name,
        { server, tool, needsApproval: needsApproval(server, tool) },
        {
          name,
          description: description === '' ? null : description,
          parameters: tool.inputSchema,
          strict: false,
          path: server.path,
        },
      ]);
    }
    try {
      checkToolSchemas([...this.definitions, ...added.map(([, , definition]) => definition)]);
    } catch (error) {
      return { error: `The server's tool schemas cannot be used: ${(error as Error).message}` };
    }
    for (const [name, offered, definition] of added) {
      this.#tools.set(name, offered);
      this.definitions.push(definition);
    }
    return { tools };
  }

  /**
   * Converts the tool choice to the names shown to the model. `own`: names of the request's other tools. Throws
   * ApiError tool_not_found or conflicting_parameters.
   */
  choice({ mode, allowed }: McpChoice, own: readonly string[]): ToolChoice {
    const all = [...own, ...this.#tools.keys()];
    if (allowed?.names.some((name) => !all.includes(name)) === true)
      throw apiError('tool_not_found', 'tool_choice names a tool that is not in tools.', 'tool_choice');
    const names =
      allowed === null ? null : [...allowed.names, ...allowed.tools.flatMap((chosen) => this.#chosen(chosen))];
    if ((names ?? all).length > 0) return { mode, allowed: names };
    if (mode !== 'required') return { mode: 'none', allowed: null };
    throw apiError(
      'conflicting_parameters',
      'tool_choice requires a tool call, but there is no tool that may be called.',
      'tool_choice',
    );
  }

  #chosen({ label, name }: { label: string; name: string | null }): string[] {
    const names = [...this.#tools].filter(
      ([, { server, tool }]) => server.label === label && (name === null || tool.name === name),
    );
    if (names.length === 0)
      throw apiError(
        'tool_not_found',
        name === null
          ? `tool_choice: the MCP server ${label} offers no tools.`
          : `tool_choice: the MCP server ${label} does not offer a tool with this name.`,
        'tool_choice',
      );
    return names.map(([seen]) => seen);
  }

  #freeName(wanted: string, added: ReadonlySet<string>): string {
    let name = wanted;
    for (let number = 2; this.taken.has(name) || this.#tools.has(name) || added.has(name); number++) {
      const end = `_${number}`;
      name = wanted.slice(0, MAX_NAME - end.length) + end;
    }
    return name;
  }
}

const isOffered = ({ allowed, disabled }: McpServer, tool: McpTool): boolean =>
  matches(allowed, tool) && !disabled.includes(tool.name);

function matches({ names, readOnly }: McpToolFilter, { name, annotations }: McpTool): boolean {
  return (
    (names === null || names.includes(name)) &&
    (readOnly === null || (annotations?.['readOnlyHint'] === true) === readOnly)
  );
}

function needsApproval({ approval }: McpServer, tool: McpTool): boolean {
  if (typeof approval === 'string') return approval === 'always';
  if (approval.always !== null && matches(approval.always, tool)) return true;
  return approval.never === null || !matches(approval.never, tool);
}
