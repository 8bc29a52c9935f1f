// Defines the markers of a model's reasoning and the reasoning budget of a request, and detects whether a rendered
// prompt has already opened the reasoning.
import { HARMONY_MARKS, SOLAR_MARKS, type MessageMarks } from './message-parts.js';
import type { ReasoningEffort } from '../types.js';

export interface ReasoningMarkers {
  open: string;
  close: string;
  /**
   * The end of a rendered prompt that leaves the next section's type to the model. `open` is appended to it, so that
   * every response starts with reasoning. In these formats, the markers are not on separate lines.
   */
  turn?: string;
  /** The message syntax, for models whose responses consist of several messages. `turn` is also set. */
  messages?: MessageMarks;
  /**
   * Text between the close marker and the answer. Defaults to an empty line. If `turn` is set, it is not used before
   * calls, which have their own headers.
   */
  answer?: string;
  /** A label after the open marker that is not part of the reasoning. */
  label?: string;
}

/** Formats in which reasoning and answer are separate messages with headers (message-parts.ts). */
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

/** Known delimiters. The first pair that occurs in a model's template or vocabulary is used. */
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

/** Returns the model's markers, or null if it has no reasoning mode. */
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

/**
 * Handles templates that write '<think{}>'.format(NAME), where the variable NAME contains the suffix of all of the
 * model's markers (Hy3).
 */
function formattedMarkers(template: string): ReasoningMarkers | null {
  const [, name] = /['"]<think\{\}>['"]\.format\((\w{1,64})\)/.exec(template) ?? [];
  if (name === undefined) return null;
  const [, suffix] = new RegExp(`\\bset\\s+${name}\\s*=\\s*['"]([^'"<>]{0,64})['"]`).exec(template) ?? [];
  return suffix === undefined ? null : { open: `<think${suffix}>`, close: `</think${suffix}>`, answer: '' };
}

/** Appends the open marker to a rendered prompt, for models whose templates leave this to the model. */
export function withReasoningOpened(rendered: string, markers: ReasoningMarkers | null): string {
  return markers?.turn !== undefined && rendered.endsWith(markers.turn) ? rendered + markers.open : rendered;
}

/** Returns the text that ends the reasoning when its budget is used up, before an answer or before a required call. */
export function closeText(
  { close, turn, answer = '\n\n' }: ReasoningMarkers,
  before: 'answer' | 'call' = 'answer',
): string {
  if (turn === undefined) return `\n${close}${answer}`;
  return before === 'call' ? close : close + answer;
}

/**
 * Returns the header at the start of an answer after the reasoning, or '' if it has none or the prompt contains it. It
 * distinguishes a constrained answer from a call.
 */
export function answerHead({ turn, answer = '' }: ReasoningMarkers, reasoning: OpenReasoning | null): string {
  return turn === undefined || reasoning === null ? '' : answer;
}

/** A reasoning section that the prompt leaves open. `begun`: whether it already contains text. */
export interface OpenReasoning {
  begun: boolean;
}

/**
 * Returns the reasoning section in which generation starts, determined from the end of the prompt: either the template
 * has opened the section and only white space follows, or the response being continued stopped inside it. Text from the
 * client cannot fake this, because guards break up any markers in it (shield.ts). Returns null if generation starts
 * outside the section.
 */
export function openReasoning(rendered: string, markers: ReasoningMarkers, continued: boolean): OpenReasoning | null {
  const opened = rendered.lastIndexOf(markers.open);
  if (opened === -1 || rendered.lastIndexOf(markers.close) > opened) return null;
  const begun = rendered.slice(opened + markers.open.length).trim() !== '';
  if (begun && markers.turn !== undefined) return null; // from an earlier message; a continued message is an answer
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
 * Returns the reasoning tokens that an effort allows under an output cap. After the `closing` tokens that end the
 * section, min(1024, cap / 4) tokens remain for the answer.
 */
export function reasoningBudget(effort: ReasoningEffort, cap: number, closing: number): number {
  if (effort === 'none') return 0;
  return Math.max(0, Math.min(BUDGETS[effort], cap - Math.min(1_024, Math.floor(cap / 4)) - closing));
}
