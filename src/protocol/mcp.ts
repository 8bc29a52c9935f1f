// Parses a request's MCP servers in each API format. No side effects.
import { z } from 'zod';
import type { McpSettings } from '../generation/mcp/session.js';
import { urlProblem } from '../generation/mcp/session.js';
import { MAX_MCP_SERVERS } from '../generation/mcp/limits.js';
import type { McpApproval, McpServer, McpTool, McpToolFilter } from '../generation/mcp/types.js';
import { apiError } from '../shared/errors.js';
import { isRecord } from './entry-limits.js';
import { jsonObject } from './fields.js';
import { unreadFields } from './unread.js';
import { mcpFields } from './ineffective.js';
import { validatedAt } from './validation.js';

/** The settings for MCP servers. Absent if this server uses none. */
export type McpPolicy = McpSettings | undefined;

const LABEL = /^[A-Za-z0-9_-]{1,64}$/;
const MAX_URL = 8_192,
  MAX_VALUE = 8_192,
  MAX_HEADERS = 64,
  MAX_HEADER_CHARACTERS = 16_384,
  MAX_NAMES = 1_024,
  MAX_NAME = 256,
  MAX_DESCRIPTION = 4_096;
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Characters that HTTP allows in header values. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Headers that the connection to the server sets itself. */
const OWN_HEADERS = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'last-event-id',
  'mcp-protocol-version',
  'mcp-session-id',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const names = z.array(z.string().min(1).max(MAX_NAME)).max(MAX_NAMES);
const filter = z.object({ tool_names: names.nullish(), read_only: z.boolean().nullish() });
const secret = z.string().max(MAX_VALUE);
const NO_FILTER: McpToolFilter = { names: null, readOnly: null };

const responsesTool = z.object({
  server_label: z.string().regex(LABEL, 'must be 1 to 64 letters, digits, _ or -'),
  server_url: z.string().max(MAX_URL).nullish(),
  connector_id: z.unknown().optional(),
  tunnel_id: z.unknown().optional(),
  server_description: z.string().max(MAX_DESCRIPTION).nullish(),
  authorization: secret.nullish(),
  headers: z.record(z.string(), secret).nullish(),
  allowed_tools: z.union([names, filter]).nullish(),
  require_approval: z
    .union([z.enum(['always', 'never']), z.object({ always: filter.nullish(), never: filter.nullish() })])
    .nullish(),
});

type ToolFields = z.infer<typeof responsesTool>;

/** The tool as listed in a response, without secrets. */
export interface WireMcpTool {
  type: 'mcp';
  server_label: string;
  server_url: string;
  server_description: string | null;
  headers: null;
  allowed_tools: ToolFields['allowed_tools'];
  require_approval: NonNullable<ToolFields['require_approval']>;
}

export interface ReadMcpTool {
  readonly server: McpServer;
  readonly wire: WireMcpTool;
  /** Paths of the tool's fields that have no effect. */
  readonly ignored: readonly string[];
}

/**
 * `at`: the tool's position. `listed`: the server's tools, if the conversation contains them. Throws ApiError 400 or
 * 422.
 */
export function responsesMcp(
  entry: object,
  at: { readonly list: string; readonly index: number },
  policy: McpSettings,
  listed: (label: string) => readonly McpTool[] | null,
): ReadMcpTool {
  const path = `${at.list}[${at.index}]`;
  const tool = validatedAt(responsesTool, entry, [at.list, at.index]);
  for (const name of ['connector_id', 'tunnel_id'] as const)
    if (tool[name] != null)
      throw apiError(
        'unsupported_feature',
        `${path}.${name} is not supported. Use server_url instead.`,
        `${path}.${name}`,
      );
  if (tool.server_url == null)
    throw apiError('missing_required_parameter', `${path}.server_url is required.`, `${path}.server_url`);
  const url = checkedUrl(tool.server_url, `${path}.server_url`, policy);
  const allowed = toFilter(Array.isArray(tool.allowed_tools) ? { tool_names: tool.allowed_tools } : tool.allowed_tools);
  const approval = toApproval(tool.require_approval);
  const known = listed(tool.server_label);
  return {
    server: {
      label: tool.server_label,
      url: url.href,
      headers: checkedHeaders(tool, path),
      description: tool.server_description ?? null,
      allowed,
      disabled: [],
      approval,
      // A list that was filtered differently may lack tools that are now allowed.
      listed: known === null || allowed.names?.some((name) => !known.some((one) => one.name === name)) ? null : known,
      path,
    },
    wire: {
      type: 'mcp',
      server_label: tool.server_label,
      server_url: withoutPath(url),
      server_description: tool.server_description ?? null,
      headers: null,
      allowed_tools: tool.allowed_tools ?? null,
      require_approval: tool.require_approval ?? 'always',
    },
    ignored: unreadFields(z.object({ tools: responsesTool }), { tools: entry }, mcpFields),
  };
}

/** Throws ApiError 422. */
export function checkServerCount(servers: readonly McpServer[]): void {
  const last = servers.at(-1);
  if (last === undefined) return;
  if (servers.length > MAX_MCP_SERVERS)
    throw apiError('array_too_long', `A request may use at most ${MAX_MCP_SERVERS} MCP servers.`, last.path);
  if (servers.slice(0, -1).some(({ label }) => label === last.label))
    throw apiError('duplicate_tool_name', `${last.path}: another MCP server has the same name.`, last.path);
}

export function checkedUrl(text: string, path: string, policy: McpSettings): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) throw apiError('invalid_value', `${path} must be a URL.`, path);
  const problem = urlProblem(url, policy);
  if (problem !== null) throw apiError('mcp_server_not_allowed', `${path}: ${problem}.`, path);
  return url;
}

/** The path and query of a URL may contain secrets. */
const withoutPath = (url: URL): string => (url.pathname === '/' && url.search === '' ? url.origin : `${url.origin}/…`);

function checkedHeaders(
  { authorization, headers }: Pick<ToolFields, 'authorization' | 'headers'>,
  path: string,
): Readonly<Record<string, string>> {
  const checked: Record<string, string> = {};
  const entries = Object.entries(headers ?? {});
  if (entries.length > MAX_HEADERS)
    throw apiError('too_many_entries', `${path}.headers may have at most ${MAX_HEADERS} entries.`, `${path}.headers`);
  const characters = entries.reduce(
    (sum, [name, value]) => sum + name.length + value.length,
    authorization?.length ?? 0,
  );
  if (characters > MAX_HEADER_CHARACTERS)
    throw apiError(
      'string_too_long',
      `${path}.headers may have at most ${MAX_HEADER_CHARACTERS} characters in total.`,
      `${path}.headers`,
    );
  for (const [name, value] of entries) {
    const at = `${path}.headers`;
    if (!TOKEN.test(name) || OWN_HEADERS.has(name.toLowerCase()))
      throw apiError(
        'invalid_value',
        `${at}: a header with this name cannot be set: ${JSON.stringify(name.slice(0, 64))}.`,
        at,
      );
    checked[name.toLowerCase()] = checkedValue(value, at);
  }
  if (authorization == null || authorization === '') return checked;
  if ('authorization' in checked)
    throw apiError(
      'conflicting_parameters',
      `${path}: only one of authorization and headers.Authorization can be used.`,
      `${path}.authorization`,
    );
  return { ...checked, authorization: bearer(authorization, `${path}.authorization`) };
}

/** Returns the value of the authorization header for an OAuth access token. */
export function bearer(token: string, path: string): string {
  return checkedValue(/^bearer /i.test(token) ? token : `Bearer ${token}`, path);
}

/** The message does not quote the value, because it is secret. */
function checkedValue(value: string, path: string): string {
  if (!VALUE.test(value))
    throw apiError('invalid_value', `${path}: the value contains characters that a header cannot have.`, path);
  return value;
}

function toFilter(given: z.infer<typeof filter> | null | undefined): McpToolFilter {
  return given == null ? NO_FILTER : { names: given.tool_names ?? null, readOnly: given.read_only ?? null };
}

function toApproval(given: ToolFields['require_approval']): McpApproval {
  if (given == null || typeof given === 'string') return given ?? 'always';
  return {
    always: given.always == null ? null : toFilter(given.always),
    never: given.never == null ? null : toFilter(given.never),
  };
}

const messagesServer = z.object({
  type: z.literal('url'),
  name: z.string().regex(LABEL, 'must be 1 to 64 letters, digits, _ or -'),
  url: z.string().max(MAX_URL),
  authorization_token: secret.nullish(),
  tool_configuration: z.object({ allowed_tools: names.nullish(), enabled: z.boolean().nullish() }).nullish(),
});
const messagesServers = z.array(messagesServer);

/** Returns the names in `mcp_servers`, which may be invalid. */
export const mcpServerNames = (servers: unknown): Set<string> =>
  new Set(
    Array.isArray(servers)
      ? (servers as unknown[]).flatMap((one) => (isRecord(one) && typeof one['name'] === 'string' ? [one['name']] : []))
      : [],
  );

const toolConfig = z.object({ enabled: z.boolean().nullish() });
const messagesToolset = z.object({
  type: z.literal('mcp_toolset'),
  mcp_server_name: z.string(),
  configs: z.record(z.string().max(MAX_NAME), toolConfig).nullish(),
  default_config: toolConfig.nullish(),
  tools: z
    .array(
      z.object({
        name: z.string().min(1).max(MAX_NAME),
        description: z.string().nullish(),
        input_schema: jsonObject(),
      }),
    )
    .max(MAX_NAMES)
    .nullish(),
});

export interface Toolset {
  readonly server: string;
  readonly path: string;
  readonly fields: z.infer<typeof messagesToolset>;
  readonly ignored: readonly string[];
}

/** Throws ApiError 400 or 422. */
export function readToolset(entry: object, index: number): Toolset {
  const fields = validatedAt(messagesToolset, entry, ['tools', index]);
  return {
    server: fields.mcp_server_name,
    path: `tools[${index}]`,
    fields,
    ignored: unreadFields(z.object({ tools: messagesToolset }), { tools: entry }, mcpFields),
  };
}

/**
 * Converts the servers of a Messages request. `listed`: the server's tools, if the conversation contains them. Throws
 * ApiError 400 or 422.
 */
export function messagesMcp(
  servers: unknown,
  toolsets: readonly Toolset[],
  policy: McpSettings,
  listed: (name: string) => readonly McpTool[] | null,
): McpServer[] {
  const read: McpServer[] = [];
  const given = servers == null ? [] : validatedAt(messagesServers, servers, ['mcp_servers']);
  for (const [index, { name, url, authorization_token: token, tool_configuration: config }] of given.entries()) {
    const path = `mcp_servers[${index}]`;
    const [toolset, second] = toolsets.filter(({ server }) => server === name);
    if (second !== undefined)
      throw apiError('duplicate_tool_name', `${second.path}: another toolset has the same MCP server.`, second.path);
    read.push({
      label: name,
      url: checkedUrl(url, `${path}.url`, policy).href,
      headers: token == null || token === '' ? {} : { authorization: bearer(token, `${path}.authorization_token`) },
      description: null,
      ...(toolset === undefined
        ? {
            allowed:
              config?.enabled === false
                ? { names: [], readOnly: null }
                : toFilter({ tool_names: config?.allowed_tools }),
            disabled: [],
          }
        : toolsetFilter(toolset)),
      approval: 'never',
      listed: toolset?.fields.tools?.map(toTool) ?? listed(name),
      path,
    });
    checkServerCount(read);
  }
  for (const { server, path } of toolsets)
    if (!read.some(({ label }) => label === server))
      throw apiError(
        'tool_not_found',
        `${path}.mcp_server_name does not name a server in mcp_servers.`,
        `${path}.mcp_server_name`,
      );
  return read;
}

function toolsetFilter({ fields }: Toolset): Pick<McpServer, 'allowed' | 'disabled'> {
  const configs = Object.entries(fields.configs ?? {});
  const isOn = fields.default_config?.enabled !== false;
  return {
    allowed: isOn
      ? NO_FILTER
      : { names: configs.filter(([, { enabled }]) => enabled === true).map(([name]) => name), readOnly: null },
    disabled: configs.filter(([, { enabled }]) => enabled === false).map(([name]) => name),
  };
}

export const toTool = ({
  name,
  description,
  input_schema,
}: {
  name: string;
  description?: string | null | undefined;
  input_schema: Readonly<Record<string, unknown>>;
}): McpTool => ({ name, description: description ?? null, inputSchema: input_schema, annotations: null });
