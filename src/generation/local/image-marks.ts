// Where images stand in the text of a prompt: a mark in each one's place that no client can write, found again behind the
// template. Pure.
import type { ImagePart } from '../types.js';

/** A rendered prompt without its images: one text more than there are images, each before its image and the last behind all. */
export interface MarkedText {
  readonly texts: readonly string[];
  readonly images: readonly ImagePart[];
}

export class ImageMarks {
  readonly #parts: ImagePart[] = [];
  readonly #guard: string;

  /** `guard`: the shield's. Shields never put two of them side by side, so two and a letter are ours alone. */
  constructor(guard: number) {
    this.#guard = String.fromCodePoint(guard);
  }

  /** The text to stand in its place. */
  readonly mark = (part: ImagePart): string =>
    `${this.#guard}${this.#guard}i${this.#parts.push(part) - 1}${this.#guard}`;

  /** Null if not every image that was marked is there once: the template drops or repeats what it is given. */
  split(text: string): MarkedText | null {
    if (this.#parts.length === 0) return { texts: [text], images: [] };
    const texts = text.split(new RegExp(`${this.#guard}{2}i(\\d+)${this.#guard}`, 'u'));
    const numbers = texts.filter((_, index) => index % 2 === 1).map(Number);
    if (numbers.length !== this.#parts.length || new Set(numbers).size !== numbers.length) return null;
    return {
      texts: texts.filter((_, index) => index % 2 === 0),
      images: numbers.map((number) => this.#parts[number]!),
    };
  }
}
