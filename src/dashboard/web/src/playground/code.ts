// Generates code that sends the playground's request, for curl, the OpenAI clients and the Anthropic client. The code
// never contains the API key. No side effects.

import type { ChatBody, ChatMessage, ContentPart } from './chat-wire.js';

export type Language = 'curl' | 'python' | 'javascript' | 'anthropic';
export const LANGUAGES: readonly { id: Language; label: string }[] = [
  { id: 'curl', label: 'curl' },
  { id: 'python', label: 'Python (openai)' },
  { id: 'javascript', label: 'JavaScript (openai)' },
  { id: 'anthropic', label: 'JavaScript (@anthropic-ai/sdk)' },
];

export const KEY_VARIABLE = 'MONOLITH_KEY';

/** `origin`: this server's address, without /v1. */
export function codeFor(language: Language, body: ChatBody, origin: string): string {
  const short = withShortImages(body);
  const code = generators[language](short.body, origin);
  return short.cut
    ? `${language === 'curl' || language === 'python' ? '#' : '//'} Image data is left out: insert the base64 text.\n${code}`
    : code;
}

const generators: Record<Language, (body: ChatBody, origin: string) => string> = {
  curl: (body, origin) =>
    [
      `curl -N ${origin}/v1/chat/completions \\`,
      `  -H "Authorization: Bearer $${KEY_VARIABLE}" \\`,
      '  -H "Content-Type: application/json" \\',
      "  -d @- <<'JSON'",
      jsonOf(body),
      'JSON',
    ].join('\n'),

  python: (body, origin) =>
    [
      'import os',
      'from openai import OpenAI',
      '',
      `client = OpenAI(base_url="${origin}/v1", api_key=os.environ["${KEY_VARIABLE}"])`,
      '',
      'stream = client.chat.completions.create(',
      ...Object.entries(withExtras(body)).map(([name, value]) => `    ${name}=${pythonOf(value, 4)},`),
      ')',
      'for chunk in stream:',
      '    for choice in chunk.choices:',
      '        print(choice.delta.content or "", end="", flush=True)',
      ...(body.tools === undefined
        ? []
        : [
            '        for call in choice.delta.tool_calls or []:',
            '            print(call.function.name or "", call.function.arguments or "", end="", flush=True)',
          ]),
      'print()',
    ].join('\n'),

  javascript: (body, origin) =>
    [
      "import OpenAI from 'openai';",
      '',
      `const client = new OpenAI({ baseURL: '${origin}/v1', apiKey: process.env.${KEY_VARIABLE} });`,
      '',
      `const stream = await client.chat.completions.create(${scriptOf(body, 0)});`,
      'for await (const chunk of stream) {',
      "  process.stdout.write(chunk.choices[0]?.delta.content ?? '');",
      ...(body.tools === undefined
        ? []
        : [
            '  for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {',
            "    process.stdout.write(`${call.function?.name ?? ''}${call.function?.arguments ?? ''}`);",
            '  }',
          ]),
      '}',
    ].join('\n'),

  anthropic: (body, origin) =>
    [
      "import Anthropic from '@anthropic-ai/sdk';",
      '',
      `const client = new Anthropic({ baseURL: '${origin}', apiKey: process.env.${KEY_VARIABLE} });`,
      '',
      ...(body.response_format?.type === 'json_object'
        ? ['// This client has no "any JSON" output: use a JSON Schema instead.']
        : []),
      `const stream = client.messages.stream(${scriptOf(messagesBody(body), 0)});`,
      "stream.on('text', (text) => process.stdout.write(text));",
      'const message = await stream.finalMessage();',
      ...(body.tools === undefined ? [] : ["console.log(message.content.filter(({ type }) => type === 'tool_use'));"]),
      'console.log(message.usage);',
    ].join('\n'),
};

/** Moves parameters that OpenAI's API does not define to `extra_body`, where the Python client expects them. */
function withExtras({ top_k: topK, ...body }: ChatBody): Record<string, unknown> {
  return topK === undefined ? body : { ...body, extra_body: { top_k: topK } };
}

// ---- conversion to the Messages API ----

/** `max_tokens` is required in the Messages API. In Chat Completions, it defaults to the model's maximum. */
const MAX_TOKENS = 4096;

function messagesBody(body: ChatBody): Record<string, unknown> {
  const system = body.messages.flatMap((message) => (message.role === 'system' ? [message.content] : [])).join('\n\n');
  const { reasoning_effort: effort, response_format: format } = body;
  const thinks = effort !== undefined && effort !== 'none';
  const output = {
    // The Messages API does not know the effort `minimal`.
    ...(thinks ? { effort: effort === 'minimal' ? 'low' : effort } : {}),
    ...(format?.type === 'json_schema' ? { format: { type: 'json_schema', schema: format.json_schema.schema } } : {}),
  };
  return {
    model: body.model,
    max_tokens: body.max_completion_tokens ?? MAX_TOKENS,
    ...(system === '' ? {} : { system }),
    ...(body.temperature === undefined ? {} : { temperature: body.temperature }),
    ...(body.top_p === undefined ? {} : { top_p: body.top_p }),
    ...(body.top_k === undefined ? {} : { top_k: body.top_k }),
    ...(body.stop === undefined ? {} : { stop_sequences: body.stop }),
    ...(body.seed === undefined ? {} : { seed: body.seed }),
    ...(thinks ? { thinking: { type: 'adaptive' } } : {}),
    ...(Object.keys(output).length === 0 ? {} : { output_config: output }),
    ...(body.tools === undefined
      ? {}
      : {
          tools: body.tools.map(({ function: { name, description, parameters } }) => ({
            name,
            ...(description === undefined ? {} : { description }),
            input_schema: parameters ?? { type: 'object', properties: {} },
          })),
        }),
    messages: blocksOf(body.messages),
  };
}

interface Turn {
  role: 'user' | 'assistant';
  content: unknown;
}

function blocksOf(messages: readonly ChatMessage[]): Turn[] {
  const turns: Turn[] = [];
  let results: object[] | null = null; // all tool results for one assistant turn go into one message
  for (const message of messages) {
    if (message.role === 'tool') {
      const result = { type: 'tool_result', tool_use_id: message.tool_call_id, content: message.content };
      if (results === null) turns.push({ role: 'user', content: (results = [result]) });
      else results.push(result);
      continue;
    }
    results = null;
    if (message.role === 'user')
      turns.push({
        role: 'user',
        content: typeof message.content === 'string' ? message.content : message.content.map(blockOf),
      });
    if (message.role === 'assistant') {
      const { content, tool_calls: calls } = message;
      turns.push({
        role: 'assistant',
        content:
          calls === undefined
            ? (content ?? '')
            : [
                ...(content === null || content === '' ? [] : [{ type: 'text', text: content }]),
                ...calls.map(({ id, function: { name, arguments: text } }) => ({
                  type: 'tool_use',
                  id,
                  name,
                  input: objectOf(text),
                })),
              ],
      });
    }
  }
  return turns;
}

function blockOf(part: ContentPart): object {
  if (part.type === 'text') return part;
  const data = /^data:([^;,]+);base64,(.*)$/s.exec(part.image_url.url);
  return {
    type: 'image',
    source:
      data === null ? { type: 'url', url: part.image_url.url } : { type: 'base64', media_type: data[1], data: data[2] },
  };
}

function objectOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

// ---- literals ----

/** Data URLs are megabytes long, so the code omits their content. */
function withShortImages(body: ChatBody): { body: ChatBody; cut: boolean } {
  let cut = false;
  const messages = body.messages.map((message): ChatMessage => {
    if (message.role !== 'user' || typeof message.content === 'string') return message;
    return {
      role: 'user',
      content: message.content.map((part) => {
        const head = part.type === 'image_url' ? /^data:[^;,]+;base64,/.exec(part.image_url.url) : null;
        if (head === null) return part;
        cut = true;
        return { type: 'image_url', image_url: { url: `${head[0]}…` } };
      }),
    };
  });
  return { body: { ...body, messages }, cut };
}

/** JSON with short values on one line. */
export function jsonOf(value: unknown): string {
  return literal(value, 0, {
    name: (name) => JSON.stringify(name),
    text: (text) => JSON.stringify(text),
    word: String,
    open: '{ ',
    close: ' }',
    lastComma: '',
  });
}

/** A JavaScript literal: like JSON, but without quotes around names that do not need them. */
export function scriptOf(value: unknown, indent: number): string {
  return literal(value, indent, {
    name: (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : quoted(name)),
    text: quoted,
    word: String,
    open: '{ ',
    close: ' }',
    lastComma: ',',
  });
}

/** A Python literal. */
export function pythonOf(value: unknown, indent: number): string {
  // JSON escapes are valid in Python, except that JSON.stringify leaves paired surrogates as characters, so they are
  // escaped here.
  return literal(
    value,
    indent,
    {
      name: (name) => JSON.stringify(name),
      text: (text) => JSON.stringify(text),
      word: (word) => (word === null ? 'None' : word ? 'True' : 'False'),
      open: '{',
      close: '}',
      lastComma: ',',
    },
    4,
  );
}

interface Dialect {
  name(name: string): string;
  text(text: string): string;
  word(word: boolean | null): string;
  /** Delimiters around an object written on one line. */
  open: string;
  close: string;
  lastComma: ',' | '';
}

function literal(value: unknown, indent: number, dialect: Dialect, step = 2): string {
  if (typeof value === 'string') return dialect.text(value);
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'object' || value === null) return dialect.word(value as boolean | null);
  const inner = indent + step;
  const items = Array.isArray(value)
    ? value.map((item) => literal(item, inner, dialect, step))
    : Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([name, item]) => `${dialect.name(name)}: ${literal(item, inner, dialect, step)}`);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  if (items.length === 0) return open + close;
  const line = items.join(', ');
  if (line.length + indent < 90 && !line.includes('\n'))
    return Array.isArray(value) ? `[${line}]` : dialect.open + line + dialect.close;
  return `${open}\n${items.map((item) => ' '.repeat(inner) + item).join(',\n')}${dialect.lastComma}\n${' '.repeat(indent)}${close}`;
}

function quoted(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}
