// Checks that responses from the embedded models contain no stray control markers and no repetition loops, and tests
// the functions that detect these. `npm run bench -- answers` does the same with a thousand prompts.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loopIn, promptsOf, strayMarkers } from '../../bench/lib/answer-faults.js';
import { root, startMonolith } from './monolith.js';

t.setTimeout(300_000);

t.test('detects stray markers and repetition loops', (t) => {
  t.same(strayMarkers('I am </think> hal'), ['marker </think>']);
  t.same(strayMarkers('a < b'), []);
  t.match(loopIn(`I am ${'the-1.0, '.repeat(30)}`), [/^loop ".{9}" \d+ times$/]);
  t.same(loopIn('the-1.0, '.repeat(3)), []);
  t.same(loopIn(`${'-'.repeat(80)} ha ha ha ha ha`), []);
  t.equal(new Set(promptsOf(1_000, '')).size > 700, true);
  t.end();
});

t.test('the embedded models write no stray markers and no repetition loops', async (t) => {
  const prompts = promptsOf(48, '').concat(
    promptsOf(24, readFileSync(join(root, 'models', 'training', 'conversation', 'held_out.jsonl'), 'utf8')),
  );
  const server = await startMonolith();
  t.teardown(() => server.stop());
  const faults: string[] = [];
  await Promise.all(
    ['hal-1.0', 'clarke-1.0', 'tycho-1.0'].flatMap((model) =>
      [{ temperature: 0 }, { reasoning_effort: 'none' }].map(async (more) => {
        for (const [seed, content] of prompts.entries()) {
          const response = await fetch(`${server.url}/v1/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
            body: JSON.stringify({ model, seed, max_tokens: 200, messages: [{ role: 'user', content }], ...more }),
          });
          t.equal(response.status, 200);
          const answer =
            ((await response.json()) as { choices: [{ message: { content: string | null } }] }).choices[0].message
              .content ?? '';
          for (const fault of [...strayMarkers(answer), ...loopIn(answer)])
            faults.push(`${model}: ${JSON.stringify(content)}: ${fault}`);
        }
      }),
    ),
  );
  t.same(faults, []);
});

t.test('a model cannot write the tool-response marker, even with a strong logit bias toward it', async (t) => {
  const server = await startMonolith();
  t.teardown(() => server.stop());
  const post = async (path: string, body: object): Promise<unknown> =>
    await (
      await fetch(server.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    ).json();
  const marker = '</tool_response>';
  const { tokens } = (await post('/tokenize', { model: 'hal-1.0', prompt: marker, add_special_tokens: false })) as {
    tokens: number[];
  };
  t.equal(tokens.length, 1);
  const {
    choices: [{ message }],
  } = (await post('/v1/chat/completions', {
    model: 'hal-1.0',
    max_tokens: 20,
    temperature: 0,
    reasoning_effort: 'none',
    logit_bias: { [String(tokens[0])]: 100 },
    messages: [{ role: 'user', content: 'hi' }],
  })) as { choices: [{ message: { content: string } }] };
  t.not(message.content, '');
  t.notMatch(message.content, marker);
});
