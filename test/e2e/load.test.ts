// Runs many official clients concurrently, in all three API formats. Checks that limits are exact under this load, with
// one HTTP worker and with several.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { Agent } from 'node:http';
import t from 'tap';
import { hold, post } from '../support/connections.js';
import { eventually, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const CLIENTS = 64;
const CONCURRENCY = 20;
const RPM = 6;

for (const threads of [1, 2]) {
  t.test(`with ${threads} HTTP worker${threads === 1 ? '' : 's'}`, async (t) => {
    const server = await startMonolith({
      env: {
        MONOLITH_HTTP_THREADS: String(threads),
        MONOLITH_LIMITS_RPM: 'off',
        MONOLITH_LIMITS_TPM: 'off',
        MONOLITH_LIMITS_CONCURRENCY: String(CLIENTS),
        MONOLITH_LIMITS_OVERRIDES: JSON.stringify({
          '*': { 'clarke-1.0': { concurrency: CONCURRENCY }, 'tycho-1.0': { rpm: RPM } },
        }),
      },
    });
    t.teardown(() => server.stop());

    t.test('clients of all formats stream concurrently, and each gets its own response', async (t) => {
      const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
      const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
      const ask = async (format: number, seed: number): Promise<string> => {
        const model = 'hal-1.0';
        const content = `Number ${seed}`;
        let text = '';
        if (format === 0) {
          for await (const {
            choices: [choice],
          } of await openai.chat.completions.create({
            model,
            stream: true,
            seed,
            max_tokens: 24,
            messages: [{ role: 'user', content }],
          })) {
            text += choice?.delta.content ?? '';
          }
        } else if (format === 1) {
          for await (const event of anthropic.messages.stream({
            model,
            temperature: 0,
            max_tokens: 24,
            messages: [{ role: 'user', content }],
          })) {
            if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
          }
        } else {
          for await (const event of await openai.responses.create({
            model,
            stream: true,
            temperature: 0,
            max_output_tokens: 24,
            input: content,
          })) {
            if (event.type === 'response.output_text.delta') text += event.delta;
          }
        }
        return text;
      };
      const texts = await Promise.all(Array.from({ length: CLIENTS }, (_, at) => ask(at % 3, at)));
      for (const at of [0, 1, 2, CLIENTS - 1])
        t.equal(texts[at], await ask(at % 3, at), `the response of client ${at} is the same as without load`);
      const metrics = await server.metrics();
      const finished = [...metrics]
        .filter(([name]) => name.startsWith('monolith_choices_finished_total{model="hal-1.0"'))
        .reduce((sum, [, value]) => sum + value, 0);
      t.equal(finished, CLIENTS + 4, 'each worker reports the total of all workers');
    });

    t.test('exactly as many requests run concurrently as the limit allows', async (t) => {
      const body = {
        model: 'clarke-1.0',
        stream: true,
        max_tokens: 1_500,
        ignore_eos: true,
        messages: [{ role: 'user', content: 'on and on' }],
      };
      const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
      for (let round = 0; round < 3; round++) {
        const held = await Promise.all(
          Array.from({ length: CLIENTS }, () => hold(server, '/v1/chat/completions', body, agent)),
        );
        const statuses = held.map(({ status }) => status);
        t.equal(statuses.filter((status) => status === 200).length, CONCURRENCY, `round ${round}`);
        t.equal(statuses.filter((status) => status === 429).length, CLIENTS - CONCURRENCY);
        for (const { leave } of held) leave();
        t.ok(
          await eventually(async () => {
            const metrics = await server.metrics();
            return (
              (metrics.get('monolith_sequences_running{model="clarke-1.0"}') ?? 0) +
                (metrics.get('monolith_requests_waiting{model="clarke-1.0"}') ?? 0) ===
              0
            );
          }),
          'all requests are cancelled',
        );
      }
      agent.destroy();
    });

    t.test('exactly as many requests are admitted as the rate limit allows', async (t) => {
      const began = performance.now();
      const answers = await Promise.all(
        Array.from({ length: CLIENTS }, () =>
          post(server, '/v1/chat/completions', {
            model: 'tycho-1.0',
            max_tokens: 1,
            messages: [{ role: 'user', content: 'hi' }],
          }),
        ),
      );
      const refilled = Math.floor((performance.now() - began) / (60_000 / RPM));
      const admitted = answers.filter(({ status }) => status === 200).length;
      t.ok(admitted >= RPM && admitted <= RPM + refilled, `${admitted} admitted`);
      t.equal(answers.filter(({ status }) => status === 429).length, CLIENTS - admitted);
    });
  });
}
