// Combines typed lines into messages, and parses the commands of a chat. No side effects.

/**
 * Collects lines. A message of several lines is typed between """ and """, or with \ at the end of each line but the
 * last; pasted lines also form a single message.
 */
export class MessageInput {
  #lines: string[] = [];
  #isBlock = false;

  /** Whether the current message continues on the next line. */
  get isOpen(): boolean {
    return this.#lines.length > 0 || this.#isBlock;
  }

  /** Returns the complete message, or null if it continues. `pasted`: whether the line is part of pasted text. */
  push(line: string, pasted = false): string | null {
    if (this.#isBlock) {
      const end = line.trimEnd();
      if (!end.endsWith('"""')) {
        this.#lines.push(line);
        return null;
      }
      this.#lines.push(end.slice(0, -3));
      return this.take();
    }
    const start = line.trimStart();
    if (!pasted && this.#lines.length === 0 && start.startsWith('"""')) {
      const rest = start.slice(3);
      // """text""" on one line
      if (rest.trimEnd().endsWith('"""') && rest.trim() !== '"""') return rest.trimEnd().slice(0, -3).trim();
      this.#isBlock = true;
      if (rest.trim() !== '') this.#lines.push(rest);
      return null;
    }
    const isContinued = !pasted && line.endsWith('\\');
    this.#lines.push(isContinued ? line.slice(0, -1) : line);
    return isContinued || pasted ? null : this.take();
  }

  /** Returns the collected text, and resets. */
  take(): string {
    const message = this.#lines.join('\n').trim();
    this.#lines = [];
    this.#isBlock = false;
    return message;
  }
}

/** Request fields that /set can change. The server checks numbers and reports the valid range. */
export const SETTABLE = {
  temperature: 'number',
  top_p: 'number',
  top_k: 'number',
  min_p: 'number',
  max_tokens: 'number',
  seed: 'number',
  presence_penalty: 'number',
  frequency_penalty: 'number',
  repetition_penalty: 'number',
  reasoning_effort: 'text',
} as const;

export type SamplingField = keyof typeof SETTABLE;

export const isSettable = (name: string): name is SamplingField => Object.hasOwn(SETTABLE, name);

export type ChatCommand =
  | { readonly name: 'help' | 'exit' | 'reset' }
  | { readonly name: 'model'; readonly model: string }
  /** If `text` is null, the system prompt is shown; if it is empty, the system prompt is removed. */
  | { readonly name: 'system'; readonly text: string | null }
  /** If `field` is null, all fields are listed. If `value` is null, the model's default is restored. */
  | { readonly name: 'set'; readonly field: SamplingField | null; readonly value: number | string | null }
  | { readonly name: 'image'; readonly path: string; readonly text: string }
  | { readonly name: 'wrong'; readonly problem: string };

/** Null if the message is not a command. */
export function parseCommand(message: string): ChatCommand | null {
  const [, name, rest = ''] = /^\/([a-z]+)(?:\s+(.*))?$/s.exec(message) ?? [];
  if (!message.startsWith('/')) return null;
  const argument = rest.trim();
  switch (name) {
    case 'help':
    case 'reset':
    case 'exit':
      return { name };
    case 'quit':
    case 'bye':
      return { name: 'exit' };
    case 'model':
      return { name, model: argument };
    case 'system':
      return { name, text: argument === '' ? null : unquoted(argument) };
    case 'set':
      return parseSet(argument);
    case 'image':
      return parseImage(argument);
    default:
      // Text that starts like a command but is a path, such as /etc/hosts, or a comment is sent as a message.
      return name === undefined ? null : { name: 'wrong', problem: `/${name} is not a command` };
  }
}

function parseSet(argument: string): ChatCommand {
  if (argument === '') return { name: 'set', field: null, value: null };
  const [field = '', ...words] = argument.split(/\s+/);
  if (!isSettable(field))
    return { name: 'wrong', problem: `/set: unknown field "${field}"; known: ${Object.keys(SETTABLE).join(', ')}` };
  const text = words.join(' ');
  if (text === '') return { name: 'set', field, value: null };
  if (SETTABLE[field] === 'text') return { name: 'set', field, value: text };
  const value = Number(text);
  if (!Number.isFinite(value)) return { name: 'wrong', problem: `/set: ${field} takes a number, not "${text}"` };
  return { name: 'set', field, value };
}

function parseImage(argument: string): ChatCommand {
  const quotedPath = /^(["'])(.+?)\1\s*(.*)$/s.exec(argument);
  const plain = /^((?:\\.|\S)+)\s*(.*)$/s.exec(argument);
  if (quotedPath !== null) return { name: 'image', path: quotedPath[2] ?? '', text: quotedPath[3] ?? '' };
  if (plain === null) return { name: 'wrong', problem: '/image needs the path of a file' };
  return { name: 'image', path: (plain[1] ?? '').replace(/\\(.)/g, '$1'), text: plain[2] ?? '' };
}

const unquoted = (text: string): string => /^"(.*)"$/s.exec(text)?.[1] ?? text;
