// Converts the result of an MCP tool to text for the model. No side effects.
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';

type Content = CallToolResult['content'][number];

/**
 * Structured content is used only if there is no other content, because the other content is then supposed to
 * contain the same data.
 */
export function resultText({ content, structuredContent }: CallToolResult): string {
  const text = content.map(contentText).join('\n');
  return text === '' && structuredContent !== undefined ? JSON.stringify(structuredContent) : text;
}

/** The data of images and other files is not shown, because the result is text. */
function contentText(part: Content): string {
  switch (part.type) {
    case 'text':
      return part.text;
    case 'image':
    case 'audio':
      return notShown(part.type, part.mimeType, part.data);
    case 'resource_link':
      return [part.title ?? part.name, part.uri, part.description ?? ''].filter((text) => text !== '').join('\n');
    case 'resource':
      return 'text' in part.resource
        ? `${part.resource.uri}\n${part.resource.text}`
        : `${part.resource.uri}\n${notShown('file', part.resource.mimeType, part.resource.blob)}`;
  }
}

const notShown = (kind: string, type: string | undefined, base64: string): string =>
  `[${kind}${type === undefined ? '' : ` of type ${type}`}, ${Buffer.byteLength(base64, 'base64')} bytes, not shown]`;
