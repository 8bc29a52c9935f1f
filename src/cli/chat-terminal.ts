// Reads the lines of a conversation from the terminal or a pipe, and writes everything except the responses.

import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';
import { appendHistory, readHistory } from './chat-history.js';

export interface TypedLine {
  readonly text: string;
  /** Whether the line is part of pasted text. If so, the end of the line does not send the message. */
  readonly isPasted: boolean;
}

/** Whether a person types the messages and sees the responses in the same terminal. */
export const isInteractive = (): boolean => process.stdin.isTTY === true && process.stdout.isTTY === true;

/** Writes notes, which are not part of the responses. They go to stderr unless stdin and stdout are the terminal. */
export function note(text: string): void {
  (isInteractive() ? process.stdout : process.stderr).write(text);
}

export const dim = (text: string): string => (isInteractive() ? `\u001b[2m${text}\u001b[22m` : text);
export const bold = (text: string): string => (isInteractive() ? `\u001b[1m${text}\u001b[22m` : text);

/** Bracketed paste: the terminal marks the start and the end of pasted text. */
const PASTE_ON = '\u001b[?2004h';
const PASTE_OFF = '\u001b[?2004l';

export class ChatTerminal {
  readonly #interface: Interface;
  readonly #isTty = process.stdin.isTTY === true;
  readonly #lines: TypedLine[] = [];
  readonly #typed: string[] = [];
  readonly #onKey = (_: unknown, key: { name?: string } | undefined): void => {
    if (key?.name === 'paste-start') this.#isPasting = true;
    if (key?.name === 'paste-end') this.#isPasting = false;
  };
  #isPasting = false;
  #isPrompting = false;
  #isEnded = false;
  #wake: (() => void) | null = null;

  /** `history`: path of the history file, or null. `complete`: completions of a line. */
  constructor(
    private readonly history: string | null,
    complete: (line: string) => string[],
  ) {
    const isTty = this.#isTty;
    this.#interface = createInterface({
      input: process.stdin,
      output: isTty ? process.stdout : undefined,
      terminal: isTty,
      ...(isTty && { completer: (line: string) => [complete(line), line] }),
      ...(isTty && history !== null && { history: readHistory(history).reverse(), historySize: 1_000 }),
    });
    if (isTty) {
      process.stdin.on('keypress', this.#onKey);
      process.stdout.write(PASTE_ON);
    }
    this.#interface.on('line', (text) => {
      this.#isPrompting = false;
      this.#lines.push({ text, isPasted: this.#isPasting });
      this.#typed.push(text);
      this.#wake?.();
    });
    this.#interface.on('close', () => {
      this.#isEnded = true;
      this.#wake?.();
    });
  }

  /** Ctrl-C. */
  onInterrupt(listener: () => void): void {
    this.#interface.on('SIGINT', listener);
  }

  prompt(isContinued: boolean): void {
    if (this.#isEnded) return;
    this.#interface.setPrompt(bold(isContinued ? '… ' : '> '));
    this.#interface.prompt();
    this.#isPrompting = true;
  }

  /**
   * Resolves to the next line, or to null at the end of the input. Lines that were typed before the end of the input
   * are still returned.
   */
  async next(): Promise<TypedLine | null> {
    while (this.#lines.length === 0 && !this.#isEnded)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    return this.#lines.shift() ?? null;
  }

  /** Ends the input. Idempotent. */
  close(): void {
    this.#interface.close();
    if (!this.#isTty) return;
    process.stdin.off('keypress', this.#onKey);
    // After Ctrl-C or Ctrl-D, writes a line break so that the shell's prompt starts on its own line.
    process.stdout.write(this.#isPrompting ? `\n${PASTE_OFF}` : PASTE_OFF);
    this.#isPrompting = false;
    if (this.history !== null) appendHistory(this.history, this.#typed.splice(0));
  }
}
