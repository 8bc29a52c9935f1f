// Converts calls and results of another service's tools to text, so that a conversation that started there can continue
// with those results. No side effects.
import { stringifyAsWritten } from '../shared/exact-json.js';
import { fromSearchContent } from './search-content.js';
import { isRecord } from './entry-limits.js';
import type { Unshown } from './unread.js';

/** Names of the members with readable text, in display order. */
const SHOWN = [
  'name',
  'server_label',
  'tool_name',
  'title',
  'description',
  'url',
  'uri',
  'filename',
  'query',
  'queries',
  'code',
  'command',
  'commands',
  'pattern',
  'text',
  'data',
  'stdout',
  'stderr',
  'logs',
  'lines',
  'return_code',
  'exit_code',
  'error_code',
  'error_message',
  'error',
  'message',
  'approve',
  'reason',
  'arguments',
  'input',
  'action',
  'actions',
  'operation',
  'diff',
  'path',
  'tools',
  'encrypted_content',
  'content',
  'result',
  'results',
  'output',
  'outputs',
  'outcome',
  'tool_references',
  'source',
] as const;
/**
 * Members that are not listed as ignored, because they link items, are shown in a different form, or are readable only
 * by the service that wrote them.
 */
const BOOKKEEPING = new Set([
  'type',
  'id',
  'call_id',
  'tool_use_id',
  'approval_request_id',
  'status',
  'encrypted_content',
  'encrypted_index',
  'encrypted_stdout',
]);
/** Members whose `type` is shown if they have no name, because it identifies the action or the tool. */
const TYPED = new Set(['operation', 'outcome', 'tools']);
const MAX_DEPTH = 8;
const MAX_CHARACTERS = 64 * 1024;
/** Matches base64 data, such as image data, which is not shown. */
const ENCODED = /^[A-Za-z0-9+/_=-]{512,}$/;

interface Block {
  readonly type: string;
}

/** Returns the block's or item's type, followed by at most 64 Ki characters of its readable text. */
export function hostedText(block: Block): string {
  const lines: string[] = [];
  if ((block as { status?: unknown }).status === 'failed') lines.push('failed');
  collect(block, lines, 0, block.type);
  const text = lines.join('\n');
  const shown = text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
  return shown === '' ? `[${block.type}]` : `[${block.type}]\n${shown}`;
}

function collect(value: unknown, lines: string[], depth: number, type: string): void {
  if (typeof value === 'string') {
    if (value !== '' && !ENCODED.test(value)) lines.push(value);
  } else if (typeof value === 'number' || typeof value === 'boolean') {
    lines.push(String(value));
  } else if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) {
    return;
  } else if (Array.isArray(value)) {
    for (const entry of value) collect(entry, lines, depth + 1, type);
  } else {
    const record = value as Readonly<Record<string, unknown>>;
    for (const name of SHOWN) {
      if (!Object.hasOwn(record, name)) continue;
      const shown = record[name];
      if (isVerbatim(name, shown, type)) {
        lines.push(stringifyAsWritten(shown));
        continue;
      }
      for (const entry of TYPED.has(name) ? [shown].flat() : [])
        if (isRecord(entry) && typeof entry['type'] === 'string' && entry['name'] === undefined)
          lines.push(entry['type']);
      // Only the results of this server's own searches can be decoded.
      collect(name === 'encrypted_content' ? searchContent(shown) : shown, lines, depth + 1, type);
    }
  }
}

/** Whether an object is shown as JSON, which is necessary for the input of a call because it may have any members. */
function isVerbatim(name: string, value: unknown, type: string): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return (
    name === 'input' ||
    (name === 'arguments' && !Array.isArray(value)) ||
    (type === 'computer_call' && (name === 'action' || name === 'actions'))
  );
}

/** Lists the members of a block or item that hostedText() does not show. */
export const unshownMembers: Unshown = function* (value) {
  yield* unshown(value, '', 0, String((value as Partial<Block>).type));
};

const SHOWN_NAMES: ReadonlySet<string> = new Set(SHOWN);

function* unshown(value: unknown, path: string, depth: number, type: string): ReturnType<Unshown> {
  if (typeof value !== 'object' || value === null || depth > 2 * MAX_DEPTH) return;
  if (Array.isArray(value)) {
    for (const entry of value) yield* unshown(entry, path, depth + 1, type);
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    const at = path === '' ? name : `${path}.${name}`;
    if (BOOKKEEPING.has(name) || isVerbatim(name, member, type)) continue;
    const isShown = SHOWN_NAMES.has(name) && depth < MAX_DEPTH && !(typeof member === 'string' && ENCODED.test(member));
    if (isShown) yield* unshown(member, at, depth + 1, type);
    // A text's annotations need not be listed, because the model receives the text itself. A tool's annotations are
    // listed.
    else yield { name: name === 'annotations' ? at : name, path: at, value: member };
  }
}

const searchContent = (value: unknown): string | null => (typeof value === 'string' ? fromSearchContent(value) : null);
