// Limits on the MCP tools of one request. docs/reference/limits.md lists them.

/** Maximum number of servers. */
export const MAX_MCP_SERVERS = 8;
/** Maximum number of tools offered to the model, across all servers. */
export const MAX_MCP_TOOLS = 128;
/** Maximum number of calls. */
export const MAX_MCP_CALLS = 16;
/** Maximum duration of one call, or of listing one server's tools, in ms. Includes connecting. */
export const MCP_TIMEOUT_MS = 30_000;
/** Maximum number of bytes that a server may send during one call or listing. */
export const MAX_MCP_BYTES = 1024 * 1024;
