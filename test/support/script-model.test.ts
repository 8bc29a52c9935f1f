// Tests that the scripted model reproduces its scripts through the real engine and the real server.
import t from 'tap';
import { said, spoken, standardScripts, type Said } from './scripts.js';
import { planOf } from './script-plan.js';
import { startScripted } from './script-model.js';

t.setTimeout(300_000); // the machine may be busy

interface Answer {
  choices: {
    finish_reason: string;
    message: {
      content: string | null;
      reasoning_content?: string;
      tool_calls?: { function: { name: string; arguments: string } }[];
    };
  }[];
  usage: { completion_tokens: number };
}

const server = await startScripted({ opensThinking: true, models: ['hal-1.0'] });
t.teardown(() => server.stop());

async function ask(content: string, more: object = {}): Promise<Said & { finish: string; tokens: number }> {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
    body: JSON.stringify({
      model: 'hal-1.0',
      messages: [{ role: 'user', content }],
      max_tokens: 100,
      reasoning_effort: 'low',
      ...more,
    }),
  });
  const {
    choices: [choice],
    usage,
  } = (await response.json()) as Answer;
  const { content: text, reasoning_content: reasoning = '', tool_calls: calls = [] } = choice!.message;
  return {
    content: text ?? '',
    reasoning,
    calls: calls.map((call) => call.function),
    finish: choice!.finish_reason,
    tokens: usage.completion_tokens,
  };
}

const endless = new Set(['L', 'Q', 'R']);

t.test('outputs every script without calls as written, greedy and sampled', async (t) => {
  for (const [letter, script] of Object.entries(standardScripts)) {
    const expected = said(script);
    if (endless.has(letter) || spoken(script).includes('<tool_call>\n')) continue;
    for (const temperature of [0, 1]) {
      const answer = await ask(`${letter}: hello`, { temperature });
      t.match(answer, { finish: 'stop' }, letter);
      t.equal(answer.content.trim(), expected.content, letter);
      t.equal(answer.reasoning.trim(), expected.reasoning, letter);
    }
  }
});

const tools = ['get_weather', 'get_time', 'save_note', 'write_file'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object' } },
}));

t.test('outputs every script with calls as written, with the offered tools in any order', async (t) => {
  for (const letter of ['W', 'P', 'K', 'D', 'O'] as const) {
    const expected = said(letter);
    for (const more of [{ temperature: 0 }, { temperature: 1 }, { tools: tools.toReversed() }]) {
      t.match(
        await ask(`${letter}: hello`, { tools, ...more }),
        { content: expected.content, calls: expected.calls, finish: 'tool_calls' },
        letter,
      );
    }
  }
});

t.test('follows forced and forbidden tool choices', async (t) => {
  t.same(
    (await ask('A: hello', { tools, tool_choice: 'required' })).calls.map((call) => call.arguments),
    ['{"location": "Paris"}'],
  );
  t.same((await ask('K: hello', { tools, tool_choice: 'required' })).calls, said('K').calls);
  t.same((await ask('O: hello', { tools, tool_choice: { type: 'function', function: { name: 'save_note' } } })).calls, [
    { name: 'save_note', arguments: '{}' },
  ]);
  t.match(await ask('W: hello', { tools, tool_choice: 'none' }), {
    content: 'I may call no tool.',
    calls: [],
    finish: 'stop',
  });
});

t.test("splits a call's arguments into the tokens that the script prescribes", async (t) => {
  t.same(said('W').calls, [{ name: 'get_weather', arguments: '{"location": "Paris"}' }]);
  t.same(
    said('P').calls.map((call) => call.arguments),
    ['{"location": "Paris"}', '{"location": "Rome"}'],
  );
  t.equal(JSON.parse(said('D').calls[0]!.arguments).text, 'Zoë says "hi" é\n}]{👋');
});

t.test('handles prompts without a letter, reasoning scripts with reasoning off, and endless parts', async (t) => {
  t.equal((await ask('hello')).content, said('A').content);
  t.match(await ask('H: hello', { reasoning_effort: 'none' }), { content: said('H').content, reasoning: '' });
  const story = await ask('L: tell', { max_tokens: 50 });
  t.match(story, { finish: 'length', tokens: 50 });
  const closed = await ask('R: think', { max_tokens: 80 });
  t.match(
    closed,
    { finish: 'stop', content: said('R').content },
    'the content follows once the reasoning budget is used up',
  );
  t.match(closed.reasoning, /^Hmm, let me think/);
});

t.test('refuses scripts that no model could follow', async (t) => {
  t.throws(() => planOf({ A: ['<tool_call>', '<tool_call>', 'x'] }), /script A: .*unique text between/);
  t.throws(() => planOf({ AB: ['x'] }), /one letter/);
});
