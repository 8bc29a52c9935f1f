// The text shown to the model if a call failed. The same error always yields the same text, so that later prompts
// repeat it exactly. No side effects.
import type { McpError } from './types.js';

export function failureText(error: McpError): string {
  return `The tool call failed. ${reason(error)}`;
}

/** The text of a failed tool listing: the failure without an introduction. */
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
