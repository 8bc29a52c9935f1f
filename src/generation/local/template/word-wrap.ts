// Wraps a line like Python's textwrap module. No side effects.
import { lengthOf } from './code-points.js';
import { SPACE } from './white-space.js';

interface WrapOptions {
  readonly width: number;
  /** Whether a word that is longer than the width is broken. */
  readonly breakLong: boolean;
  /** Whether a word may be broken after a hyphen. */
  readonly hyphens: boolean;
}

const CHUNKS = new RegExp(`[${SPACE}]+|[^${SPACE}]+`, 'g');
const LETTER = '[\\p{L}_]';
const WORD = '[\\p{L}\\p{N}_]';
const WORD_OR_POINT = '[\\p{L}\\p{N}_!"\'&.,?]';
/** Matches where a word may be broken: after the hyphen of a compound word, or around a dash. */
const AFTER_HYPHEN = new RegExp(
  `(?<=${LETTER}{2}-|${LETTER}-${WORD_OR_POINT}-)(?=${LETTER}-?${LETTER})|` +
    `(?<=${WORD_OR_POINT})(?=-{2,}${WORD})|(?<=${WORD_OR_POINT}-{2,})(?=${WORD})`,
  'u',
);
const BLANK = new RegExp(`^[${SPACE}]+$`);

/** Longer words are not split at hyphens, because finding these would take quadratic time. */
const MAX_COMPOUND = 1_000;

/** Steps charged for breaking long words. Each row copies the rest of the word. */
export function wrapSteps(text: string, width: number): number {
  let steps = 0;
  for (const [chunk] of text.matchAll(CHUNKS))
    if (chunk.length > width) steps += Math.ceil((chunk.length * chunk.length) / width / 16);
  return steps;
}

export function wrapped(line: string, { width, breakLong, hyphens }: WrapOptions): string[] {
  const words = line.match(CHUNKS) ?? [];
  const chunks = words
    .flatMap((chunk) => (hyphens && chunk.length <= MAX_COMPOUND ? chunk.split(AFTER_HYPHEN) : [chunk]))
    .reverse();
  const rows: string[] = [];
  while (chunks.length > 0) {
    if (rows.length > 0 && BLANK.test(chunks.at(-1) as string)) chunks.pop();
    const { row, room } = firstChunks(chunks, width);
    const next = chunks.at(-1);
    if (next !== undefined && lengthOf(next) > width) {
      chunks.pop();
      const characters = Array.from(next);
      if (breakLong) {
        const end = hyphens ? afterHyphen(characters, room) : room;
        row.push(characters.slice(0, end).join(''));
        chunks.push(characters.slice(end).join(''));
      } else if (row.length === 0) row.push(next);
      else chunks.push(next);
    }
    // Removes at most one blank chunk, even if that chunk is empty.
    if (row.length > 0 && /^\s*$/.test(row.at(-1) as string)) row.pop();
    if (row.length > 0) rows.push(row.join(''));
  }
  return rows;
}

/** Returns where to break a long word: after the last hyphen that fits, or at `room` if there is none. */
function afterHyphen(characters: readonly string[], room: number): number {
  const hyphen = characters.slice(0, room).lastIndexOf('-');
  return hyphen > 0 && characters.slice(0, hyphen).some((character) => character !== '-') ? hyphen + 1 : room;
}

/** Takes as many chunks from the end of the list as fit. */
function firstChunks(chunks: string[], width: number): { row: string[]; room: number } {
  const row: string[] = [];
  let room = width;
  while (chunks.length > 0 && lengthOf(chunks.at(-1) as string) <= room) {
    const chunk = chunks.pop() as string;
    row.push(chunk);
    room -= lengthOf(chunk);
  }
  return { row, room };
}
