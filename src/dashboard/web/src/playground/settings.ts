// Request settings as the user typed them; an empty field means the model's default. Parsing them returns the request
// fields, or an error for each invalid field. No side effects.

import type { ChatBody, FunctionTool, ResponseFormat } from './chat-wire.js';

export interface Settings {
  model: string;
  system: string;
  temperature: string;
  topP: string;
  topK: string;
  /** One stop sequence per line; `\n` and `\t` are escapes. */
  stop: string;
  /** Number of alternatives per token; '' requests no log probabilities. */
  logprobs: string;
  maxTokens: string;
  seed: string;
  /** '' means the model's default. */
  effort: string;
  tools: string;
  format: 'text' | 'json_object' | 'json_schema';
  schema: string;
}

export const NO_SETTINGS: Settings = {
  model: '',
  system: '',
  temperature: '',
  topP: '',
  topK: '',
  stop: '',
  logprobs: '',
  maxTokens: '',
  seed: '',
  effort: '',
  tools: '',
  format: 'text',
  schema: '',
};

export const EXAMPLE_TOOLS = JSON.stringify(
  [
    {
      type: 'function',
      function: {
        name: 'get_weather',
        description: 'The current weather at a location.',
        parameters: {
          type: 'object',
          properties: {
            location: { type: 'string', description: 'City and country' },
            unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
          },
          required: ['location'],
        },
      },
    },
  ],
  null,
  2,
);

export const EXAMPLE_SCHEMA = JSON.stringify(
  {
    type: 'object',
    properties: {
      name: { type: 'string' },
      age: { type: 'integer' },
      tags: { type: 'array', items: { type: 'string' } },
    },
    required: ['name', 'age', 'tags'],
    additionalProperties: false,
  },
  null,
  2,
);

export type Problems = Partial<Record<keyof Settings, string>>;
export type RequestFields = Omit<ChatBody, 'messages' | 'stream' | 'stream_options'>;

export function readSettings(settings: Settings): { fields: RequestFields } | { problems: Problems } {
  const problems: Problems = {};
  const read = <T>(name: keyof Settings, parse: () => T | undefined): T | undefined => {
    try {
      return parse();
    } catch (error) {
      problems[name] = error instanceof Error ? error.message : String(error);
      return undefined;
    }
  };
  if (settings.model === '') problems.model = 'Choose a model.';
  const values = {
    max_completion_tokens: read('maxTokens', () => numberOf(settings.maxTokens, { least: 1, integer: true })),
    temperature: read('temperature', () => numberOf(settings.temperature, { least: 0, most: 2 })),
    top_p: read('topP', () => numberOf(settings.topP, { least: 0, most: 1 })),
    top_k: read('topK', () => numberOf(settings.topK, { least: 0, most: 1_000, integer: true })),
    stop: read('stop', () => stopsOf(settings.stop)),
    ...(settings.logprobs === '' ? {} : { logprobs: true as const, top_logprobs: Number(settings.logprobs) }),
    seed: read('seed', () =>
      numberOf(settings.seed, { least: Number.MIN_SAFE_INTEGER, most: Number.MAX_SAFE_INTEGER, integer: true }),
    ),
    reasoning_effort: settings.effort === '' ? undefined : settings.effort,
    tools: read('tools', () => toolsOf(settings.tools)),
    response_format: read('schema', () => formatOf(settings)),
  };
  if (Object.keys(problems).length > 0) return { problems };
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Omit<
    RequestFields,
    'model'
  >;
  return { fields: { model: settings.model, ...given } };
}

function numberOf(
  text: string,
  { least, most = Infinity, integer = false }: { least: number; most?: number; integer?: boolean },
): number | undefined {
  if (text.trim() === '') return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error('Must be a number.');
  if (integer && !Number.isInteger(value)) throw new Error('Must be a whole number.');
  if (value < least || value > most) {
    throw new Error(
      Number.isSafeInteger(most) && most === Number.MAX_SAFE_INTEGER
        ? 'Must be smaller.'
        : most === Infinity
          ? `Must be at least ${least}.`
          : `Must be between ${least} and ${most}.`,
    );
  }
  return value;
}

const MAX_STOPS = 16;

/** One sequence per line; empty lines are ignored. */
export function stopsOf(text: string): string[] | undefined {
  const stops = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) =>
      line.replace(/\\([nt\\])/g, (_, letter: string) => ({ n: '\n', t: '\t', '\\': '\\' })[letter] ?? letter),
    );
  if (stops.length > MAX_STOPS) throw new Error(`At most ${MAX_STOPS} stop sequences are allowed.`);
  return stops.length === 0 ? undefined : stops;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`Invalid JSON: ${(error as Error).message}`, { cause: error });
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const NAME = /^[A-Za-z0-9_-]{1,128}$/;

/** Repeats the server's checks, so that errors appear next to the field before anything is sent. */
export function toolsOf(text: string): FunctionTool[] | undefined {
  if (text.trim() === '') return undefined;
  const value = jsonOf(text);
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) return undefined;
  if (list.length > 128) throw new Error('At most 128 tools are allowed.');
  const names = new Set<string>();
  return list.map((tool: unknown, at) => {
    const where = list.length === 1 ? 'The tool' : `Tool ${at + 1}`;
    if (!isObject(tool)) throw new Error(`${where} must be an object.`);
    // Also accepts a function object without the enclosing tool object, because users often have only that.
    const named = isObject(tool['function']) ? tool['function'] : tool;
    if (tool['type'] !== undefined && tool['type'] !== 'function')
      throw new Error(`${where}: type must be "function".`);
    const { name, parameters } = named;
    if (typeof name !== 'string' || !NAME.test(name))
      throw new Error(`${where} needs a name made of letters, digits, _ and -.`);
    if (names.has(name)) throw new Error(`Two tools are named ${name}.`);
    if (parameters !== undefined && !isObject(parameters))
      throw new Error(`${name}: parameters must be a JSON Schema object.`);
    names.add(name);
    return { type: 'function', function: named as FunctionTool['function'] };
  });
}

function formatOf({ format, schema }: Settings): ResponseFormat | undefined {
  if (format === 'text') return undefined;
  if (format === 'json_object') return { type: 'json_object' };
  if (schema.trim() === '') throw new Error('Enter a schema.');
  const value = jsonOf(schema);
  if (!isObject(value)) throw new Error('A JSON Schema must be an object.');
  return { type: 'json_schema', json_schema: { name: 'answer', schema: value, strict: true } };
}

/** Formats JSON. Text that is not valid JSON (because it was cut off by the output limit) is returned unchanged. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
