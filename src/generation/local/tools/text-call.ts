// What readers share that understand a call bit by bit: the loop, what is read and not understood yet, and how a call
// begins and fails. What the bits are is each one's own affair. Pure.
import type { CallableTools, CallReader, CallSink, CallState } from './call-reader.js';
import { isJsonSpace } from './json-scanner.js';

/** Nothing that long is a tag. */
const MAX_TAG = 1_024;

export abstract class TextCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  protected text = ''; // read and not understood yet

  constructor(
    private readonly tools: CallableTools,
    protected readonly sink: CallSink,
  ) {}

  read(text: string, at: number): number {
    this.text += text.slice(at);
    while (this.state === 'reading' && this.step());
    this.tell();
    if (this.state !== 'complete') {
      if (this.state === 'broken') this.sink.finished(false);
      return text.length;
    }
    this.sink.finished(true);
    return text.length - this.text.length;
  }

  /** Understands one more thing; false if more text is needed, or the call is over. */
  protected abstract step(): boolean;

  /** What a reader has gathered of this piece and not told yet. */
  protected tell(): void {}

  /** The call is one of this tool; its parameters' schema, or undefined if there is none such (then it fails). */
  protected start(name: string): Readonly<Record<string, unknown>> | null | undefined {
    const schema = this.tools.get(name);
    if (schema === undefined) {
      this.fail();
      return undefined;
    }
    this.started = true;
    this.sink.started(name);
    return schema;
  }

  /** The name in the tag the text begins with, which ends with the first of `behind`; null if it is not whole, or (then it fails) no such tag. */
  protected takeTag(before: string, behind: readonly string[]): { name: string; behind: string } | null {
    if (!this.text.startsWith(before)) {
      if (!before.startsWith(this.text)) this.fail();
      return null;
    }
    const [end] = behind
      .map((text) => ({ text, at: this.text.indexOf(text, before.length) }))
      .filter(({ at }) => at !== -1)
      .sort((a, b) => a.at - b.at);
    if (end === undefined) {
      if (this.text.length > MAX_TAG) this.fail();
      return null;
    }
    const name = this.text.slice(before.length, end.at);
    this.take(end.at + end.text.length);
    return { name, behind: end.text };
  }

  protected take(length: number): string {
    const taken = this.text.slice(0, length);
    this.text = this.text.slice(length);
    return taken;
  }

  protected skipSpace(): void {
    let begin = 0;
    while (begin < this.text.length && isJsonSpace(this.text.charCodeAt(begin))) begin++;
    this.take(begin);
  }

  protected failIfLong(): void {
    if (this.text.length > MAX_TAG) this.fail();
  }

  protected fail(): false {
    this.state = this.started ? 'broken' : 'foreign';
    return false;
  }
}

/** Whether a text that may go on ends in the middle of a character. */
export const endsInHalf = (text: string): boolean => /[\ud800-\udbff]$/.test(text);

/** As models trained on Python write them. */
const PYTHON_WORDS: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);

/** The JSON that a text may spell. */
export function jsonWord(text: string): string {
  const trimmed = text.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  return PYTHON_WORDS.get(trimmed) ?? trimmed;
}
