// Detects what a chat template supports by rendering small conversations and searching the output. Templates silently
// drop content that they do not support. Runs once per loaded model.
import type { ReasoningMarkers } from '../reasoning.js';
import type { TemplateContext, TemplateMessage, TemplateTool } from './context.js';
import { TemplateError } from './limits.js';

export interface TemplateCapabilities {
  system: 'anywhere' | 'first' | 'none'; // where system messages are shown and not rejected
  alternation: boolean; // whether roles must alternate between user and assistant
  thinkingSwitch: boolean; // whether enable_thinking changes the prompt
  tools: boolean; // whether tool definitions are shown together with a system message
  calls: 'many' | 'one' | 'none'; // how many past tool calls of one message are shown with their results
  callText: boolean; // whether text next to the calls of a message is shown
  /**
   * How past arguments are passed: as an object, or as text if the template fails on objects or prints them in Python's
   * notation.
   */
  callArguments: 'text' | 'object';
  /** Whether arguments that are not a JSON object may be passed as text. */
  textArguments: boolean;
  /**
   * The call IDs that the template accepts and shows correctly. free: any ID. short: 9 letters and digits. numbered:
   * functions.NAME:NUMBER.
   */
  callIds: 'free' | 'short' | 'numbered';
  /** The message field whose reasoning the template shows in a running tool loop, both with thinking on and off. */
  reasoningField: 'reasoning_content' | 'thinking' | 'reasoning' | null;
}

type Render = (context: TemplateContext) => string;

/** A template with detected capabilities. */
interface ProbedTemplate {
  readonly capabilities: TemplateCapabilities;
  try(context: TemplateContext): string;
}

type Call = NonNullable<TemplateMessage['tool_calls']>[number];

const PROBE_TOOL = 'probe_tool';
const PROBE_KEY = 'probe_key';
const VALUE = 'probe-value';
const OTHER_VALUE = 'probe-other';
const ARGUMENT_TEXT = '{"probe_key": "probe-value", "probe_number": 1.50}';
const LONG_ID = 'call_0123456789abcdefghijklmn';
const SHORT_ID = 'probe0001';

/** Returns a call ID in the form that the template requires. */
function idFor(callIds: TemplateCapabilities['callIds'], name: string, number: number): string {
  return callIds === 'numbered'
    ? `functions.${name}:${number}`
    : callIds === 'short'
      ? SHORT_ID.replace(/.$/, String(number))
      : LONG_ID.replace(/.$/, String(number));
}

const probeTool: TemplateTool = {
  type: 'function',
  function: {
    name: PROBE_TOOL,
    description: 'probe-description',
    parameters: {
      type: 'object',
      properties: { probe_key: { type: 'string', description: 'probe-parameter' } },
      required: ['probe_key'],
    },
  },
};

const user = (content: string): TemplateMessage => ({ role: 'user', content });
const system: TemplateMessage = { role: 'system', content: 'probe-system' };
const assistant: TemplateMessage = { role: 'assistant', content: 'probe-answer' };

function call(id: string, name: string, args: unknown): Call {
  return { id, type: 'function', function: { name, arguments: args } };
}

function calling(calls: Call[], more: Partial<TemplateMessage> = {}): TemplateMessage[] {
  const results = calls.map(
    ({ id, function: { name } }): TemplateMessage => ({
      role: 'tool',
      tool_call_id: id,
      name,
      content: `probe-result-${name}`,
    }),
  );
  return [user('probe-one'), { role: 'assistant', content: '', tool_calls: calls, ...more }, ...results];
}

/**
 * Renders once. Returns null if the template rejects the messages. Throws TemplateError if the template exceeds its
 * budget, which makes it unusable.
 */
function attempt(render: Render, context: Pick<TemplateContext, 'messages'> & Partial<TemplateContext>): string | null {
  try {
    return render({ tools: null, addGenerationPrompt: true, enableThinking: false, ...context });
  } catch (error) {
    if (error instanceof TemplateError && error.exhausted) throw error;
    return null;
  }
}

/** `plain`: the template's output for a conversation of one user message. */
export function probe(render: Render, plain: string): TemplateCapabilities {
  const showsIn = (
    enableThinking: boolean,
    messages: TemplateMessage[],
    words: string[],
    tools: TemplateTool[] | null = null,
  ): boolean => {
    const text = attempt(render, { messages, tools, enableThinking });
    return text !== null && words.every((word) => text.includes(word));
  };
  const withThinking = render({ ...plainContext, enableThinking: true });
  const modes = withThinking === plain ? [false] : [false, true];
  // A feature counts as supported only if it works both with thinking on and with thinking off.
  const shows = (messages: TemplateMessage[], words: string[], tools: TemplateTool[] | null = null): boolean =>
    modes.every((thinking) => showsIn(thinking, messages, words, tools));
  const keeps = (messages: TemplateMessage[]): boolean =>
    shows(
      messages,
      messages.map(({ content }) => content),
    );

  const first = keeps([system, user('probe-one')]);
  const later = keeps([user('probe-one'), assistant, system, user('probe-two')]);
  const toolWords = [PROBE_TOOL, 'probe-description', 'probe-parameter', 'probe-one'];
  const tools =
    shows([user('probe-one')], toolWords, [probeTool]) &&
    (!first || shows([system, user('probe-one')], [...toolWords, 'probe-system'], [probeTool]));
  // Past calls must be shown both with and without tool definitions.
  const definitions = tools ? [null, [probeTool]] : [null];
  const showsCalls = (messages: TemplateMessage[], words: string[]): boolean =>
    definitions.every((given) => shows(messages, words, given));

  const forms = formsOfCalls(showsCalls);
  const one = forms.call(PROBE_TOOL, VALUE, 0);
  // The second call uses a different value, because some templates show only the first call but all results.
  const other = forms.call('probe_other', OTHER_VALUE, 1);
  const words = (name: string): string[] => [name, VALUE, `probe-result-${name}`];
  const takesOne = showsCalls(calling([one]), words(PROBE_TOOL));
  const takesTwo =
    takesOne && showsCalls(calling([one, other]), [...words(PROBE_TOOL), ...words('probe_other'), OTHER_VALUE]);
  return {
    system: first && later ? 'anywhere' : first ? 'first' : 'none',
    alternation: !keeps([user('probe-one'), user('probe-two')]),
    thinkingSwitch: withThinking !== plain,
    tools,
    calls: takesTwo ? 'many' : takesOne ? 'one' : 'none',
    callText: takesOne && showsCalls(calling([one], { content: 'probe-answer' }), ['probe-answer']),
    callArguments: forms.callArguments,
    textArguments: forms.textArguments,
    callIds: forms.callIds,
    reasoningField:
      (['reasoning_content', 'thinking', 'reasoning'] as const).find((field) =>
        modes.some((thinking) =>
          definitions.every((given) =>
            showsIn(thinking, calling([one], { [field]: 'probe-reasoning' }), ['probe-reasoning'], given),
          ),
        ),
      ) ?? null,
  };
}

/** One user message. */
export const plainContext: TemplateContext = {
  messages: [user('probe-one')],
  tools: null,
  addGenerationPrompt: true,
  enableThinking: false,
};

/** Determines the call IDs and arguments that the template accepts, and returns a function that creates such a call. */
function formsOfCalls(showsCalls: (messages: TemplateMessage[], words: string[]) => boolean): Pick<
  TemplateCapabilities,
  'callIds' | 'callArguments' | 'textArguments'
> & {
  call: (name: string, value: string, number: number) => Call;
} {
  const texts = [ARGUMENT_TEXT, JSON.stringify(ARGUMENT_TEXT)]; // as it is, or as a JSON string
  const takesText = (id: string): boolean =>
    texts.some((text) => showsCalls(calling([call(id, PROBE_TOOL, ARGUMENT_TEXT)]), [text]));
  const withObject = (id: string): TemplateMessage[] => calling([call(id, PROBE_TOOL, { probe_key: VALUE })]);
  const takesObject = (id: string): boolean => showsCalls(withObject(id), [VALUE]);
  const takesId = (id: string): boolean => takesObject(id) || takesText(id);
  // The message with the call's result is omitted, because it contains the tool's name, too.
  const showsName = (id: string): boolean => showsCalls(withObject(id).slice(0, 2), [VALUE, PROBE_TOOL]);
  const callIds = takesId(LONG_ID)
    ? !showsName(LONG_ID) && showsName(idFor('numbered', PROBE_TOOL, 0))
      ? 'numbered'
      : 'free'
    : takesId(SHORT_ID)
      ? 'short'
      : 'free';
  const id = idFor(callIds, PROBE_TOOL, 0);
  const textArguments = takesText(id);
  // A template that prints objects in Python's notation expects JSON text, which is what the model was trained on.
  const isLiteral = showsCalls(withObject(id), [`'${PROBE_KEY}': '${VALUE}'`]);
  const callArguments = textArguments && (isLiteral || !takesObject(id)) ? 'text' : 'object';
  return {
    callIds,
    callArguments,
    textArguments,
    call: (name, value, number) =>
      call(
        idFor(callIds, name, number),
        name,
        callArguments === 'text' ? ARGUMENT_TEXT.replace(VALUE, value) : { probe_key: value },
      ),
  };
}

/** Returns why the template fails if it is given tools, or null. */
export function toolFailure(render: Render): string | null {
  try {
    render({ ...plainContext, tools: [probeTool] });
    return null;
  } catch (error) {
    if (error instanceof TemplateError) return error.message;
    throw error;
  }
}

/** Whether reasoning between its markers in the content is shown in a running tool loop. */
export function keepsInlineReasoning(template: ProbedTemplate, { open, close }: ReasoningMarkers): boolean {
  const { capabilities } = template;
  const content = `${open}\nprobe-reasoning\n${close}\n\nprobe-answer`;
  const id = idFor(capabilities.callIds, PROBE_TOOL, 0);
  const messages =
    capabilities.calls === 'none'
      ? [user('probe-one'), { ...assistant, content }, user('probe-two')]
      : calling([call(id, PROBE_TOOL, capabilities.callArguments === 'text' ? ARGUMENT_TEXT : { probe_key: VALUE })], {
          content,
        });
  return [false, true].some((enableThinking) =>
    attempt((context) => template.try(context), { messages, enableThinking })?.includes(content),
  );
}

/** A past call as the template writes it, split into parts. */
export interface WrittenCall {
  readonly turn: string; // text before a response
  readonly before: string; // text between the user's text and the call's name
  readonly after: string; // text after the name
  readonly behind: string; // the part of `after` that follows the arguments
  readonly key: Place; // position in `after`: the name of the only parameter
  readonly value: Place; // position of its value
}

export interface Place {
  readonly at: number;
  readonly end: number;
}

/** Returns null if the template does not show calls. */
export function writtenCall(template: ProbedTemplate): WrittenCall | null {
  const { capabilities } = template;
  if (capabilities.calls === 'none') return null;
  const id = idFor(capabilities.callIds, PROBE_TOOL, 0);
  const conversation = calling([
    call(id, PROBE_TOOL, capabilities.callArguments === 'text' ? ARGUMENT_TEXT : { probe_key: VALUE }),
  ]);
  const messages = conversation.slice(0, 2);
  const behindUser = (some: TemplateMessage[]): string => {
    const text =
      attempt((context) => template.try(context), { messages: some, tools: capabilities.tools ? [probeTool] : null }) ??
      '';
    return text.slice(text.lastIndexOf('probe-one') + 'probe-one'.length);
  };
  // Some templates omit an assistant message at the end, or its calls.
  const [text = ''] = [messages, conversation].map(behindUser).filter((some) => some.includes(PROBE_TOOL));
  const at = text.indexOf(PROBE_TOOL);
  if (at === -1) return null;
  const after = text.slice(at + PROBE_TOOL.length);
  const end = after.indexOf('}', after.indexOf(VALUE));
  const placeOf = (word: string): Place => ({ at: after.indexOf(word), end: after.indexOf(word) + word.length });
  return {
    turn: behindUser(messages.slice(0, 1)),
    before: text.slice(0, at),
    after,
    behind: end === -1 ? '' : after.slice(end + 1),
    key: placeOf(PROBE_KEY),
    value: placeOf(VALUE),
  };
}
