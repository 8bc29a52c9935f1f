// Texts as models write them, each with the expected result. The result must not depend on how the text is split.
import { HERMES } from '../../../src/generation/local/tools/hermes.js';
import { MISTRAL } from '../../../src/generation/local/tools/json-list.js';
import { COMMAND } from '../../../src/generation/local/tools/command.js';
import { DEEPSEEK, DEEPSEEK_FENCED } from '../../../src/generation/local/tools/deepseek.js';
import { DSML } from '../../../src/generation/local/tools/dsml.js';
import { FUNCTIONARY_NAMED } from '../../../src/generation/local/tools/functionary.js';
import { GEMMA } from '../../../src/generation/local/tools/gemma.js';
import { GLM } from '../../../src/generation/local/tools/glm.js';
import { HARMONY } from '../../../src/generation/local/tools/harmony.js';
import { KIMI } from '../../../src/generation/local/tools/kimi.js';
import { HUNYUAN } from '../../../src/generation/local/tools/hunyuan.js';
import { MINICPM } from '../../../src/generation/local/tools/minicpm.js';
import { MINIMAX } from '../../../src/generation/local/tools/minimax.js';
import { PYTHONIC } from '../../../src/generation/local/tools/pythonic.js';
import { LLAMA } from '../../../src/generation/local/tools/llama.js';
import { MISTRAL_NAMED } from '../../../src/generation/local/tools/mistral.js';
import type { ToolSyntax } from '../../../src/generation/local/tools/syntax.js';
import { XML } from '../../../src/generation/local/tools/xml.js';
import type { CallableTools } from '../../../src/generation/local/tools/call-reader.js';

/** `call NAME ARGUMENTS` for a complete call, `cut NAME ARGUMENTS` for a truncated call, `text TEXT` for content. */
export type Told = string;

export interface CallFixture {
  name: string;
  syntax: ToolSyntax;
  text: string;
  told: Told[];
  /** Whether the response was truncated. If not set, it ended on its own. */
  cut?: true;
}

export const tools: CallableTools = new Map([
  [
    'get_weather',
    {
      type: 'object',
      properties: {
        location: { type: 'string' },
        days: { type: 'integer' },
        unit: { type: ['string', 'null'] },
        hourly: { type: 'boolean' },
        filter: { type: 'object' },
      },
    },
  ],
  ['get_time', null],
  ['f', { type: 'object', properties: {} }],
  ['function', null],
]);

const hermes = (...objects: string[]): string =>
  objects.map((object) => `<tool_call>\n${object}\n</tool_call>`).join('\n');
const weather = (args: string): string => `{"name": "get_weather", "arguments": ${args}}`;

export const fixtures: CallFixture[] = [
  {
    name: 'one call',
    syntax: HERMES,
    text: hermes(weather('{"location": "SF"}')),
    told: ['call get_weather {"location": "SF"}'],
  },
  {
    name: 'two calls',
    syntax: HERMES,
    text: hermes(weather('{"location": "SF"}'), '{"name": "get_time", "arguments": {}}'),
    told: ['call get_weather {"location": "SF"}', 'call get_time {}'],
  },
  {
    name: 'without line breaks',
    syntax: HERMES,
    text: `<tool_call>${weather('{}')}</tool_call><tool_call>${weather('{}')}</tool_call>`,
    told: ['call get_weather {}', 'call get_weather {}'],
  },
  {
    name: 'every kind of JSON value',
    syntax: HERMES,
    text: hermes(
      weather(
        '{"a": [1, -0.5e+10, true, false, null, {"b": "\\u00e9\\n\\"}"}, []], "id": 12345678901234567890, "zero": 1.0, "\\u0061": "日本 😀"}',
      ),
    ),
    told: [
      'call get_weather {"a": [1, -0.5e+10, true, false, null, {"b": "\\u00e9\\n\\"}"}, []], "id": 12345678901234567890, "zero": 1.0, "\\u0061": "日本 😀"}',
    ],
  },
  {
    name: 'the marker within a string',
    syntax: HERMES,
    text: hermes(weather('{"location": "</tool_call> {\\"name\\": <tool_call>"}')),
    told: ['call get_weather {"location": "</tool_call> {\\"name\\": <tool_call>"}'],
  },
  {
    name: 'arguments first',
    syntax: HERMES,
    text: hermes('{"arguments": {"days": 3}, "name": "get_weather"}'),
    told: ['call get_weather {"days": 3}'],
  },
  {
    name: 'other keys',
    syntax: HERMES,
    text: hermes(
      '{"id": 17, "type": {"x": {"name": "f"}}, "name": "get_weather", "arguments": {"days": 3}, "more": [1, {"arguments": {}}]}',
    ),
    told: ['call get_weather {"days": 3}'],
  },
  { name: 'no arguments', syntax: HERMES, text: hermes('{"name": "get_time"}'), told: ['call get_time {}'] },
  {
    name: 'null for arguments',
    syntax: HERMES,
    text: hermes('{"name": "get_time", "arguments": null}'),
    told: ['call get_time {}'],
  },
  {
    name: 'parameters for arguments',
    syntax: HERMES,
    text: hermes('{"name": "get_time", "parameters": {"a": 1}}'),
    told: ['call get_time {"a": 1}'],
  },
  {
    name: 'arguments in a string',
    syntax: HERMES,
    text: hermes(
      weather('"{\\"location\\": \\"\\u00e9\\ud83d\\ude00 \\\\\\"q\\\\\\" \\\\n\\", \\"x\\": 10000000000000001}"'),
    ),
    told: ['call get_weather {"location": "é😀 \\"q\\" \\n", "x": 10000000000000001}'],
  },
  { name: 'an empty string for arguments', syntax: HERMES, text: hermes(weather('""')), told: ['call get_weather {}'] },
  {
    name: 'a broken string of arguments',
    syntax: HERMES,
    text: hermes(weather('"{\\"location\\": oh}"')),
    told: ['cut get_weather {"location": '],
  },
  {
    name: 'a string that ends early',
    syntax: HERMES,
    text: hermes(weather('"{\\"location\\": "')),
    told: ['cut get_weather {"location": '],
  },
  {
    name: 'an escaped name',
    syntax: HERMES,
    text: hermes('{"name": "get\\u005ftime", "arguments": {}}'),
    told: ['call get_time {}'],
  },
  {
    name: 'one brace too many',
    syntax: HERMES,
    text: hermes(`${weather('{"days": 1}')}}`),
    told: ['call get_weather {"days": 1}'],
  },
  {
    name: 'text after the call',
    syntax: HERMES,
    text: `<tool_call>\n${weather('{}')} That is it.</tool_call>`,
    told: ['call get_weather {}'],
  },
  {
    name: 'several in one section',
    syntax: HERMES,
    text: `<tool_call>\n${weather('{"days": 1}')}\n${weather('{"days": 2}')}\n</tool_call>`,
    told: ['call get_weather {"days": 1}', 'call get_weather {"days": 2}'],
  },
  {
    name: 'a list in one section',
    syntax: HERMES,
    text: `<tool_call>\n[${weather('{"days": 1}')}, ${weather('{"days": 2}')}]\n</tool_call>`,
    told: ['call get_weather {"days": 1}', 'call get_weather {"days": 2}'],
  },
  {
    name: 'no close marker',
    syntax: HERMES,
    text: `<tool_call>\n${weather('{"days": 1}')}`,
    told: ['call get_weather {"days": 1}'],
  },
  {
    name: 'a second open marker instead of a close',
    syntax: HERMES,
    text: `<tool_call>\n${weather('{}')}\n<tool_call>\n${weather('{"days": 2}')}\n</tool_call>`,
    told: ['call get_weather {}', 'call get_weather {"days": 2}'],
  },
  {
    name: 'an unknown tool',
    syntax: HERMES,
    text: hermes('{"name": "rm", "arguments": {"x": 1}}'),
    told: ['text <tool_call>\n{"name": "rm", "arguments": {"x": 1}}\n</tool_call>'],
  },
  {
    name: 'an unknown tool before a known one',
    syntax: HERMES,
    text: hermes('{"name": "rm"}', weather('{}')),
    told: ['text <tool_call>\n{"name": "rm"}\n</tool_call>', 'call get_weather {}'],
  },
  {
    name: 'text that is not JSON',
    syntax: HERMES,
    text: '<tool_call>\nget_weather("SF")\n</tool_call> So?',
    told: ['text <tool_call>\nget_weather("SF")\n</tool_call>', 'text So?'],
  },
  {
    name: 'arguments that are a list',
    syntax: HERMES,
    text: hermes(weather('[1]')),
    told: [`text ${hermes(weather('[1]'))}`],
  },
  {
    name: 'invalid JSON within the arguments',
    syntax: HERMES,
    text: hermes(weather('{"days": \'three\'}')),
    told: ['cut get_weather {"days": '],
  },
  {
    name: 'a line break within a string',
    syntax: HERMES,
    text: hermes(weather('{"location": "a\nb"}')),
    told: ['cut get_weather {"location": "a'],
  },
  {
    name: 'an invalid number',
    syntax: HERMES,
    text: hermes(weather('{"days": 01}')),
    told: ['cut get_weather {"days": 0'],
  },
  {
    name: 'truncated within the arguments',
    syntax: HERMES,
    text: `<tool_call>\n${weather('{"location": "S')}`.slice(0, -1),
    told: ['cut get_weather {"location": "S'],
    cut: true,
  },
  { name: 'truncated before the name', syntax: HERMES, text: '<tool_call>\n{"name": "get_w', told: [], cut: true },
  {
    name: 'ended before the name',
    syntax: HERMES,
    text: '<tool_call>\n{"name": "get_w',
    told: ['text <tool_call>\n{"name": "get_w'],
  },
  {
    name: 'truncated within the close marker',
    syntax: HERMES,
    text: `<tool_call>\n${weather('{}')}\n</tool_`,
    told: ['call get_weather {}'],
    cut: true,
  },

  {
    name: 'parameters of every kind',
    syntax: XML,
    text: '<tool_call>\n<function=get_weather>\n<parameter=location>\nSan\n"Francisco" 😀\n\n</parameter>\n<parameter=days>\n12345678901234567890\n</parameter>\n<parameter=unit>\n5\n</parameter>\n<parameter=hourly>\nTrue\n</parameter>\n<parameter=filter>\n{"a": [1.0]}\n</parameter>\n<parameter=other>\n7\n</parameter>\n</function>\n</tool_call>',
    told: [
      'call get_weather {"location": "San\\n\\"Francisco\\" 😀\\n", "days": 12345678901234567890, "unit": "5", "hourly": true, "filter": {"a": [1.0]}, "other": "7"}',
    ],
  },
  {
    name: 'null, and a value that is not a number',
    syntax: XML,
    text: '<tool_call>\n<function=get_weather>\n<parameter=unit>\nnull\n</parameter>\n<parameter=days>\nthree\n</parameter>\n</function>\n</tool_call>',
    told: ['call get_weather {"unit": null, "days": "three"}'],
  },
  {
    name: 'no parameters, twice',
    syntax: XML,
    text: '<tool_call>\n<function=get_time>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n</function>\n</tool_call>',
    told: ['call get_time {}', 'call f {}'],
  },
  {
    name: 'empty and unframed values',
    syntax: XML,
    text: '<tool_call><function=get_weather><parameter=location></parameter><parameter=x>\n</parameter><parameter=days>3</parameter></function></tool_call>',
    told: ['call get_weather {"location": "", "x": "", "days": 3}'],
  },
  {
    name: 'tags within a value',
    syntax: XML,
    text: '<tool_call>\n<function=f>\n<parameter=code>\n<function=g>\n</param> </tool_call>\n</parameter>\n</function>\n</tool_call>',
    told: ['call f {"code": "<function=g>\\n</param> </tool_call>"}'],
  },
  {
    name: 'an unknown function',
    syntax: XML,
    text: '<tool_call>\n<function=rm>\n</function>\n</tool_call>',
    told: ['text <tool_call>\n<function=rm>\n</function>\n</tool_call>'],
  },
  {
    name: 'truncated within a value',
    syntax: XML,
    text: '<tool_call>\n<function=f>\n<parameter=code>\nlet x',
    told: ['cut f {"code": "let x'],
    cut: true,
  },
  {
    name: 'a missing end of the function',
    syntax: XML,
    text: '<tool_call>\n<function=f>\n<parameter=code>\nx\n</parameter>\n</tool_call>',
    told: ['cut f {"code": "x"'],
  },
  {
    name: 'JSON instead of the XML syntax',
    syntax: XML,
    text: hermes(weather('{"days": 1}')),
    told: ['call get_weather {"days": 1}'],
  },

  {
    name: 'the call is the whole response',
    syntax: LLAMA,
    text: '{"name": "get_weather", "parameters": {"location": "SF"}}',
    told: ['call get_weather {"location": "SF"}'],
  },
  {
    name: 'the call follows the marker',
    syntax: LLAMA,
    text: '<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"location": "SF"}}',
    told: ['call get_weather {"location": "SF"}'],
  },
  {
    name: 'several calls with separators',
    syntax: LLAMA,
    text: '{"name": "get_weather", "parameters": {}}; {"name": "get_time", "parameters": {}}\n{"name": "f", "parameters": {}}',
    told: ['call get_weather {}', 'call get_time {}', 'call f {}'],
  },
  {
    name: 'a plain JSON response',
    syntax: LLAMA,
    text: '{"name": "Bob", "age": 3}\nThat is all.',
    told: ['text {"name": "Bob", "age": 3}\nThat is all.'],
  },
  {
    name: 'a plain JSON response with the name of a tool',
    syntax: LLAMA,
    text: '{"name": "get_weather", "purpose": "weather"}',
    told: ['text {"name": "get_weather", "purpose": "weather"}'],
  },
  { name: 'a response that starts like JSON', syntax: LLAMA, text: '{x} is a set.', told: ['text {x} is a set.'] },
  { name: 'truncated JSON', syntax: LLAMA, text: '{"name": "get_', told: ['text {"name": "get_'], cut: true },
  {
    name: 'text after a call',
    syntax: LLAMA,
    text: '{"name": "get_time", "parameters": {}}\n\nDone. {"a": 1}',
    told: ['call get_time {}', 'text Done. {"a": 1}'],
  },
  {
    name: 'truncated within the parameters',
    syntax: LLAMA,
    text: '{"name": "get_weather", "parameters": {"location"',
    told: ['cut get_weather {"location"'],
    cut: true,
  },

  {
    name: 'a list',
    syntax: MISTRAL,
    text: '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"days": 1}, "id": "abc123def"}, {"name": "get_time", "arguments": {}}]',
    told: ['call get_weather {"days": 1}', 'call get_time {}'],
  },
  {
    name: 'a bare object',
    syntax: MISTRAL,
    text: '[TOOL_CALLS]{"name": "get_time", "arguments": {}}',
    told: ['call get_time {}'],
  },
  {
    name: 'an unknown tool in the list',
    syntax: MISTRAL,
    text: '[TOOL_CALLS][{"name": "rm", "arguments": {}}]',
    told: ['text [TOOL_CALLS][{"name": "rm", "arguments": {}}]'],
  },
  {
    name: 'a truncated list',
    syntax: MISTRAL,
    text: '[TOOL_CALLS][{"name": "get_weather", "arguments": {"days": 1}}, {"na',
    told: ['call get_weather {"days": 1}'],
    cut: true,
  },
  {
    name: 'text after the list',
    syntax: MISTRAL,
    text: '[TOOL_CALLS][{"name": "get_time", "arguments": {}}] Well then',
    told: ['call get_time {}', 'text Well then'],
  },
  {
    name: 'named calls',
    syntax: MISTRAL_NAMED,
    text: '[TOOL_CALLS]get_weather[ARGS]{"days": 1}[TOOL_CALLS]get_time[ARGS] {}',
    told: ['call get_weather {"days": 1}', 'call get_time {}'],
  },
  {
    name: 'numbered calls',
    syntax: MISTRAL_NAMED,
    text: '[TOOL_CALLS]get_weather[CALL_ID]abc123def[ARGS]{"days": 1}',
    told: ['call get_weather {"days": 1}'],
  },
  {
    name: 'an unknown named tool',
    syntax: MISTRAL_NAMED,
    text: '[TOOL_CALLS]rm[ARGS]{}[TOOL_CALLS]f[ARGS]{}',
    told: ['text [TOOL_CALLS]rm[ARGS]{}', 'call f {}'],
  },
  { name: 'broken named arguments', syntax: MISTRAL_NAMED, text: '[TOOL_CALLS]f[ARGS]{"a" 1}', told: ['cut f {"a" '] },
  {
    name: 'text after the section',
    syntax: GLM,
    text: '<tool_call>f\n</tool_call> (So?)',
    told: ['call f {}', 'text (So?)'],
  },
  {
    name: 'values converted according to the schema',
    syntax: GLM,
    text: '<tool_call>get_weather\n<arg_key>location</arg_key>\n<arg_value>5</arg_value>\n<arg_key>days</arg_key><arg_value>5</arg_value><arg_key>unit</arg_key>\n<arg_value>null</arg_value></tool_call>',
    told: ['call get_weather {"location": "5", "days": 5, "unit": null}'],
  },
  {
    name: 'an unknown tool',
    syntax: GLM,
    text: '<tool_call>rm\n<arg_key>x</arg_key></tool_call>',
    told: ['text <tool_call>rm\n<arg_key>x</arg_key></tool_call>'],
  },
  {
    name: 'a key without a value',
    syntax: GLM,
    text: '<tool_call>f\n<arg_key>x</arg_key></tool_call>',
    told: ['cut f {'],
  },
  {
    name: 'truncated within a value',
    syntax: GLM,
    text: '<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>ab</arg_',
    told: ['cut f {"x": "ab'],
    cut: true,
  },
  {
    name: 'calls with and without numbers',
    syntax: KIMI,
    text: '<|tool_calls_section_begin|> <|tool_call_begin|>functions.f:12<|tool_call_argument_begin|> {"a": "<|tool_call_end|>"}<|tool_call_end|>\n<|tool_call_begin|>get_time<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>',
    told: ['call f {"a": "<|tool_call_end|>"}', 'call get_time {}'],
  },
  {
    name: 'an unknown tool',
    syntax: KIMI,
    text: '<|tool_calls_section_begin|><|tool_call_begin|>functions.rm:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>',
    told: [
      'text <|tool_calls_section_begin|><|tool_call_begin|>functions.rm:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>',
    ],
  },
  {
    name: 'truncated within the second header',
    syntax: KIMI,
    text: '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.',
    told: ['call f {}'],
    cut: true,
  },
  {
    name: 'a tool called function',
    syntax: DEEPSEEK,
    text: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    told: ['call function {"a": 1}'],
  },
  {
    name: 'arguments in code fences',
    syntax: DEEPSEEK_FENCED,
    text: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": "```"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    told: ['call f {"a": "```"}', 'call get_time {}'],
  },
  {
    name: 'broken arguments',
    syntax: DEEPSEEK,
    text: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{a}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    told: ['cut f {'],
  },
  {
    name: 'the tag determines whether a value is a string',
    syntax: DSML,
    text: '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="location" string="false">["a"]</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="true">5\n</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="f">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    told: ['call get_weather {"location": ["a"], "days": "5\\n"}', 'call f {}'],
  },
  {
    name: 'a tag that does not say whether the value is a string',
    syntax: DSML,
    text: '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="x">5</｜DSML｜parameter>\n</｜DSML｜invoke>',
    told: ['cut f {'],
    cut: true,
  },
  {
    name: 'line breaks belong to the value',
    syntax: MINIMAX,
    text: '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="location">\na\n</parameter>\n<parameter name="hourly">True</parameter></invoke></minimax:tool_call>',
    told: ['call get_weather {"location": "\\na\\n", "hourly": true}'],
  },
  {
    name: 'truncated within a name',
    syntax: MINIMAX,
    text: '<minimax:tool_call>\n<invoke name="get_w',
    told: [],
    cut: true,
  },
  {
    name: 'every kind of value',
    syntax: GEMMA,
    text: '<|tool_call>call:f{a:<|"|>x"y<|"|>,b:{c:[1,-2.5e3,true,null,{}],<|"|>d e<|"|>:<|"|><|"|>},g:[]}<tool_call|>',
    told: ['call f {"a": "x\\"y", "b": {"c": [1, -2.5e3, true, null, {}], "d e": ""}, "g": []}'],
  },
  {
    name: 'two',
    syntax: GEMMA,
    text: '<|tool_call>call:f{}<tool_call|><|tool_call>call:get_time{}<tool_call|>',
    told: ['call f {}', 'call get_time {}'],
  },
  {
    name: 'a word that is not a value',
    syntax: GEMMA,
    text: '<|tool_call>call:f{a:one}<tool_call|>',
    told: ['cut f {"a": '],
  },
  {
    name: 'truncated within a string',
    syntax: GEMMA,
    text: '<|tool_call>call:f{a:<|"|>x<|"',
    told: ['cut f {"a": "x'],
    cut: true,
  },
  {
    name: 'Python values',
    syntax: PYTHONIC,
    text: `<|tool_call_start|>[f(a='it\\'s "1"', b=True, c=None, d={'x': [1, "\\u00e9\\n"]}, e=-1.5), get_time()]<|tool_call_end|>`,
    told: [
      'call f {"a": "it\'s \\"1\\"", "b": true, "c": null, "d": {"x": [1, "é\\n"]}, "e": -1.5}',
      'call get_time {}',
    ],
  },
  {
    name: 'an unknown function',
    syntax: PYTHONIC,
    text: '<|tool_call_start|>[rm(x=1)]<|tool_call_end|>',
    told: ['text <|tool_call_start|>[rm(x=1)]<|tool_call_end|>'],
  },
  {
    name: 'an argument without a name',
    syntax: PYTHONIC,
    text: '<|tool_call_start|>[f("a")]<|tool_call_end|>',
    told: ['cut f {"a"'],
  },
  {
    name: 'different member names, with ids',
    syntax: COMMAND,
    text: '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}},\n    {"tool_call_id": "1", "tool_name": "get_time", "parameters": {}}\n]<|END_ACTION|>',
    told: ['call f {"a": 1}', 'call get_time {}'],
  },
  {
    name: 'markup in a value',
    syntax: MINICPM,
    text: '<function name="get_weather"><param name="location"><![CDATA[a</param>\n<b> & ]]]></param> <param name="days">3</param><param name="unit">null</param></function>',
    told: ['call get_weather {"location": "a</param>\\n<b> & ]", "days": 3, "unit": null}'],
  },
  {
    name: 'an unterminated CDATA section',
    syntax: MINICPM,
    text: 'See <function>:<function name="get_weather"><param name="location"><![CDATA[a\nb</param><param name="days"><![CDATA[3]]></param><param name="unit"><![CDATA[x</param></function>',
    told: ['text See <function>:', 'call get_weather {"location": "a\\nb", "days": 3, "unit": "x"}'],
  },
  {
    name: 'several calls in one section',
    syntax: HUNYUAN,
    text: '<tool_calls>\n<tool_call>get_time<tool_sep>\n</tool_call>\n<tool_call>f<tool_sep><arg_key>a</arg_key><arg_value>1</arg_value></tool_call></tool_calls>Done',
    told: ['call get_time {}', 'call f {"a": "1"}', 'text Done'],
  },
  {
    name: 'a text between recipients',
    syntax: FUNCTIONARY_NAMED,
    text: '>>>all\nSo >>> 1\n>>>f\n{"a": 1}>>>all\nand >>>get_time\n{}',
    told: ['text So >>> 1\n', 'call f {"a": 1}', 'text and ', 'call get_time {}'],
  },
  {
    name: 'the recipient after the channel',
    syntax: HARMONY,
    text: '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}',
    told: ['call f {"a": 1}'],
  },
  {
    name: 'the recipient before the channel',
    syntax: HARMONY,
    text: '<|start|>assistant to=functions.get_time<|channel|>commentary json<|message|>{}<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}',
    told: ['call get_time {}', 'call f {}'],
  },
  {
    name: 'truncated within the header',
    syntax: HARMONY,
    text: '<|start|>assistant<|channel|>commentary to=functions.',
    told: [],
    cut: true,
  },
  { name: 'a truncated name', syntax: MISTRAL_NAMED, text: '[TOOL_CALLS]get_', told: [], cut: true },
];
