// Generates the summary for a compaction. The conversation is converted to a single text. If that exceeds the model's
// context, it is summarized in several generations, starting with the oldest part; each generation's prompt includes
// the summary so far. Event-loop thread only.
import type { ServedModel } from '../../generation/served-models.js';
import type { Content, GenerationRequest, Message } from '../../generation/types.js';
import { admit, withAdmitted, type GenerationDeps } from '../admit.js';
import { unattendedContext, type Caller } from '../caller.js';
import { GenerationRun, type RunSink } from '../generation-run.js';
import { addUsage, type Usage } from '../usage.js';

/** The system message of every generation of a summary. */
export const TASK =
  'You compact conversations. Write a summary of the conversation below that another assistant can go on from without having seen it: ' +
  'who wants what, facts, names, numbers, decisions, results of tools, what is done and what is open. Leave out greetings and repetitions. Answer with the summary alone.';

/**
 * Upper bound on characters per token, for the first estimate of how much text fits. The estimate is then lowered by
 * counting tokens.
 */
const CHARACTERS_PER_TOKEN = 8;
/** If a part of the text of this length does not fit in the context, no shorter part is tried. */
const SMALLEST_PIECE = 64;

export interface Summary {
  text: string;
  usage: Usage;
}

export interface SummaryOptions {
  instructions: string | null;
  /** Maximum number of tokens in the summary. Small context windows reduce it further. */
  maxTokens: number;
  /** The request field that is named in errors about the prompt. */
  promptParam?: GenerationRequest['promptParam'];
}

/**
 * Converts the conversation to text for the summarizing model. Reasoning is omitted, and images become placeholders.
 */
export function transcript(messages: readonly Message[]): string {
  const names = new Map<string, string>();
  const entries: string[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      entries.push(`Result of ${names.get(message.toolCallId) ?? 'a tool'}:\n${plain(message.content)}`);
      continue;
    }
    const text = plain(message.content);
    const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
    if (text !== '' || calls.length === 0) entries.push(`${SPEAKER[message.role]}:\n${text}`);
    for (const { id, name, arguments: given } of calls) {
      names.set(id, name);
      entries.push(`Assistant calls ${name}:\n${given}`);
    }
  }
  return entries.join('\n\n');
}

const SPEAKER = { system: 'System', user: 'User', assistant: 'Assistant' } as const;

/** Returns the text of a message's content, with a note in place of each image. */
export function plain(content: Content | null): string {
  if (content === null) return '';
  return typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n');
}

/** Summarizes one conversation. Returns null if the client disconnected. Throws ApiError like admit(). */
export class Summarizer {
  #running: GenerationRun | null = null;
  #left: (() => void) | null = null;
  #usage: Usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };

  constructor(
    private readonly deps: GenerationDeps,
    private readonly caller: Caller,
    private readonly model: ServedModel,
    private readonly options: SummaryOptions,
  ) {}

  /** Called when the client disconnects. Stops the running generation. */
  cancel(): void {
    this.#running?.cancel();
    this.#left?.();
  }

  async run(text: string): Promise<Summary | null> {
    await this.model.ensureLoaded();
    const provider = this.model.ready();
    const { contextWindow } = provider;
    // The next prompt contains the summary so far and must leave space for the next summary.
    const cap = Math.max(1, Math.min(this.options.maxTokens, Math.floor(contextWindow / 4)));
    const room = contextWindow - cap;
    let summary: string | null = null;
    let at = 0;
    let length = Math.min(text.length, room * CHARACTERS_PER_TOKEN);
    do {
      const piece = cut(text, at, length);
      const request = this.#request(summary, piece, cap);
      const { tokens } = await provider.count(request, unattendedContext(this.caller));
      if (this.caller.aborted) return null;
      if (tokens > room && piece.length > SMALLEST_PIECE) {
        length = Math.max(SMALLEST_PIECE, Math.floor(piece.length * Math.min(0.9, room / tokens)));
        continue;
      }
      summary = await this.#generate(request);
      if (summary === null) return null;
      at += piece.length;
    } while (at < text.length);
    return { text: summary ?? '', usage: this.#usage };
  }

  async #generate(request: GenerationRequest): Promise<string | null> {
    const admitted = await admit(this.deps, this.caller, this.model, request);
    if (admitted === null) return null;
    return await new Promise((resolve, reject) => {
      let text = '';
      const sink: RunSink = {
        event: (event) => {
          if (event.type === 'text' && event.section === 'content') text += event.text;
        },
        complete: (usage) => {
          this.#usage = addUsage([this.#usage, usage]);
          resolve(text.trim());
        },
        failed: reject,
      };
      this.#left = () => resolve(null);
      withAdmitted(admitted, () => {
        this.#running = new GenerationRun(admitted, sink, false);
        this.#running.start();
      });
    });
  }

  #request(summary: string | null, piece: string, maxTokens: number): GenerationRequest {
    const { instructions } = this.options;
    const steered =
      instructions === null || instructions === ''
        ? TASK
        : `${TASK}\n\nThe summary is also to follow these instructions:\n${instructions}`;
    const before = summary === null ? '' : `Summary of what came before:\n${summary}\n\n`;
    return {
      model: this.model.name,
      messages: [
        { role: 'system', content: steered },
        { role: 'user', content: `${before}The conversation:\n\n${piece}` },
      ],
      continueFinal: false,
      sampling: { temperature: 0 },
      n: 1,
      maxTokens,
      stop: [],
      topLogprobs: null,
      effort: 'none',
      reasoningBudget: null,
      tools: [],
      toolChoice: { mode: 'none', allowed: null },
      parallelToolCalls: true,
      format: { type: 'text' },
      truncation: 'disabled',
      promptParam: this.options.promptParam ?? 'input',
      ignoreEos: false,
    };
  }
}

/**
 * Returns at most `length` characters starting at `at`. Ends at the end of an entry if one is close enough, and never
 * within a character.
 */
function cut(text: string, at: number, length: number): string {
  if (at + length >= text.length) return text.slice(at);
  const piece = text.slice(at, at + length);
  const entry = piece.lastIndexOf('\n\n');
  if (entry >= length / 2) return piece.slice(0, entry + 2);
  const last = piece.charCodeAt(piece.length - 1);
  return last >= 0xd800 && last < 0xdc00 && piece.length > 1 ? piece.slice(0, -1) : piece;
}
