// Splits a response that consists of several messages with headers, as gpt-oss and Solar Open write them. The
// client receives only the text of the messages.
//
//   …analysis… <|end|><|start|>assistant<|channel|>final<|message|>The answer.
//   …analysis… <|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}
//   …thoughts… <|end|><|begin|>assistant<|content|>The answer.
//
// The engine separates the first reasoning section from the remaining text. This class splits the remaining text by its
// headers: content (final and commentary of gpt-oss), further reasoning, and calls with their headers. Text arrives in
// chunks, and the result does not depend on where it is split. One instance per choice. No side effects.
import { partialAtEnd } from './tools/call-reader.js';

export type Section = 'content' | 'reasoning' | 'tool';

/** The syntax of such messages. */
export interface MessageMarks {
  readonly start: string; // starts a header; followed by the role
  readonly end: string; // ends a message
  readonly others: readonly string[]; // other marks that may start a header
  readonly texts: readonly string[]; // marks that end a header; the text follows
  section(header: string): Section; // `header`: including its last mark
}

/** gpt-oss: a header contains a channel and a recipient. */
export const HARMONY_MARKS: MessageMarks = {
  start: '<|start|>',
  end: '<|end|>',
  others: ['<|channel|>'],
  texts: ['<|message|>'],
  section: (header) =>
    /\bto=functions\./.test(header) ? 'tool' : /<\|channel\|>analysis/.test(header) ? 'reasoning' : 'content',
};

/** Solar Open: one mark per section. */
const SOLAR_TEXTS: Readonly<Record<string, Section>> = {
  '<|think|>': 'reasoning',
  '<|content|>': 'content',
  '<|tool_calls|>': 'tool',
};
export const SOLAR_MARKS: MessageMarks = {
  start: '<|begin|>',
  end: '<|end|>',
  others: Object.keys(SOLAR_TEXTS),
  texts: Object.keys(SOLAR_TEXTS),
  section: (header) => Object.entries(SOLAR_TEXTS).find(([mark]) => header.endsWith(mark))?.[1] ?? 'content',
};

/** Text longer than this is not a header. */
const MAX_HEADER = 1_024;

export class MessageParts {
  #text = ''; // read but not emitted yet
  /** The parser's position: before a possible header, in a header, or in the text of a message. */
  #at: 'between' | 'header' | 'message';
  #section: Section = 'content';

  /**
   * `inReasoning`: whether the prompt has opened the reasoning. If so, the next message needs a header; if not, the
   * output continues the prompt's last message. If no tool may be called, a call is emitted as content without its
   * header.
   */
  constructor(
    private readonly marks: MessageMarks,
    inReasoning: boolean,
    private readonly mayCall: boolean,
    private readonly emit: (section: Section, text: string) => void,
  ) {
    this.#at = inReasoning ? 'between' : 'message';
  }

  push(section: Section, text: string): void {
    if (section === 'reasoning') {
      this.emit(section, text);
    } else if (section === 'tool') {
      // The engine has recognized the call. Its text contains the call's whole header and everything up to the end of
      // the turn.
      this.#drop();
      this.emit(section, text);
    } else {
      this.#text += text;
      while (this.#step());
    }
  }

  /** Called at the end of the turn. */
  end(): void {
    if (this.#at === 'message') this.#emit(this.#text);
    this.#text = '';
  }

  /** Text before a call is the beginning of its header and is dropped. */
  #drop(): void {
    if (this.#at === 'message') this.#emit(this.#text);
    this.#text = '';
    this.#at = 'between';
  }

  #step(): boolean {
    if (this.#at === 'message') return this.#message();
    if (this.#at === 'header') return this.#header();
    const text = this.#text.trimStart();
    if (text === '') return false;
    const { start, others } = this.marks;
    const headers = [start, ...others];
    if (!headers.some((header) => header.startsWith(text.slice(0, header.length)))) this.#begin('content', this.#text);
    else if (headers.some((header) => text.startsWith(header))) this.#at = 'header';
    else return false;
    return true;
  }

  #begin(section: Section, rest: string): void {
    this.#section = section;
    this.#text = rest;
    this.#at = 'message';
  }

  #header(): boolean {
    const { start, texts } = this.marks;
    const end = Math.min(...texts.map((mark) => this.#text.indexOf(mark)).filter((at) => at !== -1));
    const mark = texts.find((one) => this.#text.startsWith(one, end));
    if (mark === undefined) {
      if (this.#text.length <= MAX_HEADER) return false;
      this.#begin('content', this.#text);
      return true;
    }
    const header = this.#text.slice(0, end + mark.length);
    const section = this.marks.section(header);
    this.#begin(section === 'tool' && !this.mayCall ? 'content' : section, this.#text.slice(header.length));
    if (this.#section !== 'tool') return true;
    const lead = header.trimStart();
    this.emit('tool', lead.startsWith(start) ? lead : `${start}assistant${lead}`);
    return true;
  }

  #message(): boolean {
    const { start, end: closing } = this.marks;
    const ends = [closing, start].map((mark) => this.#text.indexOf(mark)).filter((at) => at !== -1);
    const end = Math.min(...ends);
    if (ends.length > 0) {
      this.#emit(this.#text.slice(0, end));
      this.#text = this.#text.slice(this.#text.startsWith(closing, end) ? end + closing.length : end);
      this.#at = 'between';
      return true;
    }
    const held = Math.max(partialAtEnd(this.#text, closing), partialAtEnd(this.#text, start));
    this.#emit(this.#text.slice(0, this.#text.length - held));
    this.#text = held === 0 ? '' : this.#text.slice(-held);
    return false;
  }

  #emit(text: string): void {
    if (text !== '') this.emit(this.#section, text);
  }
}
