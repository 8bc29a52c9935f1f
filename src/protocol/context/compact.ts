// Replaces a conversation with a summary that the model writes. System messages stay. The last user message is repeated
// after the summary, because everything before the summary is dropped, in this request and in later ones.
import type { ServedModel } from '../../generation/served-models.js';
import type { ContentPart, GenerationRequest, Message } from '../../generation/types.js';
import type { GenerationDeps } from '../admit.js';
import type { Caller } from '../caller.js';
import type { Usage } from '../usage.js';
import type { PromptMeter } from './prompt-meter.js';
import { lastMessageIn, summaryText, withLastMessage } from './summary-text.js';
import { plain, Summarizer, transcript } from './summarizer.js';

/** The last user message is repeated only if it takes at most this fraction of the threshold's tokens. */
const LARGEST_SHARE = 1 / 4;

export interface Compacted {
  /**
   * The summary that replaces the conversation; null if the model did not write a summary, in which case the
   * conversation is unchanged.
   */
  summary: string | null;
  /** The token usage of the summary's generation. */
  usage: Usage;
  request: GenerationRequest;
}

export interface CompactOptions {
  instructions: string | null;
  /** Maximum number of tokens in the summary. */
  maxTokens: number;
  /** The conversation is compacted if its prompt has at least this many tokens. */
  threshold: number;
}

/**
 * Whether a conversation can be compacted: at least one message must precede the last one, and a response must be
 * requested.
 */
export function isCompactable({ messages, maxTokens, continueFinal, raw }: GenerationRequest): boolean {
  if (maxTokens === 0 || continueFinal || raw !== undefined) return false;
  return messages.filter(({ role }) => role !== 'system').length > 1;
}

/** Returns null if the client disconnected. Throws ApiError like admit(). */
export async function compact(
  deps: GenerationDeps,
  { caller, model, meter }: { caller: Caller; model: ServedModel; meter: PromptMeter },
  request: GenerationRequest,
  { instructions, maxTokens, threshold }: CompactOptions,
): Promise<Compacted | null> {
  const measured = await meter.measure(request);
  if (measured === null) return null;
  const limit = Math.min(threshold, measured.contextWindow);
  const turns = request.messages.filter(({ role }) => role !== 'system');
  const lastUser = turns.findLast(({ role }) => role === 'user');
  const asked = lastMessageIn(plain(lastUser?.content ?? null));
  const repeats = asked !== '' && (await meter.sizeOf(asked)) <= limit * LARGEST_SHARE;
  const summarizer = new Summarizer(deps, caller, model, {
    instructions,
    maxTokens: Math.max(1, Math.min(maxTokens, Math.floor(limit / 4))),
    promptParam: request.promptParam,
  });
  caller.onAborted?.(() => summarizer.cancel());
  const told = repeats && turns.at(-1) === lastUser ? turns.slice(0, -1) : turns;
  const written = await summarizer.run(transcript(told));
  if (written === null) return null;
  const { usage } = written;
  if (written.text === '') return { summary: null, usage, request };
  const summary = repeats ? withLastMessage(written.text, asked) : written.text;
  const images = turns.at(-1) === lastUser ? imagesOf(lastUser) : [];
  return { summary, usage, request: { ...request, messages: withSummary(request, summary, images) } };
}

/** Returns the messages after a compaction. The prompt of the next request starts with the same messages. */
function withSummary(
  { messages, promptParam }: GenerationRequest,
  summary: string,
  images: readonly ContentPart[],
): Message[] {
  const systems = messages.filter((message) => message.role === 'system');
  const text = summaryText(summary);
  return [
    ...(promptParam === 'messages' ? joined(systems) : systems),
    {
      role: 'user',
      path: promptParam,
      content: images.length === 0 ? text : [{ type: 'text', text }, ...images],
    },
  ];
}

/** In the Messages format, all system messages before the first turn count as a single message. */
function joined(systems: readonly Extract<Message, { role: 'system' }>[]): Message[] {
  const [first] = systems;
  if (first === undefined) return [];
  return [{ ...first, content: systems.map(({ content }) => content).join('\n\n') }];
}

const imagesOf = (message: Message | undefined): ContentPart[] =>
  message === undefined || message.content === null || typeof message.content === 'string'
    ? []
    : message.content.filter(({ type }) => type === 'image');
