// The text that the model reads if a call failed. The same error always has the same text, so that a later prompt
// repeats the prompt of the call. No side effects.
import type { McpError } from './types.js';

export function failureText(error: McpError): string {
  return `The tool call failed. ${reason(error)}`;
}

/** The failure without an introduction, for the list of a server's tools. */
export function reason(error: McpError): string {
  switch (error.type) {
    case 'mcp_tool_execution_error':
      return error.content.map(({ text }) => text).join('\n');
    case 'http_error':
      return `HTTP status ${error.code}: ${error.message}`;
    case 'mcp_protocol_error':
      return error.message;
  }
}
