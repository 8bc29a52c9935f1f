// Marks the position of each image in a prompt text. Clients cannot forge the marks, and the marks can be found again
// after the template has been rendered. No side effects.
import type { ImagePart } from '../types.js';

/**
 * A rendered prompt split at its images: each text precedes an image, and the last text follows all images, so there is
 * one more text than images.
 */
export interface MarkedText {
  readonly texts: readonly string[];
  readonly images: readonly ImagePart[];
}

export class ImageMarks {
  readonly #parts: ImagePart[] = [];
  readonly #guard: string;

  /**
   * `guard`: the shield's guard character. A shield never puts two guards side by side, so two guards and a letter are
   * unique to image marks.
   */
  constructor(guard: number) {
    this.#guard = String.fromCodePoint(guard);
  }

  /** Returns the mark that replaces an image. */
  readonly mark = (part: ImagePart): string =>
    `${this.#guard}${this.#guard}i${this.#parts.push(part) - 1}${this.#guard}`;

  /** Returns null unless every image occurs exactly once: some templates drop or repeat content. */
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
