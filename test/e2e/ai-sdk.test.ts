// Tests the server with Vercel's AI SDK, in the version for Node.js 20. It validates the Messages format more strictly
// than Anthropic's own client. Covers complete and streamed responses with text, thinking and tool calls.
import { createAnthropic } from 'ai-sdk-anthropic-3';
import t from 'tap';
import { said, startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({ models: ['tycho-1.0'] });
t.teardown(() => server.stop());
const model = createAnthropic({ baseURL: `${server.url}/v1`, apiKey: server.key })('tycho-1.0');

const tools = [
  {
    type: 'function' as const,
    name: 'get_weather',
    inputSchema: { type: 'object' as const, properties: { location: { type: 'string' as const } } },
  },
];
const request = (text: string) => ({
  prompt: [{ role: 'user' as const, content: [{ type: 'text' as const, text }] }],
  maxOutputTokens: 500,
  tools,
});

for (const letter of ['A', 'K'] as const) {
  t.test(`the SDK reads complete and streamed responses of script ${letter}`, async (t) => {
    const whole = await model.doGenerate(request(`${letter}: x`));
    const text = whole.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
    t.equal(text, said(letter).content);
    t.equal(whole.finishReason.unified, letter === 'K' ? 'tool-calls' : 'stop');
    const parts = [];
    for await (const part of (await model.doStream(request(`${letter}: x`))).stream as unknown as AsyncIterable<{
      type: string;
      delta?: string;
    }>)
      parts.push(part);
    t.same(
      parts.filter(({ type }) => type === 'error'),
      [],
    );
    t.equal(
      parts
        .filter(({ type }) => type === 'text-delta')
        .map(({ delta }) => delta)
        .join(''),
      text,
    );
    t.equal(
      parts.filter(({ type }) => type === 'tool-call').length,
      whole.content.filter(({ type }) => type === 'tool-call').length,
    );
  });
}
