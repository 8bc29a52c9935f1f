// Tests both official clients with every error status that the server can return.

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { ERRORS } from '../../src/shared/error-codes.js';
import { apiError } from '../../src/shared/errors.js';
import type { ErrorCode } from '../../src/shared/error-codes.js';
import { startRoutes } from './running-server.js';

let next: { code: ErrorCode; retryAfterMs?: number }[] = [];
const fail = (): void => {
  const failure = next.shift();
  if (failure !== undefined)
    throw apiError(failure.code, 'It failed.', failure.code === 'model_not_found' ? 'model' : null, {
      retryAfterMs: failure.retryAfterMs,
    });
};
const server = await startRoutes([
  {
    method: 'POST',
    path: '/v1/chat/completions',
    scope: 'inference',
    handler: (exchange) => {
      fail();
      exchange.json(200, { id: 'x', object: 'chat.completion', choices: [] });
    },
  },
  {
    method: 'POST',
    path: '/v1/messages',
    scope: 'inference',
    handler: (exchange) => {
      fail();
      exchange.json(200, {
        id: 'x',
        type: 'message',
        role: 'assistant',
        content: [],
        model: 'm',
        stop_reason: 'end_turn',
        usage: { input_tokens: 1, output_tokens: 1 },
      });
    },
  },
]);
t.teardown(() => server.close());

const openai = (maxRetries: number): OpenAI =>
  new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries });
const anthropic = (maxRetries: number): Anthropic =>
  new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries });
const chat = (client: OpenAI): Promise<unknown> =>
  Promise.resolve(client.chat.completions.create({ model: 'm', messages: [] }));
const messages = (client: Anthropic): Promise<unknown> =>
  Promise.resolve(client.messages.create({ model: 'm', max_tokens: 1, messages: [] }));

interface SdkError {
  status: number;
  type?: string;
  code?: string;
  param?: string | null;
  requestID?: string;
  error: { error?: { type: string; code: string; details: { error_code: string } } };
  headers: Headers;
  message: string;
}
async function refusal(call: Promise<unknown>): Promise<SdkError> {
  try {
    await call;
  } catch (error) {
    return error as SdkError;
  }
  throw new Error('expected an error');
}

t.test('status, type, code and request id of every error code reach both clients', async (t) => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const expected = apiError(code, 'x');
    next = [{ code }, { code }];
    const fromOpenAI = await refusal(chat(openai(0)));
    t.match(fromOpenAI, { status: expected.status, type: expected.type, code, requestID: /^req_/ }, `openai ${code}`);
    const fromAnthropic = await refusal(messages(anthropic(0)));
    t.match(
      fromAnthropic,
      {
        status: expected.status,
        error: { error: { type: expected.type, code, details: { error_code: code } } },
        requestID: /^req_/,
      },
      `anthropic ${code}`,
    );
    const waits = [fromOpenAI.headers.get('retry-after'), fromOpenAI.headers.get('retry-after-ms')];
    if (expected.status === 429 || expected.status === 503) {
      t.ok(
        Number(waits[0]) >= 1 && Number(waits[0]) <= 60 && Number(waits[1]) >= 1 && Number(waits[1]) <= 60_000,
        `${code} has a Retry-After`,
      );
    } else {
      t.same(waits, [null, null], `${code} has no Retry-After`);
    }
    t.equal(
      fromOpenAI.headers.get('x-should-retry'),
      code === 'request_exceeds_tpm_limit' || code === 'insufficient_quota' ? 'false' : null,
    );
  }
});

t.test('both clients wait as long as Retry-After says, then succeed', async (t) => {
  // Without Retry-After, the clients would wait for at most half a second.
  for (const code of ['rpm_limit_exceeded', 'capacity_exhausted'] as const) {
    for (const [name, call] of [
      ['openai', () => chat(openai(1))],
      ['anthropic', () => messages(anthropic(1))],
    ] as const) {
      next = [{ code, retryAfterMs: 700 }];
      const begun = performance.now();
      await call();
      const waited = performance.now() - begun;
      t.ok(waited >= 695, `${name} waited ${Math.round(waited)} ms`);
    }
  }
});

t.test('neither client retries errors that a retry cannot fix', async (t) => {
  next = [{ code: 'insufficient_quota' }, { code: 'insufficient_quota' }];
  t.equal((await refusal(chat(openai(2)))).code, 'insufficient_quota');
  t.equal((await refusal(messages(anthropic(2)))).status, 429);
  t.equal(next.length, 0);
});

t.test("an unknown key raises the client's authentication error", async (t) => {
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'sk-nothing', maxRetries: 0 });
  t.match(await refusal(chat(client)), { status: 401, code: 'invalid_api_key', type: 'authentication_error' });
});

t.test('an error event in a stream makes the client throw with its code', async (t) => {
  const streaming = await startRoutes([
    {
      method: 'POST',
      path: '/v1/chat/completions',
      scope: 'inference',
      handler: async (exchange) => {
        exchange.sse().send(
          JSON.stringify({
            id: 'x',
            object: 'chat.completion.chunk',
            created: 1,
            model: 'm',
            choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }],
          }),
        );
        await new Promise((resolve) => setImmediate(resolve));
        throw apiError('model_error', 'The model failed.');
      },
    },
  ]);
  t.teardown(() => streaming.close());
  const client = new OpenAI({ baseURL: `${streaming.url}/v1`, apiKey: streaming.key, maxRetries: 0 });
  t.match(
    await refusal(Promise.resolve(client.chat.completions.stream({ model: 'm', messages: [] }).finalChatCompletion())),
    { code: 'model_error', type: 'internal_error' },
  );
});
