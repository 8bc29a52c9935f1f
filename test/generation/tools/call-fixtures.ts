// Texts as models write them, and what they are. Every split of a text has to give the same.
import { HERMES, LLAMA, MISTRAL, MISTRAL_NAMED, XML, type ToolSyntax } from '../../../src/generation/local/tools/syntaxes.js';
import type { CallableTools } from '../../../src/generation/local/tools/call-reader.js';

/** `call NAME ARGUMENTS` for a complete call, `cut NAME ARGUMENTS` for one that is not, `text TEXT` for content. */
export type Told = string;

export interface CallFixture {
  name: string;
  syntax: ToolSyntax;
  text: string;
  told: Told[];
  /** The turn was cut; else it ended by itself. */
  cut?: true;
}

export const tools: CallableTools = new Map([
  ['get_weather', { type: 'object', properties: { location: { type: 'string' }, days: { type: 'integer' }, unit: { type: ['string', 'null'] }, hourly: { type: 'boolean' }, filter: { type: 'object' } } }],
  ['get_time', null],
  ['f', { type: 'object', properties: {} }],
]);

const hermes = (...objects: string[]): string => objects.map((object) => `<tool_call>\n${object}\n</tool_call>`).join('\n');
const weather = (args: string): string => `{"name": "get_weather", "arguments": ${args}}`;

export const fixtures: CallFixture[] = [
  { name: 'one call', syntax: HERMES, text: hermes(weather('{"location": "SF"}')), told: ['call get_weather {"location": "SF"}'] },
  {
    name: 'two calls', syntax: HERMES, text: hermes(weather('{"location": "SF"}'), '{"name": "get_time", "arguments": {}}'),
    told: ['call get_weather {"location": "SF"}', 'call get_time {}'],
  },
  { name: 'without line breaks', syntax: HERMES, text: `<tool_call>${weather('{}')}</tool_call><tool_call>${weather('{}')}</tool_call>`, told: ['call get_weather {}', 'call get_weather {}'] },
  {
    name: 'everything JSON can be', syntax: HERMES,
    text: hermes(weather('{"a": [1, -0.5e+10, true, false, null, {"b": "\\u00e9\\n\\"}"}, []], "id": 12345678901234567890, "zero": 1.0, "\\u0061": "日本 😀"}')),
    told: ['call get_weather {"a": [1, -0.5e+10, true, false, null, {"b": "\\u00e9\\n\\"}"}, []], "id": 12345678901234567890, "zero": 1.0, "\\u0061": "日本 😀"}'],
  },
  { name: 'the marker within a string', syntax: HERMES, text: hermes(weather('{"location": "</tool_call> {\\"name\\": <tool_call>"}')), told: ['call get_weather {"location": "</tool_call> {\\"name\\": <tool_call>"}'] },
  { name: 'arguments first', syntax: HERMES, text: hermes('{"arguments": {"days": 3}, "name": "get_weather"}'), told: ['call get_weather {"days": 3}'] },
  { name: 'other keys', syntax: HERMES, text: hermes('{"id": 17, "type": {"x": {"name": "f"}}, "name": "get_weather", "arguments": {"days": 3}, "more": [1, {"arguments": {}}]}'), told: ['call get_weather {"days": 3}'] },
  { name: 'no arguments', syntax: HERMES, text: hermes('{"name": "get_time"}'), told: ['call get_time {}'] },
  { name: 'null for arguments', syntax: HERMES, text: hermes('{"name": "get_time", "arguments": null}'), told: ['call get_time {}'] },
  { name: 'parameters for arguments', syntax: HERMES, text: hermes('{"name": "get_time", "parameters": {"a": 1}}'), told: ['call get_time {"a": 1}'] },
  {
    name: 'arguments in a string', syntax: HERMES, text: hermes(weather('"{\\"location\\": \\"\\u00e9\\ud83d\\ude00 \\\\\\"q\\\\\\" \\\\n\\", \\"x\\": 10000000000000001}"')),
    told: ['call get_weather {"location": "é😀 \\"q\\" \\n", "x": 10000000000000001}'],
  },
  { name: 'an empty string for arguments', syntax: HERMES, text: hermes(weather('""')), told: ['call get_weather {}'] },
  { name: 'a broken string of arguments', syntax: HERMES, text: hermes(weather('"{\\"location\\": oh}"')), told: ['cut get_weather {"location": '] },
  { name: 'a string that ends early', syntax: HERMES, text: hermes(weather('"{\\"location\\": "')), told: ['cut get_weather {"location": '] },
  { name: 'an escaped name', syntax: HERMES, text: hermes('{"name": "get\\u005ftime", "arguments": {}}'), told: ['call get_time {}'] },
  { name: 'one brace too many', syntax: HERMES, text: hermes(`${weather('{"days": 1}')}}`), told: ['call get_weather {"days": 1}'] },
  { name: 'talk behind the call', syntax: HERMES, text: `<tool_call>\n${weather('{}')} That is it.</tool_call>`, told: ['call get_weather {}'] },
  { name: 'several in one section', syntax: HERMES, text: `<tool_call>\n${weather('{"days": 1}')}\n${weather('{"days": 2}')}\n</tool_call>`, told: ['call get_weather {"days": 1}', 'call get_weather {"days": 2}'] },
  { name: 'a list in one section', syntax: HERMES, text: `<tool_call>\n[${weather('{"days": 1}')}, ${weather('{"days": 2}')}]\n</tool_call>`, told: ['call get_weather {"days": 1}', 'call get_weather {"days": 2}'] },
  { name: 'no close marker', syntax: HERMES, text: `<tool_call>\n${weather('{"days": 1}')}`, told: ['call get_weather {"days": 1}'] },
  { name: 'a second open marker instead of a close', syntax: HERMES, text: `<tool_call>\n${weather('{}')}\n<tool_call>\n${weather('{"days": 2}')}\n</tool_call>`, told: ['call get_weather {}', 'call get_weather {"days": 2}'] },
  { name: 'an unknown tool', syntax: HERMES, text: hermes('{"name": "rm", "arguments": {"x": 1}}'), told: ['text <tool_call>\n{"name": "rm", "arguments": {"x": 1}}\n</tool_call>'] },
  { name: 'an unknown tool before a known one', syntax: HERMES, text: hermes('{"name": "rm"}', weather('{}')), told: ['text <tool_call>\n{"name": "rm"}\n</tool_call>', 'call get_weather {}'] },
  { name: 'no JSON at all', syntax: HERMES, text: '<tool_call>\nget_weather("SF")\n</tool_call> So?', told: ['text <tool_call>\nget_weather("SF")\n</tool_call>', 'text So?'] },
  { name: 'arguments that are a list', syntax: HERMES, text: hermes(weather('[1]')), told: [`text ${hermes(weather('[1]'))}`] },
  { name: 'broken within the arguments', syntax: HERMES, text: hermes(weather("{\"days\": 'three'}")), told: ['cut get_weather {"days": '] },
  { name: 'a line break within a string', syntax: HERMES, text: hermes(weather('{"location": "a\nb"}')), told: ['cut get_weather {"location": "a'] },
  { name: 'a number that is none', syntax: HERMES, text: hermes(weather('{"days": 01}')), told: ['cut get_weather {"days": 0'] },
  { name: 'cut within the arguments', syntax: HERMES, text: `<tool_call>\n${weather('{"location": "S')}`.slice(0, -1), told: ['cut get_weather {"location": "S'], cut: true },
  { name: 'cut before the name', syntax: HERMES, text: '<tool_call>\n{"name": "get_w', told: [], cut: true },
  { name: 'ended before the name', syntax: HERMES, text: '<tool_call>\n{"name": "get_w', told: ['text <tool_call>\n{"name": "get_w'] },
  { name: 'cut in the close marker', syntax: HERMES, text: `<tool_call>\n${weather('{}')}\n</tool_`, told: ['call get_weather {}'], cut: true },

  {
    name: 'parameters of every kind', syntax: XML,
    text: '<tool_call>\n<function=get_weather>\n<parameter=location>\nSan\n"Francisco" 😀\n\n</parameter>\n<parameter=days>\n12345678901234567890\n</parameter>\n<parameter=unit>\n5\n</parameter>\n<parameter=hourly>\nTrue\n</parameter>\n<parameter=filter>\n{"a": [1.0]}\n</parameter>\n<parameter=other>\n7\n</parameter>\n</function>\n</tool_call>',
    told: ['call get_weather {"location": "San\\n\\"Francisco\\" 😀\\n", "days": 12345678901234567890, "unit": "5", "hourly": true, "filter": {"a": [1.0]}, "other": "7"}'],
  },
  { name: 'null, and what is no number', syntax: XML, text: '<tool_call>\n<function=get_weather>\n<parameter=unit>\nnull\n</parameter>\n<parameter=days>\nthree\n</parameter>\n</function>\n</tool_call>', told: ['call get_weather {"unit": null, "days": "three"}'] },
  { name: 'no parameters, twice', syntax: XML, text: '<tool_call>\n<function=get_time>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n</function>\n</tool_call>', told: ['call get_time {}', 'call f {}'] },
  { name: 'empty and unframed values', syntax: XML, text: '<tool_call><function=get_weather><parameter=location></parameter><parameter=x>\n</parameter><parameter=days>3</parameter></function></tool_call>', told: ['call get_weather {"location": "", "x": "", "days": 3}'] },
  { name: 'tags within a value', syntax: XML, text: '<tool_call>\n<function=f>\n<parameter=code>\n<function=g>\n</param> </tool_call>\n</parameter>\n</function>\n</tool_call>', told: ['call f {"code": "<function=g>\\n</param> </tool_call>"}'] },
  { name: 'an unknown function', syntax: XML, text: '<tool_call>\n<function=rm>\n</function>\n</tool_call>', told: ['text <tool_call>\n<function=rm>\n</function>\n</tool_call>'] },
  { name: 'cut within a value', syntax: XML, text: '<tool_call>\n<function=f>\n<parameter=code>\nlet x', told: ['cut f {"code": "let x'], cut: true },
  { name: 'no end of the function', syntax: XML, text: '<tool_call>\n<function=f>\n<parameter=code>\nx\n</parameter>\n</tool_call>', told: ['cut f {"code": "x"'] },
  { name: 'JSON all the same', syntax: XML, text: hermes(weather('{"days": 1}')), told: ['call get_weather {"days": 1}'] },

  { name: 'the whole answer', syntax: LLAMA, text: '{"name": "get_weather", "parameters": {"location": "SF"}}', told: ['call get_weather {"location": "SF"}'] },
  { name: 'behind the marker', syntax: LLAMA, text: '<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"location": "SF"}}', told: ['call get_weather {"location": "SF"}'] },
  { name: 'two, separated', syntax: LLAMA, text: '{"name": "get_weather", "parameters": {}}; {"name": "get_time", "parameters": {}}\n{"name": "f", "parameters": {}}', told: ['call get_weather {}', 'call get_time {}', 'call f {}'] },
  { name: 'a plain JSON answer', syntax: LLAMA, text: '{"name": "Bob", "age": 3}\nThat is all.', told: ['text {"name": "Bob", "age": 3}\nThat is all.'] },
  { name: 'a plain JSON answer about a tool', syntax: LLAMA, text: '{"name": "get_weather", "purpose": "weather"}', told: ['text {"name": "get_weather", "purpose": "weather"}'] },
  { name: 'an answer that begins like JSON', syntax: LLAMA, text: '{x} is a set.', told: ['text {x} is a set.'] },
  { name: 'JSON that is cut', syntax: LLAMA, text: '{"name": "get_', told: ['text {"name": "get_'], cut: true },
  { name: 'text behind a call', syntax: LLAMA, text: '{"name": "get_time", "parameters": {}}\n\nDone. {"a": 1}', told: ['call get_time {}', 'text Done. {"a": 1}'] },
  { name: 'cut in the parameters', syntax: LLAMA, text: '{"name": "get_weather", "parameters": {"location"', told: ['cut get_weather {"location"'], cut: true },

  { name: 'a list', syntax: MISTRAL, text: '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"days": 1}, "id": "abc123def"}, {"name": "get_time", "arguments": {}}]', told: ['call get_weather {"days": 1}', 'call get_time {}'] },
  { name: 'a bare object', syntax: MISTRAL, text: '[TOOL_CALLS]{"name": "get_time", "arguments": {}}', told: ['call get_time {}'] },
  { name: 'an unknown tool in the list', syntax: MISTRAL, text: '[TOOL_CALLS][{"name": "rm", "arguments": {}}]', told: ['text [TOOL_CALLS][{"name": "rm", "arguments": {}}]'] },
  { name: 'a cut list', syntax: MISTRAL, text: '[TOOL_CALLS][{"name": "get_weather", "arguments": {"days": 1}}, {"na', told: ['call get_weather {"days": 1}'], cut: true },
  { name: 'text behind the list', syntax: MISTRAL, text: '[TOOL_CALLS][{"name": "get_time", "arguments": {}}] Well then', told: ['call get_time {}', 'text Well then'] },
  { name: 'named calls', syntax: MISTRAL_NAMED, text: '[TOOL_CALLS]get_weather[ARGS]{"days": 1}[TOOL_CALLS]get_time[ARGS] {}', told: ['call get_weather {"days": 1}', 'call get_time {}'] },
  { name: 'numbered calls', syntax: MISTRAL_NAMED, text: '[TOOL_CALLS]get_weather[CALL_ID]abc123def[ARGS]{"days": 1}', told: ['call get_weather {"days": 1}'] },
  { name: 'an unknown named tool', syntax: MISTRAL_NAMED, text: '[TOOL_CALLS]rm[ARGS]{}[TOOL_CALLS]f[ARGS]{}', told: ['text [TOOL_CALLS]rm[ARGS]{}', 'call f {}'] },
  { name: 'broken named arguments', syntax: MISTRAL_NAMED, text: '[TOOL_CALLS]f[ARGS]{"a" 1}', told: ['cut f {"a" '] },
  { name: 'a cut name', syntax: MISTRAL_NAMED, text: '[TOOL_CALLS]get_', told: [], cut: true },
];
