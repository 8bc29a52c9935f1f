// An answer in the channels of gpt-oss: messages with headers, of which a client sees the texts alone.
//
//   …analysis… <|end|><|start|>assistant<|channel|>final<|message|>The answer.
//   …analysis… <|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}
//
// The engine tells the first analysis from what follows; here the rest is sorted: final and commentary are content,
// further analysis is reasoning, a message to a function is a call with its header. Fed in pieces; any split gives the
// same. One per choice. Pure.
import { partialAtEnd } from './tools/call-reader.js';

export type Section = 'content' | 'reasoning' | 'tool';

const START = '<|start|>', MESSAGE = '<|message|>', END = '<|end|>';
const HEADERS = [START, '<|channel|>'];
/** Nothing that long is a header: it is text. */
const MAX_HEADER = 1_024;

export class HarmonyParts {
  #text = '';                      // read and not told
  /** A header may begin here; one has begun; the text of a message. */
  #at: 'between' | 'header' | 'message';
  #section: Section = 'content';

  /**
   * `inReasoning`: the prompt has begun the analysis, and the next message needs a header; else its text goes on. Where
   * nothing may be called, a message to a function is content, without its header.
   */
  constructor(inReasoning: boolean, private readonly mayCall: boolean, private readonly tell: (section: Section, text: string) => void) {
    this.#at = inReasoning ? 'between' : 'message';
  }

  push(section: Section, text: string): void {
    if (section === 'reasoning') {
      this.tell(section, text);
    } else if (section === 'tool') {
      // The engine's own finding: the call is whole with its header, and lasts to the end.
      this.#drop();
      this.tell(section, text);
    } else {
      this.#text += text;
      while (this.#step());
    }
  }

  /** The turn is over. */
  end(): void {
    if (this.#at === 'message') this.#say(this.#text);
    this.#text = '';
  }

  /** What stands before a call is the beginning of its header. */
  #drop(): void {
    if (this.#at === 'message') this.#say(this.#text);
    this.#text = '';
    this.#at = 'between';
  }

  #step(): boolean {
    if (this.#at === 'message') return this.#message();
    if (this.#at === 'header') return this.#header();
    const text = this.#text.trimStart();
    if (text === '') return false;
    if (!HEADERS.some((header) => header.startsWith(text.slice(0, header.length)))) this.#begin('content', this.#text);
    else if (HEADERS.some((header) => text.startsWith(header))) this.#at = 'header';
    else return false;
    return true;
  }

  #begin(section: Section, rest: string): void {
    this.#section = section;
    this.#text = rest;
    this.#at = 'message';
  }

  #header(): boolean {
    const end = this.#text.indexOf(MESSAGE);
    if (end === -1) {
      if (this.#text.length <= MAX_HEADER) return false;
      this.#begin('content', this.#text);
      return true;
    }
    const header = this.#text.slice(0, end);
    const rest = this.#text.slice(end + MESSAGE.length);
    if (this.mayCall && /\bto=functions\./.test(header)) {
      this.#begin('tool', rest);
      const lead = header.trimStart();
      this.tell('tool', (lead.startsWith(START) ? lead : `${START}assistant${lead}`) + MESSAGE);
    } else {
      this.#begin(/<\|channel\|>analysis/.test(header) ? 'reasoning' : 'content', rest);
    }
    return true;
  }

  #message(): boolean {
    const ends = [END, START].map((mark) => this.#text.indexOf(mark)).filter((at) => at !== -1);
    const end = Math.min(...ends);
    if (ends.length > 0) {
      this.#say(this.#text.slice(0, end));
      this.#text = this.#text.slice(this.#text.startsWith(END, end) ? end + END.length : end);
      this.#at = 'between';
      return true;
    }
    const held = Math.max(partialAtEnd(this.#text, END), partialAtEnd(this.#text, START));
    this.#say(this.#text.slice(0, this.#text.length - held));
    this.#text = held === 0 ? '' : this.#text.slice(-held);
    return false;
  }

  #say(text: string): void {
    if (text !== '') this.tell(this.#section, text);
  }
}
