// Where a model's reasoning begins and ends, how much of it a request may have, and whether a rendered
// prompt has opened it already.
import { HARMONY_MARKS, SOLAR_MARKS, type MessageMarks } from './message-parts.js';
import type { ReasoningEffort } from '../types.js';

export interface ReasoningMarkers {
  open: string;
  close: string;
  /**
   * What a rendered prompt ends with that leaves the model to name the part it begins. `open` is written behind it, so
   * that each answer begins with its reasoning, and the markers stand in no lines of their own.
   */
  turn?: string;
  /** Of an answer of several messages: how these are written. There is a `turn` too. */
  messages?: MessageMarks;
  /** What stands between the close marker and an answer; absent: an empty line. A call has a header of its own where there is a `turn`. */
  answer?: string;
  /** A word behind the open marker that is no reasoning. */
  label?: string;
}

/** Reasoning is a message, the answer another, each with a header (message-parts.ts). */
const IN_MESSAGES: readonly { readonly markers: ReasoningMarkers; readonly shownBy: readonly string[] }[] = [
  {
    // gpt-oss
    markers: {
      open: '<|channel|>analysis<|message|>',
      close: '<|end|>',
      turn: '<|start|>assistant',
      answer: '<|start|>assistant<|channel|>final<|message|>',
      messages: HARMONY_MARKS,
    },
    shownBy: ['<|channel|>analysis<|message|>', '<|channel|>final<|message|>'],
  },
  {
    // Solar Open
    markers: {
      open: '<|think|>',
      close: '<|end|>',
      turn: '<|begin|>assistant',
      answer: '<|begin|>assistant<|content|>',
      messages: SOLAR_MARKS,
    },
    shownBy: ['<|begin|>assistant<|think|>', '<|begin|>assistant<|content|>'],
  },
];

/** Delimiters in use; the first pair found in a model's template or vocabulary is taken. */
const KNOWN_MARKERS: readonly ReasoningMarkers[] = [
  { open: '<think>', close: '</think>' },
  { open: '[THINK]', close: '[/THINK]' },
  { open: '<seed:think>', close: '</seed:think>' },
  { open: '<mm:think>', close: '</mm:think>', answer: '' }, // MiniMax M3
  { open: '<|START_THINKING|>', close: '<|END_THINKING|>' },
  { open: '<|channel>', close: '<channel|>', label: 'thought', answer: '' }, // Gemma 4
  { open: '<|inner_prefix|>', close: '<|inner_suffix|>', answer: '' }, // Apertus
  { open: '<thought>', close: '</thought>' },
  { open: 'Here is my thought process:', close: 'Here is my response:' }, // Granite 3
];

/** The markers a model uses, or null if it has no reasoning mode. */
export function findMarkers(template: string, hasToken: (spelling: string) => boolean): ReasoningMarkers | null {
  const inMessages = IN_MESSAGES.find(({ shownBy }) => shownBy.every((header) => template.includes(header)));
  if (inMessages !== undefined) return inMessages.markers;
  return (
    KNOWN_MARKERS.find(({ open, close }) => template.includes(open) && template.includes(close)) ??
    formattedMarkers(template) ??
    KNOWN_MARKERS.find(({ open, close }) => hasToken(open) && hasToken(close)) ??
    null
  );
}

/** Of templates that write '<think{}>'.format(NAME), where NAME is set to what all their markers end with: Hy3. */
function formattedMarkers(template: string): ReasoningMarkers | null {
  const [, name] = /['"]<think\{\}>['"]\.format\((\w{1,64})\)/.exec(template) ?? [];
  if (name === undefined) return null;
  const [, suffix] = new RegExp(`\\bset\\s+${name}\\s*=\\s*['"]([^'"<>]{0,64})['"]`).exec(template) ?? [];
  return suffix === undefined ? null : { open: `<think${suffix}>`, close: `</think${suffix}>`, answer: '' };
}

/** A rendered prompt with the reasoning opened, for models whose templates leave that to them. */
export function withReasoningOpened(rendered: string, markers: ReasoningMarkers | null): string {
  return markers?.turn !== undefined && rendered.endsWith(markers.turn) ? rendered + markers.open : rendered;
}

/** What ends the reasoning where its budget is used up: before an answer, or before a call that must come. */
export function closeText(
  { close, turn, answer = '\n\n' }: ReasoningMarkers,
  before: 'answer' | 'call' = 'answer',
): string {
  if (turn === undefined) return `\n${close}${answer}`;
  return before === 'call' ? close : close + answer;
}

/**
 * What an answer begins with that has a header as calls have; '': it has none, or the prompt holds it. Behind the reasoning
 * an answer that rules bind and a call part here.
 */
export function answerHead({ turn, answer = '' }: ReasoningMarkers, reasoning: OpenReasoning | null): string {
  return turn === undefined || reasoning === null ? '' : answer;
}

/** A reasoning section that a prompt leaves open. `begun`: some of its text is there already. */
export interface OpenReasoning {
  begun: boolean;
}

/**
 * Does generation start inside the reasoning section? Decided by the prompt's own tail: the template has
 * opened the section and nothing but white space follows, or a continued answer stopped inside it.
 * Client text cannot fake it: its spellings are broken by guards (shield.ts). Null if not.
 */
export function openReasoning(rendered: string, markers: ReasoningMarkers, continued: boolean): OpenReasoning | null {
  const opened = rendered.lastIndexOf(markers.open);
  if (opened === -1 || rendered.lastIndexOf(markers.close) > opened) return null;
  const begun = rendered.slice(opened + markers.open.length).trim() !== '';
  if (begun && markers.turn !== undefined) return null; // of an earlier message; one that is continued is an answer
  return begun && !continued ? null : { begun };
}

const BUDGETS: Record<ReasoningEffort, number> = {
  none: 0,
  minimal: 512,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 24_576,
  max: Infinity,
};

/**
 * Tokens of reasoning an effort allows under an output cap, so that min(1024, cap / 4) remain for the
 * answer after the `closing` tokens that end the section.
 */
export function reasoningBudget(effort: ReasoningEffort, cap: number, closing: number): number {
  if (effort === 'none') return 0;
  return Math.max(0, Math.min(BUDGETS[effort], cap - Math.min(1_024, Math.floor(cap / 4)) - closing));
}
