// Calls one MCP server for one request, with the official SDK, which is loaded on demand. The first operation connects
// to the server. Operations run one after another. Each has a deadline and a maximum number of bytes. An operation that
// exceeds either or is aborted closes the connection, and the next operation opens a new one. Failures are returned as
// outcomes, never thrown. Event-loop thread only.
import { createRequire } from 'node:module';
import { isIP } from 'node:net';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { Agent } from 'undici';
import { hostOf, isAllowedHost } from '../../shared/host-list.js';
import { isDeeper } from '../../shared/json-depth.js';
import { isPublicAddress } from '../../shared/public-address.js';
import { publicLookup } from '../../shared/public-lookup.js';
import { VERSION } from '../../shared/version.js';
import type { JsonSchema } from '../types.js';
import { secretsIn, withoutSecrets } from '../upstream/secrets.js';
import { failureText, reason } from './failure-text.js';
import { MAX_MCP_BYTES, MCP_TIMEOUT_MS } from './limits.js';
import { resultText } from './result-text.js';
import type { McpError, McpListing, McpOutcome, McpServer, McpTool } from './types.js';

const require = createRequire(import.meta.url);

export interface McpSettings {
  readonly allowed_hosts: readonly string[];
  /** Whether to connect only to public internet addresses, and only over https. */
  readonly public_only: boolean;
}

/** Replaced in tests. */
export interface SessionLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
}
const LIMITS: SessionLimits = { timeoutMs: MCP_TIMEOUT_MS, maxBytes: MAX_MCP_BYTES };

/** Shorter header values are not treated as secrets, because masking them would garble results. */
const MIN_SECRET = 12;
/** Names of query parameters whose values are credentials. */
const CREDENTIAL = /key|token|secret|auth|sig|pass|cred/i;
/**
 * Matches other URL parts that look like credentials: they contain a UUID, or a run of 16 letters and digits that
 * contains both. Many hosted servers have a key in their path. Tool names and versions do not look like this.
 */
const LOOKS_SECRET = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{16}/i;
/** Maximum number of secrets that are masked, because masking takes event-loop time. */
const MAX_SECRETS = 64;
/**
 * Maximum nesting of values: more than any tool schema needs. Deeper values could overflow the stack during
 * serialization.
 */
const MAX_SCHEMA_DEPTH = 128;
/** Maximum length of a message from the server within an error, in characters. */
const MAX_MESSAGE = 2_000;
/** JSON-RPC error codes. See the JSON-RPC 2.0 specification; the last two are the SDK's. */
const INTERNAL_ERROR = -32603,
  CONNECTION_CLOSED = -32000,
  TIMED_OUT = -32001;
/** Status codes returned by servers that do not support Streamable HTTP. */
const UNKNOWN_TRANSPORT: ReadonlySet<number> = new Set([400, 404, 405]);
/** Occurs in the JSON text of every MCP notification that the SDK sends. */
const NOTICE = '"method":"notifications/';
/** Maximum number of pending requests per connection. */
const MAX_SENDING = 32;
/** How long a server may take to confirm the end of a session, in ms. */
const GOODBYE_MS = 2_000;

interface Sdk {
  readonly client: typeof import('@modelcontextprotocol/sdk/client/index.js');
  readonly http: typeof import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  readonly sse: typeof import('@modelcontextprotocol/sdk/client/sse.js');
  readonly types: typeof import('@modelcontextprotocol/sdk/types.js');
}

let loading: Promise<Sdk> | null = null;

/**
 * The SDK is loaded on the first call, because most installations use no MCP server. A failed attempt is retried on
 * the next call.
 */
function loadSdk(): Promise<Sdk> {
  loading ??= Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    import('@modelcontextprotocol/sdk/client/sse.js'),
    import('@modelcontextprotocol/sdk/types.js'),
  ]).then(
    ([client, http, sse, types]) => ({ client, http, sse, types }),
    (error: unknown) => {
      loading = null;
      throw error;
    },
  );
  return loading;
}

/** One listing or call. */
interface Operation {
  bytes: number;
  readonly stopped: AbortController;
  readonly signal: AbortSignal;
}

/** Ends an operation that exceeds a limit. */
class LimitExceeded extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

interface ConnectionState {
  /** No more data is read from a closed connection. */
  isOver: boolean;
  /** Number of bytes that arrived while no operation was running. */
  idleBytes: number;
  /** Number of requests to the server that are awaiting a response. */
  sending: number;
  /** Notifications that are being sent, such as the cancellation of a call. */
  readonly notices: Set<Promise<unknown>>;
}

interface Connection {
  readonly client: Client;
  readonly agent: Agent;
  readonly state: ConnectionState;
  /** Ends the server's session, if it has one. */
  terminate(): Promise<void>;
}

/** Thrown for URLs that must not be requested. */
const refusal = (why: string): Error => new Error(`The URL of the MCP server is not allowed: ${why}.`);

/** Returns why no request may be sent to a URL, or null. `settings`: which hosts are allowed. */
export function urlProblem(url: URL, { allowed_hosts, public_only }: McpSettings): string | null {
  const host = hostOf(url);
  if (url.protocol !== 'https:' && (public_only || url.protocol !== 'http:'))
    return public_only ? 'it must use https' : 'it must use https or http';
  if (url.username !== '' || url.password !== '') return 'it must not contain a user name or password';
  if (!isAllowedHost(host, allowed_hosts)) return `the host ${host} is not in mcp.allowed_hosts`;
  if (public_only && isIP(host) !== 0 && !isPublicAddress(host)) return `${host} is not a public address`;
  return null;
}

export class McpSession {
  readonly #secrets: readonly string[];
  #connection: Connection | null = null;
  /** Stops the attempt to connect. */
  #opening: AbortController | null = null;
  #operation: Operation | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly server: McpServer,
    private readonly settings: McpSettings,
    private readonly limits: SessionLimits = LIMITS,
  ) {
    this.#secrets = secretsIn(
      [...Object.values(server.headers), ...urlSecrets(server.url)].filter(({ length }) => length >= MIN_SECRET),
      { least: MIN_SECRET, most: MAX_SECRETS },
    );
  }

  /** Lists all tools of the server. The outcome is meaningless if `signal` is aborted. */
  async list(signal: AbortSignal): Promise<McpListing> {
    const done = await this.#run(signal, async ({ types }, client, options) => {
      const tools: McpTool[] = [];
      let cursor: string | undefined;
      do {
        const page = await client.request(
          { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
          types.ListToolsResultSchema,
          options,
        );
        // A tool whose name contains a secret is omitted, because it could not be called by its masked name.
        for (const tool of page.tools)
          if (this.#safe(tool.name) === wellFormed(tool.name)) tools.push(this.#listed(tool));
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      return tools;
    });
    return 'value' in done ? { tools: done.value } : { error: reason(done.error) };
  }

  /** Calls a tool. The outcome is meaningless if `signal` is aborted. */
  async call(name: string, given: JsonSchema, signal: AbortSignal): Promise<McpOutcome> {
    const done = await this.#run(signal, ({ types }, client, options) =>
      client.request(
        { method: 'tools/call', params: { name, arguments: { ...given } } },
        types.CallToolResultSchema,
        options,
      ),
    );
    if (!('value' in done)) return failed(done.error);
    const text = this.#safe(resultText(done.value));
    if (done.value.isError !== true) return { text, error: null };
    return failed({ type: 'mcp_tool_execution_error', content: [{ type: 'text', text }] });
  }

  /** Notifies the server that the session and unfinished calls have ended, then closes the connection. */
  close(): void {
    this.#opening?.abort(new Error('The connection is closed.'));
    this.#opening = null;
    const connection = this.#connection;
    this.#connection = null;
    if (connection === null) return;
    connection.state.isOver = true;
    void goodbye(connection);
  }

  #listed(tool: {
    name: string;
    description?: string | undefined;
    inputSchema: object;
    annotations?: object | undefined;
  }): McpTool {
    const name = wellFormed(tool.name);
    for (const [what, value] of Object.entries({ inputSchema: tool.inputSchema, annotations: tool.annotations }))
      if (isDeeper(value, MAX_SCHEMA_DEPTH))
        throw new Error(`The ${what} of the tool ${name} is nested deeper than ${MAX_SCHEMA_DEPTH} levels.`);
    return {
      name,
      description: tool.description === undefined ? null : this.#safe(tool.description),
      inputSchema: this.#safeJson(tool.inputSchema) as JsonSchema,
      annotations: tool.annotations === undefined ? null : (this.#safeJson(tool.annotations) as JsonSchema),
    };
  }

  /** Runs one operation after all earlier ones. */
  #run<T>(
    signal: AbortSignal,
    work: (sdk: Sdk, client: Client, options: { signal: AbortSignal; timeout: number }) => Promise<T>,
  ): Promise<{ value: T } | { error: McpError }> {
    const running = this.#last.then(() => this.#operate(signal, work));
    this.#last = running;
    return running;
  }

  async #operate<T>(
    signal: AbortSignal,
    work: (sdk: Sdk, client: Client, options: { signal: AbortSignal; timeout: number }) => Promise<T>,
  ): Promise<{ value: T } | { error: McpError }> {
    let sdk: Sdk;
    try {
      sdk = await loadSdk();
    } catch {
      return {
        error: { type: 'mcp_protocol_error', code: INTERNAL_ERROR, message: 'The MCP client cannot be loaded.' },
      };
    }
    const { timeoutMs } = this.limits;
    const stopped = new AbortController();
    const deadline = setTimeout(
      () => stopped.abort(new LimitExceeded(TIMED_OUT, `The server did not respond within ${timeoutMs / 1_000} s.`)),
      timeoutMs,
    );
    const operation: Operation = { bytes: 0, stopped, signal: AbortSignal.any([signal, stopped.signal]) };
    this.#operation = operation;
    // The SDK's own timeout is not used: its message does not state the limit.
    const options = { signal: operation.signal, timeout: 2 * timeoutMs };
    try {
      operation.signal.throwIfAborted();
      const value = await unlessAborted(
        this.#connected(sdk, options).then(({ client }) => work(sdk, client, options)),
        operation.signal,
      );
      return { value };
    } catch (error) {
      this.close(); // the response to an abandoned request may still arrive
      return { error: this.#failure(sdk, operation.stopped.signal.aborted ? operation.stopped.signal.reason : error) };
    } finally {
      clearTimeout(deadline);
      this.#operation = null;
    }
  }

  async #connected(sdk: Sdk, options: { signal: AbortSignal; timeout: number }): Promise<Connection> {
    if (this.#connection !== null) return this.#connection;
    const url = new URL(this.server.url);
    const problem = urlProblem(url, this.settings);
    if (problem !== null) throw refusal(problem);
    const opening = (this.#opening = new AbortController());
    const stoppable = { ...options, signal: AbortSignal.any([options.signal, opening.signal]) };
    try {
      return (this.#connection = await this.#open(sdk, stoppable, false));
    } catch (error) {
      if (!(error instanceof sdk.http.StreamableHTTPError) || !UNKNOWN_TRANSPORT.has(error.code ?? 0)) throw error;
      // The server may support only the older transport (HTTP+SSE).
      return (this.#connection = await this.#open(sdk, stoppable, true).catch((): never => {
        throw error;
      }));
    } finally {
      if (this.#opening === opening) this.#opening = null;
    }
  }

  /** `older`: use the HTTP+SSE transport from the protocol's first version. */
  async #open(sdk: Sdk, options: { signal: AbortSignal; timeout: number }, older: boolean): Promise<Connection> {
    options.signal.throwIfAborted();
    const undici = require('undici') as typeof import('undici');
    const agent = new undici.Agent({
      connections: 4,
      headersTimeout: 0, // the operation's deadline applies
      bodyTimeout: 0,
      connect: this.settings.public_only ? { lookup: publicLookup(options.signal) } : {},
    });
    const state: ConnectionState = { isOver: false, idleBytes: 0, sending: 0, notices: new Set() };
    const fetch = this.#fetch(undici, { agent, older, state });
    const url = new URL(this.server.url);
    const requestInit = { headers: { 'user-agent': `monolith/${VERSION}`, ...this.server.headers } };
    const http = older
      ? null
      : new sdk.http.StreamableHTTPClientTransport(url, {
          fetch,
          requestInit,
          reconnectionOptions: {
            initialReconnectionDelay: 500,
            maxReconnectionDelay: 5_000,
            reconnectionDelayGrowFactor: 2,
            maxRetries: 5,
          },
        });
    const transport = http ?? new sdk.sse.SSEClientTransport(url, { fetch, requestInit });
    const client = new sdk.client.Client({ name: 'monolith', version: VERSION }, { capabilities: {} });
    try {
      // The SDK does not stop all steps of connecting when the signal is aborted.
      await unlessAborted(client.connect(transport as Transport, options), options.signal);
      options.signal.throwIfAborted();
    } catch (error) {
      state.isOver = true;
      void client.close().catch(() => undefined);
      void agent.destroy().catch(() => undefined);
      throw error;
    }
    return { client, agent, state, terminate: async () => http?.terminateSession() };
  }

  /** Counts the bytes of every response toward the limit of the current operation. */
  #fetch(
    undici: typeof import('undici'),
    { agent, older, state }: { agent: Agent; older: boolean; state: ConnectionState },
  ): typeof globalThis.fetch {
    const send = async (input: string | URL, init: RequestInit = {}): Promise<unknown> => {
      const url = new URL(input);
      const problem = urlProblem(url, this.settings);
      if (problem !== null) throw refusal(problem);
      const headers = new undici.Headers(init.headers as ConstructorParameters<typeof undici.Headers>[0]);
      // Messages that belong to no request are ignored. An interrupted stream is resumed.
      if (init.method === 'GET' && !older && !headers.has('last-event-id'))
        return new undici.Response(null, { status: 405 });
      // A server can make the client send messages, because the client responds to each of its requests.
      if (state.sending >= MAX_SENDING)
        throw this.#exceeded(`The server causes more than ${MAX_SENDING} requests at the same time.`);
      state.sending++;
      const sending = undici
        .fetch(url, { ...(init as object), headers, dispatcher: agent, redirect: 'manual' })
        .finally(() => state.sending--);
      if (typeof init.body === 'string' && init.body.includes(NOTICE)) {
        const sent = sending.catch(() => undefined).finally(() => state.notices.delete(sent));
        state.notices.add(sent);
      }
      const response = await sending;
      if (response.body === null) return response;
      const counter = new TransformStream<Uint8Array, Uint8Array>({
        transform: (part, out) => {
          this.#count(part.byteLength, state);
          out.enqueue(part);
        },
      });
      return new undici.Response(
        (response.body as unknown as ReadableStream<Uint8Array>).pipeThrough(counter) as ConstructorParameters<
          typeof undici.Response
        >[0],
        { status: response.status, statusText: response.statusText, headers: response.headers },
      );
    };
    return send as typeof globalThis.fetch;
  }

  #count(bytes: number, state: ConnectionState): void {
    if (state.isOver) throw new Error('The connection is closed.');
    const operation = this.#operation;
    const total = operation === null ? (state.idleBytes += bytes) : (operation.bytes += bytes);
    if (total > this.limits.maxBytes)
      throw this.#exceeded(`The server's response is larger than ${this.limits.maxBytes} bytes.`);
  }

  /** Fails the current operation or, between operations, closes the connection. Returns the error. */
  #exceeded(message: string): LimitExceeded {
    const error = new LimitExceeded(INTERNAL_ERROR, message);
    if (this.#operation === null) this.close();
    else this.#operation.stopped.abort(error);
    return error;
  }

  #failure({ http, sse, types }: Sdk, error: unknown): McpError {
    const message = this.#message(error);
    if (error instanceof LimitExceeded) return { type: 'mcp_protocol_error', code: error.code, message };
    if (error instanceof types.McpError) return { type: 'mcp_protocol_error', code: error.code, message };
    if ((error instanceof http.StreamableHTTPError || error instanceof sse.SseError) && (error.code ?? 0) > 0)
      return { type: 'http_error', code: error.code ?? 0, message };
    return { type: 'mcp_protocol_error', code: CONNECTION_CLOSED, message };
  }

  #message(error: unknown): string {
    let at = error;
    // undici reports a failed connection as the cause of a TypeError.
    while (at instanceof TypeError && at.cause !== undefined) at = at.cause;
    const text =
      at instanceof AggregateError && at.message === ''
        ? String((at.errors as unknown[])[0])
        : at instanceof Error
          ? at.message
          : String(at);
    // Secrets are masked before the text is truncated, because a truncated secret would not be found.
    const safe = this.#safe(text);
    return safe.length > MAX_MESSAGE ? wellFormed(`${safe.slice(0, MAX_MESSAGE)}…`) : safe;
  }

  #safe = (text: string): string => wellFormed(withoutSecrets(text, this.#secrets));

  /** Masks secrets in the names and strings of a JSON value of limited depth. */
  #safeJson(value: unknown): unknown {
    if (typeof value === 'string') return this.#safe(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => this.#safeJson(item));
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [this.#safe(name), this.#safeJson(item)]));
  }
}

/** Returns the parts of a valid URL that may be secrets: query values and path segments. */
function urlSecrets(text: string): string[] {
  const url = new URL(text);
  const values = [...url.searchParams].filter(([name, value]) => CREDENTIAL.test(name) || LOOKS_SECRET.test(value));
  const segments = url.pathname.split('/').flatMap((segment) => [segment, decoded(segment)]);
  return [...values.map(([, value]) => value), ...segments.filter((segment) => LOOKS_SECRET.test(segment))];
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Replaces lone surrogates, which storage could not return unchanged. */
const wellFormed = (text: string): string => Buffer.from(text).toString();

const failed = (error: McpError): McpOutcome => ({ text: failureText(error), error });

async function goodbye({ client, agent, state, terminate }: Connection): Promise<void> {
  const waited = new Promise<void>((resolve) => setTimeout(resolve, GOODBYE_MS).unref());
  await new Promise(setImmediate); // until the SDK sends the cancellation of an aborted call
  // The server ignores a cancellation that arrives after the end of the session.
  await Promise.race([Promise.all(state.notices), waited]);
  await Promise.race([terminate().catch(() => undefined), waited]);
  await client.close().catch(() => undefined);
  await agent.destroy().catch(() => undefined);
}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
