// Optional queries to an upstream server about a model: its context size, and the number of tokens in a prompt. Servers
// may not support them. A reply that cannot be parsed is ignored, and no feature depends on the queries. Queries are
// limited in time and size, do not count toward limits, and do not affect the circuit breaker. Event-loop thread only.
//
//   context   GET /v1/models (vLLM, SGLang, Monolith, routers), GET /props (llama-server)
//   count     POST /tokenize (vLLM, Monolith), /apply-template and /tokenize (llama-server), /messages/count_tokens,
//             /responses/input_tokens
import { stringifyExact } from '../../shared/exact-json.js';
import type { GenerationRequest } from '../types.js';
import { given, listIn, numberIn, objectIn, textIn, type Body, type Json } from './apis/api.js';
import type { Server } from './server.js';

const MAX_ANSWER = 4 << 20;
const WAIT_MS = 3_000;
/** The names of the field with the context size in servers' model lists. */
const CONTEXT_FIELDS = ['max_model_len', 'context_length', 'context_window', 'max_context_length'] as const;

const isContext = (tokens: number | undefined): tokens is number =>
  tokens !== undefined && Number.isSafeInteger(tokens) && tokens > 0 && tokens < 2 ** 31;

/** Returns the model's context size in tokens, or null if the server does not report it. */
export async function contextOf(server: Server): Promise<number | null> {
  const name = server.settings.model ?? server.model;
  const models = listIn(objectIn(await ask(server, 'GET', `${server.path}/models`))['data']).map(objectIn);
  const model = models.find(({ id }) => id === name) ?? (models.length === 1 ? models[0] : undefined);
  const context = CONTEXT_FIELDS.map((field) => numberIn(model?.[field])).find(isContext);
  if (context !== undefined) return context;
  // llama-server's model list contains only the context size with which the model was trained, so /props is queried.
  const { default_generation_settings: settings } = objectIn(await ask(server, 'GET', `${rootOf(server)}/props`));
  const tokens = numberIn(objectIn(settings)['n_ctx']);
  return isContext(tokens) ? tokens : null;
}

/**
 * Returns the number of prompt tokens as counted by the server, or null if the server does not report it. `body`: the
 * same as for a generation.
 */
export async function countOf(server: Server, body: Body, { raw }: GenerationRequest): Promise<number | null> {
  const model = server.settings.model ?? server.model;
  if (raw !== undefined)
    return raw.kind === 'text' && raw.suffix == null
      ? tokensIn(await ask(server, 'POST', `${rootOf(server)}/tokenize`, { model, prompt: raw.text }))
      : null;
  switch (server.settings.api) {
    case 'messages': {
      const { messages, system, tools, tool_choice, thinking } = body;
      return wholeIn(
        objectIn(
          await ask(
            server,
            'POST',
            `${server.path}/messages/count_tokens`,
            given({ model, messages, system, tools, tool_choice, thinking }),
          ),
        )['input_tokens'],
      );
    }
    case 'responses': {
      const { input, instructions, tools, tool_choice, text, reasoning } = body;
      return wholeIn(
        objectIn(
          await ask(
            server,
            'POST',
            `${server.path}/responses/input_tokens`,
            given({ model, input, instructions, tools, tool_choice, text, reasoning }),
          ),
        )['input_tokens'],
      );
    }
    case 'completions':
      return null;
    default:
      return countOfChat(server, model, body);
  }
}

async function countOfChat(
  server: Server,
  model: string,
  { messages, tools, tool_choice, chat_template_kwargs, reasoning_effort }: Body,
): Promise<number | null> {
  const root = rootOf(server);
  const asked = given({
    model,
    messages,
    tools,
    tool_choice,
    chat_template_kwargs,
    reasoning_effort,
    add_generation_prompt: true,
  });
  const answer = await ask(server, 'POST', `${root}/tokenize`, asked);
  if (answer === null) return null;
  const count = tokensIn(answer);
  if (count !== null) return count;
  const prompt = textIn(
    objectIn(await ask(server, 'POST', `${root}/apply-template`, given({ messages, tools, chat_template_kwargs })))[
      'prompt'
    ],
  );
  return prompt === ''
    ? null
    : tokensIn(
        await ask(server, 'POST', `${root}/tokenize`, { content: prompt, add_special: true, parse_special: true }),
      );
}

/** Reads a reply to /tokenize. A count of zero means that the server did not understand the request. */
function tokensIn(answer: unknown): number | null {
  const { count, tokens } = objectIn(answer);
  return wholeIn(count) ?? wholeIn(listIn(tokens).length);
}

const wholeIn = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null;

/** Returns the base path without the API version. */
const rootOf = (server: Server): string => server.path.replace(/\/v\d+$/, '');

/** Returns the JSON of a reply with status 200, or null. */
async function ask(server: Server, method: 'GET' | 'POST', path: string, body?: Body): Promise<Json | null> {
  try {
    const answer = await server.pool.request({
      path,
      method,
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...server.headers,
      },
      ...(body === undefined ? {} : { body: stringifyExact(body) }),
      signal: AbortSignal.timeout(WAIT_MS),
    });
    const parts: Buffer[] = [];
    let bytes = 0;
    for await (const part of answer.body as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > MAX_ANSWER) return null; // leaving the loop closes the connection
      parts.push(part);
    }
    return answer.statusCode === 200 ? objectIn(JSON.parse(Buffer.concat(parts).toString('utf8'))) : null;
  } catch {
    return null;
  }
}
