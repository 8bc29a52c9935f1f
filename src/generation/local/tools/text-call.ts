// Base class of readers that parse a call step by step. It contains the loop and the unparsed text, and defines how a
// call starts and fails. Subclasses define the steps. No side effects.
import type { CallableTools, CallReader, CallSink, CallState } from './call-reader.js';
import { isJsonSpace } from './json-scanner.js';

/** Text longer than this is not a tag. */
const MAX_TAG = 1_024;

export abstract class TextCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  protected text = ''; // read but not parsed yet

  constructor(
    private readonly tools: CallableTools,
    protected readonly sink: CallSink,
  ) {}

  read(text: string, at: number): number {
    this.text += text.slice(at);
    while (this.state === 'reading' && this.step());
    this.emit();
    if (this.state !== 'complete') {
      if (this.state === 'broken') this.sink.finished(false);
      return text.length;
    }
    this.sink.finished(true);
    return text.length - this.text.length;
  }

  /** Parses one more element. Returns false if more text is needed or the call has ended. */
  protected abstract step(): boolean;

  /** Emits the text that the reader has collected in this chunk. */
  protected emit(): void {}

  /**
   * Starts a call of this tool and returns its parameters' schema. If there is no such tool, returns undefined and the
   * call fails.
   */
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

  /**
   * Returns the name in the tag at the start of the text; the tag ends with one of `behind`. Returns null if the tag is
   * incomplete. If it is another tag, also returns null, and the call fails.
   */
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

/** Whether the text ends in the middle of a surrogate pair. */
export const endsInHalf = (text: string): boolean => /[\ud800-\udbff]$/.test(text);

/** Literals in Python's notation, as some models write them. */
const PYTHON_WORDS: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);

/**
 * Returns the text in the form in which it is checked for being JSON: trimmed, and with Python's literals replaced by
 * JSON's.
 */
export function jsonWord(text: string): string {
  const trimmed = text.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  return PYTHON_WORDS.get(trimmed) ?? trimmed;
}
