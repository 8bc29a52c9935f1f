// Tests that the token IDs of generated calls are replayed if the call contains an ID that the model chose, or has a
// header in another order than the template's. The prompt then starts with the tokens of the last prompt and response.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { startScripted } from '../support/script-model.js';

t.setTimeout(600_000); // the machine may be busy

/** Three pages of tokens, so that the cached tokens of a response show whether they match. */
const NOTE = Array.from({ length: 48 }, (_, nth) => ` w${nth}`);
const ARGUMENTS = ['{"unit":  "C", "note":"', ...NOTE, '"}'];

interface Syntax {
  readonly name: string;
  readonly callTemplate: string;
  readonly written: readonly string[];
}

const SYNTAXES: readonly Syntax[] = [
  {
    name: 'Kimi K2',
    callTemplate:
      '{% if m.tool_calls %}<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}',
    written: [
      '<|tool_calls_section_begin|>',
      '<|tool_call_begin|>',
      'functions.get_wea',
      'ther:',
      '3',
      '<|tool_call_argument_begin|>',
      ...ARGUMENTS,
      '<|tool_call_end|>',
      '<|tool_calls_section_end|>',
    ],
  },
  {
    name: 'Mistral with IDs',
    callTemplate:
      '{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ raise_exception("9 characters") }}{% endif %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}',
    written: ['[TOOL_CALLS]', 'get_wea', 'ther', '[CALL_ID]', 'a1B2', 'c3D4e', '[ARGS]', ...ARGUMENTS],
  },
  {
    name: 'gpt-oss',
    callTemplate:
      '{% for c in m.tool_calls or [] %}<|start|>assistant to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>{{ c.function.arguments | tojson }}<|call|>{% endfor %}',
    written: [
      '<|start|>',
      'assistant',
      '<|channel|>',
      'commentary to',
      '=functions.get_wea',
      'ther ',
      '<|constrain|>',
      'json',
      '<|message|>',
      ...ARGUMENTS,
    ],
  },
];

const parameters = { type: 'object', properties: { unit: { type: 'string' }, note: { type: 'string' } } };
const tools = ['get_weather', 'get_time'].map((name) => ({
  type: 'function' as const,
  function: { name, parameters },
}));

for (const { name, callTemplate, written } of SYNTAXES) {
  t.test(name, async (t) => {
    const server = await startScripted({
      scripts: { A: ['Paris', '.'], T: ['It is', ' warm', '.'], W: written },
      exactHistory: true,
      callTemplate,
      models: ['scripted'],
      args: ['--threads', '1'],
    });
    t.teardown(() => server.stop());
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });

    type Messages = OpenAI.ChatCompletionMessageParam[];
    const chat = async (messages: Messages) => {
      const { data, response } = await openai.chat.completions
        .create({
          model: 'scripted',
          messages,
          tools,
          max_tokens: 200,
          temperature: 0,
          parallel_tool_calls: false,
          reasoning_effort: 'none' as never,
        })
        .withResponse();
      const cached = data.usage!.prompt_tokens_details!.cached_tokens!;
      return { ...data, cached, replayed: response.headers.get('x-replayed-items')?.split(', ') ?? [] };
    };
    const turn = async () => {
      const asked = { role: 'user' as const, content: `W: What is the weather ${Math.random()}?` };
      const reply = await chat([asked]);
      const call = reply.choices[0]!.message.tool_calls![0] as OpenAI.ChatCompletionMessageFunctionToolCall;
      t.equal(call.function.arguments, ARGUMENTS.join(''));
      const next = (
        change: (call: { id: string; function: { name: string; arguments: string } }) => void,
      ): Messages => {
        const sent = structuredClone(call);
        change(sent);
        return [
          asked,
          { role: 'assistant', content: null, tool_calls: [sent] },
          { role: 'tool', content: 'T: 14 C', tool_call_id: sent.id },
        ];
      };
      const { prompt_tokens, completion_tokens } = reply.usage!;
      return { call, next, whole: Math.floor((prompt_tokens + completion_tokens - 4) / 16) * 16 };
    };

    const { call, next, whole } = await turn();
    const then = await chat(next(() => undefined));
    t.same(then.replayed, [call.id]);
    t.ok(then.cached >= whole, `unedited: ${then.cached} of ${whole} tokens are cached`);
    const equal = await chat(
      next((sent) => (sent.function.arguments = JSON.stringify(JSON.parse(sent.function.arguments)))),
    );
    t.same(equal.replayed, [call.id], 'equal as JSON');

    for (const [what, change] of [
      ['arguments', (sent) => (sent.function.arguments = sent.function.arguments.replace('"C"', '"F"'))],
      ['name', (sent) => (sent.function.name = sent.function.name === 'get_time' ? 'get_weather' : 'get_time')],
      ['forgotten', (sent) => (sent.id = `call_${'0'.repeat(24)}`)],
    ] as [string, Parameters<typeof next>[0]][]) {
      const other = await turn();
      const reply = await chat(other.next(change));
      t.same(reply.replayed, [], what);
      t.ok(reply.cached < other.whole - 32, `${what}: ${reply.cached} of ${other.whole} tokens are cached`);
    }

    const asked = { role: 'user' as const, content: `W: What is the weather ${Math.random()}?` };
    const input = {
      model: 'scripted',
      temperature: 0,
      reasoning: { effort: 'none' as never },
      parallel_tool_calls: false,
      tools: tools.map(responseTool),
    };
    const first = await openai.responses.create({ ...input, input: [asked] });
    const said = first.output.find(({ type }) => type === 'function_call') as OpenAI.Responses.ResponseFunctionToolCall;
    const output = { type: 'function_call_output' as const, call_id: said.call_id, output: 'T: 14 C' };
    const options = { prompt_cache_options: { comparison_response_id: first.id } } as object;
    const second = await openai.responses.create({ ...input, ...options, input: [asked, said, output] });
    t.match(second, { prompt_cache_diagnostics: { type: 'cache_hit', replayed_items: [said.call_id] } });

    const message = await anthropic.beta.messages.create({
      model: 'scripted',
      max_tokens: 200,
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      tools: tools.map(({ function: { name } }) => ({ name, input_schema: parameters as never })),
      messages: [asked],
    });
    const use = message.content.find(({ type }) => type === 'tool_use') as Anthropic.Beta.BetaToolUseBlock;
    const compared = await anthropic.beta.messages.create({
      model: 'scripted',
      max_tokens: 200,
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      system: 'A system prompt that the earlier message did not have.',
      tools: tools.map(({ function: { name } }) => ({ name, input_schema: parameters as never })),
      messages: [
        asked,
        { role: 'assistant', content: [use] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'T: 14 C' }] },
      ],
      diagnostics: { previous_message_id: message.id },
    });
    t.match(compared.diagnostics, { cache_miss_reason: { type: 'system_changed' }, replayed_items: [use.id] });
  });
}

function responseTool({ function: { name } }: { function: { name: string } }): OpenAI.Responses.FunctionTool {
  return { type: 'function', name, parameters, strict: false };
}
