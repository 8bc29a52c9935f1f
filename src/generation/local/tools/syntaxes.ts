// The ways models write tool calls, and what each is like. A template decides which (dialect.ts). Pure.
import type { ToolCall } from '../../types.js';
import type { CallableTools, CallSink } from './call-reader.js';
import type { CallSyntax } from './call-stream.js';
import { JsonCall } from './json-call.js';
import { ARGS, CALL_ID, NamedCall } from './named-call.js';
import { XmlCall } from './xml-call.js';

export interface ToolSyntax extends CallSyntax {
  readonly name: 'hermes' | 'xml' | 'llama' | 'mistral' | 'mistral-named';
  /** The opening that the engine tells calls by: `open`, or for a bare call what such an answer begins with. */
  readonly engineOpen: string;
  /** What follows it up to the arguments, as far as it is always the same. */
  head(tool: string): string;
  /** What follows the arguments, the end of the call included; null where JSON arguments do not follow the head at once. */
  readonly tail: string | null;
  /** Calls as the model itself would have written them: for templates that have no place for them. */
  write(calls: readonly Pick<ToolCall, 'name' | 'arguments'>[]): string;
}

const TOOL_CALL = '<tool_call>', END_TOOL_CALL = '</tool_call>';
const TOOL_CALLS = '[TOOL_CALLS]';
const BARE_HEAD = '{"name": "';

const json = (exact: boolean) => (first: string, tools: CallableTools, sink: CallSink) => (first === '{' ? new JsonCall(tools, sink, exact) : null);

/** Qwen, Hermes, and most others. */
export const HERMES: ToolSyntax = {
  name: 'hermes', open: TOOL_CALL, close: END_TOOL_CALL, bare: false, separators: '[],', engineOpen: TOOL_CALL,
  reader: json(false),
  head: (tool) => `\n{"name": "${tool}", "arguments":`,
  tail: `}\n${END_TOOL_CALL}`,
  write: (calls) => calls.map((call) => `${TOOL_CALL}\n{"name": "${call.name}", "arguments": ${call.arguments}}\n${END_TOOL_CALL}`).join('\n'),
};

/** Qwen3-Coder and its kin. */
export const XML: ToolSyntax = {
  ...HERMES, name: 'xml', separators: '',
  reader: (first, tools, sink) => (first === '<' ? new XmlCall(tools, sink) : HERMES.reader(first, tools, sink)),
  head: (tool) => `\n<function=${tool}>`,
  tail: null,
};

/** Llama 3.x: the call is the whole answer. Its marker is optional, and a control token that content does not show. */
export const LLAMA: ToolSyntax = {
  name: 'llama', open: '<|python_tag|>', close: '', bare: true, separators: ';,', engineOpen: BARE_HEAD,
  reader: json(true),
  head: (tool) => `${tool}", "parameters":`,
  tail: '}',
  write: (calls) => calls.map((call) => `${BARE_HEAD}${call.name}", "parameters": ${call.arguments}}`).join('; '),
};

/** Mistral up to its second generation of tokenizers: one list. */
export const MISTRAL: ToolSyntax = {
  name: 'mistral', open: TOOL_CALLS, close: '', bare: false, separators: '[],', engineOpen: TOOL_CALLS,
  // Whatever a model's template shows, its weights may know the other way too.
  reader: (first, tools, sink) => (first === '{' ? new JsonCall(tools, sink, false) : new NamedCall(tools, sink)),
  head: (tool) => `[{"name": "${tool}", "arguments":`,
  tail: '}]',
  write: (calls) => `${TOOL_CALLS}[${calls.map((call) => `{"name": "${call.name}", "arguments": ${call.arguments}}`).join(', ')}]`,
};

/** The newer ones: each call behind a marker of its own. */
export const MISTRAL_NAMED: ToolSyntax = {
  ...MISTRAL, name: 'mistral-named',
  head: (tool) => `${tool}${ARGS}`,
  tail: '',
  write: (calls) => calls.map((call) => `${TOOL_CALLS}${call.name}${ARGS}${call.arguments}`).join(''),
};

/** The same for templates that number their calls. */
export const MISTRAL_NUMBERED: ToolSyntax = { ...MISTRAL_NAMED, head: (tool) => `${tool}${CALL_ID}`, tail: null };
